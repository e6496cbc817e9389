//! When a delivery that failed is tried again, and when it is over.

use std::time::Duration;

use driftq_client::Moment;

/// Longest wait between two sends, whatever the receiver asks for.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// What comes after a send that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another one, after this time.
    Again(Duration),
    /// None: the schedule is used up.
    Over,
}

/// After this attempt, counted from 1. A receiver may ask for a longer wait than the schedule has, not for a shorter.
#[must_use]
pub fn after(schedule_ms: &[u64], attempt: u32, retry_after: Option<Duration>) -> Next {
    let place = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
    match schedule_ms.get(place) {
        Some(wait_ms) => {
            let wait = Duration::from_millis(*wait_ms).max(retry_after.unwrap_or_default());
            Next::Again(wait.min(WAIT_MAX))
        }
        None => Next::Over,
    }
}

/// The header `Retry-After`: seconds, or a date. `now` in time since 1970. `None` for what is neither.
#[must_use]
pub fn retry_after(value: &str, now: Duration) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number has are a long time, too.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)).min(WAIT_MAX));
    }
    let until = http_date(value)?;
    Some(until.saturating_sub(now).min(WAIT_MAX))
}

/// A date as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<Duration> {
    let parts: Vec<&str> = text.split(' ').collect();
    let [_, day, month, year, time, "GMT"] = parts[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let moment = Moment::parse(&format!("{year}-{month:02}-{day}T{time}Z"))?;
    Some(Duration::from_secs(u64::try_from(moment.parts().0).ok()?))
}
