//! Amounts as people write them: `64MiB`, `24h`, `1_000_000`.

/// Byte suffixes and what they stand for; a bare number is bytes.
const BYTE_UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// Time suffixes in milliseconds; a bare number is milliseconds, as the `_ms` in the name says.
const TIME_UNITS: [(&str, u64); 7] =
    [("", 1), ("ms", 1), ("s", 1_000), ("sec", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

pub fn count(text: &str) -> Result<u64, String> {
    amount(text, &[("", 1)]).ok_or_else(|| format!("`{text}` is not a whole number"))
}

pub fn bytes(text: &str) -> Result<u64, String> {
    amount(text, &BYTE_UNITS)
        .ok_or_else(|| format!("`{text}` is not a size; write bytes or for example 64MiB, 1GiB"))
}

pub fn millis(text: &str) -> Result<u64, String> {
    amount(text, &TIME_UNITS).ok_or_else(|| {
        format!("`{text}` is not a duration; write milliseconds or for example 500ms, 30s, 24h")
    })
}

/// A duration with its unit. A bare number is read as seconds by some and as milliseconds by others; nothing is nothing.
pub fn duration(text: &str) -> Result<u64, String> {
    let written = text.trim();
    let is_bare = written.chars().all(|c| c.is_ascii_digit() || c == '_');
    if is_bare && amount(written, &[("", 1)]).is_some_and(|number| number > 0) {
        return Err(format!(
            "`{text}` has no unit; write {written}s for seconds, {written}ms for milliseconds"
        ));
    }
    let read = amount(text, &TIME_UNITS);
    read.ok_or_else(|| format!("`{text}` is not a duration; write for example 5s, 500ms, 24h"))
}

fn amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor = units.iter().find(|(name, _)| *name == unit.trim())?.1;
    digits.replace('_', "").parse::<u64>().ok()?.checked_mul(factor)
}

const BYTES_SHOWN: [(&str, u64); 4] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// The largest unit that shows the size without a remainder.
pub fn show_bytes(bytes: u64) -> String {
    show(bytes, &BYTES_SHOWN, "B")
}

/// For people who want to know how much it is, and not to the byte.
pub fn about_bytes(bytes: u64) -> String {
    let Some((name, size)) = BYTES_SHOWN.iter().find(|(_, size)| bytes >= *size) else {
        return format!("{bytes}B");
    };
    let tenths = u128::from(bytes) * 10 / u128::from(*size);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}{name}"),
        (whole, tenth) => format!("{whole}.{tenth}{name}"),
    }
}

/// The largest unit that shows the duration without a remainder.
pub fn show_millis(millis: u64) -> String {
    show(millis, &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)], "ms")
}

fn show(amount: u64, units: &[(&str, u64)], smallest: &str) -> String {
    let whole = units.iter().find(|(_, size)| amount > 0 && amount.is_multiple_of(*size));
    whole.map_or_else(|| format!("{amount}{smallest}"), |(name, size)| format!("{}{name}", amount / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        for (text, expected) in
            [("64MiB", 64 << 20), ("1_000", 1000), ("2 GiB", 2 << 30), ("7", 7), ("4k", 4096)]
        {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for (text, expected) in [("30s", 30_000), ("24h", 86_400_000), ("250", 250), ("2d", 172_800_000)] {
            assert_eq!(millis(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_duration_has_a_unit() {
        for (text, expected) in [("5s", 5_000), ("5ms", 5), ("1_000ms", 1_000), ("0", 0), ("0s", 0)] {
            assert_eq!(duration(text), Ok(expected), "{text}");
        }
        for text in ["5", " 5 ", "1_000"] {
            let why = duration(text).unwrap_err();
            let number = text.trim();
            assert!(why.contains(&format!("{number}s")) && why.contains(&format!("{number}ms")), "{why}");
        }
        for text in ["", "s", "-1s", "5 parsecs"] {
            assert!(duration(text).unwrap_err().contains("500ms"), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", "MiB", "-1", "1.5GiB", "10 parsecs", "99999999999999999999", "18446744073709551615GiB"]
        {
            assert!(bytes(text).is_err(), "{text}");
            assert!(millis(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_for_people_are_short() {
        for (amount, text) in
            [(0, "0B"), (1023, "1023B"), (1 << 10, "1KiB"), (4_533_330, "4.3MiB"), (67_103_928, "63.9MiB")]
        {
            assert_eq!(about_bytes(amount), text);
        }
        assert_eq!(about_bytes(u64::MAX), "16777215.9TiB");
    }

    #[test]
    fn what_is_shown_reads_back() {
        for amount in [0, 1, 20, 1024, 1 << 30, 604_800_000, 123_457] {
            assert_eq!(bytes(&show_bytes(amount)), Ok(amount));
            assert_eq!(millis(&show_millis(amount)), Ok(amount));
        }
    }
}
