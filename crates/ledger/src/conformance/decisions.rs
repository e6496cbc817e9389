//! Every store decides as the table of the rules says: each row that a store can come to is staged, and asked about.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::Harness;
use super::kit::{Case, LONG, endings, executes, hash, is_unknown, success};
use crate::{
    Begin, Decision, Ending, Finished, Identity, Lease, LedgerError, OnLapse, Proof, Record, Resolve,
    Response, Status, Sweep, Terms,
};

/// The table, as far as it is needed here.
#[derive(Deserialize)]
struct Decisions {
    inputs: BTreeMap<String, Input>,
    tables: BTreeMap<String, Table>,
}

#[derive(Deserialize)]
struct Input {
    values: Vec<String>,
}

#[derive(Deserialize)]
struct Table {
    inputs: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    when: BTreeMap<String, Vec<String>>,
    then: String,
}

/// A value for each input of a table, and what the table says to that.
struct Question {
    /// The key under which it is staged.
    key: String,
    values: BTreeMap<String, String>,
    row: String,
    then: String,
}

impl Question {
    fn value(&self, input: &str) -> &str {
        self.values.get(input).map_or("", String::as_str)
    }

    /// A store lends to nobody who gives a lease back, and ties no lease to anything else: these are the broker's.
    fn is_for_stores(&self) -> bool {
        self.value("lease") != "released"
            && self.value("state") != "released"
            && self.value("fenced") != "yes"
    }
}

/// All questions of a table that a store can be asked.
fn questions(table: &str) -> Vec<Question> {
    let decisions: Decisions =
        serde_json::from_str(driftq_rules::DECISIONS).expect("the table is what it should be");
    let table = &decisions.tables[table];
    let mut all = vec![BTreeMap::new()];
    for input in &table.inputs {
        let with = |values: &BTreeMap<String, String>, value: &String| {
            let mut values = values.clone();
            values.insert(input.clone(), value.clone());
            values
        };
        let known = &decisions.inputs[input].values;
        all = all.iter().flat_map(|values| known.iter().map(|value| with(values, value))).collect();
    }
    let question = |(at, values): (usize, BTreeMap<String, String>)| {
        let row = table.rows.iter().find(|row| {
            row.when
                .iter()
                .all(|(input, allowed)| values.get(input).is_some_and(|value| allowed.contains(value)))
        });
        let row = row.expect("the table has an answer to everything");
        Question { key: format!("{at}"), values, row: row.name.clone(), then: row.then.clone() }
    };
    all.into_iter().enumerate().map(question).filter(Question::is_for_stores).collect()
}

/// That every row was asked about that a store can come to.
fn is_everything(all: &[Question], asked: &BTreeSet<&str>) {
    let rows: BTreeSet<&str> = all.iter().map(|question| question.row.as_str()).collect();
    assert_eq!(&rows, asked, "rows of the table that were asked about");
}

/// A state that a record is to be brought into.
struct Staged<'a> {
    key: &'a str,
    state: &'a str,
    /// The cap of the record.
    cap: Option<u32>,
}

impl Staged<'_> {
    /// The call that gets the lease, on these terms.
    fn holder(&self, case: &Case<'_>, mut terms: Terms) -> Begin {
        terms.attempts_max = self.cap;
        case.asking(self.key).terms(terms).call(format!("call-{}", self.key)).owner("holder")
    }

    async fn begun(&self, case: &Case<'_>, terms: Terms) -> Lease {
        executes(case.told(self.holder(case, terms)).await, 1, 1)
    }
}

