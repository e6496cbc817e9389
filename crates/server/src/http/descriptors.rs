//! File descriptors. Connections and the log draw from one purse, and the log must never find it empty: a segment that
//! cannot be opened stops the broker, and a crowd of idle peers would be enough to bring that about.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept for the log, which holds up to 256 segments open, and for the runtime.
const KEPT: u64 = 320;

/// How many connections may be open: what the user wants, as far as the system gives it. Takes all that this process
/// may have first.
pub(super) fn connections_max(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // The lower of the two limits is there for programs that count descriptors in bit sets. If it cannot be raised,
    // it holds, and is reckoned with below.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let possible = affordable(if raised { maximum } else { current });
    if possible < wanted {
        tracing::warn!(
            wanted,
            possible,
            "connections_max is lowered: the system gives this process too few file descriptors (ulimit -n)"
        );
    }
    wanted.min(possible)
}

/// What is left for connections of so many descriptors; no limit, no end.
fn affordable(descriptors: Option<u64>) -> usize {
    let rest = descriptors.map_or(u64::MAX, |all| all.saturating_sub(KEPT).max(all / 2));
    usize::try_from(rest).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_its_share() {
        for (descriptors, connections) in [(1024, 704), (20_000, 19_680), (64, 32), (1, 0)] {
            assert_eq!(affordable(Some(descriptors)), connections, "of {descriptors}");
        }
        assert_eq!(affordable(None), usize::MAX);
        assert_eq!(connections_max(1), 1);
    }
}
