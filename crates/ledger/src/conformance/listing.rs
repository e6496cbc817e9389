//! Records, as people and retry workers look for them.

use std::collections::BTreeMap;

use super::Harness;
use super::kit::{Case, endings, success};
use crate::{Ending, Filter, Identity, OnLapse, Status, words};

/// One effect in every state, by name.
async fn one_of_each(case: &Case<'_>) -> BTreeMap<&'static str, Status> {
    case.first("running").await;
    case.lapsed("lapsed", OnLapse::Retry).await;
    case.unknown("told").await;
    case.lapsed("held", OnLapse::Hold).await;
    for (key, ending) in ["succeeded", "failed", "retryable"].into_iter().zip(endings()) {
        case.ended(key, &ending).await;
    }
    BTreeMap::from([
        ("running", Status::InProgress),
        ("lapsed", Status::InProgress),
        ("told", Status::Unknown),
        ("held", Status::Unknown),
        ("succeeded", Status::Succeeded),
        ("failed", Status::FailedFinal),
        ("retryable", Status::FailedRetryable),
    ])
}

/// A list by status has the records that have it now, and nothing else.
pub async fn a_list_by_status_has_what_stands_so(harness: &dyn Harness) {
    let case = Case::new(harness);
    let made = one_of_each(&case).await;
    assert_eq!(case.keys(None).await, made.keys().copied().collect::<Vec<_>>());
    for status in Status::ALL {
        let expected: Vec<&str> =
            made.iter().filter(|(_, one)| **one == status).map(|(key, _)| *key).collect();
        assert_eq!(case.keys(Some(status)).await, expected, "{status:?}");
        for record in case.listed(Some(status), 100).await {
            assert_eq!(record.status, status);
        }
    }
}

/// A list says of a record what `get` says, apart from the answer itself.
pub async fn a_list_and_a_look_agree(harness: &dyn Harness) {
    let case = Case::new(harness);
    one_of_each(&case).await;
    for listed in case.listed(None, 100).await {
        let mut one = case.record(listed.identity.key()).await;
        let mut listed = listed;
        for outcome in [&mut one, &mut listed].into_iter().filter_map(|record| record.outcome.as_mut()) {
            outcome.response.headers.clear();
            outcome.response.payload.clear();
        }
        assert_eq!(listed, one);
    }
}

/// However small the pages are, together they have everything, each record once.
pub async fn pages_have_everything_once(harness: &dyn Harness) {
    let case = Case::new(harness);
    let all: Vec<String> = (0..23).map(|at| format!("k{at:02}")).collect();
    for (at, key) in all.iter().enumerate() {
        let lease = case.first(key).await;
        if at % 2 == 0 {
            case.commit(&lease, &success(key)).await;
        }
    }
    for limit in [1, 2, 7, 23, 100] {
        let listed = case.listed(None, limit).await;
        let mut keys: Vec<&str> = listed.iter().map(|one| one.identity.key()).collect();
        keys.sort_unstable();
        assert_eq!(keys, all, "in pages of {limit}");
        assert_eq!(case.listed(Some(Status::Succeeded), limit).await.len(), 12, "in pages of {limit}");
        assert_eq!(case.listed(Some(Status::InProgress), limit).await.len(), 11, "in pages of {limit}");
    }
}

/// A list by principal or by method has those of exactly this name.
pub async fn a_list_has_those_of_exactly_this_name(harness: &dyn Harness) {
    let case = Case::new(harness);
    let (principal, method) = (case.principal.clone(), case.method.clone());
    for (principal, method) in [
        (principal.clone(), method.clone()),
        (format!("{principal}-2"), method.clone()),
        (principal.to_uppercase(), method.clone()),
        (principal.clone(), format!("{method}%")),
        (format!("{principal}-2"), format!("{method}-2")),
    ] {
        let identity = Identity::new(&principal, &method, "k").expect("fine names");
        let asked = crate::Begin::new(identity, super::kit::hash("r")).terms(case.long());
        super::kit::executes(case.told(asked).await, 1, 1);
    }
    let count = async |principal: Option<&str>, method: Option<&str>| {
        let mut filter = Filter {
            principal: principal.map(str::to_owned),
            method: method.map(str::to_owned),
            limit: 100,
            ..Filter::default()
        };
        let mut count = 0;
        loop {
            let page = case.ledger().list(&filter).await.expect("list answers");
            count += page.records.len();
            filter.cursor = page.cursor;
            if filter.cursor.is_none() {
                return count;
            }
        }
    };
    assert_eq!(count(Some(&principal), None).await, 2);
    assert_eq!(count(None, Some(&method)).await, 3);
    assert_eq!(count(Some(&principal), Some(&method)).await, 1);
    assert_eq!(count(Some("nobody"), Some(&method)).await, 0);
    assert_eq!(count(Some(&principal), Some("")).await, 0, "nothing has no name");
}

/// A retry worker finds what failed and may be tried again, with an attempt left, of its own kind.
pub async fn a_retry_worker_finds_its_work(harness: &dyn Harness) {
    let case = Case::new(harness);
    one_of_each(&case).await;
    let used_up = case.first_on("used up", case.long().attempts_max(1)).await;
    case.commit(&used_up, &Ending::failed_retryable("for now")).await;
    let one_left = case.first_on("one left", case.long().attempts_max(2)).await;
    case.commit(&one_left, &Ending::failed_retryable("for now")).await;
    let ledger = case.ledger();
    let found = async |limit| {
        let found = ledger.find_retryable(Some(&case.method), limit).await.expect("it answers");
        let mut keys: Vec<String> = found.iter().map(|one| one.identity.key().to_owned()).collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(found(100).await, ["one left", "retryable"]);
    assert_eq!(found(1).await.len(), 1);
    assert_eq!(ledger.find_retryable(Some("another method"), 100).await, Ok(Vec::new()));
    for key in ["one left", "retryable"] {
        let taken = ledger.reacquire(case.retrying(key)).await.expect("it decides");
        super::kit::executes(taken, 2, 2);
    }
    assert_eq!(found(100).await, Vec::<String>::new());
}

/// Counts agree with what is there.
pub async fn counts_agree_with_what_is_there(harness: &dyn Harness) {
    let case = Case::new(harness);
    let before = case.ledger().stats().await.expect("stats answers");
    let made = one_of_each(&case).await;
    let after = case.ledger().stats().await.expect("stats answers");
    for status in Status::ALL {
        let word = words::of_status(status);
        let expected = made.values().filter(|one| **one == status).count() as u64;
        // A store may not count what is over for good.
        let Some(count) = after.by_status.get(word) else {
            assert!(status.is_final(), "{word} is counted");
            continue;
        };
        if harness.is_alone() {
            assert_eq!(before.by_status.get(word).copied().unwrap_or(0) + expected, *count, "{word}");
        } else {
            assert!(*count >= expected, "{word}: {count}");
        }
    }
    assert!(if harness.is_alone() { after.lapsed == 1 } else { after.lapsed >= 1 }, "{after:?}");
}
