//! What STS says, in XML.
//!
//! STS nests no element in one of its own name, and uses neither prefixes nor sections, so that a parser of all of XML is
//! not needed for four texts.

use driftq_api::Moment;

use super::AwsCredentials;
use crate::error::{Error, StsRefusal};

/// How much of STS's own words is passed on.
const DETAIL_CHARACTERS_MAX: usize = 1_000;
/// The longest reference to a character, between `&` and `;`.
const REFERENCE_BYTES_MAX: usize = 8;
/// STS could not read the issuer's keys, or has too much to do.
const PASSING_CODES: [&str; 4] =
    ["IDPCommunicationError", "Throttling", "ThrottlingException", "RequestLimitExceeded"];

/// The credentials, or what STS refused, or what is no answer of STS's.
pub(super) fn read(url: &str, status: u16, body: &[u8], credential: &str) -> Result<AwsCredentials, Error> {
    let text = str::from_utf8(body).unwrap_or_default().trim_start();
    // STS sends no document type, and what one can declare is of no good here.
    if !text.starts_with('<') || text.contains("<!DOCTYPE") {
        return Err(strange(url, status, "its answer is not XML"));
    }
    if status == 200 {
        return credentials(url, text);
    }
    let refused = element(text, "Error").unwrap_or_default();
    let code = content(refused, "Code");
    if code.is_empty() {
        return Err(strange(url, status, "its refusal has no code"));
    }
    let said = content(refused, "Message").replace(credential, "[credential]");
    let detail = said.chars().take(DETAIL_CHARACTERS_MAX).collect();
    let request_id = Some(content(text, "RequestId")).filter(|id| !id.is_empty());
    let retryable = is_passing(status) || PASSING_CODES.contains(&code.as_str());
    Err(Error::StsRefused(Box::new(StsRefusal { code, detail, status, request_id, retryable })))
}

fn credentials(url: &str, text: &str) -> Result<AwsCredentials, Error> {
    // Only of an answer that is whole: one that breaks off has no end of its root.
    let root = element(text, "AssumeRoleWithWebIdentityResponse").unwrap_or_default();
    let result = element(root, "AssumeRoleWithWebIdentityResult").unwrap_or_default();
    let Some(found) = element(result, "Credentials") else {
        return Err(strange(url, 200, "its answer has no credentials"));
    };
    let given = |name: &str| Some(content(found, name)).filter(|text| !text.is_empty());
    let whole = || {
        Some(AwsCredentials {
            access_key_id: given("AccessKeyId")?,
            secret_access_key: given("SecretAccessKey")?,
            session_token: given("SessionToken")?,
            expiration: Moment::parse(&given("Expiration")?)?,
        })
    };
    whole().ok_or_else(|| strange(url, 200, "its credentials are not complete"))
}

const fn is_passing(status: u16) -> bool {
    status == 429 || status >= 500
}

fn strange(url: &str, status: u16, why: &str) -> Error {
    let why =
        format!("what answers at {url} does not speak STS: it gave {status}, and {why}; check the endpoint");
    Error::StsUnanswered { why, is_transient: is_passing(status) }
}

/// What is between the tags of the first element of that name.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let opening = format!("<{name}");
    let mut rest = text;
    loop {
        rest = &rest[rest.find(&opening)? + opening.len()..];
        // Else it is an element whose name only begins so.
        if rest.starts_with(|next: char| next == '>' || next.is_ascii_whitespace()) {
            break;
        }
    }
    let (tag, inside) = rest.split_once('>')?;
    if tag.ends_with('/') {
        return None;
    }
    inside.find(&format!("</{name}>")).map(|end| &inside[..end])
}

/// The text of an element that has no others in it; empty if there is none.
fn content(text: &str, name: &str) -> String {
    match element(text, name) {
        Some(found) if !found.contains('<') => unescaped(found).trim().to_owned(),
        _ => String::new(),
    }
}

fn unescaped(mut text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    while let Some((before, after)) = text.split_once('&') {
        plain.push_str(before);
        let end = after.find(';').filter(|end| *end <= REFERENCE_BYTES_MAX);
        match end.and_then(|end| Some((character(&after[..end])?, &after[end + 1..]))) {
            Some((character, rest)) => {
                plain.push(character);
                text = rest;
            }
            None => {
                plain.push('&');
                text = after;
            }
        }
    }
    plain.push_str(text);
    plain
}

fn character(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let point = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(point.ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const EXAMPLES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/sts.json"));
    const CREDENTIAL: &str = "head.claims.signature";

    #[test]
    fn answers_are_read_as_in_every_sdk() {
        let examples: Value = serde_json::from_str(EXAMPLES).unwrap();
        for example in examples["answers"].as_array().unwrap() {
            let status = u16::try_from(example["status"].as_u64().unwrap()).unwrap();
            let outcome =
                read("http://sts", status, example["body"].as_str().unwrap().as_bytes(), CREDENTIAL);
            check(example, outcome);
        }
    }

    fn ms(moment: Moment) -> (i64, u32) {
        let (seconds, nanos) = moment.parts();
        (seconds, nanos / 1_000_000)
    }

    fn check(example: &Value, outcome: Result<AwsCredentials, Error>) {
        let name = &example["name"];
        match outcome {
            Ok(found) => {
                let wanted = &example["credentials"];
                assert_eq!(found.access_key_id, wanted["access_key_id"], "{name}");
                assert_eq!(found.secret_access_key, wanted["secret_access_key"], "{name}");
                assert_eq!(found.session_token, wanted["session_token"], "{name}");
                let ends = Moment::parse(wanted["expiration"].as_str().unwrap()).unwrap();
                assert_eq!(ms(found.expiration), ms(ends), "{name}");
                let shown = format!("{found:?}");
                assert!(!shown.contains(&found.secret_access_key) && !shown.contains(&found.session_token));
            }
            Err(Error::StsRefused(refusal)) => {
                let wanted = &example["refused"];
                assert_eq!(refusal.code, wanted["code"], "{name}");
                assert_eq!(refusal.detail, wanted["detail"], "{name}");
                assert_eq!(refusal.request_id.as_deref(), wanted["request_id"].as_str(), "{name}");
                assert_eq!(refusal.retryable, wanted["retryable"], "{name}");
            }
            Err(Error::StsUnanswered { why, is_transient }) => {
                assert!(why.contains(example["strange"].as_str().unwrap()), "{name}: {why}");
                assert_eq!(is_transient, example["retryable"], "{name}");
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }

    #[test]
    fn what_is_no_reference_stays() {
        assert_eq!(
            unescaped("a & b &; &bogus; &#xD800; &#x110000; &amp;lt;"),
            "a & b &; &bogus; &#xD800; &#x110000; &lt;"
        );
        assert_eq!(element("<Codes>1</Codes><Code a='b'>2</Code>", "Code"), Some("2"));
    }
}
