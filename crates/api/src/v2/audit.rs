//! The audit: who did what to what, when, from where.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::limits::{AUDIT_TARGET_BYTES_MAX, AUDIT_WORD_BYTES_MAX, OFFSET_MAX, WAIT_MS_MAX};
use super::page::{LIMIT_DEFAULT, LIMIT_MAX};
use super::parameters::Parameters;
use crate::fault::Fault;
use crate::moment::Moment;
use crate::query::Query;

/// `GET /v2/audit`: which entries. All conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AuditQuery<'a> {
    /// Only those with a higher number.
    pub after: u64,
    /// Most entries on the page.
    pub limit: usize,
    /// Only of this actor.
    pub actor: Option<Cow<'a, str>>,
    /// Only this action.
    pub action: Option<Cow<'a, str>>,
    /// Only about this.
    pub target: Option<Cow<'a, str>>,
    /// Only with this outcome.
    pub outcome: Option<Cow<'a, str>>,
    /// Only from then on.
    pub since: Option<Moment>,
    /// Only before then.
    pub until: Option<Moment>,
    /// How long to wait for an entry if there is none.
    pub wait_ms: u64,
}

impl<'a> AuditQuery<'a> {
    /// From the query of the URL.
    pub fn from_query(query: Query<'a>) -> Result<Self, Fault> {
        let mut parameters = Parameters::new(query);
        let query = Self {
            after: parameters.number("after", 0, OFFSET_MAX)?.unwrap_or(0),
            limit: parameters.number("limit", 1, LIMIT_MAX as u64)?.unwrap_or(LIMIT_DEFAULT),
            actor: parameters.text("actor", 1, AUDIT_WORD_BYTES_MAX)?,
            action: parameters.text("action", 1, AUDIT_WORD_BYTES_MAX)?,
            target: parameters.text("target", 1, AUDIT_TARGET_BYTES_MAX)?,
            outcome: parameters.text("outcome", 1, AUDIT_WORD_BYTES_MAX)?,
            since: parameters.moment("since")?,
            until: parameters.moment("until")?,
            wait_ms: parameters.number("wait_ms", 0, WAIT_MS_MAX)?.unwrap_or(0),
        };
        parameters.finish()?;
        Ok(query)
    }
}

/// What is written down about one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry<'a> {
    /// Its number: one more than that of the entry before, since ever.
    pub sequence: u64,
    /// When it was written down.
    pub at: Moment,
    /// Who: `root`, `key:<id>`, `anybody` on a server that asks for no keys, or `unknown` if no good key was shown.
    pub actor: Cow<'a, str>,
    /// What people wrote on the actor's key.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub note: Cow<'a, str>,
    /// The call, by its name in this document.
    pub action: Cow<'a, str>,
    /// What it was about, as the path names it: `topics/orders`, `keys/5f0c2a91b3d4e687`.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub target: Cow<'a, str>,
    /// `done`, or the code of the refusal.
    pub outcome: Cow<'a, str>,
    /// The address that the call came from.
    pub from: Cow<'a, str>,
    /// The request's name, as its answer has it in `X-Request-Id`.
    pub request_id: Cow<'a, str>,
    /// What else is to be known, in words.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub detail: Cow<'a, str>,
    /// Refusals before this entry that have none of their own, because there were too many at once.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schema(value_type = Option<u32>)]
    pub suppressed: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// To `GET /v2/audit`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Audit<'a> {
    /// Entries, oldest first.
    pub entries: Vec<AuditEntry<'a>>,
    /// Everything up to this number was looked at: `after` of the next page.
    pub seen: u64,
    /// Whether there are entries after that.
    pub more: bool,
    /// The number of the oldest entry that is kept; older ones are gone.
    pub oldest: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries() {
        let read = |raw| AuditQuery::from_query(Query::parse(raw).unwrap());
        let query = read("").unwrap();
        assert_eq!((query.after, query.limit, query.wait_ms), (0, LIMIT_DEFAULT, 0));
        let query = read("after=7&limit=2&actor=root&target=topics%2F*&since=2025-12-21T12:00:00Z&wait_ms=5");
        let query = query.unwrap();
        assert_eq!((query.after, query.limit, query.wait_ms), (7, 2, 5));
        assert_eq!((query.actor.as_deref(), query.target.as_deref()), (Some("root"), Some("topics/*")));
        for raw in ["after=-1", "limit=0", "actor=", "since=now", "wait_ms=60001", "who=root"] {
            assert!(read(raw).is_err(), "{raw}");
        }
    }
}
