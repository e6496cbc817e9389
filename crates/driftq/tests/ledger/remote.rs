//! The ledger's store on a live server: the real binary, asked over real sockets.

use std::time::Duration;

use crate::support::Server;
use crate::world::{
    Relay, begin, hash, identity, lease, ledger, parrot, server, until, until_it, waiting_at,
};
use driftq_ledger::conformance::{Harness, Passing};
use driftq_ledger::remote::{CALLS_MAX, RemoteStore, WAITING_MAX};
use driftq_ledger::{
    Begin, Counters, Decision, End, Ending, Filter, Finished, Identity, Ledger, LedgerError, Moment, OMITTED,
    Page, Reacquire, Record, RequestHash, Response, Settings, Status, Sweep, Terms,
};
use tokio::task::JoinSet;

const BRIEF: Duration = Duration::from_millis(50);

/// Whether a lease is no brief one: somebody who waited has taken over already. The server has this machine's clock.
fn lasts_long(record: &Record) -> bool {
    let now = Moment::from(std::time::SystemTime::now());
    record.lease_expires_at.is_some_and(|until| until.since(now) > 2 * BRIEF)
}

/// A server of its own for each case of the suite.
struct Live {
    ledger: Ledger,
    _server: Server,
    _data: tempfile::TempDir,
}

impl Harness for Live {
    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// A server's clock can only be waited for.
    fn brief(&self) -> Duration {
        BRIEF
    }

    fn elapse<'a>(&'a self, identity: &'a Identity) -> Passing<'a> {
        Box::pin(until_it(&self.ledger, identity, |found| {
            found.is_none_or(|record| !record.lease_live || lasts_long(&record))
        }))
    }

    fn expire<'a>(&'a self, identity: &'a Identity) -> Passing<'a> {
        Box::pin(until_it(&self.ledger, identity, |found| found.is_none()))
    }

    fn is_alone(&self) -> bool {
        true
    }
}

async fn live() -> Live {
    let (data, server) = server();
    Live { ledger: ledger(&server.url()), _server: server, _data: data }
}

driftq_ledger::conformance_suite!(live);

