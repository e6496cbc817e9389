//! Holds the ledger's last word about every key against what workers wrote down outside it.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Answer, Entry, Fact, FinishResult};

/// How a key stands when everything is over: what a last `begin` replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) epoch: u32,
    pub(crate) answer: Answer,
}

/// A lease, as whoever got it wrote it down.
struct Lent {
    record: i64,
    epoch: u32,
    attempt: u32,
    granted: i64,
    expires: i64,
    may_repeat: bool,
    attempts_max: Option<u32>,
}

/// Everything about one key.
struct Story<'a> {
    key: &'a str,
    facts: Vec<&'a Fact>,
    /// By epoch.
    lent: Vec<Lent>,
    last: Option<&'a Last>,
}

/// One line for every promise that was broken.
pub(crate) fn check(history: &[Entry], ends: &BTreeMap<String, Last>) -> Vec<String> {
    let keys: BTreeSet<&str> =
        history.iter().map(|entry| entry.key.as_str()).chain(ends.keys().map(String::as_str)).collect();
    let mut by_key: BTreeMap<&str, Vec<&Fact>> = BTreeMap::new();
    for entry in history {
        by_key.entry(&entry.key).or_default().push(&entry.fact);
    }
    let story = |key| Story::new(key, by_key.get(key).cloned().unwrap_or_default(), ends.get(key));
    keys.into_iter().flat_map(|key| story(key).broken()).collect()
}

impl<'a> Story<'a> {
    fn new(key: &'a str, facts: Vec<&'a Fact>, last: Option<&'a Last>) -> Self {
        let lent = facts.iter().filter_map(|fact| match fact {
            Fact::Lent { record, epoch, attempt, granted, expires, may_repeat, attempts_max } => Some(Lent {
                record: *record,
                epoch: *epoch,
                attempt: *attempt,
                granted: *granted,
                expires: *expires,
                may_repeat: *may_repeat,
                attempts_max: *attempts_max,
            }),
            _ => None,
        });
        let mut lent: Vec<Lent> = lent.collect();
        lent.sort_by_key(|lent| lent.epoch);
        Self { key, facts, lent, last }
    }

    fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        self.odd(&mut broken);
        self.leases(&mut broken);
        self.runs(&mut broken);
        self.answers(&mut broken);
        self.late(&mut broken);
        if !broken.is_empty() {
            broken.push(format!("all that was seen: {:#?}, and last {:?}", self.facts, self.last));
        }
        broken.into_iter().map(|what| format!("{}: {what}", self.key)).collect()
    }

    fn odd(&self, broken: &mut Vec<String>) {
        for fact in &self.facts {
            if let Fact::Odd { what } = fact {
                broken.push(format!("odd: {what}"));
            }
        }
    }

    /// A lease is given to one caller only; epochs and attempts rise together within one record; a cap is a cap, plus
    /// one for every resolution that grants one more.
    fn leases(&self, broken: &mut Vec<String>) {
        for pair in self.lent.windows(2) {
            let [one, other] = pair else { continue };
            if one.epoch == other.epoch {
                broken.push(format!("lease: epoch {} was given out twice", one.epoch));
            } else if one.attempt >= other.attempt {
                broken.push(format!("lease: attempt {} came after {}", other.attempt, one.attempt));
            }
            if one.record != other.record {
                broken.push(format!("record: {} became {}", one.record, other.record));
            }
        }
        let granted = self
            .facts
            .iter()
            .filter(|fact| matches!(fact, Fact::Resolving { answer, .. } if answer.is_retryable()));
        let granted = u32::try_from(granted.count()).unwrap_or(u32::MAX);
        for lent in &self.lent {
            if lent.attempts_max.is_some_and(|most| lent.attempt > most.saturating_add(granted)) {
                broken.push(format!("cap: attempt {} of {:?}", lent.attempt, lent.attempts_max));
            }
        }
    }

    /// Nothing runs twice under one lease, and nothing runs again without an excuse.
    fn runs(&self, broken: &mut Vec<String>) {
        let mut epochs: Vec<u32> = self
            .facts
            .iter()
            .filter_map(|fact| if let Fact::Ran { epoch } = fact { Some(*epoch) } else { None })
            .collect();
        epochs.sort_unstable();
        for pair in epochs.windows(2) {
            let [one, other] = pair else { continue };
            if one == other {
                broken.push(format!("twice: it ran twice under epoch {one}"));
                continue;
            }
            match (self.lease(*one), self.lease(*other)) {
                (Some(one), Some(other)) if !self.is_excused(one, other) => broken.push(format!(
                    "twice: it ran under epoch {} and again under {}, without a lapse that allows it and without \
                     a failure that may be tried again",
                    one.epoch, other.epoch
                )),
                (Some(_), Some(_)) => {}
                _ => broken.push(format!("lease: it ran under epoch {one} and {other}, and a lease is missing")),
            }
        }
    }

    fn lease(&self, epoch: u32) -> Option<&Lent> {
        self.lent.iter().find(|lent| lent.epoch == epoch)
    }

    /// Whether what ran under `one` was allowed to run again under `other`.
    fn is_excused(&self, one: &Lent, other: &Lent) -> bool {
        let renewed = self.facts.iter().filter_map(|fact| match fact {
            Fact::Renewed { epoch, until } if *epoch == one.epoch => Some(*until),
            _ => None,
        });
        let ended = renewed.fold(one.expires, i64::max);
        let has_lapsed = one.may_repeat && other.granted >= ended;
        // Whoever spoke up before the other was lent anything may have been heard, although it was told that it came too
        // late: its first words were committed, the answer was lost in a crash, and by the second call, which the ledger
        // makes by itself, the other had begun.
        let was_refused = self.facts.iter().any(|fact| {
            matches!(fact, Fact::Told { epoch, asked, verdict: FinishResult::Stale, .. }
                if *epoch == one.epoch && *asked >= other.granted)
        });
        let has_failed = !was_refused
            && self.facts.iter().any(|fact| {
                matches!(fact, Fact::Saying { epoch, answer } if *epoch == one.epoch && answer.is_retryable())
            });
        let was_resolved = self.facts.iter().any(|fact| {
            matches!(fact, Fact::Resolving { epoch, answer } if *epoch == one.epoch && answer.is_retryable())
        });
        has_lapsed || has_failed || was_resolved
    }

    /// Every answer that was told is the last one, unless it may be tried again; the last one is somebody's.
    fn answers(&self, broken: &mut Vec<String>) {
        let Some(last) = self.last else {
            broken.push("wedged: it has no last answer".to_owned());
            return;
        };
        for fact in &self.facts {
            let (epoch, answer) = match fact {
                Fact::Told { epoch, answer, verdict: FinishResult::Committed, .. }
                | Fact::Replayed { epoch, answer } => (*epoch, answer),
                // A resolution has an epoch of its own.
                Fact::Resolved { epoch, answer } => (*epoch + 1, answer),
                _ => continue,
            };
            let is_kept = match answer.is_retryable() {
                true => last.epoch > epoch,
                false => last.epoch == epoch && last.answer == *answer,
            };
            if !is_kept {
                broken.push(format!(
                    "lost: {answer:?} of epoch {epoch} was told, and the last word is {last:?}"
                ));
            }
        }
        let is_somebodys = self.facts.iter().any(|fact| match fact {
            Fact::Saying { epoch, answer } => *epoch == last.epoch && *answer == last.answer,
            Fact::Resolving { epoch, answer } => *epoch + 1 == last.epoch && *answer == last.answer,
            _ => false,
        });
        if !is_somebodys {
            broken.push(format!("invented: nobody said {last:?}"));
        }
        if let Some(lent) = self.lent.iter().find(|lent| lent.epoch > last.epoch) {
            broken.push(format!("final: epoch {} was lent after {last:?}", lent.epoch));
        }
    }

    /// Whoever speaks up after somebody else has taken over is not heard.
    fn late(&self, broken: &mut Vec<String>) {
        for fact in &self.facts {
            let Fact::Told { epoch, asked, verdict: FinishResult::Committed, .. } = fact else { continue };
            if let Some(newer) = self.lent.iter().find(|lent| lent.epoch > *epoch && lent.granted < *asked) {
                broken.push(format!("stale: epoch {epoch} was heard although {} was lent", newer.epoch));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use driftq_ledger::End;

    use super::{Answer, Entry, Fact, FinishResult, Last, check};

    fn lent(epoch: u32, granted: i64, may_repeat: bool) -> Fact {
        Fact::Lent {
            record: 7,
            epoch,
            attempt: epoch,
            granted,
            expires: granted + 100,
            may_repeat,
            attempts_max: Some(2),
        }
    }

    fn done(text: &str) -> Answer {
        Answer::new(End::Succeeded, text)
    }

    fn failed() -> Answer {
        Answer::new(End::FailedRetryable, "gateway is down")
    }

    fn said(epoch: u32, answer: &Answer, asked: i64, verdict: FinishResult) -> [Fact; 2] {
        let answer = answer.clone();
        [Fact::Saying { epoch, answer: answer.clone() }, Fact::Told { epoch, answer, asked, verdict }]
    }

    /// A key that was run, lapsed, was run again and succeeded; its first worker came too late.
    fn good() -> Vec<Fact> {
        let mut facts = vec![lent(1, 0, true), Fact::Ran { epoch: 1 }];
        facts.extend([lent(2, 100, true), Fact::Ran { epoch: 2 }]);
        facts.extend(said(1, &done("one"), 150, FinishResult::Stale));
        facts.extend(said(2, &done("two"), 160, FinishResult::Committed));
        facts.push(Fact::Replayed { epoch: 2, answer: done("two") });
        facts
    }

    fn broken(facts: Vec<Fact>, last: Option<(u32, &str)>) -> String {
        let history: Vec<Entry> = facts.into_iter().map(|fact| Entry { key: "k".to_owned(), fact }).collect();
        let ends = last.map(|(epoch, text)| ("k".to_owned(), Last { epoch, answer: done(text) }));
        check(&history, &ends.into_iter().collect::<BTreeMap<_, _>>()).join("\n")
    }

    #[test]
    fn good_histories_pass() {
        assert_eq!(broken(good(), Some((2, "two"))), "");
        // A failure that may be tried again, under hold.
        let mut facts = vec![lent(1, 0, false), Fact::Ran { epoch: 1 }];
        facts.extend(said(1, &failed(), 10, FinishResult::Committed));
        facts.extend([lent(2, 20, false), Fact::Ran { epoch: 2 }]);
        facts.extend(said(2, &done("two"), 30, FinishResult::Committed));
        assert_eq!(broken(facts, Some((2, "two"))), "");
        // A failure that counted, though its worker learnt of it too late: the first answer was lost.
        let mut facts = vec![lent(1, 0, false), Fact::Ran { epoch: 1 }];
        facts.extend(said(1, &failed(), 10, FinishResult::Stale));
        facts.extend([lent(2, 20, false), Fact::Ran { epoch: 2 }]);
        facts.extend(said(2, &done("two"), 30, FinishResult::Committed));
        assert_eq!(broken(facts, Some((2, "two"))), "");
        // Unknown, resolved, run again, above its cap.
        let mut facts = vec![lent(2, 0, false), Fact::Ran { epoch: 2 }];
        facts.push(Fact::Resolving { epoch: 2, answer: failed() });
        facts.extend([lent(3, 200, false), Fact::Ran { epoch: 3 }]);
        facts.push(Fact::Resolving { epoch: 3, answer: done("found") });
        facts.push(Fact::Resolved { epoch: 3, answer: done("found") });
        assert_eq!(broken(facts, Some((4, "found"))), "");
    }

    #[test]
    fn each_planted_bug_is_found() {
        let with = |more: &[Fact]| good().into_iter().chain(more.iter().cloned()).collect::<Vec<_>>();
        // Changes every lease of the good history.
        let changed = |change: &dyn Fn(&mut Fact)| {
            let mut facts = good();
            facts.iter_mut().for_each(change);
            facts
        };
        let hold = changed(&|fact| {
            if let Fact::Lent { may_repeat, .. } = fact {
                *may_repeat = false;
            }
        });
        let early = changed(&|fact| {
            if let Fact::Lent { epoch: 2, granted, .. } = fact {
                *granted = 99;
            }
        });
        let other_record = changed(&|fact| {
            if let Fact::Lent { epoch: 2, record, .. } = fact {
                *record = 8;
            }
        });
        let capped = changed(&|fact| {
            if let Fact::Lent { attempts_max, .. } = fact {
                *attempts_max = Some(1);
            }
        });
        let heard = changed(&|fact| {
            if let Fact::Told { epoch: 1, verdict, answer, .. } = fact {
                (*verdict, *answer) = (FinishResult::Committed, failed());
            }
        });
        let refused_retry = {
            let mut facts = hold.clone();
            facts.extend(said(1, &failed(), 150, FinishResult::Stale));
            facts
        };
        let replay = Fact::Replayed { epoch: 2, answer: done("other") };
        let resolved = Fact::Resolved { epoch: 2, answer: done("found") };
        for (name, facts, last, expected) in [
            ("a second run under one lease", with(&[Fact::Ran { epoch: 2 }]), (2, "two"), "ran twice"),
            ("a lease for two", with(&[lent(2, 100, true)]), (2, "two"), "given out twice"),
            ("a run without a lease", with(&[Fact::Ran { epoch: 3 }]), (2, "two"), "a lease is missing"),
            ("a blind repetition", hold, (2, "two"), "again under"),
            ("a failure that did not count", refused_retry, (2, "two"), "again under"),
            ("a take-over too early", early, (2, "two"), "again under"),
            ("a lost renewal", with(&[Fact::Renewed { epoch: 1, until: 101 }]), (2, "two"), "again under"),
            ("a row that vanished", other_record, (2, "two"), "record: 7 became 8"),
            ("an attempt too many", capped, (2, "two"), "cap: attempt 2"),
            ("a lost answer", good(), (1, "one"), "lost:"),
            ("a changed answer", good(), (2, "three"), "lost:"),
            ("a replay of something else", with(&[replay]), (2, "two"), "lost:"),
            ("a lost resolution", with(&[resolved]), (2, "two"), "lost:"),
            ("an answer of nobody", vec![lent(1, 0, true)], (1, "one"), "invented:"),
            ("a run after the end", with(&[lent(3, 300, true)]), (2, "two"), "final:"),
            ("a stale worker that is heard", heard, (2, "two"), "stale:"),
            ("an odd word", with(&[Fact::Odd { what: "conflict".to_owned() }]), (2, "two"), "odd:"),
        ] {
            let found = broken(facts, Some(last));
            assert!(found.contains(expected), "{name}: {found}");
        }
        assert!(broken(good(), None).contains("wedged"));
    }
}
