//! Each selection has its rows, and no others.

use driftq_api::v2::EffectState;
use driftq_client::testkit::run_until_idle;
use driftq_client::wire::{
    Commit, CommitOutput, CutOver, EffectFinish, EffectResult, EffectStatus, OutputMode, TopicSpec,
};
use driftq_client::{Client, Dead, Failure, Worker, raw};
use driftq_connect::export::{Export, ExportError, Format, Selection};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{filled, into, lines, run, served, whole};

async fn rows(client: &Client, id: &str, selection: Selection) -> (Selection, Vec<Value>) {
    let folder = TempDir::new().unwrap();
    let done = run(&into(folder.path(), id, selection, Format::Ndjson), client).await.unwrap();
    let rows = lines(folder.path(), &done);
    assert_eq!(done.manifest.rows, rows.len() as u64);
    (done.manifest.selection, rows)
}

#[tokio::test]
async fn a_range_of_a_topic() {
    let (_server, client) = served().await;
    filled(&client, "orders", 2_500).await;
    let range = |partition, from, to| Selection::Topic { topic: "orders".to_owned(), partition, from, to };
    let (pinned, all) = rows(&client, "all", whole("orders")).await;
    assert_eq!(pinned, range(None, Some(0), Some(2_500)), "its end stands in the manifest");
    assert_eq!(all.len(), 2_500);
    let (_, some) = rows(&client, "some", range(None, Some(100), Some(1_900))).await;
    assert_eq!(some.len(), 1_800);
    assert!(some.iter().all(|row| (100..1_900).contains(&row["offset"].as_u64().unwrap())));
    let (_, one) = rows(&client, "one", range(Some(1), None, None)).await;
    let expected: Vec<_> = all.iter().filter(|row| row["partition"] == 1).cloned().collect();
    assert_eq!(one, expected);
    let (pinned, none) = rows(&client, "none", range(None, Some(2_500), Some(9_999))).await;
    assert_eq!((none.len(), pinned), (0, range(None, Some(2_500), Some(2_500))));
}

#[tokio::test]
async fn a_busy_topic_comes_to_an_end() {
    let (_server, client) = served().await;
    filled(&client, "orders", 1_000).await;
    let (is_done, mut done) = tokio::sync::watch::channel(false);
    let busy = tokio::spawn({
        let client = client.clone();
        async move {
            let mut sent = 0_u64;
            while !*done.borrow_and_update() {
                let batch: Vec<_> = (0..500).map(|_| raw("more")).collect();
                sent += client.produce_all("orders", batch).await.unwrap().len() as u64;
            }
            sent
        }
    });
    let (pinned, found) = rows(&client, "busy", whole("orders")).await;
    is_done.send(true).unwrap();
    let sent = busy.await.unwrap();
    let Selection::Topic { to: Some(to), .. } = pinned else { panic!("{pinned:?}") };
    assert_eq!(found.len() as u64, to);
    assert!(to <= 1_000 + sent);
}

#[tokio::test]
async fn dead_letters_with_their_story() {
    let (_server, client) = served().await;
    client.create_topic("orders", &TopicSpec::default()).await.unwrap();
    let (_, none) = rows(&client, "no-letters", letters("orders")).await;
    assert_eq!(none.len(), 0);
    for number in 0..4 {
        client.produce("orders", raw(format!("order {number}"))).await.unwrap();
    }
    let worker = Worker::new(&client, "billing").handle_raw("orders", |payload, _| async move {
        if payload.ends_with(b"3") { Ok(()) } else { Err(Failure::from(Dead::new("no such customer"))) }
    });
    run_until_idle(worker).await.unwrap();
    let (_, found) = rows(&client, "letters", letters("orders")).await;
    assert_eq!(found.len(), 3);
    for (number, row) in found.iter().enumerate() {
        assert_eq!(row["value"], format!("order {number}"));
        assert_eq!(
            (&row["source_topic"], &row["source_offset"], &row["group"]),
            (&"orders".into(), &number.into(), &"billing".into())
        );
        assert_eq!(row["reason"], "nacked_dead");
        assert_eq!(row["last_error"], "no such customer");
    }
    let folder = TempDir::new().unwrap();
    let missing = run(&into(folder.path(), "missing", letters("order"), Format::Csv), &client).await;
    assert!(matches!(missing, Err(ExportError::Server(_))), "a slip of the pen is no empty export");
}

fn letters(topic: &str) -> Selection {
    Selection::DeadLetters { topic: topic.to_owned(), to: None }
}