/// Longer than any answer of this machine takes, and longer than no test.
const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn an_answer_that_is_lost_is_asked_for_again() {
    let (_data, server) = server();
    let relay = Relay::start(server.address).await;
    let ledger = ledger(&relay.url);
    relay.lose(2);
    let held = lease(ledger.begin(begin("k")).await.unwrap());
    assert_eq!((relay.lost(), held.epoch, held.attempt), (2, 1, 1), "the same lease again, not another");
    relay.lose(1);
    let ending = Ending::succeeded(Response::new("ch_1").code(201).header("a", "b"));
    assert_eq!(ledger.finish(&held, &ending).await.unwrap(), Finished::AlreadyCommitted);
    assert_eq!(relay.lost(), 3);
    let Decision::Replay(outcome) = ledger.begin(begin("k")).await.unwrap() else { panic!("no replay") };
    assert_eq!((outcome.end, outcome.response), (End::Succeeded, ending.response));
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again_has_lost_nothing() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("data");
    let first = Server::start(&path, &["--segment-bytes=1MiB"]);
    let (address, url) = (first.address.to_string(), first.url());
    let ledger = ledger(&url);
    let done = lease(ledger.begin(begin("done")).await.unwrap());
    let ending = Ending::succeeded(Response::new("ch_1"));
    ledger.finish(&done, &ending).await.unwrap();
    let held = lease(ledger.begin(begin("held")).await.unwrap());

    let waiting = {
        let ledger = ledger.clone();
        tokio::spawn(async move { ledger.begin(begin("held").wait(LONG)).await })
    };
    let asked = first.address;
    until("somebody waits", async || waiting_at(asked).await == 1).await;
    first.kill();
    let refused = ledger.begin(begin("new").call("one name")).await.unwrap_err();
    assert!(matches!(refused, LedgerError::Unavailable(_)), "{refused}");
    let _second = Server::start(&path, &["--segment-bytes=1MiB", &format!("--listen={address}")]);
    let new = lease(ledger.begin(begin("new").call("one name")).await.unwrap());
    assert_eq!(new.attempt, 1);
    let Decision::Replay(outcome) = ledger.begin(begin("done")).await.unwrap() else { panic!("no replay") };
    assert_eq!(outcome.response, ending.response);
    assert_eq!(ledger.finish(&done, &ending).await.unwrap(), Finished::AlreadyCommitted);
    assert_eq!(
        ledger.finish(&held, &ending).await.unwrap(),
        Finished::Committed,
        "its lease outlives the server"
    );
    // Whoever was in the middle of a call hears of it, or was lucky enough to be answered by the next server.
    match waiting.await.unwrap() {
        Err(LedgerError::Unavailable(_)) => {}
        Ok(Decision::Replay(outcome)) => assert_eq!(outcome.response, ending.response),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn many_who_wait_do_not_keep_out_the_one_they_wait_for() {
    let (_data, server) = server();
    let ledger = ledger(&server.url());
    let held = lease(ledger.begin(begin("k")).await.unwrap());
    let mut waiting = JoinSet::new();
    for _ in 0..WAITING_MAX + 2 * CALLS_MAX {
        let ledger = ledger.clone();
        waiting.spawn(async move { ledger.begin(begin("k").wait(LONG)).await });
    }
    until("as many wait as may", async || waiting_at(server.address).await == WAITING_MAX as u64).await;
    let ending = Ending::succeeded(Response::new("ch_1"));
    let finished = tokio::time::timeout(LONG / 4, ledger.finish(&held, &ending)).await;
    assert_eq!(finished.expect("it gets through").unwrap(), Finished::Committed);
    while let Some(answer) = waiting.join_next().await {
        let Decision::Replay(outcome) = answer.unwrap().unwrap() else { panic!("no replay") };
        assert_eq!(outcome.response, ending.response);
    }
}

#[tokio::test]
async fn one_of_many_runs_it_and_all_get_the_same_answer() {
    let (_data, server) = server();
    let ledger = ledger(&server.url());
    let ran = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for caller in 0..32 * 20 {
        let (ledger, ran) = (ledger.clone(), std::sync::Arc::clone(&ran));
        callers.spawn(async move {
            let asked = begin(&format!("k{}", caller % 20)).wait(LONG);
            let effect = |lease: driftq_ledger::Lease| async move {
                ran.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                Ok::<_, driftq_ledger::Failed>(Response::new(lease.identity.key().to_owned()))
            };
            (caller, ledger.run_with(asked, effect).await.unwrap())
        });
    }
    while let Some(answer) = callers.join_next().await {
        let (caller, answer) = answer.unwrap();
        assert_eq!(answer.response, Response::new(format!("k{}", caller % 20)));
    }
    assert_eq!(ran.load(std::sync::atomic::Ordering::SeqCst), 20);
}

#[tokio::test]
async fn an_older_recipe_is_recognised() {
    let (_data, server) = server();
    let ledger = ledger(&server.url());
    let old = RequestHash::foreign("made by the release before").unwrap();
    let ask = |hash: RequestHash| ledger.begin(Begin::new(identity("k"), hash).reacquire());
    let held = lease(ask(old.clone()).await.unwrap());
    assert_eq!(ask(hash()).await.unwrap_err(), LedgerError::Conflict(None));
    let both = hash().or_before(old.clone());
    assert!(matches!(ask(both.clone()).await.unwrap(), Decision::InProgress { .. }));
    ledger.finish(&held, &Ending::failed_retryable("timed out")).await.unwrap();
    let again = Reacquire { hash: Some(hash()), ..Reacquire::new(identity("k")) };
    assert_eq!(ledger.reacquire(again.clone()).await.unwrap_err(), LedgerError::Conflict(None));
    let again = Reacquire { hash: Some(both), ..again };
    assert_eq!(lease(ledger.reacquire(again).await.unwrap()).attempt, 2);
    let record = ledger.get(&identity("k")).await.unwrap().unwrap();
    assert_eq!(record.request_hash, old.to_string());
}

#[tokio::test]
async fn attempts_that_are_used_up_are_counted() {
    let (_data, server) = server();
    let ledger = ledger(&server.url());
    let terms = Terms::default().attempts_max(2);
    let mut held = lease(ledger.begin(begin("k").terms(terms)).await.unwrap());
    ledger.finish(&held, &Ending::failed_retryable("no")).await.unwrap();
    held = lease(ledger.reacquire(Reacquire::new(identity("k"))).await.unwrap());
    ledger.finish(&held, &Ending::failed_retryable("no")).await.unwrap();
    let refused = ledger.reacquire(Reacquire::new(identity("k"))).await.unwrap_err();
    assert_eq!(refused, LedgerError::Exhausted { attempts: 2 });
    let refused = ledger.reacquire(Reacquire::new(identity("never begun"))).await.unwrap_err();
    assert_eq!(refused, LedgerError::NotFound);
}

#[tokio::test]
async fn a_result_that_the_server_does_not_keep_leaves_its_size_behind() {
    let (_data, server) = server();
    let ledger = ledger(&server.url());
    // The server keeps 256 KiB, the ledger would keep 1 MiB.
    let payload = vec![0xff; 300 << 10];
    let held = lease(ledger.begin(begin("k")).await.unwrap());
    let refused = ledger.finish(&held, &Ending::succeeded(Response::new(payload.clone()))).await.unwrap_err();
    assert!(matches!(refused, LedgerError::TooLarge { bytes, .. } if bytes == payload.len()), "{refused}");
    let answer = Response::new(payload.clone()).code(200);
    let ran = ledger.run(identity("run"), hash(), || async { Ok::<_, driftq_ledger::Failed>(answer) });
    assert_eq!(ran.await.unwrap().response.payload.len(), payload.len(), "who ran it has it");
    let replayed = ledger.run(identity("run"), hash(), || async {
        Err::<Response, _>(driftq_ledger::Failed::last("it ran twice"))
    });
    let replayed = replayed.await.unwrap();
    assert_eq!((replayed.replayed, replayed.response.code), (true, Some(200)));
    assert_eq!(replayed.response.headers[OMITTED], payload.len().to_string());
}

#[tokio::test]
async fn lists_and_counts_are_of_this_ledger() {
    let (_data, server) = server();
    let ledger = ledger(&server.url());
    for (key, ending) in [
        ("a", Some(Ending::succeeded(Response::new("x").header("h", "v")))),
        ("b", Some(Ending::failed_final("no"))),
        ("c", Some(Ending::failed_retryable("later"))),
        ("d", None),
    ] {
        let held = lease(ledger.begin(begin(key).owner("w1")).await.unwrap());
        if let Some(ending) = ending {
            ledger.finish(&held, &ending).await.unwrap();
        }
    }
    let other = Identity::new("bob", "POST /päy & more", "k").unwrap();
    drop(lease(ledger.begin(Begin::new(other.clone(), hash())).await.unwrap()));
    // Begun by somebody who names no tenant: no identity of the ledger can be that.
    crate::support::driftq()
        .args(["effect", "begin", "pay", "nobody's", "--server", &server.url()])
        .output()
        .unwrap();

    let all = pages(&ledger, Filter { limit: 2, ..Filter::default() }).await;
    let keys: Vec<_> = all.iter().map(|record| record.identity.key().to_owned()).collect();
    assert_eq!(keys, ["a", "b", "c", "d", "k"], "the oldest first");
    assert_eq!((all[0].status, all[0].owner.as_deref()), (Status::Succeeded, Some("w1")));
    assert!(all[3].lease_live && all[3].outcome.is_none() && all[3].lease_expires_at.is_some());
    let of = |principal: &str, method: &str| Filter {
        principal: Some(principal.to_owned()),
        method: Some(method.to_owned()),
        limit: 10,
        ..Filter::default()
    };
    assert_eq!(pages(&ledger, of("bob", "POST /päy & more")).await[0].identity, other);
    for (principal, method) in [("ann", "POST /päy & more"), ("", "pay"), ("ann", "")] {
        assert!(pages(&ledger, of(principal, method)).await.is_empty(), "{principal} {method}");
    }
    let stats = ledger.stats().await.unwrap();
    let counted: Vec<_> = stats.by_status.into_iter().collect();
    let expected =
        [("FAILED_FINAL", 1), ("FAILED_RETRYABLE", 1), ("IN_PROGRESS", 2), ("SUCCEEDED", 1), ("UNKNOWN", 0)];
    assert_eq!(counted, expected);
    assert_eq!((stats.lapsed, stats.over), (0, None));
    assert!(ledger.sweep(Sweep::default()).await.unwrap().by_itself);
    let strange = Filter { cursor: Some("no cursor".to_owned()), limit: 1, ..Filter::default() };
    assert_eq!(ledger.list(&strange).await.unwrap_err().word(), "invalid");
}

async fn pages(ledger: &Ledger, mut filter: Filter) -> Vec<Record> {
    let mut all = Vec::new();
    loop {
        let Page { records, cursor } = ledger.list(&filter).await.unwrap();
        all.extend(records);
        match cursor {
            None => return all,
            cursor => filter.cursor = cursor,
        }
    }
}

#[tokio::test]
async fn nobody_there_is_told_from_somebody_else_there() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let away = ledger(&format!("http://{free}"));
    let refused = away.begin(begin("k")).await.unwrap_err();
    assert!(
        matches!(&refused, LedgerError::Unavailable(why) if why.contains(&free.to_string())),
        "{refused}"
    );
    let refused = ledger("http://no-such-host.invalid:1").begin(begin("k")).await.unwrap_err();
    assert_eq!(refused.word(), "unavailable");
    for (answer, word) in [
        (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], "corrupt"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "corrupt"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "corrupt"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 26\r\n\r\n{\"decision\":\"never heard\"} ", "corrupt"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 6\r\n\r\n<html>", "corrupt"),
        (b"HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n", "corrupt"),
        (b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n", "denied"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 6\r\n\r\n<html>", "unavailable"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"decision\":", "unavailable"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n{}", "corrupt"),
    ] {
        let ledger = ledger(&parrot(answer).await);
        let refused = ledger.begin(begin("k")).await.unwrap_err();
        assert_eq!(refused.word(), word, "{}: {refused}", String::from_utf8_lossy(answer));
    }
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_not_waited_for_for_ever() {
    let settings = Settings { call_timeout: Duration::from_millis(200), ..Settings::default() };
    let store = RemoteStore::new(&parrot(b"").await).unwrap();
    let ledger = Ledger::with(store, settings, Counters::default());
    let refused = ledger.begin(begin("k")).await.unwrap_err();
    assert_eq!(refused, LedgerError::TimedOut(Duration::from_millis(200)));
}

#[tokio::test]
async fn a_lease_of_another_store_or_server_writes_nothing() {
    let ((_one, first), (_other, second)) = (server(), server());
    let (here, there) = (ledger(&first.url()), ledger(&second.url()));
    let held = lease(here.begin(begin("k")).await.unwrap());
    drop(lease(there.begin(begin("k")).await.unwrap()));
    let ending = Ending::succeeded(Response::new("x"));
    let refused = there.finish(&held, &ending).await.unwrap_err();
    assert!(matches!(refused, LedgerError::Stale(_)), "{refused}");
    let foreign = driftq_ledger::Lease { proof: driftq_ledger::Proof::Record(1), ..held };
    assert_eq!(here.finish(&foreign, &ending).await.unwrap_err().word(), "invalid");
    assert_eq!(here.get(&identity("k")).await.unwrap().unwrap().status, Status::InProgress);
}

#[tokio::test]
async fn a_run_that_is_overtaken_does_not_count() {
    let (_data, server) = server();
    let ledger = ledger(&server.url());
    let terms = Terms::default().lease(Duration::from_millis(50)).on_lapse(driftq_ledger::OnLapse::Retry);
    let late = lease(ledger.begin(begin("k").terms(terms.clone())).await.unwrap());
    until_it(&ledger, &identity("k"), |found| !found.unwrap().lease_live).await;
    let ran =
        ledger.run(identity("k"), hash(), || async { Ok::<_, driftq_ledger::Failed>(Response::new("2")) });
    assert_eq!(ran.await.unwrap().attempt, 2);
    let refused = ledger.finish(&late, &Ending::succeeded(Response::new("1"))).await.unwrap_err();
    assert!(matches!(refused, LedgerError::Stale(_)), "{refused}");
    let Decision::Replay(outcome) = ledger.begin(begin("k")).await.unwrap() else { panic!("no replay") };
    assert_eq!(outcome.response, Response::new("2"));
}