/// Brings records into their states. Time passes once for all of them.
async fn stage(case: &Case<'_>, wanted: &[Staged<'_>]) {
    let mut lapses: Option<Identity> = None;
    let (mut abandoned, mut ended): (Option<Identity>, Option<Identity>) = (None, None);
    let brief = case.harness.brief();
    for (at, staged) in wanted.iter().enumerate() {
        match staged.state {
            "lapsed" | "spent" => {
                lapses = Some(staged.begun(case, case.lapsing(OnLapse::Retry)).await.identity);
            }
            "held" | "unknown" => {
                lapses = Some(staged.begun(case, case.lapsing(OnLapse::Hold)).await.identity);
            }
            // There is nothing, or what was abandoned is over, or an outcome is.
            "absent" if at % 3 == 1 => {
                let terms = case.lapsing(OnLapse::Retry).ttl(brief);
                abandoned = Some(staged.begun(case, terms).await.identity);
            }
            "absent" if at % 3 == 2 => {
                let lease = staged.begun(case, case.long().ttl(brief)).await;
                case.commit(&lease, &success("over")).await;
                ended = Some(lease.identity);
            }
            _ => {}
        }
    }
    if let Some(last) = lapses {
        case.harness.elapse(&last).await;
    }
    for last in [abandoned, ended].into_iter().flatten() {
        case.harness.expire(&last).await;
    }
    for staged in wanted {
        match staged.state {
            "running" => drop(staged.begun(case, case.long()).await),
            "unknown" => {
                let told = case.begin(staged.key).await;
                assert!(matches!(told, Decision::Unknown { .. }), "{told:?}");
            }
            state => {
                if let Some(ending) = ending_of(state) {
                    let lease = staged.begun(case, case.long()).await;
                    case.commit(&lease, &ending).await;
                }
            }
        }
    }
}

/// The ending that makes a state or a status, if one does.
fn ending_of(state: &str) -> Option<Ending> {
    let [success, last, retryable] = endings();
    match state.to_lowercase().as_str() {
        "succeeded" => Some(success),
        "failed_final" => Some(last),
        "failed_retryable" => Some(retryable),
        _ => None,
    }
}

async fn seen(case: &Case<'_>, key: &str) -> Option<Record> {
    case.ledger().get(&case.identity(key)).await.expect("get answers")
}

/// The caps of the record and of the asker that make what is left what the question says.
fn caps(state: &str, attempts: &str) -> (Option<u32>, Option<u32>) {
    match (state, attempts) {
        ("absent", "left") => (None, None),
        ("absent" | "lapsed", "used_up") => (None, Some(1)),
        ("spent", "left") => (Some(1), Some(2)),
        (_, "left") => (Some(3), None),
        _ => (Some(1), None),
    }
}

/// What a caller that wants to run an effect is told, in every state.
pub async fn begin_decides_as_the_table_says(harness: &dyn Harness) {
    let case = Case::new(harness);
    let all = questions("begin");
    let caps_of = |question: &Question| caps(question.value("state"), question.value("attempts_for_asker"));
    let staged: Vec<Staged<'_>> = all
        .iter()
        .map(|one| Staged { key: &one.key, state: one.value("state"), cap: caps_of(one).0 })
        .collect();
    stage(&case, &staged).await;
    // A store that sweeps by itself has written down by now that the last attempt is unknown.
    let dry = Sweep { dry_run: true, limit: 1 };
    let sweeps_itself = case.ledger().sweep(dry).await.expect("it counts").by_itself;
    let mut asked = BTreeSet::new();
    for (question, staged) in all.iter().zip(&staged) {
        let is_swept = sweeps_itself && staged.state == "spent" && question.then == "take_over";
        let then = if is_swept { "unknown" } else { question.then.as_str() };
        let terms = Terms { attempts_max: caps_of(question).1, ..case.long() };
        let mut ask = staged.holder(&case, terms.clone()).terms(terms);
        if question.value("request") == "other" {
            ask.hash = hash("another request");
        }
        if question.value("call") == "other" {
            ask.call = None;
        }
        ask.reacquire = question.value("reacquire") == "yes";
        let before = seen(&case, &question.key).await;
        let told = case.ledger().begin(ask).await;
        let after = seen(&case, &question.key).await;
        let (is_right, changes) = match (then, &told) {
            ("first", Ok(Decision::Execute(lease))) => (lease.epoch == 1 && lease.attempt == 1, true),
            ("take_over", Ok(Decision::Execute(lease))) => (lease.epoch == 2 && lease.attempt == 2, true),
            ("again", Ok(Decision::Execute(lease))) => (lease.epoch == 1 && lease.attempt == 1, false),
            ("replay", Ok(Decision::Replay(outcome))) => {
                (ending_of(staged.state).is_some_and(|ending| ending.end == outcome.end), false)
            }
            ("running", Ok(Decision::InProgress { epoch: 1, attempt: 1, .. })) => (true, false),
            ("retryable", Ok(Decision::Retryable { attempts_left, .. })) => {
                (*attempts_left == staged.cap.map(|cap| cap - 1), false)
            }
            ("unknown", Ok(Decision::Unknown { epoch: 1, attempt: 1, .. })) => {
                (after.as_ref().is_some_and(|record| record.status == Status::Unknown), true)
            }
            ("exhausted", Err(LedgerError::Exhausted { attempts: 1 })) => (true, false),
            ("conflict", Err(LedgerError::Conflict(_))) => (true, false),
            _ => (false, false),
        };
        assert!(is_right, "{}: {:?} is {then}, not {told:?}", question.row, question.values);
        assert!(changes || before == after, "{}: {before:?} became {after:?}", question.row);
        asked.insert(question.row.as_str());
    }
    is_everything(&all, &asked);
}

