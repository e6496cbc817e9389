//! Tokens from the command line and from stdin.

use std::io::{BufRead, stdin};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::cli::exit::{Exit, Fault};

/// Names leases.
#[derive(clap::Args)]
pub(super) struct Tokens {
    /// Tokens as they came with the messages; `-` reads them from stdin, one per line, bare or as `lease take` printed
    /// them
    #[arg(required = true, value_name = "TOKEN", allow_hyphen_values = true)]
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
