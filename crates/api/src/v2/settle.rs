//! Ending and extending loans: ack, nack, extend, release.
//!
//! Each call takes 1 to [`SETTLEMENTS_MAX`] leases and answers with one result per lease, in order.
//! **Status:** with several leases the answer is always 200, and each result says what became of its lease. With
//! exactly one lease a result other than `ok` is the problem itself: `stale` is 409 `STALE_LEASE` with the current
//! `attempt`, `unknown` is 404 `LEASE_UNKNOWN`. [`Settled::fault`] applies the rule.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::effect::EffectGet;
use super::limits::{DURATION_MS_MAX, ERROR_BYTES_MAX, LEASE_MS_MAX, SETTLEMENTS_MAX, TOKEN_BYTES_MAX};
use super::read::{self, number, structure, text};
use crate::catalogue::Code;
use crate::fault::Fault;
use crate::moment::Moment;

/// `POST /v2/leases/ack`: the work is done. The same token again is `ok` again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ack<'a> {
    /// Which ones.
    #[serde(borrow, deserialize_with = "structure::list::<_, _, SETTLEMENTS_MAX>")]
    #[schema(min_items = 1, max_items = 1000)]
    pub leases: Vec<Token<'a>>,
}

/// `POST /v2/leases/release`: the work was not begun, or is to wait; the attempt does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Release<'a> {
    /// Which ones, and for how long.
    #[serde(borrow, deserialize_with = "structure::list::<_, _, SETTLEMENTS_MAX>")]
    #[schema(min_items = 1, max_items = 1000)]
    pub leases: Vec<ReleaseLease<'a>>,
}

/// One lease that is given back.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseLease<'a> {
    /// The token that came with the message.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, TOKEN_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 128)]
    pub token: Cow<'a, str>,
    /// Not handed out again before this has passed; at once if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 0, DURATION_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 316_224_000_000_u64)]
    pub delay_ms: Option<u64>,
    /// The effect that it waits for: it is handed out again as soon as that has ended, was resolved or released, or may
    /// be taken over, and when `delay_ms` has passed, whichever is first.
    #[serde(
        borrow,
        default,
        deserialize_with = "structure::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub effect: Option<EffectGet<'a>>,
}

/// One lease by its token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Token<'a> {
    /// The token that came with the message.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, TOKEN_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 128)]
    pub token: Cow<'a, str>,
}

/// `POST /v2/leases/nack`: the work failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nack<'a> {
    /// Which ones, and how.
    #[serde(borrow, deserialize_with = "structure::list::<_, _, SETTLEMENTS_MAX>")]
    #[schema(min_items = 1, max_items = 1000)]
    pub leases: Vec<NackLease<'a>>,
}

/// One lease whose work failed.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NackLease<'a> {
    /// The token that came with the message.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, TOKEN_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 128)]
    pub token: Cow<'a, str>,
    /// When to try again; the retry policy's wait if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 0, DURATION_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 316_224_000_000_u64)]
    pub delay_ms: Option<u64>,
    /// Never try again: make it a dead letter now.
    #[serde(default, deserialize_with = "structure::flag", skip_serializing_if = "is_false")]
    #[schema(value_type = Option<bool>)]
    pub dead: bool,
    /// Why it failed.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, ERROR_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 4096)]
    pub error: Cow<'a, str>,
}

/// `POST /v2/leases/extend`: a heartbeat; the work goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Extend<'a> {
    /// Which ones, and for how long.
    #[serde(borrow, deserialize_with = "structure::list::<_, _, SETTLEMENTS_MAX>")]
    #[schema(min_items = 1, max_items = 1000)]
    pub leases: Vec<ExtendLease<'a>>,
}

/// One lease that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendLease<'a> {
    /// The token that came with the message.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, TOKEN_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 128)]
    pub token: Cow<'a, str>,
    /// For how long from now; as long as it was lent for if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, LEASE_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 604_800_000)]
    pub lease_ms: Option<u64>,
    /// Whether the work has begun; `true` if not given. A delivery of which the last heartbeat says `false` loses no
    /// attempt if it lapses, up to three times per message and group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
}

macro_rules! from_json {
    ($($request:ident),*) => {$(
        impl<'a> $request<'a> {
            /// From a JSON body.
            pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
                read::object(body)
            }
        }
    )*};
}

from_json!(Ack, Nack, Extend, Release);

/// To a settling call with several leases, or with one that is `ok`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Settlements {
    /// One result per lease, in order.
    pub results: Vec<Settled>,
}

/// What became of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Settled {
    /// In one word.
    pub status: SettledStatus,
    /// The attempt that is current now, if the lease is stale and the message still lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// When the extended loan ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
    /// The message was cancelled: the work may stop.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(value_type = Option<bool>)]
    pub cancelled: bool,
    /// The failed attempt was the last one: the message becomes a dead letter.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(value_type = Option<bool>)]
    pub dead: bool,
    /// The server is about to stop: finish soon.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(value_type = Option<bool>)]
    pub draining: bool,
}

