//! A cache in front of PostgreSQL: what the database says about a record is what a copy goes by.

use std::time::Duration;

use crate::support::{Bed, identity};
use driftq_ledger::cache::{Cached, MemoryCache};
use driftq_ledger::{Begin, Decision, Ending, Ledger, RequestHash, Response, Store as _, Terms};

#[tokio::test]
async fn a_replay_says_what_a_cache_has_to_know() {
    let bed = Bed::new().await;
    let ttl = Duration::from_secs(3600);
    let old = RequestHash::foreign("old").unwrap();
    let asked = Begin::new(identity("k"), old.clone()).terms(Terms::default().ttl(ttl));
    let (decision, kept) = bed.store.begin_kept(&asked).await.unwrap();
    let Decision::Execute(lease) = decision else { panic!("nobody has it: {decision:?}") };
    assert_eq!(kept, None, "what runs has nothing to be copied");
    bed.ledger.finish(&lease, &Ending::succeeded(Response::new("paid"))).await.unwrap();

    let asked = Begin { hash: RequestHash::of_bytes(b"new").or_before(old), ..asked };
    let (decision, kept) = bed.store.begin_kept(&asked).await.unwrap();
    assert!(matches!(decision, Decision::Replay(_)));
    let kept = kept.unwrap();
    assert_eq!(
        (kept.hash_version, kept.hash.as_str()),
        (0, "old"),
        "the record's own, not the asker's newest"
    );
    assert!(kept.remains <= ttl && kept.remains > ttl - Duration::from_secs(600), "{:?}", kept.remains);
}

#[tokio::test]
async fn replays_need_no_database() {
    let bed = Bed::new().await;
    let cached = Cached::new(bed.store.clone(), MemoryCache::default());
    let counts = cached.counts();
    let ledger = Ledger::new(cached);
    let asked = || Begin::new(identity("k"), RequestHash::of_bytes(b"asked"));
    let lease = crate::support::lease(&ledger, asked()).await;
    ledger.finish(&lease, &Ending::succeeded(Response::new("paid").code(201))).await.unwrap();
    let first = ledger.begin(asked()).await.unwrap();
    bed.psql("DROP TABLE {table} CASCADE");
    for _ in 0..3 {
        assert_eq!(ledger.begin(asked()).await.unwrap(), first);
    }
    assert_eq!(counts.hits(), 3);
    let other = Begin::new(identity("k"), RequestHash::of_bytes(b"something else"));
    assert!(ledger.begin(other).await.is_err(), "a conflict is the store's to say, and that is gone");
}
