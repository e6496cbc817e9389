//! Facts about outputs, and their bytes.

use alloc::vec::Vec;

use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::id::{Time, TopicId};
use crate::words::output::OutputAuthor;

/// Kinds of facts about outputs: the first, and the last.
pub(crate) const FIRST_KIND: u8 = MOVED;
pub(crate) const LAST_KIND: u8 = DROPPED + OF_TENANT;
/// The kind of a fact that seals a version; the others of its family were all taken.
pub(crate) const SEALED: u8 = 58;

const MOVED: u8 = 48;
const CUT_OVER: u8 = 49;
const ROLLED_BACK: u8 = 50;
const DROPPED: u8 = 51;
/// Added to a kind whose dataset belongs to a tenant, which then goes before the rest.
const OF_TENANT: u8 = 4;

/// Something that happened to outputs and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFact<'a> {
    /// A pointer was moved, or one was added.
    Moved {
        /// Whose the dataset is; may be empty.
        tenant: &'a str,
        /// The dataset.
        dataset: &'a str,
        /// Its version.
        version: &'a str,
        /// The partition of it.
        partition_key: &'a str,
        /// Under which it is added; empty if it replaces what was there.
        dedupe_key: &'a str,
        /// Where the output lies.
        location: &'a str,
        /// Digest of its manifest.
        digest: &'a str,
        /// When.
        at: Time,
        /// By whose authority.
        by: Option<OutputAuthor>,
    },
    /// Readers of a dataset see another version.
    CutOver {
        /// Whose the dataset is; may be empty.
        tenant: &'a str,
        /// The dataset.
        dataset: &'a str,
        /// The version.
        version: &'a str,
        /// When.
        at: Time,
    },
    /// Readers of a dataset see the version again that they saw before the last cut-over.
    RolledBack {
        /// Whose the dataset is; may be empty.
        tenant: &'a str,
        /// The dataset.
        dataset: &'a str,
        /// When.
        at: Time,
    },
    /// Pointers of a version do not move any more.
    Sealed {
        /// Whose the dataset is; may be empty.
        tenant: &'a str,
        /// The dataset.
        dataset: &'a str,
        /// The version.
        version: &'a str,
        /// When.
        at: Time,
    },
    /// A version is gone.
    Dropped {
        /// Whose the dataset is; may be empty.
        tenant: &'a str,
        /// The dataset.
        dataset: &'a str,
        /// The version.
        version: &'a str,
    },
}

impl<'a> OutputFact<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Moved { tenant, dataset, version, partition_key, dedupe_key, location, digest, at, by } => {
                put_kind(out, MOVED, tenant);
                for text in [dataset, version, partition_key, dedupe_key, location, digest] {
                    out.put_text(text);
                }
                out.put_u64(at.0);
                put_author(out, by);
            }
            Self::CutOver { tenant, dataset, version, at } => {
                put_kind(out, CUT_OVER, tenant);
                out.put_text(dataset);
                out.put_text(version);
                out.put_u64(at.0);
            }
            Self::RolledBack { tenant, dataset, at } => {
                put_kind(out, ROLLED_BACK, tenant);
                out.put_text(dataset);
                out.put_u64(at.0);
            }
            Self::Sealed { tenant, dataset, version, at } => {
                out.put_u8(SEALED);
                for text in [tenant, dataset, version] {
                    out.put_text(text);
                }
                out.put_u64(at.0);
            }
            Self::Dropped { tenant, dataset, version } => {
                put_kind(out, DROPPED, tenant);
                out.put_text(dataset);
                out.put_text(version);
            }
        }
    }

    pub(crate) fn decode(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        let (kind, tenant) = match kind {
            SEALED => (SEALED, take.text()?),
            kind if kind > DROPPED => (kind - OF_TENANT, take.text()?),
            kind => (kind, ""),
        };
        let dataset = take.text()?;
        Ok(match kind {
            MOVED => Self::Moved {
                tenant,
                dataset,
                version: take.text()?,
                partition_key: take.text()?,
                dedupe_key: take.text()?,
                location: take.text()?,
                digest: take.text()?,
                at: Time(take.u64()?),
                by: take_author(take)?,
            },
            CUT_OVER => Self::CutOver { tenant, dataset, version: take.text()?, at: Time(take.u64()?) },
            ROLLED_BACK => Self::RolledBack { tenant, dataset, at: Time(take.u64()?) },
            SEALED => Self::Sealed { tenant, dataset, version: take.text()?, at: Time(take.u64()?) },
            DROPPED => Self::Dropped { tenant, dataset, version: take.text()? },
            _ => return Err(UNKNOWN_KIND),
        })
    }
}

/// The kind of a fact, and which tenant the dataset belongs to: the empty tenant is not written, as it never was.
fn put_kind(out: &mut Vec<u8>, kind: u8, tenant: &str) {
    if tenant.is_empty() {
        out.put_u8(kind);
    } else {
        out.put_u8(kind + OF_TENANT);
        out.put_text(tenant);
    }
}

pub(crate) fn put_author(out: &mut Vec<u8>, author: Option<OutputAuthor>) {
    out.put_u8(u8::from(author.is_some()));
    if let Some(author) = author {
        out.put_u32(author.topic.0);
        out.put_u32(author.partition);
        out.put_u64(author.offset);
        out.put_u32(author.attempt);
    }
}

pub(crate) fn take_author(take: &mut Take<'_>) -> Result<Option<OutputAuthor>, Malformed> {
    if take.u8()? == 0 {
        return Ok(None);
    }
    Ok(Some(OutputAuthor {
        topic: TopicId(take.u32()?),
        partition: take.u32()?,
        offset: take.u64()?,
        attempt: take.u32()?,
    }))
}
