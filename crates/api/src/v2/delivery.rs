//! Deliveries: what goes out to endpoints, and what came of it.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::browse::{self, Position};
use super::effect::{Headers, MessagePlace};
use super::endpoint::ENDPOINT_NAME_BYTES_MAX;
use super::limits::{DELIVERY_ID_BYTES_MAX, DURATION_MS_MAX, EFFECT_TENANT_BYTES_MAX, NAME_BYTES_MAX};
use super::message::Due;
use super::parameters::Parameters;
use super::read::{self, bytes, json, number, text};
use crate::fault::Fault;
use crate::moment::Moment;
use crate::query::Query;

/// The label of a message that says what its value is.
pub const CONTENT_TYPE_LABEL: &str = "content-type";
/// What the label of a header begins with; the header's name follows.
pub const HEADER_LABEL_PREFIX: &str = "header.";

/// The label of a message that sends a delivery again: the id under which the receiver knows it.
pub const RESEND_OF_LABEL: &str = "resend-of";
/// The label of a delivery that says which version of its endpoint there was when it was taken: no older one sends it.
pub const ENDPOINT_VERSION_LABEL: &str = "endpoint-version";

/// `POST /v2/deliveries`: something to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliverySpec<'a> {
    /// Names it: the same id again is the same delivery.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, DELIVERY_ID_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    pub delivery_id: Cow<'a, str>,
    /// Where to.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, ENDPOINT_NAME_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 244)]
    pub endpoint: Cow<'a, str>,
    /// What to send: a text is itself, any other JSON value is sent as its JSON text, as it stands here. `body` or
    /// `body_b64` is given, and not both.
    #[serde(borrow, default, deserialize_with = "json::given", skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = body_schema)]
    body: Option<json::Payload<'a>>,
    /// What to send, as bytes in base64 with the standard alphabet and padding.
    #[serde(
        default,
        deserialize_with = "bytes::optional::<_, 1>",
        skip_serializing_if = "Option::is_none",
        serialize_with = "bytes::write"
    )]
    #[schema(value_type = Option<String>, min_length = 4, pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$")]
    body_b64: Option<Vec<u8>>,
    /// What the body is; if not given, `application/json`, and for e-mails `text/plain; charset=utf-8`.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, NAME_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    pub content_type: Option<Cow<'a, str>>,
    /// Headers of this one, besides those of the endpoint; at most 32, with values of at most 1,024 bytes.
    #[serde(borrow, default, skip_serializing_if = "Headers::is_empty")]
    #[schema(required = false)]
    pub headers: Headers<'a>,
    /// Whose it is.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, EFFECT_TENANT_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 255)]
    pub tenant_id: Cow<'a, str>,
    /// Not sent before this. At most one of `deliver_at` and `delay_ms` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deliver_at: Option<Moment>,
    /// Not sent before this many milliseconds have passed since the broker took it.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 0, DURATION_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 316_224_000_000_u64)]
    delay_ms: Option<u64>,
}

#[cfg(feature = "openapi")]
fn body_schema() -> super::shape::Described {
    super::shape::any_value(
        "What to send: a text is itself, any other JSON value is sent as its JSON text, as it stands here.",
    )
}

/// Headers of one delivery: they travel as labels of its message.
const DELIVERY_HEADERS_MAX: usize = 32;
const DELIVERY_HEADER_BYTES_MAX: usize = 1024;
const DELIVERY_HEADER_NAME_BYTES_MAX: usize = 120;

impl<'a> DeliverySpec<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }

    /// Whether what is given fits together.
    pub fn check(&self) -> Result<(), Fault> {
        self.due()?;
        // A `null` beside bytes is what programs write for what they do not give.
        let is_given = self.body.as_ref().is_some_and(|body| !(body.is_null && self.body_b64.is_some()));
        if is_given == self.body_b64.is_some() {
            return Err(Fault::invalid("give body or body_b64, and not both"));
        }
        let headers = self.headers.pairs();
        let is_long = headers.iter().any(|(name, value)| {
            name.len() > DELIVERY_HEADER_NAME_BYTES_MAX || value.len() > DELIVERY_HEADER_BYTES_MAX
        });
        if headers.len() > DELIVERY_HEADERS_MAX || is_long {
            return Err(Fault::invalid(
                "headers: at most 32, with names of at most 120 and values of at most 1,024 bytes",
            ));
        }
        Ok(())
    }

    /// When it may go out for the first time.
    pub fn due(&self) -> Result<Option<Due>, Fault> {
        match (self.deliver_at, self.delay_ms) {
            (Some(_), Some(_)) => Err(Fault::invalid("give deliver_at or delay_ms, and not both")),
            (Some(at), None) => Ok(Some(Due::At(at))),
            (None, delay) => Ok(delay.map(Due::AfterMs)),
        }
    }

    /// What to send.
    #[must_use]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match (&self.body_b64, &self.body) {
            (Some(bytes), _) => Cow::Borrowed(bytes),
            (None, body) => {
                body.as_ref().map_or(Cow::Borrowed(&[]), |body| Cow::Borrowed(body.text.as_bytes()))
            }
        }
    }
}

