//! A store with a cache in front of it does what every store must do.

use std::sync::Arc;
use std::time::Duration;

use driftq_ledger::cache::Bounds;
use driftq_ledger::conformance::{Harness, Passing};
use driftq_ledger::{Identity, Ledger};

/// A copy lives to the very end of its record here, so that one that outlives it shows.
const TO_THE_END: Bounds = Bounds {
    lives_max: Duration::from_secs(3600),
    margin: Duration::ZERO,
    patience: Duration::from_secs(10),
    pause: Duration::ZERO,
    entry_bytes_max: 2 << 20,
};

mod in_memory {
    use std::time::Instant;

    use driftq_ledger::cache::{Cached, MemoryCache, Reading};
    use driftq_ledger::memory::{Clock as _, ManualClock, MemoryStore};

    use super::{Arc, Duration, Harness, Identity, Ledger, Passing, TO_THE_END};

    /// Store and cache go by one clock, which moves only when somebody moves it.
    struct Manual {
        ledger: Ledger,
        clock: Arc<ManualClock>,
    }

    impl Harness for Manual {
        fn ledger(&self) -> &Ledger {
            &self.ledger
        }

        fn brief(&self) -> Duration {
            Duration::from_secs(1)
        }

        fn elapse<'a>(&'a self, identity: &'a Identity) -> Passing<'a> {
            Box::pin(async move {
                let record = self.ledger.get(identity).await.expect("get answers");
                let until = record.and_then(|record| record.lease_expires_at).expect("there is a lease");
                self.clock.set(until.max(self.clock.now()));
            })
        }

        fn expire<'a>(&'a self, identity: &'a Identity) -> Passing<'a> {
            Box::pin(async move {
                while let Some(record) = self.ledger.get(identity).await.expect("get answers") {
                    let until = record.expires_at.or(record.lease_expires_at).expect("it comes to an end");
                    self.clock.set(until.max(self.clock.now()));
                }
            })
        }

        fn is_alone(&self) -> bool {
            true
        }
    }

    async fn harness() -> Manual {
        let clock = Arc::new(ManualClock::default());
        let (shown, origin, started) = (Arc::clone(&clock), Instant::now(), clock.now());
        let readings = move || {
            let wall = shown.now();
            Reading { steady: origin + wall.since(started), wall }
        };
        let store = MemoryStore::with_clock(Arc::clone(&clock) as _);
        let cached = Cached::with(store, Arc::new(MemoryCache::default()), TO_THE_END);
        Manual { ledger: Ledger::new(cached.clock(Arc::new(readings))), clock }
    }

    driftq_ledger::conformance_suite!(harness);
}

mod in_redis {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use driftq_ledger::cache::Cached;
    use driftq_ledger::cache::redis::RedisCache;
    use driftq_ledger::memory::MemoryStore;
    use driftq_testbed::Redis;

    use super::{Arc, Duration, Harness, Identity, Ledger, Passing, TO_THE_END};

    /// Redis has a clock of its own, which can only be waited for.
    struct Waiting {
        ledger: Ledger,
    }

    const LOOK_EVERY: Duration = Duration::from_millis(2);

    impl Harness for Waiting {
        fn ledger(&self) -> &Ledger {
            &self.ledger
        }

        fn brief(&self) -> Duration {
            Duration::from_millis(50)
        }

        fn elapse<'a>(&'a self, identity: &'a Identity) -> Passing<'a> {
            Box::pin(async move {
                let lease = async || {
                    let record = self.ledger.get(identity).await.expect("get answers");
                    record.filter(|record| record.lease_live).map(|record| record.epoch)
                };
                // Once it has lapsed, whoever waited for it may have the next one.
                let newest = lease().await;
                while newest.is_some() && lease().await == newest {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            })
        }

        fn expire<'a>(&'a self, identity: &'a Identity) -> Passing<'a> {
            Box::pin(async move {
                while self.ledger.get(identity).await.expect("get answers").is_some() {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            })
        }

        fn is_alone(&self) -> bool {
            true
        }
    }

    async fn harness() -> Waiting {
        static REDIS: OnceLock<Redis> = OnceLock::new();
        static HARNESSES: AtomicU64 = AtomicU64::new(0);
        let redis = REDIS.get_or_init(|| Redis::start().expect("Redis starts"));
        let prefix = format!("{}:", HARNESSES.fetch_add(1, Ordering::Relaxed));
        let cache = RedisCache::new(&redis.url(), prefix).expect("the address is one");
        let cached = Cached::with(MemoryStore::new(), Arc::new(cache), TO_THE_END);
        Waiting { ledger: Ledger::new(cached) }
    }

    driftq_ledger::conformance_suite!(harness);
}
