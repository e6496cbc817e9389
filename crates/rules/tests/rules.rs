//! The rules of the ledger, against a table written from the design and from nothing else.

use driftq_rules::{
    Asked, Begun, Finished, OnLapse, Released, Resolved, Standing, Status, begin, finish, release, renew,
    resolve,
};

/// Every record that there can be, as far as the rules can tell records apart.
fn standings() -> Vec<Standing> {
    let mut all = Vec::new();
    for status in Status::ALL {
        for on_lapse in [OnLapse::Retry, OnLapse::Hold] {
            for (live, expired) in [(true, true), (true, false), (false, true), (false, false)] {
                for (attempts, attempts_max) in
                    [(1, None), (1, Some(1)), (1, Some(2)), (2, Some(1)), (7, Some(9)), (u32::MAX, None)]
                {
                    // What is not in progress has no lease that could be live, and a store may say what it likes.
                    let epoch = attempts.saturating_add(3);
                    for released in [false, status == Status::InProgress && !live] {
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
                        all.push(standing);
                    }
                }
            }
        }
    }
    all
}

fn askers() -> Vec<Asked> {
    let bits = [false, true];
    let mut all = Vec::new();
    for same_request in bits {
        for same_call in bits {
            for reacquire in bits {
                for attempts_max in [None, Some(1), Some(2), Some(8)] {
                    all.push(Asked { same_request, same_call, reacquire, attempts_max });
                }
            }
        }
    }
    all
}

/// The states of the design, which are more than the words of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Live,
    /// Its holder gave it up, and nothing was sent.
    Free,
    LapsedMayRepeat,
    LapsedMayHaveHappened,
    Final,
    Retryable,
    Unknown,
    /// As if it had never been.
    Gone,
}

fn place(known: &Standing) -> Place {
    let used_up = known.attempts_max.is_some_and(|most| known.attempts >= most);
    let place = match (known.status, known.live, known.on_lapse) {
        (Status::InProgress, true, _) => Place::Live,
        (Status::InProgress, false, _) if known.released => Place::Free,
        (Status::InProgress, false, OnLapse::Hold) => Place::LapsedMayHaveHappened,
        (Status::InProgress, false, OnLapse::Retry) if used_up => Place::LapsedMayHaveHappened,
        (Status::InProgress, false, OnLapse::Retry) => Place::LapsedMayRepeat,
        (Status::Succeeded | Status::FailedFinal, ..) => Place::Final,
        (Status::FailedRetryable, ..) => Place::Retryable,
        (Status::Unknown, ..) => Place::Unknown,
    };
    let forgettable = matches!(place, Place::Free | Place::LapsedMayRepeat | Place::Final | Place::Retryable);
    if known.expired && forgettable { Place::Gone } else { place }
}

/// The design's table for begin.
fn begin_oracle(known: &Standing, asked: Asked) -> Begun {
    let place = place(known);
    if place == Place::Gone {
        return Begun::First;
    }
    if !asked.same_request {
        return Begun::Conflict;
    }
    let cap = match (asked.attempts_max, known.attempts_max) {
        (Some(asked), Some(known)) => Some(asked.max(known)),
        (None, cap) | (cap, None) => cap,
    };
    let left = cap.map(|cap| cap.saturating_sub(known.attempts));
    let may_take = left != Some(0);
    let plus_one = |number: u32| number.saturating_add(1);
    let next = Begun::TakeOver { epoch: plus_one(known.epoch), attempt: plus_one(known.attempts) };
    match place {
        Place::Live if asked.same_call => Begun::Again,
        Place::Live => Begun::Running,
        Place::LapsedMayHaveHappened if known.on_lapse == OnLapse::Retry && may_take => next,
        Place::LapsedMayHaveHappened | Place::Unknown => Begun::Unknown,
        Place::Free | Place::LapsedMayRepeat if may_take => next,
        Place::Free | Place::LapsedMayRepeat => Begun::Exhausted,
        Place::Retryable if asked.reacquire && may_take => next,
        Place::Retryable => Begun::Retryable { left },
        Place::Final => Begun::Replay,
        Place::Gone => unreachable!("see above"),
    }
}

#[test]
fn begin_follows_the_table_of_the_design() {
    let mut told = [0; 9];
    for known in standings() {
        for asked in askers() {
            let begun = begin(Some(&known), asked);
            assert_eq!(begun, begin_oracle(&known, asked), "{known:?} {asked:?}");
            told[match begun {
                Begun::First => 0,
                Begun::TakeOver { .. } => 1,
                Begun::Again => 2,
                Begun::Replay => 3,
                Begun::Running => 4,
                Begun::Retryable { .. } => 5,
                Begun::Unknown => 6,
                Begun::Conflict => 7,
                Begun::Exhausted => 8,
            }] += 1;
        }
    }
    assert!(told.iter().all(|count| *count > 0), "{told:?}");
}

#[test]
fn what_nobody_has_begun_is_begun_first_whatever_is_asked() {
    for asked in askers() {
        assert_eq!(begin(None, asked), Begun::First, "{asked:?}");
    }
}