/// Three leases of one record, of which the last one is the newest.
async fn leases(case: &Case<'_>, all: &[&Question]) -> Vec<[Lease; 3]> {
    let mut found: Vec<Vec<Lease>> = all.iter().map(|_| Vec::new()).collect();
    for epoch in 1..=2 {
        for (question, leases) in all.iter().zip(&mut found) {
            let asked = case.asking(&question.key).terms(case.lapsing(OnLapse::Retry));
            leases.push(executes(case.told(asked).await, epoch, epoch));
        }
        if let Some(last) = all.last() {
            case.harness.elapse(&case.identity(&last.key)).await;
        }
    }
    let mut lapses = None;
    for passes in [true, false] {
        for (question, leases) in all.iter().zip(&mut found) {
            let terms = match (question.value("status"), question.value("lease")) {
                ("UNKNOWN", _) => case.lapsing(OnLapse::Hold),
                ("IN_PROGRESS", "lapsed") => case.lapsing(OnLapse::Retry),
                _ => case.long(),
            };
            if (terms.lease < LONG) == passes {
                let lease = executes(case.told(case.asking(&question.key).terms(terms)).await, 3, 3);
                if passes {
                    lapses = Some(lease.identity.clone());
                }
                leases.push(lease);
            }
        }
        if let Some(last) = lapses.take_if(|_| passes) {
            case.harness.elapse(&last).await;
        }
    }
    let mut all_leases = Vec::new();
    for (question, leases) in all.iter().zip(found) {
        let leases: [Lease; 3] = leases.try_into().expect("three were lent");
        if question.value("status") == "UNKNOWN" {
            is_unknown(&case.begin(&question.key).await, &leases[2]);
        }
        if let Some(ending) = ending_of(question.value("status")) {
            case.commit(&leases[2], &ending).await;
        }
        all_leases.push(leases);
    }
    all_leases
}

/// The questions of a table about holders that can be staged, each with the lease of the holder that asks.
async fn holders<'a>(case: &Case<'_>, all: &'a [Question]) -> Vec<(&'a Question, Lease)> {
    let can_be = |question: &&Question| match question.value("status") {
        "NONE" => false,
        "IN_PROGRESS" => true,
        // What is not in progress has no lease that could be live.
        _ => question.value("lease") == "lapsed",
    };
    let staged: Vec<&Question> = all.iter().filter(can_be).collect();
    let leases = leases(case, &staged).await;
    let mut found: Vec<(&Question, Lease)> = Vec::new();
    for (question, [other, before, newest]) in staged.into_iter().zip(leases) {
        let lease = match question.value("epoch") {
            "newest" => newest,
            "before" => before,
            _ => other,
        };
        found.push((question, lease));
    }
    // Of no record at all: only a proof that does not itself say what it is about can be carried there.
    let nothing = all.iter().find(|question| question.value("status") == "NONE");
    let known = found.first().map(|(_, lease)| lease.clone());
    if let (Some(question), Some(mut lease)) = (nothing, known)
        && matches!(lease.proof, Proof::Record(_))
    {
        lease.identity = case.identity(&question.key);
        found.push((question, lease));
    }
    found
}

/// That every row about holders was asked about, except that of no record where it cannot be.
fn is_every_holder(all: &[Question], holders: &[(&Question, Lease)]) {
    let mut asked: BTreeSet<&str> = holders.iter().map(|(question, _)| question.row.as_str()).collect();
    if holders.iter().all(|(_, lease)| matches!(lease.proof, Proof::Token(_))) {
        asked.insert("no record");
    }
    is_everything(all, &asked);
}

