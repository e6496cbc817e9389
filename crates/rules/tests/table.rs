//! The rules, against the table that stores in every language are tested against.

use std::collections::{BTreeMap, BTreeSet};

use driftq_rules::{
    Asked, Begun, DECISIONS, Finished, OnLapse, Released, Resolved, Standing, Status, begin, finish, release,
    renew, resolve,
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decisions {
    #[serde(rename = "about")]
    _about: String,
    inputs: BTreeMap<String, Input>,
    tables: BTreeMap<String, Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(rename = "means")]
    _means: String,
    values: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(rename = "asks")]
    _asks: String,
    inputs: Vec<String>,
    answers: BTreeMap<String, Answer>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(rename = "means")]
    _means: String,
    reads_as: Option<String>,
    is_open: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    when: BTreeMap<String, Vec<String>>,
    then: String,
}

/// A value for each input of a table.
type Question<'a> = BTreeMap<&'a str, &'a str>;

fn decisions() -> Decisions {
    serde_json::from_str(DECISIONS).expect("the table is what it should be")
}

impl Decisions {
    /// Every combination of values of the inputs of a table.
    fn questions<'a>(&'a self, table: &'a Table) -> Vec<Question<'a>> {
        table.inputs.iter().fold(vec![Question::new()], |questions, input| {
            let with = |question: &Question<'a>, value: &'a String| {
                let mut question = question.clone();
                question.insert(input, value);
                question
            };
            let values = &self.inputs[input].values;
            questions.iter().flat_map(|question| values.iter().map(|value| with(question, value))).collect()
        })
    }

    /// What a table answers.
    fn answer(&self, table: &str, question: &Question<'_>) -> &str {
        let rows = self.tables[table].rows.iter().filter(|row| row.holds(question));
        let answers: Vec<&str> = rows.map(|row| row.then.as_str()).collect();
        assert_eq!(answers.len(), 1, "{table}: {question:?} has the answers {answers:?}");
        answers[0]
    }
}

impl Row {
    fn holds(&self, question: &Question<'_>) -> bool {
        self.when.iter().all(|(input, values)| values.iter().any(|value| value == question[input.as_str()]))
    }
}

#[test]
fn for_every_question_exactly_one_row_holds() {
    let decisions = decisions();
    for (name, table) in &decisions.tables {
        let mut used = BTreeSet::new();
        for question in decisions.questions(table) {
            let holding: Vec<&str> =
                table.rows.iter().filter(|row| row.holds(&question)).map(|row| row.name.as_str()).collect();
            assert_eq!(holding.len(), 1, "{name}: for {question:?} these rows hold: {holding:?}");
            used.extend(holding);
        }
        assert_eq!(used.len(), table.rows.len(), "{name}: two rows of one name, or one that never holds");
    }
}

#[test]
fn every_word_of_the_table_is_explained_and_used() {
    let decisions = decisions();
    for (name, table) in &decisions.tables {
        let given: BTreeSet<&str> = table.rows.iter().map(|row| row.then.as_str()).collect();
        let explained: BTreeSet<&str> = table.answers.keys().map(String::as_str).collect();
        assert_eq!(given, explained, "{name}");
        for row in &table.rows {
            for (input, values) in &row.when {
                assert!(table.inputs.contains(input), "{name}: {} asks for {input}", row.name);
                let known = &decisions.inputs[input].values;
                assert!(values.iter().all(|value| known.contains(value)), "{name}: {} {values:?}", row.name);
                assert!(values.len() < known.len(), "{name}: {} names every {input}", row.name);
            }
        }
    }
    let used: BTreeSet<&String> = decisions.tables.values().flat_map(|table| &table.inputs).collect();
    assert_eq!(used, decisions.inputs.keys().collect());
    let states: BTreeSet<&String> = decisions.inputs["state"].values.iter().collect();
    assert_eq!(states, decisions.tables["state"].answers.keys().collect());
}

const STATUSES: [(&str, Status); 5] = [
    ("IN_PROGRESS", Status::InProgress),
    ("SUCCEEDED", Status::Succeeded),
    ("FAILED_FINAL", Status::FailedFinal),
    ("FAILED_RETRYABLE", Status::FailedRetryable),
    ("UNKNOWN", Status::Unknown),
];

/// Live, released.
const LEASES: [(&str, bool, bool); 3] =
    [("live", true, false), ("lapsed", false, false), ("released", false, true)];