/// No row of the table may be missing: these hold whatever the rest says.
#[test]
fn no_rule_repeats_what_may_have_happened() {
    for known in standings() {
        for asked in askers() {
            let begun = begin(Some(&known), asked);
            let runs = matches!(begun, Begun::First | Begun::TakeOver { .. } | Begun::Again);
            let stranded = known.status == Status::InProgress && !known.live && !known.released;
            let holds = known.on_lapse == OnLapse::Hold && stranded;
            assert!(!(runs && (holds || known.status == Status::Unknown)), "{known:?} {asked:?}");
            let ran_out = known.status == Status::InProgress && known.live && !asked.same_call;
            assert!(!(runs && ran_out), "two would run it: {known:?} {asked:?}");
            assert!(
                !(runs && known.status.is_final() && !known.expired),
                "what is final runs again: {known:?}"
            );
            if let Begun::TakeOver { epoch, attempt } = begun {
                assert!(epoch >= known.epoch && attempt >= known.attempts);
                assert!(epoch > known.epoch || known.epoch == u32::MAX, "the old holder is not shut out");
            }
        }
    }
}

#[test]
fn a_record_counts_as_long_as_somebody_may_run_it_or_it_may_have_happened() {
    for known in standings() {
        assert_eq!(known.is_over(), place(&known) == Place::Gone, "{known:?}");
        let becomes = place(&known) == Place::LapsedMayHaveHappened;
        assert_eq!(known.becomes_unknown(), becomes, "{known:?}");
    }
}

#[test]
fn finish_is_heard_from_the_newest_lease_only_and_once() {
    for known in standings() {
        for epoch in [0, known.epoch - 1, known.epoch, known.epoch.saturating_add(1)] {
            for (fenced, same) in [(false, false), (false, true), (true, false), (true, true)] {
                let open = matches!(known.status, Status::InProgress | Status::Unknown);
                let holds = epoch == known.epoch && !known.released;
                let expected = match (holds, open, fenced, same) {
                    (false, ..) => Finished::Stale,
                    (true, true, true, _) => Finished::Stale,
                    (true, true, false, _) => Finished::Commit,
                    (true, false, _, true) => Finished::Already,
                    (true, false, _, false) => Finished::Stale,
                };
                assert_eq!(finish(Some(&known), epoch, fenced, same), expected, "{known:?} {epoch}");
            }
        }
    }
    assert_eq!(finish(None, 1, false, false), Finished::Stale);
    assert_eq!(finish(None, 1, false, true), Finished::Stale);
}

#[test]
fn renew_is_for_the_newest_lease_of_what_has_not_ended() {
    for known in standings() {
        for epoch in [0, known.epoch - 1, known.epoch] {
            for fenced in [false, true] {
                let open = [Status::InProgress, Status::Unknown].contains(&known.status);
                let expected = epoch == known.epoch && open && !fenced && !known.released;
                assert_eq!(renew(Some(&known), epoch, fenced), expected, "{known:?} {epoch} {fenced}");
            }
        }
    }
    assert!(!renew(None, 1, false));
}

#[test]
fn release_is_for_the_newest_lease_and_known_again_until_somebody_has_it() {
    for known in standings() {
        for epoch in [0, known.epoch - 1, known.epoch] {
            for fenced in [false, true] {
                let open = [Status::InProgress, Status::Unknown].contains(&known.status);
                let expected = if known.released && epoch == known.epoch - 1 {
                    Released::Already
                } else if epoch == known.epoch && open && !fenced && !known.released {
                    Released::Commit { epoch: epoch.saturating_add(1) }
                } else {
                    Released::Stale
                };
                assert_eq!(release(Some(&known), epoch, fenced), expected, "{known:?} {epoch} {fenced}");
            }
        }
    }
    assert_eq!(release(None, 1, false), Released::Stale);
}

#[test]
fn resolve_is_for_what_nobody_runs_and_nobody_knows() {
    for known in standings() {
        for seen in [None, Some(known.epoch), Some(known.epoch - 1), Some(0)] {
            for same in [false, true] {
                let agrees = seen.is_none_or(|seen| seen == known.epoch);
                let expected = match place(&known) {
                    Place::Gone => Resolved::Nothing,
                    Place::Live => Resolved::Running,
                    Place::Final | Place::Retryable if same => Resolved::Already,
                    Place::Final => Resolved::Final,
                    _ if !agrees => Resolved::Stale,
                    Place::Free
                    | Place::Retryable
                    | Place::Unknown
                    | Place::LapsedMayRepeat
                    | Place::LapsedMayHaveHappened => {
                        Resolved::Commit { epoch: known.epoch.saturating_add(1) }
                    }
                };
                assert_eq!(resolve(Some(&known), seen, same), expected, "{known:?} {seen:?} {same}");
            }
        }
    }
    assert_eq!(resolve(None, None, false), Resolved::Nothing);
}

#[test]
fn the_words_of_the_first_version_cover_every_status() {
    let words = Status::ALL.map(Status::v1_word);
    assert_eq!(words, ["PENDING", "COMMITTED", "FAILED", "FAILED", "PENDING"]);
    assert_eq!(Status::ALL.map(Status::is_final), [false, true, true, false, false]);
}
