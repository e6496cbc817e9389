//! Effects with similar names are different effects.

use std::collections::BTreeSet;

use super::Harness;
use super::kit::{Case, executes, hash, is_what_was_said, replays, success};
use crate::{Begin, IDENTITY_BYTES_MAX, Identity, IdentityError, Part};

/// Runs each of these effects once, and finds every one's own answer.
async fn are_apart(case: &Case<'_>, identities: &[Identity]) {
    let asking = |identity: &Identity| Begin::new(identity.clone(), hash("the request")).terms(case.long());
    let mut leases = Vec::new();
    for identity in identities {
        leases.push(executes(case.told(asking(identity)).await, 1, 1));
    }
    for (at, lease) in leases.iter().enumerate() {
        case.commit(lease, &success(&format!("answer {at}"))).await;
    }
    for (at, (identity, lease)) in identities.iter().zip(&leases).enumerate() {
        let outcome = replays(case.told(asking(identity)).await);
        is_what_was_said(&outcome, lease, &success(&format!("answer {at}")));
        let record = case.ledger().get(identity).await.expect("get answers").expect("it is there");
        assert_eq!(&record.identity, identity);
    }
}

/// Principal, method and key are three texts, and not one.
pub async fn the_parts_do_not_run_into_each_other(harness: &dyn Harness) {
    let case = Case::new(harness);
    let own = &case.principal;
    let parts = [
        ["a", "b c", "d"],
        ["a b", "c", "d"],
        ["a", "b", "c d"],
        ["a b c", "d", "e"],
        ["a", "b/c", "d"],
        ["a/b", "c", "d"],
        ["a", "b", "c/d"],
        ["a", "b\u{a0}c", "d"],
        ["ab", "c", "d"],
        ["a", "bc", "d"],
        ["a", "b", "cd"],
        ["d", "b c", "a"],
    ];
    let named = parts.map(|[principal, method, key]| {
        Identity::new(&format!("{own} {principal}"), method, key).expect("fine names")
    });
    are_apart(&case, &named).await;
}

/// Letters that differ in case, in form, or in what databases and paths make of them are different letters.
pub async fn letters_count_as_they_are(harness: &dyn Harness) {
    let case = Case::new(harness);
    let keys = [
        "key",
        "KEY",
        "Key",
        "k\u{e9}y",
        "ke\u{301}y",
        "kéy\u{200b}",
        "漢字",
        "🚀",
        "%6Bey",
        "key%",
        "k_y",
        "key'--",
        "\"key\"",
        "key\\",
        "../key",
        "key?x=1#y",
        "{\"key\":1}",
        "İ",
        "i",
        "ß",
        "ss",
        "null",
        "0",
        "00",
        "0.0",
    ];
    let named: Vec<Identity> = keys.iter().map(|key| case.identity(key)).collect();
    assert_eq!(named.iter().collect::<BTreeSet<_>>().len(), keys.len());
    are_apart(&case, &named).await;
}

/// Each part may have 255 bytes, also of letters that take more than one.
pub async fn long_names_are_told_apart_to_the_last_byte(harness: &dyn Harness) {
    let case = Case::new(harness);
    let long = |last: &str| {
        let letters = "ü".repeat((IDENTITY_BYTES_MAX - case.principal.len() - last.len() - 1) / 2);
        format!("{}-{letters}{last}", case.principal)
    };
    let ascii = |last: &str| format!("{}{last}", "x".repeat(IDENTITY_BYTES_MAX - 1));
    let mut named = Vec::new();
    for principal in ["a", "b"].map(long) {
        for method in ["a", "b"].map(ascii) {
            for key in ["a", "b"].map(ascii) {
                named.push(Identity::new(&principal, &method, &key).expect("names of 255 bytes"));
            }
        }
    }
    are_apart(&case, &named).await;
}

/// Blanks around a name are not part of it.
pub async fn blanks_around_a_name_do_not_count(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.ended("k 1", &success("done")).await;
    let blank = Identity::new(&format!(" {} ", case.principal), &format!("\t{}", case.method), "  k 1\n");
    let asked = Begin::new(blank.expect("a name between blanks"), hash("the request"));
    is_what_was_said(&replays(case.told(asked).await), &lease, &success("done"));
}

/// An identity that lacks a part, or has one that is not valid, never gets to the store.
pub async fn nobody_and_nothing_have_no_effects(harness: &dyn Harness) {
    let case = Case::new(harness);
    let long = "x".repeat(IDENTITY_BYTES_MAX + 1);
    let bytes = long.len();
    for (parts, error) in [
        (["", "m", "k"], IdentityError::Empty(Part::Principal)),
        (["unknown", "m", "k"], IdentityError::Nobody),
        (["p", "\t", "k"], IdentityError::Empty(Part::Method)),
        (["p", "m", "  "], IdentityError::Empty(Part::Key)),
        (["p", "m", &long], IdentityError::TooLong { part: Part::Key, bytes }),
        (["p", &long, "k"], IdentityError::TooLong { part: Part::Method, bytes }),
        (["p", "m", "k\0"], IdentityError::Control(Part::Key)),
    ] {
        let [principal, method, key] = parts;
        assert_eq!(Identity::new(principal, method, key), Err(error));
    }
    assert_eq!(case.keys(None).await, Vec::<String>::new());
}
