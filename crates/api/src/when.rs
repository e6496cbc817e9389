//! Times in words: how long ago, how long from now.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::Moment;

const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// The moment against which times are told in words.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    epoch_ms: i128,
}

impl Now {
    /// The time of this machine.
    #[must_use]
    pub fn read() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { epoch_ms: i128::try_from(since.as_millis()).unwrap_or(i128::MAX) }
    }

    /// A moment that was told by another clock.
    #[must_use]
    pub fn at(moment: Moment) -> Self {
        Self { epoch_ms: epoch_ms(moment) }
    }

    /// `3m 12s ago`, `in 8s`, or `now`.
    #[must_use]
    pub fn tell(self, moment: Moment) -> String {
        let distance = epoch_ms(moment) - self.epoch_ms;
        let length = span(distance.unsigned_abs());
        match distance {
            -999..=999 => "now".to_owned(),
            ..-999 => format!("{length} ago"),
            _ => format!("in {length}"),
        }
    }

    /// How long ago it was; nothing if it is yet to come.
    #[must_use]
    pub fn age_ms(self, moment: Moment) -> u64 {
        u64::try_from((self.epoch_ms - epoch_ms(moment)).max(0)).unwrap_or(u64::MAX)
    }

    /// The time, and in brackets how far away it is.
    #[must_use]
    pub fn show(self, moment: Moment) -> String {
        format!("{moment} ({})", self.tell(moment))
    }
}

/// How long it was from one time to the other.
#[must_use]
pub fn between(from: Moment, to: Moment) -> String {
    length((epoch_ms(to) - epoch_ms(from)).max(0).unsigned_abs())
}

/// A length of time, to the millisecond while that matters.
#[must_use]
pub fn length(millis: u128) -> String {
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..60_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        _ => span(millis),
    }
}

fn epoch_ms(moment: Moment) -> i128 {
    let (seconds, nanos) = moment.parts();
    i128::from(seconds) * 1_000 + i128::from(nanos / 1_000_000)
}

/// The two largest units, which is as much as readers want to know.
fn span(millis: u128) -> String {
    let mut rest = u64::try_from(millis / 1_000).unwrap_or(u64::MAX);
    let mut parts = Vec::new();
    for (name, seconds) in UNITS {
        if rest >= seconds {
            parts.push(format!("{}{name}", rest / seconds));
            rest %= seconds;
        } else if !parts.is_empty() {
            break;
        }
    }
    parts.truncate(2);
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_told_in_two_units() {
        for (millis, text) in [
            (0, "0s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (192_000, "3m 12s"),
            (3_600_000, "1h"),
            (3_605_000, "1h"),
            (93_784_000, "1d 2h"),
        ] {
            assert_eq!(span(millis), text);
        }
    }

    #[test]
    fn short_times_are_told_exactly() {
        let at = Moment::saturating_from_epoch_ms;
        for (millis, text) in
            [(0, "0ms"), (999, "999ms"), (1_250, "1.2s"), (59_999, "59.9s"), (192_000, "3m 12s")]
        {
            assert_eq!(between(at(5), at(5 + millis)), text);
        }
        assert_eq!(between(at(5), at(0)), "0ms", "clocks may go back");
    }

    #[test]
    fn past_and_future_are_told_apart() {
        let now = Now { epoch_ms: 100_000 };
        let at = |millis| now.tell(Moment::saturating_from_epoch_ms(millis));
        assert_eq!(at(100_400), "now");
        assert_eq!(at(40_000), "1m ago");
        assert_eq!(at(108_000), "in 8s");
    }
}
