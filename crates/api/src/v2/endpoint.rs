//! Endpoints: where deliveries go.

use crate::ToSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::effect::Headers;
use super::limits::{
    CURSOR_BYTES_MAX, DELIVERY_TIMEOUT_MS_MAX, DELIVERY_TIMEOUT_MS_MIN, DURATION_MS_MAX,
    ENDPOINT_CONCURRENCY_MAX, ENDPOINT_DESCRIPTION_BYTES_MAX, ENDPOINT_RECIPIENTS_MAX, ENDPOINT_RETRIES_MAX,
    ENDPOINT_SECRETS_MAX, ENDPOINT_TOPICS_MAX, ENDPOINT_URL_BYTES_MAX, NAME_BYTES_MAX, OFFSET_MAX,
    REASON_BYTES_MAX, SECRET_BYTES_MAX, WAIT_MS_MAX,
};
use super::page::{Page, Section};
use super::parameters::Parameters;
use super::read::{self, number, structure, text};
use crate::fault::Fault;
use crate::moment::Moment;
use crate::query::Query;

/// What every topic of an endpoint begins with; its own name follows.
pub const DELIVERIES_PREFIX: &str = "deliveries.";
/// What the group of an endpoint begins with; its own name follows.
pub const ENDPOINT_GROUP_PREFIX: &str = "endpoint.";
/// What the scope of an endpoint's effects begins with; its own name follows.
pub const DELIVERY_SCOPE_PREFIX: &str = "delivery:";
/// Longest name of an endpoint, in bytes: with a prefix it is the name of a topic.
pub const ENDPOINT_NAME_BYTES_MAX: usize = NAME_BYTES_MAX - DELIVERIES_PREFIX.len();
/// Sends of an endpoint at a time, if nothing else is said.
pub const ENDPOINT_CONCURRENCY: u32 = 8;
/// How long a receiver has, if nothing else is said.
pub const DELIVERY_TIMEOUT_MS: u64 = 20_000;
/// How long an endpoint may fail before it is disabled, if nothing else is said: five days.
pub const DISABLE_AFTER_MS: u64 = 5 * 24 * 3600 * 1000;
/// When a delivery that failed is sent again, if nothing else is said: as Standard Webhooks suggests.
pub const RETRY_SCHEDULE_MS: [u64; 9] =
    [5_000, 300_000, 1_800_000, 7_200_000, 18_000_000, 36_000_000, 50_400_000, 72_000_000, 86_400_000];

/// What an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndpointKind {
    /// Standard Webhooks: signed, and with an id by which a receiver knows repeats.
    Webhook,
    /// An HTTP call with an `Idempotency-Key`.
    Http,
    /// An e-mail by SMTP.
    Email,
}

impl EndpointKind {
    /// All of them, by name.
    pub const WORDS: [(&'static str, Self); 3] =
        [("webhook", Self::Webhook), ("http", Self::Http), ("email", Self::Email)];

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

impl<'de> Deserialize<'de> for EndpointKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::word(from, &Self::WORDS)
    }
}

/// What becomes of a delivery when it is not known whether it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// It is sent again, with the same id.
    Resend,
    /// It waits until a person or a reconciler resolves it.
    Hold,
}

impl<'de> Deserialize<'de> for OnUnknown {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::word(from, &[("resend", Self::Resend), ("hold", Self::Hold)])
    }
}

/// The method of an HTTP call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum EndpointMethod {
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

impl<'de> Deserialize<'de> for EndpointMethod {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let words =
            [("POST", Self::Post), ("PUT", Self::Put), ("PATCH", Self::Patch), ("DELETE", Self::Delete)];
        text::word(from, &words)
    }
}

/// Where a connector finds a secret. Exactly one of these is given.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Secret {
    /// In this environment variable of the connector.
    #[serde(
        default,
        deserialize_with = "text::optional_owned::<_, 1, NAME_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    pub env: Option<String>,
    /// In this file on the connector's machine.
    #[serde(
        default,
        deserialize_with = "text::optional_owned::<_, 1, ENDPOINT_URL_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 2048)]
    pub file: Option<String>,
    /// Here, encrypted for connectors that have the key of secrets: `driftq connect seal` makes one.
    #[serde(
        default,
        deserialize_with = "text::optional_owned::<_, 1, SECRET_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 1024)]
    pub sealed: Option<String>,
}

/// Never shows a secret, whatever asks for its text.
impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { env, file, sealed } = self;
        out.debug_struct("Secret")
            .field("env", env)
            .field("file", file)
            .field("sealed", &sealed.is_some())
            .finish()
    }
}

