//! What can happen, at random.

use driftq_ledger::End;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

pub(crate) const KEYS: usize = 2;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking {
    pub(crate) key: usize,
    pub(crate) request: u8,
    pub(crate) reacquire: bool,
    pub(crate) call: Option<u8>,
    pub(crate) lease: u64,
    pub(crate) ttl: u64,
    pub(crate) retry: bool,
    pub(crate) cap: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Begin(Asking),
    Reacquire(Asking),
    /// The lease that was given so many leases ago.
    Finish {
        ago: usize,
        end: End,
        said: u8,
    },
    Renew {
        ago: usize,
        lasts: u64,
    },
    Resolve {
        key: usize,
        end: End,
        said: u8,
        seen: Option<u32>,
        ttl: u64,
    },
    Sweep {
        limit: u32,
        dry_run: bool,
    },
    Pass(u64),
    /// Somebody sets the clock back.
    Back(u64),
}

pub(crate) fn asking() -> impl Strategy<Value = Asking> {
    let request = prop_oneof![9 => Just(0_u8), 1 => Just(1)];
    let numbers = (0..KEYS, request, option::of(0..3_u8), 1..5_u64, 1..8_u64, option::of(1..4_u32));
    (numbers, any::<bool>(), any::<bool>()).prop_map(
        |((key, request, call, lease, ttl, cap), reacquire, retry)| Asking {
            key,
            request,
            reacquire,
            call,
            lease,
            ttl,
            retry,
            cap,
        },
    )
}

pub(crate) fn end() -> impl Strategy<Value = End> {
    prop_oneof![1 => Just(End::Succeeded), 1 => Just(End::FailedFinal), 2 => Just(End::FailedRetryable)]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let ago = || prop_oneof![3 => Just(0_usize), 1 => 0..4_usize];
    prop_oneof![
        5 => asking().prop_map(Step::Begin),
        1 => asking().prop_map(Step::Reacquire),
        3 => (ago(), end(), 0..2_u8).prop_map(|(ago, end, said)| Step::Finish { ago, end, said }),
        1 => (ago(), 1..6_u64).prop_map(|(ago, lasts)| Step::Renew { ago, lasts }),
        1 => (0..KEYS, end(), 0..2_u8, option::of(0..4_u32), 1..8_u64)
            .prop_map(|(key, end, said, seen, ttl)| Step::Resolve { key, end, said, seen, ttl }),
        1 => (1..4_u32, any::<bool>()).prop_map(|(limit, dry_run)| Step::Sweep { limit, dry_run }),
        3 => (1..6_u64).prop_map(Step::Pass),
        1 => (1..20_u64).prop_map(Step::Back),
    ]
}
