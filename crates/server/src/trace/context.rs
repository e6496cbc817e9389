//! Trace contexts, as W3C's `traceparent` writes them.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hyper::header::HeaderMap;

/// The header, and the label of a message's envelope.
pub(crate) const TRACEPARENT: &str = "traceparent";
/// The bit of the flags that says that spans are wanted.
const SAMPLED: u8 = 1;
/// Length of a `traceparent` of version 00.
const TEXT_BYTES: usize = 55;

/// One span of a trace, as others refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    pub(crate) trace: [u8; 16],
    pub(crate) span: [u8; 8],
    pub(crate) sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`; `None` if it is not a valid one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (head, rest) = (bytes.get(..TEXT_BYTES)?, &bytes[TEXT_BYTES..]);
        // A later version may say more after another dash; 00 may not.
        let is_whole = rest.is_empty() || (rest[0] == b'-' && &head[..2] != b"00");
        if !is_whole || head[2] != b'-' || head[35] != b'-' || head[52] != b'-' || &head[..2] == b"ff" {
            return None;
        }
        let (mut version, mut trace, mut span, mut flags) = ([0; 1], [0; 16], [0; 8], [0; 1]);
        read_hex(&head[..2], &mut version)?;
        read_hex(&head[3..35], &mut trace)?;
        read_hex(&head[36..52], &mut span)?;
        read_hex(&head[53..55], &mut flags)?;
        let is_named = trace != [0; 16] && span != [0; 8];
        is_named.then_some(Self { trace, span, sampled: flags[0] & SAMPLED != 0 })
    }

    /// The context that a request carries.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?.to_str().ok()?;
        // Two of them contradict each other: the standard says that neither counts.
        if values.next().is_some() { None } else { Self::parse(value) }
    }

    /// The trace's name, as log lines show it.
    pub(crate) fn trace_id(&self) -> String {
        let mut text = String::with_capacity(32);
        write_hex(&mut text, &self.trace).expect("texts take what is written");
        text
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        write_hex(f, &self.trace)?;
        f.write_str("-")?;
        write_hex(f, &self.span)?;
        f.write_str(if self.sampled { "-01" } else { "-00" })
    }
}

/// Lower case only, as the standard has it.
fn read_hex(text: &[u8], out: &mut [u8]) -> Option<()> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    for (pair, byte) in text.chunks_exact(2).zip(out) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(())
}

fn write_hex(out: &mut impl fmt::Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

/// Names of spans and traces: unlike all others, and not secret.
#[derive(Debug)]
pub(crate) struct Ids {
    seed: u64,
    next: AtomicU64,
}

impl Ids {
    pub(crate) fn new() -> Self {
        // The standard library's hasher is seeded by the system; no other source of randomness is needed.
        Self { seed: RandomState::new().hash_one(std::process::id()), next: AtomicU64::new(1) }
    }

    /// A number that looks random.
    pub(crate) fn number(&self) -> u64 {
        let step = self.next.fetch_add(1, Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The mixer of SplitMix64: every bit of the count reaches every bit of the number.
        let mut mixed = self.seed.wrapping_add(step);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn span(&self) -> [u8; 8] {
        self.number().max(1).to_be_bytes()
    }

    pub(crate) fn trace(&self) -> [u8; 16] {
        (u128::from(self.number()) << 64 | u128::from(self.number().max(1))).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_read_and_written() {
        let context = TraceContext::parse(GIVEN).unwrap();
        assert!(context.sampled);
        assert_eq!(context.to_string(), GIVEN);
        assert_eq!(context.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert!(!TraceContext::parse(&GIVEN.replace("-01", "-02")).unwrap().sampled);
        let later = GIVEN.replacen("00", "cc", 1) + "-what-comes";
        assert_eq!(TraceContext::parse(&later), Some(context));
    }

    #[test]
    fn what_is_not_one_is_none() {
        let zero_trace = GIVEN.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32));
        let zero_span = GIVEN.replace("b7ad6b7169203331", &"0".repeat(16));
        let (long, upper, ff) = (format!("{GIVEN}-x"), GIVEN.to_uppercase(), GIVEN.replacen("00", "ff", 1));
        let umlaut = format!("{}ä", &GIVEN[..54]);
        for text in ["", "own", &GIVEN[..54], &zero_trace, &zero_span, &long, &upper, &ff, &umlaut] {
            assert_eq!(TraceContext::parse(text), None, "{text:?}");
        }
        let mut headers = HeaderMap::new();
        headers.append(TRACEPARENT, HeaderValue::from_static(GIVEN));
        assert!(TraceContext::of(&headers).is_some());
        headers.append(TRACEPARENT, HeaderValue::from_static(GIVEN));
        assert_eq!(TraceContext::of(&headers), None, "two contradict each other");
    }

    #[test]
    fn names_differ() {
        let ids = Ids::new();
        let names: std::collections::BTreeSet<_> = (0..1_000).map(|_| ids.span()).collect();
        assert_eq!(names.len(), 1_000);
        assert_ne!(ids.trace(), ids.trace());
    }
}