impl Secret {
    fn check(&self, what: &str) -> Result<(), Fault> {
        let given = [&self.env, &self.file, &self.sealed];
        match given.iter().filter(|text| text.is_some()).count() {
            1 => Ok(()),
            _ => Err(Fault::invalid(format!("{what}: give exactly one of env, file and sealed"))),
        }
    }
}

/// `PUT /v2/endpoints/{endpoint}`: what it is to be, in the place of what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointSpec {
    /// What it speaks.
    pub kind: EndpointKind,
    /// Where it is: `https://…` or `http://…`, for e-mails `smtp://user@host:587` or `smtps://user@host:465`.
    #[serde(deserialize_with = "text::owned::<_, 1, ENDPOINT_URL_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 2048)]
    pub url: String,
    /// How it is called, for `http`; `POST` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<EndpointMethod>,
    /// Headers of every call.
    #[serde(
        default,
        deserialize_with = "super::effect::owned_headers",
        skip_serializing_if = "Headers::is_empty"
    )]
    #[schema(required = false)]
    pub headers: Headers<'static>,
    /// What signs, newest first; all of them do, so that a receiver may know either while they change.
    #[serde(
        default,
        deserialize_with = "structure::list::<_, _, ENDPOINT_SECRETS_MAX>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(max_items = 4, required = false)]
    pub secrets: Vec<Secret>,
    /// Sent as `Authorization` by `http`; the password of `email`.
    #[serde(default, deserialize_with = "structure::optional", skip_serializing_if = "Option::is_none")]
    pub credential: Option<Secret>,
    /// Who writes, for `email`.
    #[serde(
        default,
        deserialize_with = "text::optional_owned::<_, 1, NAME_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    pub from: Option<String>,
    /// To whom, for `email`.
    #[serde(
        default,
        deserialize_with = "text::list_owned::<_, 1, NAME_BYTES_MAX, ENDPOINT_RECIPIENTS_MAX>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(schema_with = recipients_schema)]
    pub to: Vec<String>,
    /// About what, for `email`.
    #[serde(
        default,
        deserialize_with = "text::optional_owned::<_, 1, NAME_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    pub subject: Option<String>,
    /// Topics whose messages are delivered, besides those that are posted to the endpoint.
    #[serde(
        default,
        deserialize_with = "text::list_owned::<_, 1, NAME_BYTES_MAX, ENDPOINT_TOPICS_MAX>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(schema_with = topics_schema)]
    pub topics: Vec<String>,
    /// What becomes of a delivery of which it is not known whether it arrived. `resend` for webhooks and where
    /// `honours_key` is said, else `hold`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unknown: Option<OnUnknown>,
    /// Whether the receiver of `http` calls does nothing twice under one `Idempotency-Key`.
    #[serde(default, deserialize_with = "structure::flag", skip_serializing_if = "super::effect::is_false")]
    #[schema(value_type = Option<bool>)]
    pub honours_key: bool,
    /// One delivery at a time, in the order in which they were stored.
    #[serde(default, deserialize_with = "structure::flag", skip_serializing_if = "super::effect::is_false")]
    #[schema(value_type = Option<bool>)]
    pub ordered: bool,
    /// Sends at a time, of one connector; 8 if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, ENDPOINT_CONCURRENCY_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 64)]
    pub concurrency: Option<u32>,
    /// How long the receiver has; 20 s if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, DELIVERY_TIMEOUT_MS_MIN, DELIVERY_TIMEOUT_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1000, maximum = 60_000)]
    pub timeout_ms: Option<u64>,
    /// How long after each failure it is sent again, until there is no more entry; 5 s, 5 min, 30 min, 2 h, 5 h, 10 h,
    /// 14 h, 20 h and 24 h if not given.
    #[serde(default, deserialize_with = "schedule", skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 20)]
    pub retry_schedule_ms: Option<Vec<u64>>,
    /// It is disabled when nothing but failures were seen for so long; five days if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, DURATION_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 316_224_000_000_u64)]
    pub disable_after_ms: Option<u64>,
    /// What it is for, in words.
    #[serde(
        default,
        deserialize_with = "text::any_owned::<_, ENDPOINT_DESCRIPTION_BYTES_MAX>",
        skip_serializing_if = "String::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 1024)]
    pub description: String,
    /// The version that it must have, 0 for an endpoint that does not exist yet; any if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 0, OFFSET_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 9_223_372_036_854_775_807_u64)]
    pub expect_version: Option<u64>,
}

