//! Behaviour of the cache of opinions.

use driftq_core::Envelope;

use super::*;

fn message(key: &'static str, value: &'static str, model: Option<&'static str>) -> Message<'static> {
    let labels = model.map(|model| ("model".into(), model.into())).into_iter().collect();
    let envelope = Some(Box::new(Envelope { labels, ..Envelope::default() }));
    Message { key: key.as_bytes().into(), value: value.as_bytes().into(), envelope, ..Message::default() }
}

fn opinion(label: &str, on: Vec<Part>, ttl: Duration) -> Opinion {
    let decision = Decision { label: label.to_owned(), ..Decision::default() };
    Opinion { decision: Some(decision), cache: Some(CacheHint { on, ttl }) }
}

fn found(cache: &Cache, topic: &str, message: &Message<'_>, now: Instant) -> Option<String> {
    cache.find(topic, message, now).map(|decision| decision.map_or_else(String::new, |it| it.label))
}

const TTL: Duration = Duration::from_secs(10);

#[test]
fn an_opinion_holds_for_what_it_depends_on_and_for_nothing_else() {
    let (cache, now) = (Cache::new(100), Instant::now());
    cache.remember("t", &message("k", "v", None), &opinion("by key", vec![Part::Key], TTL), now);
    assert_eq!(found(&cache, "t", &message("k", "other", Some("m")), now).as_deref(), Some("by key"));
    assert_eq!(found(&cache, "t", &message("k2", "v", None), now), None);
    assert_eq!(found(&cache, "t2", &message("k", "v", None), now), None);

    let label = Part::Label("model".to_owned());
    let both = opinion("by label and value", vec![label, Part::Value], TTL);
    cache.remember("t", &message("a", "v", Some("small")), &both, now);
    let expected = Some("by label and value");
    assert_eq!(found(&cache, "t", &message("b", "v", Some("small")), now).as_deref(), expected);
    assert_eq!(found(&cache, "t", &message("b", "v", Some("large")), now), None);
    assert_eq!(found(&cache, "t", &message("b", "w", Some("small")), now), None);
}

#[test]
fn an_absent_label_is_not_an_empty_one() {
    let (cache, now) = (Cache::new(100), Instant::now());
    let on = vec![Part::Label("model".to_owned())];
    cache.remember("t", &message("k", "v", None), &opinion("none", on, TTL), now);
    assert_eq!(found(&cache, "t", &message("k", "v", Some("")), now), None);
    assert_eq!(found(&cache, "t", &message("x", "y", None), now).as_deref(), Some("none"));
    let bare = Message { key: b"x"[..].into(), ..Message::default() };
    assert_eq!(found(&cache, "t", &bare, now).as_deref(), Some("none"));
}

#[test]
fn having_no_opinion_is_remembered_too() {
    let (cache, now) = (Cache::new(100), Instant::now());
    let none = Opinion { decision: None, cache: Some(CacheHint { on: Vec::new(), ttl: TTL }) };
    cache.remember("t", &message("k", "v", None), &none, now);
    assert_eq!(cache.find("t", &message("x", "y", None), now), Some(None));
}

#[test]
fn a_promise_ends() {
    let (cache, now) = (Cache::new(100), Instant::now());
    let sent = message("k", "v", None);
    cache.remember("t", &sent, &opinion("x", vec![Part::Key], TTL), now);
    assert!(found(&cache, "t", &sent, now + TTL - Duration::from_millis(1)).is_some());
    assert_eq!(found(&cache, "t", &sent, now + TTL), None);
    cache.remember("t", &sent, &opinion("x", vec![Part::Key], Duration::MAX), now);
    assert_eq!(found(&cache, "t", &sent, now + CACHE_TTL_MAX), None);
    cache.remember("t", &message("k2", "v", None), &opinion("x", vec![Part::Key], Duration::ZERO), now);
    assert_eq!(found(&cache, "t", &message("k2", "v", None), now), None);
}

#[test]
fn a_promise_ends_in_the_old_generation_too() {
    let (cache, now) = (Cache::new(2), Instant::now());
    for n in 0..2 {
        cache.remember("t", &keyed(n), &opinion("x", vec![Part::Key], TTL), now);
    }
    assert_eq!(lock(&cache.store).old.entries.len(), 1);
    assert_eq!(found(&cache, "t", &keyed(0), now + TTL), None);
}

fn keyed(n: usize) -> Message<'static> {
    Message { key: n.to_string().into_bytes().into(), ..Message::default() }
}

#[test]
fn it_never_holds_more_than_it_may_and_keeps_what_is_used() {
    for entries_max in [1, 2, 3, 10, 101] {
        let (cache, now) = (Cache::new(entries_max), Instant::now());
        for n in 0..1_000 {
            cache.remember("t", &keyed(n), &opinion("x", vec![Part::Key], TTL), now);
            assert!(cache.len() <= entries_max, "{} of {entries_max}", cache.len());
            assert!(found(&cache, "t", &keyed(n), now).is_some());
            if entries_max > 2 {
                assert!(found(&cache, "t", &keyed(0), now).is_some(), "after {n} of {entries_max}");
            }
        }
    }
}

#[test]
fn it_never_holds_more_bytes_than_it_may() {
    let (cache, now) = (Cache::new(1_000_000), Instant::now());
    let mut large = opinion("x", vec![Part::Key], TTL);
    if let Some(decision) = &mut large.decision {
        decision.meta = (0..64).map(|n| (format!("{n:0128}"), "v".repeat(1024))).collect();
    }
    for n in 0..400 {
        cache.remember("t", &keyed(n), &large, now);
        let store = lock(&cache.store);
        assert!(store.young.bytes + store.old.bytes <= CACHE_BYTES_MAX);
    }
    assert!(cache.len() > 100);
}

#[test]
fn what_a_cache_cannot_use_it_leaves() {
    let now = Instant::now();
    let off = Cache::new(0);
    off.remember("t", &keyed(1), &opinion("x", vec![Part::Key], TTL), now);
    assert_eq!(found(&off, "t", &keyed(1), now), None);

    let cache = Cache::new(100);
    for n in 0..20 {
        let on = vec![Part::Label(n.to_string())];
        cache.remember("t", &keyed(n), &opinion("x", on, TTL), now);
    }
    assert_eq!(read(&cache.bases).len(), BASES_MAX);

    let cache = Cache::new(100);
    let large = Message { value: vec![0; DIGESTED_BYTES_MAX + 1].into(), ..Message::default() };
    cache.remember("t", &large, &opinion("x", vec![Part::Value], TTL), now);
    assert_eq!(cache.len(), 0);
}