#[tokio::test]
async fn a_run_with_its_messages_and_effects() {
    let (_server, client) = served().await;
    client.create_topic("orders", &TopicSpec::default()).await.unwrap();
    client.produce("orders", raw("7").run_id("run-7").step_id("charge")).await.unwrap();
    client.produce("orders", raw("8").run_id("run-8").step_id("charge")).await.unwrap();
    let worker = Worker::new(&client, "billing").handle_raw("orders", |payload, context| async move {
        let key = String::from_utf8_lossy(&payload).into_owned();
        context.effect("charge").key(key).run(|| async { Ok(()) }).await
    });
    run_until_idle(worker).await.unwrap();
    let (_, found) = rows(&client, "run", Selection::Run { run_id: "run-7".to_owned() }).await;
    let kinds: Vec<_> = found.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "effect"]);
    assert!(found.iter().all(|row| row["run_id"] == "run-7" && row["step_id"] == "charge"));
    assert_eq!((&found[0]["topic"], &found[0]["groups"][0]["state"]), (&"orders".into(), &"done".into()));
    assert_eq!((&found[1]["key"], &found[1]["state"]), (&"7".into(), &"succeeded".into()));
}

#[tokio::test]
async fn effects_by_scope_and_state() {
    let (_server, client) = served().await;
    for number in 0..5 {
        client.effect("mail").key(number.to_string()).run(|| async { Ok(()) }).await.unwrap();
    }
    client.effect("charge").key("1").run(|| async { Ok(()) }).await.unwrap();
    let of = |state: Option<EffectState>, scope: Option<&str>| Selection::Effects {
        state,
        scope: scope.map(str::to_owned),
        before: None,
    };
    let (pinned, mails) = rows(&client, "mails", of(None, Some("mail"))).await;
    assert!(matches!(pinned, Selection::Effects { before: Some(_), .. }), "{pinned:?}");
    let keys: Vec<_> = mails.iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect();
    assert_eq!(keys, ["0", "1", "2", "3", "4"], "oldest first");
    let (_, all) = rows(&client, "all", of(None, None)).await;
    // The export before is an effect, too; this one began when the list was to end.
    assert_eq!(all.iter().filter(|row| row["scope"] == "export").count(), 1, "{all:?}");
    assert_eq!(all.len(), 7);
    let (_, open) = rows(&client, "open", of(Some(EffectState::Unknown), None)).await;
    assert_eq!(open.len(), 0);
}

#[tokio::test]
async fn the_pointers_of_a_version_that_was_named_or_was_the_latest() {
    let (_server, client) = served().await;
    for version in ["v1", "v2"] {
        for part in ["eu", "us"] {
            put(&client, version, part).await;
        }
    }
    let of = |version: Option<&str>| Selection::Dataset {
        dataset: "sales".to_owned(),
        version: version.map(str::to_owned),
    };
    let (_, found) = rows(&client, "named", of(Some("v1"))).await;
    let locations: Vec<_> = found.iter().map(|row| row["location"].as_str().unwrap()).collect();
    assert_eq!(locations, ["s3://sales/v1/eu", "s3://sales/v1/us"]);
    let folder = TempDir::new().unwrap();
    let export = |id: &str, version| into(folder.path(), id, of(version), Format::Ndjson);
    let none = run(&export("too-early", None), &client).await.unwrap_err();
    assert!(matches!(none, ExportError::Server(_)), "nothing is current: {none}");
    let current = run(&export("reserved", Some("current")), &client).await.unwrap_err();
    assert!(matches!(current, ExportError::Invalid(_)), "{current}");
    let cut_over = CutOver { version: "v2".into(), expect: None, tenant_id: "".into() };
    let _: Value = client.post("/v2/outputs/sales/cutover", &cut_over).await.unwrap();
    let latest: Export = export("latest", None);
    let done = run(&latest, &client).await.unwrap();
    assert_eq!(done.manifest.selection, of(Some("v2")), "the manifest says which version was read");
    assert_eq!(done.manifest.rows, 2);
}

/// Commits a pointer under an effect of its own.
async fn put(client: &Client, version: &str, part: &str) {
    let begin = driftq_client::wire::EffectBegin {
        scope: "load".into(),
        key: format!("{version}/{part}").into(),
        ..Default::default()
    };
    let begun = client.begin_effect(&begin).await.unwrap();
    let driftq_client::wire::EffectDecision::Execute { lease } = begun else { panic!("{begun:?}") };
    let result = EffectResult::new(EffectStatus::Succeeded);
    let commit = Commit {
        effects: vec![EffectFinish { token: lease.token, result }],
        outputs: vec![CommitOutput {
            dataset: "sales".into(),
            version: version.into(),
            partition_key: part.into(),
            mode: OutputMode::Replace,
            dedupe_key: None,
            location: format!("s3://sales/{version}/{part}").into(),
            digest: "sha256:00".into(),
        }],
        ..Commit::default()
    };
    client.commit(&commit).await.unwrap();
}