/// To `POST /v2/deliveries`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryTaken<'a> {
    /// Its id.
    pub delivery_id: Cow<'a, str>,
    /// Where to.
    pub endpoint: Cow<'a, str>,
    /// Whether it had been taken before.
    pub duplicate: bool,
    /// The message that it is.
    pub message: MessagePlace<'a>,
}

/// Where a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SendState {
    /// It waits for its first attempt.
    Pending,
    /// A connector sends it.
    Sending,
    /// It failed and is sent again later.
    Retrying,
    /// It is not known whether it arrived, and it waits for a person or a reconciler.
    Unknown,
    /// The receiver has taken it.
    Delivered,
    /// It was given up: it is a dead letter.
    Failed,
}

impl SendState {
    /// All of them, by name.
    pub const WORDS: [(&'static str, Self); 6] = [
        ("pending", Self::Pending),
        ("sending", Self::Sending),
        ("retrying", Self::Retrying),
        ("unknown", Self::Unknown),
        ("delivered", Self::Delivered),
        ("failed", Self::Failed),
    ];

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

/// What came of one send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SendOutcome {
    /// The receiver has taken it.
    Delivered,
    /// It has not.
    Failed,
    /// It is not known.
    Unknown,
}

/// One send, as the connector wrote it down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SendAttempt {
    /// Which, counted from 1.
    pub attempt: u32,
    /// When it began.
    pub at: Moment,
    /// How long it took; not known of one whose connector died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// What came of it.
    pub outcome: SendOutcome,
    /// The receiver's status, if it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Some of the answer's headers.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    #[schema(required = false)]
    pub headers: std::collections::BTreeMap<String, String>,
    /// How the answer began.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub body: String,
    /// What went wrong, if it did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub error: String,
    /// Which connector.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub by: String,
}

/// What the record of a delivery's effect keeps: the body of its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SendAttempts {
    /// The newest sends, oldest first.
    pub attempts: Vec<SendAttempt>,
}

/// A delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryRecord<'a> {
    /// Its id.
    pub delivery_id: Cow<'a, str>,
    /// Where to.
    pub endpoint: Cow<'a, str>,
    /// Whose it is, if it is a tenant's.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub tenant_id: Cow<'a, str>,
    /// Where it stands.
    pub state: SendState,
    /// When it was taken.
    pub created_at: Moment,
    /// When it may be sent next, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Moment>,
    /// The message that it is.
    pub message: MessagePlace<'a>,
    /// The sends so far; none for a key that may not see payloads.
    pub attempts: Vec<SendAttempt>,
    /// Whether the sends are left out because the caller's key has `read` and not `read_payload`.
    #[serde(default, skip_serializing_if = "super::effect::is_false")]
    #[schema(value_type = Option<bool>)]
    pub payload_hidden: bool,
}

/// To `GET /v2/deliveries`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deliveries<'a> {
    /// Oldest first.
    pub deliveries: Vec<DeliveryRecord<'a>>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many messages were looked at.
    pub scanned: u64,
}

/// `GET /v2/deliveries`: which ones. All conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveriesQuery<'a> {
    /// Of this endpoint.
    pub endpoint: Cow<'a, str>,
    /// On this topic; the endpoint's own if not given.
    pub topic: Option<Cow<'a, str>>,
    /// Only the one with this id.
    pub delivery_id: Option<Cow<'a, str>>,
    /// Only in this state.
    pub state: Option<SendState>,
    /// Most deliveries on the page.
    pub limit: usize,
    /// Only after this one.
    pub after: Option<Position>,
}

impl<'a> DeliveriesQuery<'a> {
    /// From the query of the URL.
    pub fn from_query(query: Query<'a>) -> Result<Self, Fault> {
        let mut parameters = Parameters::new(query);
        let endpoint = parameters
            .text("endpoint", 1, ENDPOINT_NAME_BYTES_MAX)?
            .ok_or_else(|| Fault::invalid("endpoint: must be given"))?;
        let topic = parameters.text("topic", 1, NAME_BYTES_MAX)?;
        let delivery_id = parameters.text("delivery_id", 1, DELIVERY_ID_BYTES_MAX)?;
        let state = parameters.word("state", &SendState::WORDS)?;
        let (limit, after) = browse::page(&mut parameters)?;
        parameters.finish()?;
        Ok(Self { endpoint, topic, delivery_id, state, limit, after })
    }
}