/// A list that is there but empty is not the same as none.
#[derive(Deserialize)]
#[serde(transparent)]
struct Schedule(#[serde(deserialize_with = "structure::values::<_, _, ENDPOINT_RETRIES_MAX>")] Vec<u64>);

fn schedule<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u64>>, D::Error> {
    match Option::<Schedule>::deserialize(from)? {
        Some(Schedule(delays)) if delays.is_empty() => {
            let said = format_args!("must have 1 to {ENDPOINT_RETRIES_MAX} items, has none");
            Err(serde::de::Error::custom(said))
        }
        given => Ok(given.map(|Schedule(delays)| delays)),
    }
}

#[cfg(feature = "openapi")]
fn recipients_schema() -> utoipa::openapi::schema::Schema {
    super::shape::texts(1, NAME_BYTES_MAX, ENDPOINT_RECIPIENTS_MAX, "To whom, for `email`.")
}

#[cfg(feature = "openapi")]
fn topics_schema() -> utoipa::openapi::schema::Schema {
    let about = "Topics whose messages are delivered, besides those that are posted to the endpoint.";
    super::shape::texts(1, NAME_BYTES_MAX, ENDPOINT_TOPICS_MAX, about)
}

impl EndpointSpec {
    /// From a JSON body.
    pub fn from_json(body: &[u8]) -> Result<Self, Fault> {
        read::object(body)
    }

    /// Whether what is given fits together.
    pub fn check(&self) -> Result<(), Fault> {
        let invalid = |text: &'static str| Err(Fault::invalid(text));
        let is_mail = self.kind == EndpointKind::Email;
        let schemes: &[&str] = if is_mail { &["smtp://", "smtps://"] } else { &["https://", "http://"] };
        if !schemes.iter().any(|scheme| self.url.starts_with(scheme)) {
            return Err(Fault::invalid(format!("url: must begin with {}", schemes.join(" or "))));
        }
        if self.url.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
            return invalid("url: must not have blanks");
        }
        if self.kind == EndpointKind::Webhook && self.secrets.is_empty() {
            return invalid("secrets: a webhook is signed, so give at least one");
        }
        if self.kind != EndpointKind::Webhook && !self.secrets.is_empty() {
            return invalid("secrets: only webhooks are signed; give a credential instead");
        }
        if is_mail && (self.from.is_none() || self.to.is_empty() || self.subject.is_none()) {
            return invalid("an e-mail needs from, to and subject");
        }
        if !is_mail && (self.from.is_some() || !self.to.is_empty() || self.subject.is_some()) {
            return invalid("from, to and subject are for e-mails");
        }
        if self.method.is_some() && self.kind != EndpointKind::Http {
            return invalid("method: only for http");
        }
        if self.retry_schedule_ms.iter().flatten().any(|delay| *delay > DURATION_MS_MAX) {
            return invalid("retry_schedule_ms: no entry may exceed ten years");
        }
        for secret in &self.secrets {
            secret.check("secrets")?;
        }
        self.credential.as_ref().map_or(Ok(()), |credential| credential.check("credential"))
    }

    /// What becomes of a delivery of which it is not known whether it arrived.
    #[must_use]
    pub fn fate_of_unknown(&self) -> OnUnknown {
        fate_of_unknown(self.kind, self.on_unknown, self.honours_key)
    }
}

/// What becomes of a delivery of which it is not known whether it arrived. A receiver of webhooks knows them by their
/// id; of others, only one that honours keys does.
#[must_use]
pub fn fate_of_unknown(kind: EndpointKind, asked: Option<OnUnknown>, honours_key: bool) -> OnUnknown {
    asked.unwrap_or(match kind {
        EndpointKind::Webhook => OnUnknown::Resend,
        EndpointKind::Http if honours_key => OnUnknown::Resend,
        EndpointKind::Http | EndpointKind::Email => OnUnknown::Hold,
    })
}

/// Whether deliveries go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndpointState {
    /// They do.
    Enabled,
    /// They wait until an operator enables it again.
    Disabled,
}

/// Why an endpoint is disabled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Disabled {
    /// Why.
    pub reason: String,
    /// Who said so.
    pub by: String,
    /// When.
    pub at: Moment,
}

/// To `GET /v2/endpoints/{endpoint}`, and one of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Endpoint {
    /// Its name.
    pub name: String,
    /// Rises with every change.
    pub version: u64,
    /// What it is.
    pub spec: EndpointSpec,
    /// Whether deliveries go out.
    pub state: EndpointState,
    /// Why not, if they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<Disabled>,
    /// When it was made.
    pub created_at: Moment,
    /// When it was changed last.
    pub updated_at: Moment,
}

/// To `GET /v2/endpoints`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Endpoints {
    /// How many changes there were: a reader that has seen this one may wait for the next.
    pub revision: u64,
    /// In order of their names.
    pub endpoints: Vec<Endpoint>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// `GET /v2/endpoints`: which, and whether to wait for a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointsQuery {
    /// What the caller has seen.
    pub revision: Option<u64>,
    /// How long to wait for another one.
    pub wait_ms: u64,
    /// Which part of the list.
    pub page: Page,
}

