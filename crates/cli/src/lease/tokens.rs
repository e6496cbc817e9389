//! Tokens from the command line and from stdin.

use std::ffi::OsString;
use std::io::{BufRead, stdin};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{Exit, Fault};

/// Shorter words that begin with a hyphen are flags, and no flag is this long.
const TOKEN_CHARS_LEAST: usize = 24;
/// Commands that take any number of tokens.
const COMMANDS: [&str; 4] = ["ack", "nack", "extend", "release"];

/// The command line with the tokens of `driftq lease ack` and its like behind a `--` if they begin with a hyphen, as
/// words in base64 for URLs may. clap could be told to take such words, and would then take misspelt flags for tokens.
pub fn with_tokens_last(arguments: Vec<OsString>) -> Vec<OsString> {
    let words: Vec<&str> = arguments.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let lease = words.iter().position(|word| *word == "lease");
    let is_ours = lease.and_then(|at| words.get(at + 1)).is_some_and(|word| COMMANDS.contains(word));
    if !is_ours || words.contains(&"--") || !words.iter().any(|word| is_hidden_token(word)) {
        return arguments;
    }
    let is_token = |word: &OsString| word.to_str().is_some_and(is_hidden_token);
    let (tokens, mut rest): (Vec<_>, Vec<_>) = arguments.into_iter().partition(is_token);
    rest.push("--".into());
    rest.extend(tokens);
    rest
}

fn is_hidden_token(word: &str) -> bool {
    let is_ours = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    word.starts_with('-') && word.len() >= TOKEN_CHARS_LEAST && word.bytes().all(is_ours)
}

/// Names leases.
#[derive(clap::Args)]
pub(crate) struct Tokens {
    /// Tokens as they came with the messages; `-` reads them from stdin, one per line, bare or as `lease take` printed
    /// them
    #[arg(required = true, value_name = "TOKEN")]
    tokens: Vec<String>,
}

/// A line that `lease take` printed, or a part of it.
#[derive(Deserialize)]
struct Line {
    token: Option<String>,
    lease: Option<Lease>,
}

#[derive(Deserialize)]
struct Lease {
    token: String,
}

impl Tokens {
    /// All of them, in order.
    pub(super) fn read(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for token in &self.tokens {
            if token == "-" {
                for (number, line) in stdin().lock().lines().enumerate() {
                    let line = line.context("reading tokens from stdin")?;
                    all.extend(of_line(number + 1, line.trim())?);
                }
            } else {
                all.push(token.clone());
            }
        }
        Ok(all)
    }
}

fn of_line(number: usize, line: &str) -> Result<Option<String>, Fault> {
    if line.is_empty() {
        return Ok(None);
    }
    if !line.starts_with('{') {
        return Ok(Some(line.to_owned()));
    }
    let parsed = serde_json::from_str::<Line>(line).ok();
    let token = parsed.and_then(|line| line.token.or_else(|| line.lease.map(|lease| lease.token)));
    let refused = || {
        Fault::new(Exit::Usage, format!("line {number} of stdin has no token"))
            .help("pipe the output of `driftq lease take -o ndjson`, or one token per line")
    };
    token.map(Some).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_are_moved() {
        let token = "-AAAAAAAAAAAAAAAAAAAAAAAAAAA_";
        let moved = |line: &str| {
            let words = line.replace("TOKEN", token);
            let line = with_tokens_last(words.split(' ').map(OsString::from).collect());
            let words: Vec<_> =
                line.iter().map(|word| word.to_str().unwrap().replace(token, "TOKEN")).collect();
            words.join(" ")
        };
        for (line, expected) in [
            ("driftq lease ack TOKEN", "driftq lease ack -- TOKEN"),
            ("driftq -o json lease nack TOKEN --dead x", "driftq -o json lease nack --dead x -- TOKEN"),
            ("driftq lease nack --daed x", "driftq lease nack --daed x"),
            ("driftq lease release -- TOKEN", "driftq lease release -- TOKEN"),
            ("driftq lease take TOKEN", "driftq lease take TOKEN"),
            ("driftq produce lease TOKEN", "driftq produce lease TOKEN"),
        ] {
            assert_eq!(moved(line), expected);
        }
    }

    #[test]
    fn lines_are_tokens_or_messages() {
        let token = |line| of_line(1, line).unwrap();
        assert_eq!(token(""), None);
        assert_eq!(token("abc").as_deref(), Some("abc"));
        assert_eq!(token(r#"{"token":"abc"}"#).as_deref(), Some("abc"));
        assert_eq!(token(r#"{"topic":"t","lease":{"token":"abc","attempt":1}}"#).as_deref(), Some("abc"));
        for line in [r#"{"topic":"t"}"#, "{broken"] {
            assert!(of_line(7, line).unwrap_err().message.contains("line 7"));
        }
    }
}
