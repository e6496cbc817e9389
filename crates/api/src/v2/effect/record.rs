//! Effects, looked up and listed.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::{EffectOutcome, EffectState, LastOutcome, OnLapse};
use crate::fault::Fault;
use crate::moment::Moment;
use crate::query::Query;
use crate::v2::limits::{
    EFFECT_KEY_BYTES_MAX, EFFECT_SCOPE_BYTES_MAX, EFFECT_TENANT_BYTES_MAX, PLACE_BYTES_MAX,
};
use crate::v2::page::Section;
use crate::v2::parameters::Parameters;
use crate::v2::read::{self, text};

/// `POST /v2/effects/get`: one effect by its identity.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EffectGet<'a> {
    /// The tenant that it belongs to; no tenant if not given.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, EFFECT_TENANT_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 255)]
    pub tenant_id: Cow<'a, str>,
    /// What kind of effect it is; keys are unique within a scope.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, EFFECT_SCOPE_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    pub scope: Cow<'a, str>,
    /// Which one it is.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, EFFECT_KEY_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 4096)]
    pub key: Cow<'a, str>,
}

impl<'a> EffectGet<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

/// To `POST /v2/effects/get`, and in lists, where the outcome comes without its body and headers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Effect<'a> {
    /// Whose it is; may be empty.
    pub tenant_id: Cow<'a, str>,
    /// What kind of effect it is.
    pub scope: Cow<'a, str>,
    /// Which one it is.
    pub key: Cow<'a, str>,
    /// Where it stands.
    pub state: EffectState,
    /// How many leases of it there were: the newest is the one that counts.
    pub epoch: u64,
    /// Attempts that have begun.
    pub attempt: u32,
    /// Most attempts, if there is a cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// What becomes of it if its lease lapses.
    pub on_lapse: OnLapse,
    /// What was asked for, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<Cow<'a, str>>,
    /// Who carries it out, or did last, if that was said.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub owner: Cow<'a, str>,
    /// The run that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Cow<'a, str>>,
    /// The step within the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<Cow<'a, str>>,
    /// When it was first begun.
    pub created_at: Moment,
    /// When the newest attempt began.
    pub begun_at: Moment,
    /// When the lease ends, or ended, if it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Moment>,
    /// Whether the lease is live, if it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_live: Option<bool>,
    /// Whether its holder gave up the lease because nothing was sent, and no caller has taken over since.
    #[serde(default, skip_serializing_if = "super::is_false")]
    #[schema(value_type = Option<bool>)]
    pub released: bool,
    /// Since when it is not known whether it happened, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_since: Option<Moment>,
    /// When it is forgotten, if it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
    /// The message whose delivery it is tied to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessagePlace<'a>>,
    /// Its outcome, if it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EffectOutcome<'a>>,
    /// How the attempt before ended, if it has not ended; never in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outcome: Option<LastOutcome<'a>>,
}

/// Where a message is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessagePlace<'a> {
    /// The topic.
    pub topic: Cow<'a, str>,
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
    /// Which delivery of it the newest lease was begun for, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// `GET /v2/effects`: which effects. All conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectsQuery<'a> {
    /// Only in this state.
    pub state: Option<EffectState>,
    /// Only of this scope.
    pub scope: Option<Cow<'a, str>>,
    /// Only of this tenant; the empty one is one, too.
    pub tenant_id: Option<Cow<'a, str>>,
    /// How many, and after which.
    pub section: Section,
}

impl<'a> EffectsQuery<'a> {
    /// From the query of the URL.
    pub fn from_query(query: Query<'a>) -> Result<Self, Fault> {
        let mut parameters = Parameters::new(query);
        let effects = Self {
            state: parameters.word("state", &EffectState::WORDS)?,
            scope: parameters.text("scope", 1, EFFECT_SCOPE_BYTES_MAX)?,
            tenant_id: parameters.text("tenant_id", 0, EFFECT_TENANT_BYTES_MAX)?,
            section: Section::take(&mut parameters, 2 * PLACE_BYTES_MAX)?,
        };
        parameters.finish()?;
        Ok(effects)
    }
}