impl EndpointsQuery {
    /// From the query of the URL.
    pub fn from_query(query: Query<'_>) -> Result<Self, Fault> {
        let mut parameters = Parameters::new(query);
        let asked = Self {
            revision: parameters.number("revision", 0, OFFSET_MAX)?,
            wait_ms: parameters.number("wait_ms", 0, WAIT_MS_MAX)?.unwrap_or(0),
            page: Page::of(Section::take(&mut parameters, CURSOR_BYTES_MAX)?),
        };
        parameters.finish()?;
        Ok(asked)
    }
}

/// `POST /v2/endpoints/{endpoint}/disable` and `/enable`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointSwitch {
    /// Why, for people to read.
    #[serde(
        default,
        deserialize_with = "text::any_owned::<_, REASON_BYTES_MAX>",
        skip_serializing_if = "String::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 1024)]
    pub reason: String,
    /// Who says so, for people to read.
    #[serde(
        default,
        deserialize_with = "text::any_owned::<_, NAME_BYTES_MAX>",
        skip_serializing_if = "String::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 255)]
    pub by: String,
    /// The version that it must have; any if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 0, OFFSET_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 9_223_372_036_854_775_807_u64)]
    pub expect_version: Option<u64>,
}

impl EndpointSwitch {
    /// From a JSON body.
    pub fn from_json(body: &[u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(body: &str) -> String {
        let read = EndpointSpec::from_json(body.as_bytes());
        read.and_then(|spec| spec.check()).unwrap_err().message.into_owned()
    }

    #[test]
    fn endpoints_say_what_they_need() {
        let hook =
            r#"{"kind":"webhook","url":"https://a.example/x","secrets":[{"env":"S"},{"sealed":"c2VjcmV0"}]}"#;
        let spec = EndpointSpec::from_json(hook.as_bytes()).unwrap();
        assert_eq!((spec.fate_of_unknown(), spec.ordered), (OnUnknown::Resend, false));
        let patient = r#"{"kind":"http","url":"https://a","retry_schedule_ms":[5000,60000]}"#;
        let patient = EndpointSpec::from_json(patient.as_bytes()).unwrap();
        assert_eq!(patient.retry_schedule_ms, Some(vec![5000, 60_000]));
        assert!(!format!("{spec:?}").contains("c2VjcmV0"), "a secret is never shown");
        for (body, says) in [
            (r#"{"kind":"webhook","url":"https://a"}"#, "secrets: a webhook is signed"),
            (
                r#"{"kind":"webhook","url":"ftp://a","secrets":[{"env":"S"}]}"#,
                "url: must begin with https://",
            ),
            (r#"{"kind":"http","url":"https://a b"}"#, "url: must not have blanks"),
            (r#"{"kind":"http","url":"https://a","secrets":[{"env":"S"}]}"#, "only webhooks are signed"),
            (r#"{"kind":"http","url":"https://a","credential":{}}"#, "credential: give exactly one"),
            (r#"{"kind":"http","url":"https://a","credential":{"env":"A","file":"b"}}"#, "exactly one"),
            (r#"{"kind":"http","url":"https://a","to":["b"]}"#, "are for e-mails"),
            (r#"{"kind":"email","url":"smtp://a","to":["b"]}"#, "needs from, to and subject"),
            (r#"{"kind":"email","url":"https://a"}"#, "url: must begin with smtp://"),
            (
                r#"{"kind":"webhook","url":"https://a","secrets":[{"env":"S"}],"method":"PUT"}"#,
                "only for http",
            ),
            (
                r#"{"kind":"http","url":"https://a","concurrency":65}"#,
                "concurrency: must be between 1 and 64",
            ),
            (r#"{"kind":"fax","url":"x"}"#, "kind: must be"),
            (r#"{"kind":"http","url":"https://a","colour":1}"#, "colour"),
        ] {
            let said = fault(body);
            assert!(said.contains(says), "{body}: {said}");
        }
    }

    #[test]
    fn what_is_unknown_is_held_unless_a_repeat_does_no_harm() {
        let fate = |more: &str| {
            let body = format!(r#"{{"kind":"http","url":"https://a"{more}}}"#);
            EndpointSpec::from_json(body.as_bytes()).unwrap().fate_of_unknown()
        };
        assert_eq!(fate(""), OnUnknown::Hold);
        assert_eq!(fate(r#","honours_key":true"#), OnUnknown::Resend);
        assert_eq!(fate(r#","honours_key":true,"on_unknown":"hold""#), OnUnknown::Hold);
    }
}