/// What a holder that says how an effect ended is told, in every state.
pub async fn finish_decides_as_the_table_says(harness: &dyn Harness) {
    let case = Case::new(harness);
    let all = questions("finish");
    let holders = holders(&case, &all).await;
    for (question, lease) in &holders {
        let same = ending_of(question.value("status")).unwrap_or_else(|| success("first words"));
        let ending = match question.value("ending") {
            "same" => same,
            _ => same.response(Response::new("another story")),
        };
        let before = case.ledger().get(&lease.identity).await;
        let told = case.ledger().finish(lease, &ending).await;
        let after = case.ledger().get(&lease.identity).await;
        let is_right = match question.then.as_str() {
            "commit" => {
                let status = after.as_ref().map(|record| record.as_ref().map(|record| record.status));
                told == Ok(Finished::Committed) && status == Ok(Some(ending.end.into()))
            }
            "already" => told == Ok(Finished::AlreadyCommitted) && before == after,
            _ => matches!(told, Err(LedgerError::Stale(_))) && before == after,
        };
        assert!(is_right, "{}: {:?} is {}, not {told:?}", question.row, question.values, question.then);
    }
    is_every_holder(&all, &holders);
}

/// Whether a holder may go on, in every state.
pub async fn renew_decides_as_the_table_says(harness: &dyn Harness) {
    let case = Case::new(harness);
    let all = questions("renew");
    let holders = holders(&case, &all).await;
    for (question, lease) in &holders {
        let before = case.ledger().get(&lease.identity).await;
        let told = case.ledger().renew(lease, LONG).await;
        let after = case.ledger().get(&lease.identity).await;
        let is_right = match question.then.as_str() {
            "go_on" => {
                let record = after.as_ref().ok().and_then(Option::as_ref);
                let is_live = record.is_some_and(|one| one.status == Status::InProgress && one.lease_live);
                told.is_ok() && is_live
            }
            _ => matches!(told, Err(LedgerError::Stale(_))) && before == after,
        };
        assert!(is_right, "{}: {:?} is {}, not {told:?}", question.row, question.values, question.then);
    }
    is_every_holder(&all, &holders);
}

/// What a resolver is told, in every state.
pub async fn resolve_decides_as_the_table_says(harness: &dyn Harness) {
    let case = Case::new(harness);
    let mut all = questions("resolve");
    // Nothing else can hold the ending that is said now.
    all.retain(|one| one.value("ending") == "other" || ending_of(one.value("state")).is_some());
    let is_same = |one: &Question| one.value("ending") == "same";
    let state_of =
        |one: &Question| if is_same(one) { "held".to_owned() } else { one.value("state").to_owned() };
    let states: Vec<String> = all.iter().map(state_of).collect();
    let staged: Vec<Staged<'_>> = all
        .iter()
        .zip(&states)
        .map(|(one, state)| Staged { key: &one.key, state, cap: (state == "spent").then_some(1) })
        .collect();
    stage(&case, &staged).await;
    let mut asked = BTreeSet::new();
    for question in &all {
        let key = &question.key;
        let same = ending_of(question.value("state"));
        if let Some(ending) = same.clone().filter(|_| is_same(question)) {
            case.resolve(key, ending).await;
        }
        let ending = same.filter(|_| is_same(question)).unwrap_or_else(|| success("found out"));
        let before = seen(&case, key).await;
        let epoch = before.as_ref().map_or(1, |record| record.epoch);
        let looked_at = match question.value("seen") {
            "newest" => Some(epoch),
            "other" => Some(epoch + 6),
            _ => None,
        };
        let told = case.ledger().resolve(&Resolve { epoch: looked_at, ..case.found(key, ending) }).await;
        let after = seen(&case, key).await;
        let is_right = match question.then.as_str() {
            "commit" => {
                let is_newer = after.as_ref().is_some_and(|record| record.epoch == epoch + 1);
                told == Ok(Finished::Committed) && is_newer
            }
            "already" => told == Ok(Finished::AlreadyCommitted) && before == after,
            "nothing" => told == Err(LedgerError::NotFound) && after.is_none(),
            "running" => told == Err(LedgerError::Running) && before == after,
            "final" => told == Err(LedgerError::Final) && before == after,
            _ => matches!(told, Err(LedgerError::Stale(_))) && before == after,
        };
        assert!(is_right, "{}: {:?} is {}, not {told:?}", question.row, question.values, question.then);
        asked.insert(question.row.as_str());
    }
    is_everything(&all, &asked);
}
