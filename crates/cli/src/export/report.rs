//! What `driftq export` shows while it runs, and tells at the end.

use driftq_api::units::about_bytes;
use driftq_connect::export::{Exported, Manifest, Watch};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::{aligned, grouped, printable, progress};

/// Rows that are written, of those that there are.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Self {
        Self(progress::bar("{bar:40} {human_pos} of {human_len} rows ({per_sec}, {elapsed})"))
    }

    pub(super) fn say(&self, text: &str) {
        self.0.suspend(|| eprintln!("{text}"));
    }

    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }
}

impl Watch for Bar {
    fn expects(&self, rows: u64) {
        self.0.set_length(rows);
    }

    fn wrote(&self, rows: u64) {
        self.0.inc(rows);
        // Where the end is not known, it moves.
        if self.0.length().is_some_and(|length| length < self.0.position()) {
            self.0.set_length(self.0.position());
        }
    }
}

/// An export that is there.
#[derive(Serialize)]
pub(super) struct Report {
    result: &'static str,
    location: String,
    digest: String,
    manifest: Manifest,
}

impl Report {
    pub(super) fn new(exported: Exported) -> Self {
        let Exported { manifest, location, digest, is_replay } = exported;
        Self { result: if is_replay { "replayed" } else { "exported" }, location, digest, manifest }
    }

    pub(super) fn display(&self) -> String {
        let manifest = &self.manifest;
        let bytes = about_bytes(manifest.bytes);
        aligned(&[
            ("export", printable(&manifest.id)),
            (
                "result",
                match self.result {
                    "replayed" => "was there before; nothing was written".to_owned(),
                    _ => "done".to_owned(),
                },
            ),
            ("rows", grouped(manifest.rows)),
            ("parts", format!("{}, {bytes}", grouped(manifest.parts.len() as u64))),
            ("manifest", printable(&self.location)),
            ("digest", printable(&self.digest)),
        ])
    }
}
