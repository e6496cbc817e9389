//! The catalogue of errors.

use driftq_api::Code;
use serde::Serialize;

use crate::markdown::{cell, head, row};

/// A line of the catalogue as SDKs read it.
#[derive(Serialize)]
pub(crate) struct Entry {
    code: &'static str,
    status: u16,
    retryable: bool,
    title: &'static str,
    help: &'static str,
}

/// All of them, in the order of the catalogue.
pub(crate) fn list() -> Vec<Entry> {
    let entries = Code::ALL.iter().map(|code| code.entry());
    entries
        .map(|entry| Entry {
            code: entry.code,
            status: entry.status,
            retryable: entry.retryable,
            title: entry.title,
            help: entry.help,
        })
        .collect()
}

const ABOUT: &str = "# Errors\n\nMade by `cargo xtask docs` from the server's own catalogue; as data it is \
[errors.json](../errors.json). An error of `/v2` is a problem document (RFC 9457) with `code`, `detail`, `help` and \
`retryable`; the code is stable, the texts may change. *Again* says whether the same request may succeed later: then \
wait for `retry_after_ms`, if it is there, and repeat it.\n\n";

pub(crate) fn page() -> String {
    let mut page = ABOUT.to_owned();
    page.push_str(&head(&["code", "status", "again", "meaning", "what to do"]));
    for entry in list() {
        let again = if entry.retryable { "yes" } else { "no" };
        let (code, status) = (format!("`{}`", entry.code), entry.status.to_string());
        page.push_str(&row([&*code, &status, again, &cell(entry.title), &cell(entry.help)]));
    }
    page.push_str(
        "\n## In `/v1`\n\nErrors of `/v1` are `{\"error\": …, \"message\": …}`, with fewer codes, as its clients know \
         them.\n\n",
    );
    page.push_str(&head(&["code in `/v2`", "code in `/v1`", "status in `/v1`"]));
    for entry in Code::ALL.iter().map(|code| code.entry()) {
        let (code, v1_code) = (format!("`{}`", entry.code), format!("`{}`", entry.v1_code));
        page.push_str(&row([&*code, &v1_code, &entry.v1_status.to_string()]));
    }
    page
}