/// Attempts so far, and caps.
const COUNTS: [(u32, Option<u32>); 7] =
    [(1, None), (1, Some(1)), (1, Some(2)), (2, Some(1)), (7, Some(9)), (8, Some(8)), (u32::MAX, None)];

/// Records of every kind, and none, each as the table `state` is asked about it.
fn records() -> Vec<(Question<'static>, Option<Standing>)> {
    let mut all = Vec::new();
    for (on_lapse_word, on_lapse) in [("retry", OnLapse::Retry), ("hold", OnLapse::Hold)] {
        for (time, expired) in [("within", false), ("over", true)] {
            for (lease, live, released) in LEASES {
                for (attempts, attempts_max) in COUNTS {
                    let question = |status| {
                        Question::from([
                            ("status", status),
                            ("lease", lease),
                            ("on_lapse", on_lapse_word),
                            ("time", time),
                            ("attempts", left_word(attempts, attempts_max)),
                        ])
                    };
                    all.push((question("NONE"), None));
                    let epoch = attempts.saturating_add(3);
                    all.extend(STATUSES.map(|(word, status)| {
                        let standing = Standing {
                            status,
                            epoch,
                            attempts,
                            attempts_max,
                            on_lapse,
                            live,
                            expired,
                            released,
                        };
                        (question(word), Some(standing))
                    }));
                }
            }
        }
    }
    all
}

fn left_word(attempts: u32, cap: Option<u32>) -> &'static str {
    if cap.is_some_and(|cap| attempts >= cap) { "used_up" } else { "left" }
}

/// The larger of two caps, if there is any.
fn larger(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    }
}

const YES_NO: [(&str, bool); 2] = [("yes", true), ("no", false)];
const SAME_OTHER: [(&str, bool); 2] = [("same", true), ("other", false)];

/// Collects what was asked, and says in the end whether that was everything.
struct Asker<'a> {
    decisions: &'a Decisions,
    table: &'static str,
    asked: BTreeSet<Question<'a>>,
}

impl<'a> Asker<'a> {
    fn new(decisions: &'a Decisions, table: &'static str) -> Self {
        Self { decisions, table, asked: BTreeSet::new() }
    }