/// What became of one lease, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettledStatus {
    /// Done as asked.
    Ok,
    /// The lease lapsed and a newer attempt has started, or the message is settled; nothing was changed.
    Stale,
    /// No lease of this server has that token.
    Unknown,
}

impl Settled {
    /// A result that says only this.
    #[must_use]
    pub const fn new(status: SettledStatus) -> Self {
        Self { status, attempt: None, expires_at: None, cancelled: false, dead: false, draining: false }
    }

    /// The problem of a call with exactly one lease; `None` if all is well.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        match (self.status, self.attempt) {
            (SettledStatus::Ok, _) => None,
            (SettledStatus::Stale, Some(attempt)) => {
                let message = format!("the lease has lapsed: attempt {attempt} is current");
                Some(Fault { attempt: Some(attempt), ..Fault::new(Code::StaleLease, message) })
            }
            (SettledStatus::Stale, None) => {
                Some(Fault::new(Code::StaleLease, "the lease has lapsed and the message is settled"))
            }
            (SettledStatus::Unknown, _) => Some(Fault::new(Code::LeaseUnknown, "no lease has that token")),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(super) const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let nack = br#"{"leases":[{"token":"a"},{"token":"b","delay_ms":5,"dead":true,"error":"boom"}]}"#;
        let parsed = Nack::from_json(nack).unwrap();
        let (first, second) = (&parsed.leases[0], &parsed.leases[1]);
        assert_eq!(*first, NackLease { token: "a".into(), ..NackLease::default() });
        assert_eq!((second.delay_ms, second.dead, &*second.error), (Some(5), true, "boom"));
        assert!(matches!(second.token, Cow::Borrowed("b")));
        assert_eq!(serde_json::to_vec(&parsed).unwrap(), nack);
        let nulls =
            Nack::from_json(br#"{"leases":[{"token":"a","delay_ms":null,"dead":null,"error":null}]}"#);
        assert_eq!(nulls.unwrap().leases[0], *first);
        let release = br#"{"leases":[{"token":"a","delay_ms":5,"effect":{"scope":"s","key":"k"}}]}"#;
        assert_eq!(serde_json::to_vec(&Release::from_json(release).unwrap()).unwrap(), release);
        let extend = br#"{"leases":[{"token":"a","lease_ms":604800000}]}"#;
        assert_eq!(serde_json::to_vec(&Extend::from_json(extend).unwrap()).unwrap(), extend);
    }

    #[test]
    fn refusals() {
        let long = format!(r#"{{"leases":[{{"token":"{}"}}]}}"#, "t".repeat(129));
        let many = format!(r#"{{"leases":[{}]}}"#, [r#"{"token":"t"}"#; 1001].join(","));
        for (body, message) in [
            (r#"{"leases":[]}"#, "leases: must have 1 to 1000 items, has none"),
            (&many, "leases: must have 1 to 1000 items, has more"),
            ("{}", "missing field `leases`"),
            (r#"{"leases":[{"token":"a"},{}]}"#, "leases[1]: missing field `token`"),
            (r#"{"leases":[{"token":""}]}"#, "leases[0].token: must have 1 to 128 bytes, has 0"),
            (&long, "leases[0].token: must have 1 to 128 bytes, has 129"),
            (r#"{"leases":[["a"]]}"#, "leases[0]: invalid type: sequence, expected an object"),
            (r#"{"leases":[{"token":"a","dead":true}]}"#, "leases[0].dead: unknown field, expected `token`"),
        ] {
            assert_eq!(Ack::from_json(body.as_bytes()).unwrap_err().message, message);
            let also = message.replace("expected `token`", "expected one of `token`, `delay_ms`, `effect`");
            assert_eq!(Release::from_json(body.as_bytes()).unwrap_err().message, also);
        }
        let error = format!(r#"{{"leases":[{{"token":"a","error":"{}"}}]}}"#, "e".repeat(4097));
        let message = Nack::from_json(error.as_bytes()).unwrap_err().message;
        assert_eq!(message, "leases[0].error: must have at most 4096 bytes, has 4097");
    }

    #[test]
    fn one_lease_that_is_not_ok_is_a_problem() {
        assert_eq!(Settled::new(SettledStatus::Ok).fault(), None);
        let stale = Settled { attempt: Some(3), ..Settled::new(SettledStatus::Stale) };
        let fault = stale.fault().unwrap();
        assert_eq!((fault.code, fault.v2().attempt), (Code::StaleLease, Some(3)));
        assert_eq!(Settled::new(SettledStatus::Stale).fault().unwrap().v2().attempt, None);
        assert_eq!(Settled::new(SettledStatus::Unknown).fault().unwrap().code, Code::LeaseUnknown);
        assert_eq!(serde_json::to_string(&stale).unwrap(), r#"{"status":"stale","attempt":3}"#);
    }
}
