//! The small parts of a request: names in the path, a header, a confirmation.

use std::borrow::Cow;

use super::envelope::PARTITION_MAX;
use super::limits::{IDEMPOTENCY_HEADER_BYTES_MAX, IDENTITY_BYTES_MAX, NAME_BYTES_MAX, OFFSET_MAX};
use super::parameters::Parameters;
use crate::catalogue::Code;
use crate::fault::Fault;
use crate::query::{Query, decode_segment};

/// A name in a path, decoded. `what` is how the template calls it.
pub fn path_name<'a>(what: &str, segment: &'a str) -> Result<Cow<'a, str>, Fault> {
    path_text(what, segment, NAME_BYTES_MAX)
}

/// The run in a path, which may be as long as messages name it.
pub fn path_run(segment: &str) -> Result<Cow<'_, str>, Fault> {
    path_text("run_id", segment, IDENTITY_BYTES_MAX)
}

fn path_text<'a>(what: &str, segment: &'a str, max: usize) -> Result<Cow<'a, str>, Fault> {
    let refused = || Fault::invalid(format!("{what}: bad percent-encoding in the path"));
    let text = decode_segment(segment).ok_or_else(refused)?;
    if (1..=max).contains(&text.len()) {
        return Ok(text);
    }
    Err(Fault::invalid(format!("{what}: must have 1 to {max} bytes, has {}", text.len())))
}

/// The partition in a path.
pub fn path_partition(segment: &str) -> Result<u32, Fault> {
    path_number("partition", segment, PARTITION_MAX)
}

/// The offset in a path.
pub fn path_offset(segment: &str) -> Result<u64, Fault> {
    path_number("offset", segment, OFFSET_MAX)
}

fn path_number<N: TryFrom<u64>>(what: &str, segment: &str, max: u64) -> Result<N, Fault> {
    let digits = decode_segment(segment).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|text| text.parse::<u64>().ok()).filter(|number| *number <= max);
    let refused = || Fault::invalid(format!("{what}: must be a whole number between 0 and {max}"));
    number.and_then(|number| N::try_from(number).ok()).ok_or_else(refused)
}

/// The value of an `Idempotency-Key` header. The quotes of a structured header are taken off.
pub fn idempotency_key(header: &[u8]) -> Result<&str, Fault> {
    let is_printable = |byte: &u8| matches!(byte, b' '..=b'~');
    let text = std::str::from_utf8(header).ok().filter(|_| header.iter().all(is_printable)).map(str::trim);
    let fits = |text: &&str| (1..=IDEMPOTENCY_HEADER_BYTES_MAX).contains(&text.len());
    let key = text.filter(fits).ok_or_else(|| {
        Fault::invalid(format!(
            "Idempotency-Key: must have 1 to {IDEMPOTENCY_HEADER_BYTES_MAX} printable ASCII characters"
        ))
    })?;
    let quoted = key.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    Ok(quoted.filter(|inner| !inner.is_empty()).unwrap_or(key))
}

/// Refuses to delete what the query does not name once more.
pub fn confirmed(query: Query<'_>, name: &str) -> Result<(), Fault> {
    confirm(Parameters::new(query), name)
}

/// The same for a query of which other parameters were taken before.
pub(super) fn confirm(mut parameters: Parameters<'_>, name: &str) -> Result<(), Fault> {
    let confirm = parameters.text("confirm", 1, NAME_BYTES_MAX)?;
    parameters.finish()?;
    if confirm.as_deref() == Some(name) {
        return Ok(());
    }
    let message = format!("confirm: must be {name:?}, the name of what is to be deleted");
    Err(Fault::new(Code::ConfirmationRequired, message))
}

/// Refuses every parameter: for calls that have none.
pub fn expect_no_parameters(query: Query<'_>) -> Result<(), Fault> {
    Parameters::new(query).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_in_a_path() {
        assert_eq!(path_name("topic", "a%2Fb+c").unwrap(), "a/b+c");
        assert_eq!(path_name("topic", "%ff").unwrap_err().message, "topic: bad percent-encoding in the path");
        assert!(path_name("topic", &"t".repeat(255)).is_ok());
        let message = path_name("group", &"t".repeat(256)).unwrap_err().message;
        assert_eq!(message, "group: must have 1 to 255 bytes, has 256");
        assert!(path_run(&"r".repeat(4096)).is_ok());
        let message = path_run(&"r".repeat(4097)).unwrap_err().message;
        assert_eq!(message, "run_id: must have 1 to 4096 bytes, has 4097");
        assert_eq!((path_partition("4095"), path_offset("9223372036854775807")), (Ok(4095), Ok(OFFSET_MAX)));
        for text in ["4096", "-1", "+1", "x", "", "1.0", "99999999999999999999"] {
            let message = path_partition(text).unwrap_err().message;
            assert_eq!(message, "partition: must be a whole number between 0 and 4095", "{text}");
        }
        let message = path_offset("9223372036854775808").unwrap_err().message;
        assert_eq!(message, "offset: must be a whole number between 0 and 9223372036854775807");
    }

    #[test]
    fn keys_in_a_header() {
        for (header, key) in [
            (&b"abc"[..], Some("abc")),
            (b" a b ", Some("a b")),
            (b"\"abc\"", Some("abc")),
            (b"\"\"", Some("\"\"")),
            (b"", None),
            (b" ", None),
            (b"a\tb", None),
            ("é".as_bytes(), None),
            (&[b'k'; 256], None),
        ] {
            assert_eq!(idempotency_key(header).ok(), key, "{header:?}");
        }
        assert!(idempotency_key(&[b'k'; 255]).is_ok());
    }

    #[test]
    fn what_is_destroyed_is_named_twice() {
        let confirm = |raw| confirmed(Query::parse(raw).unwrap(), "a b");
        assert_eq!(confirm("confirm=a+b"), Ok(()));
        for raw in ["", "confirm=a"] {
            let fault = confirm(raw).unwrap_err();
            assert_eq!(fault.code, Code::ConfirmationRequired);
            assert_eq!(fault.message, "confirm: must be \"a b\", the name of what is to be deleted");
        }
        assert_eq!(confirm("force=1").unwrap_err().message, "force: unknown parameter, expected confirm");
        let none = expect_no_parameters(Query::parse("a=1").unwrap());
        assert_eq!(none.unwrap_err().message, "a: unknown parameter, expected none");
        assert_eq!(expect_no_parameters(Query::default()), Ok(()));
    }
}
