//! The one way to write a document, so that equal documents have equal digests in every language.

use serde::Serialize;
use serde_json::{Number, Value};
use sha2::{Digest, Sha256};

use crate::chance::hex;
use crate::error::Error;

/// The canonical form of a document, see the documentation of the SDKs.
///
/// # Errors
/// If it has no JSON form, or holds a number that is none.
pub fn canonical(document: &(impl Serialize + ?Sized)) -> Result<String, Error> {
    let value = serde_json::to_value(document)
        .map_err(|error| Error::Invalid(format!("what was given has no JSON form: {error}")))?;
    let mut text = String::new();
    write(&value, &mut text);
    Ok(text)
}

/// SHA-256 of a text, in hex.
#[must_use]
pub fn sha256_hex(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            // Sorted by the bytes of the names, whatever order the map has.
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
            out.push('{');
            for (index, (name, member)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(name, out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\0'..='\x1f' => {
                out.push_str("\\u00");
                out.push_str(&hex(&[character as u8]));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

fn write_number(number: &Number, out: &mut String) {
    match number.as_f64() {
        Some(float) if number.is_f64() => write_float(float, out),
        _ => out.push_str(&number.to_string()),
    }
}

/// As ECMAScript writes numbers.
fn write_float(float: f64, out: &mut String) {
    if float == 0.0 {
        out.push('0');
        return;
    }
    if float < 0.0 {
        out.push('-');
    }
    // The shortest digits that read back as the same number, and the power of ten of the first one.
    let text = format!("{:e}", float.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = mantissa.replace('.', "");
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    match point {
        _ if count <= point && point <= 21 => {
            out.push_str(&digits);
            out.push_str(&zeros(point - count));
        }
        1..=21 => {
            let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
            out.push_str(&format!("{whole}.{fraction}"));
        }
        -5..=0 => out.push_str(&format!("0.{}{digits}", zeros(-point))),
        _ => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            out.push_str(&format!("{first}{dot}{rest}e{:+}", point - 1));
        }
    }
}

/// The canonical form of a text.
pub(crate) fn canonical_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_text(text, &mut out);
    out
}