/// To `GET /v2/effects`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Effects<'a> {
    /// Effects, the oldest first, their outcomes without body and headers.
    pub effects: Vec<Effect<'a>>,
    /// Cursor of the next page, if there may be one. A page can be empty and have a next one: the server looks at
    /// a bounded number of effects per call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Effects that were looked at.
    pub scanned: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v2::page::{LIMIT_DEFAULT, encode_place};

    fn list(raw: &str) -> Result<EffectsQuery<'_>, String> {
        EffectsQuery::from_query(Query::parse(raw).unwrap()).map_err(|fault| fault.message.into_owned())
    }

    #[test]
    fn the_query_of_a_list() {
        let section = Section { limit: LIMIT_DEFAULT, after: None };
        let all = EffectsQuery { state: None, scope: None, tenant_id: None, section };
        assert_eq!(list("").unwrap(), all);
        let raw = format!("state=unknown&scope=s&tenant_id=&limit=1000&cursor={}", encode_place(&[0, 255]));
        let expected = EffectsQuery {
            state: Some(EffectState::Unknown),
            scope: Some("s".into()),
            tenant_id: Some("".into()),
            section: Section { limit: 1000, after: Some(vec![0, 255]) },
        };
        assert_eq!(list(&raw).unwrap(), expected);
        let long = format!("tenant_id={}", "t".repeat(256));
        for (raw, message) in [
            (
                "state=running",
                "state: must be in_progress, succeeded, failed_final, failed_retryable or unknown",
            ),
            ("scope=", "scope: must have 1 to 255 bytes, has 0"),
            (&long, "tenant_id: must have 0 to 255 bytes, has 256"),
            ("limit=1001", "limit: must be a whole number between 1 and 1000"),
            ("cursor=0x", "cursor: must be the cursor of the page before, unchanged"),
            ("key=k", "key: unknown parameter, expected state, scope, tenant_id, limit or cursor"),
        ] {
            assert_eq!(list(raw).unwrap_err(), message, "{raw}");
        }
    }

    #[test]
    fn one_effect() {
        let get = EffectGet::from_json(br#"{"tenant_id":"t","scope":"s","key":"k"}"#).unwrap();
        assert_eq!(get, EffectGet { tenant_id: "t".into(), scope: "s".into(), key: "k".into() });
        for (body, message) in [
            ("{}", "missing field `scope`"),
            (r#"{"scope":"s","key":""}"#, "key: must have 1 to 4096 bytes, has 0"),
            (
                r#"{"scope":"s","key":"k","id":1}"#,
                "id: unknown field, expected one of `tenant_id`, `scope`, `key`",
            ),
        ] {
            assert_eq!(EffectGet::from_json(body.as_bytes()).unwrap_err().message, message);
        }
    }

    #[test]
    fn answers_round_trip() {
        let running = r#"{"tenant_id":"","scope":"s","key":"k","state":"in_progress","epoch":1,"attempt":1,"on_lapse":"hold","created_at":"2025-12-21T12:00:00Z","begun_at":"2025-12-21T12:00:00Z","lease_expires_at":"2025-12-21T12:00:30Z","lease_live":false}"#;
        let ended = r#"{"tenant_id":"t","scope":"s","key":"k","state":"failed_final","epoch":2,"attempt":1,"max_attempts":3,"on_lapse":"retry","request_hash":"h","owner":"o","run_id":"r","step_id":"p","created_at":"2025-12-21T12:00:00Z","begun_at":"2025-12-21T12:00:00Z","expires_at":"2025-12-22T12:00:00Z","message":{"topic":"t","partition":0,"offset":1},"outcome":{"status":"failed_final","finished_at":"2025-12-21T12:00:05Z","epoch":2,"attempt":1}}"#;
        let page = format!(r#"{{"effects":[{running},{ended}],"cursor":"00","scanned":2}}"#);
        let effects: Effects<'_> = serde_json::from_str(&page).unwrap();
        assert_eq!(effects.effects[0].lease_live, Some(false));
        assert_eq!(serde_json::to_string(&effects).unwrap(), page);
    }
}