    fn answer(&mut self, question: Question<'a>) -> &'a str {
        let answer = self.decisions.answer(self.table, &question);
        self.asked.insert(question);
        answer
    }

    fn end(self) {
        let all = self.decisions.questions(&self.decisions.tables[self.table]);
        assert_eq!(self.asked.len(), all.len(), "{}: not every question was asked", self.table);
    }
}

#[test]
fn the_state_of_a_record_is_that_of_the_table() {
    let decisions = decisions();
    let mut asker = Asker::new(&decisions, "state");
    for (question, standing) in records() {
        let state = asker.answer(question.clone());
        let Some(standing) = standing else {
            assert_eq!(state, "absent");
            continue;
        };
        assert_eq!(standing.is_over(), state == "absent", "{standing:?}");
        let facts = &decisions.tables["state"].answers[state];
        assert_eq!(Some(standing.is_open()), facts.is_open, "{standing:?} is {state}");
        let reads_as = if standing.becomes_unknown() { "UNKNOWN" } else { question["status"] };
        if state != "absent" {
            assert_eq!(Some(reads_as), facts.reads_as.as_deref(), "{standing:?} is {state}");
        }
    }
    asker.end();
}

#[test]
fn begin_is_that_of_the_table() {
    let decisions = decisions();
    let mut asker = Asker::new(&decisions, "begin");
    for (about, known) in records() {
        let state = decisions.answer("state", &about);
        for ((request, same_request), (call, same_call)) in pairs(SAME_OTHER, SAME_OTHER) {
            for ((reacquire_word, reacquire), cap) in
                pairs(YES_NO, [None, Some(1), Some(2), Some(8), Some(u32::MAX)])
            {
                let attempts = known.map_or(0, |known| known.attempts);
                let cap_of_both = larger(cap, known.and_then(|known| known.attempts_max));
                let answer = asker.answer(Question::from([
                    ("state", state),
                    ("request", request),
                    ("call", call),
                    ("reacquire", reacquire_word),
                    ("attempts_for_asker", left_word(attempts, cap_of_both)),
                ]));
                let epoch = known.map_or(0, |known| known.epoch);
                let expected = match answer {
                    "first" => Begun::First,
                    "take_over" => Begun::TakeOver {
                        epoch: epoch.saturating_add(1),
                        attempt: attempts.saturating_add(1),
                    },
                    "again" => Begun::Again,
                    "replay" => Begun::Replay,
                    "running" => Begun::Running,
                    "retryable" => {
                        Begun::Retryable { left: cap_of_both.map(|cap| cap.saturating_sub(attempts)) }
                    }
                    "unknown" => Begun::Unknown,
                    "exhausted" => Begun::Exhausted,
                    "conflict" => Begun::Conflict,
                    other => panic!("no rule answers {other}"),
                };
                let asked = Asked { same_request, same_call, reacquire, attempts_max: cap };
                assert_eq!(begin(known.as_ref(), asked), expected, "{known:?} is {state}, {asked:?}");
            }
        }
    }
    asker.end();
}

fn pairs<A: Copy, B: Copy, const M: usize, const N: usize>(one: [A; M], other: [B; N]) -> Vec<(A, B)> {
    one.into_iter().flat_map(|one| other.map(|other| (one, other))).collect()
}

/// Epochs of holders, as the tables name them.
fn epochs(known: Option<&Standing>) -> [(&'static str, u32); 4] {
    let newest = known.map_or(3, |known| known.epoch);
    [("newest", newest), ("before", newest - 1), ("other", newest - 2), ("other", 0)]
}

#[test]
fn a_holder_is_told_what_the_table_says() {
    let decisions = decisions();
    let mut finishes = Asker::new(&decisions, "finish");
    let mut renewals = Asker::new(&decisions, "renew");
    let mut releases = Asker::new(&decisions, "release");
    for (about, known) in records() {
        let known = known.as_ref();
        for ((epoch_word, epoch), (fenced_word, fenced)) in pairs(epochs(known), YES_NO) {
            let question = Question::from([
                ("status", about["status"]),
                ("lease", about["lease"]),
                ("epoch", epoch_word),
                ("fenced", fenced_word),
            ]);
            for (ending, same) in SAME_OTHER {
                let mut question = question.clone();
                question.insert("ending", ending);
                let expected = match finishes.answer(question) {
                    "commit" => Finished::Commit,
                    "already" => Finished::Already,
                    "stale" => Finished::Stale,
                    other => panic!("no rule answers {other}"),
                };
                assert_eq!(finish(known, epoch, fenced, same), expected, "{known:?} {epoch} {fenced} {same}");
            }
            let goes_on = renewals.answer(question.clone()) == "go_on";
            assert_eq!(renew(known, epoch, fenced), goes_on, "{known:?} {epoch} {fenced}");
            let expected = match releases.answer(question) {
                "commit" => Released::Commit { epoch: epoch.saturating_add(1) },
                "already" => Released::Already,
                "stale" => Released::Stale,
                other => panic!("no rule answers {other}"),
            };
            assert_eq!(release(known, epoch, fenced), expected, "{known:?} {epoch} {fenced}");
        }
    }
    for asker in [finishes, renewals, releases] {
        asker.end();
    }
}

#[test]
fn a_resolver_is_told_what_the_table_says() {
    let decisions = decisions();
    let mut asker = Asker::new(&decisions, "resolve");
    for (about, known) in records() {
        let state = decisions.answer("state", &about);
        let epoch = known.map_or(3, |known| known.epoch);
        let seen =
            [("unsaid", None), ("newest", Some(epoch)), ("other", Some(epoch - 1)), ("other", Some(0))];
        for ((seen_word, seen), (ending, same)) in pairs(seen, SAME_OTHER) {
            let question = Question::from([("state", state), ("seen", seen_word), ("ending", ending)]);
            let expected = match asker.answer(question) {
                "commit" => Resolved::Commit { epoch: epoch.saturating_add(1) },
                "already" => Resolved::Already,
                "nothing" => Resolved::Nothing,
                "running" => Resolved::Running,
                "final" => Resolved::Final,
                "stale" => Resolved::Stale,
                other => panic!("no rule answers {other}"),
            };
            assert_eq!(
                resolve(known.as_ref(), seen, same),
                expected,
                "{known:?} is {state}, {seen:?} {same}"
            );
        }
    }
    asker.end();
}
