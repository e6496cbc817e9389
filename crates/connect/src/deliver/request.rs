//! The HTTP request of a delivery: which headers it has, and which nobody may set.

use std::borrow::Cow;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, InvalidHeaderName,
    InvalidHeaderValue, USER_AGENT,
};
use hyper::{Method, Request};

use super::endpoint::{Endpoint, Kind};
use super::signature::{self, ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, short_hash};
use super::target::Target;
use crate::secret::{Plain, SigningKey};
use driftq_client::wire::{
    CONTENT_TYPE_LABEL, ENDPOINT_VERSION_LABEL, EndpointMethod, HEADER_LABEL_PREFIX, RESEND_OF_LABEL,
};

/// The header by which a receiver of HTTP calls knows a delivery again.
pub const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// What headers of webhooks begin with.
const WEBHOOK_PREFIX: &str = "webhook-";
/// Who calls, unless the endpoint says otherwise.
const AGENT: &str = concat!("DriftQ/", env!("CARGO_PKG_VERSION"));
const CONTENT_TYPE_DEFAULT: &str = "application/json";
/// Headers of the connection, of its length, and of where it goes: they are not the sender's to choose.
const RESERVED: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether nobody may set this header.
fn is_reserved(name: &HeaderName) -> bool {
    RESERVED.contains(&name.as_str()) || name.as_str().starts_with(WEBHOOK_PREFIX) || *name == KEY_HEADER
}

/// One delivery, as its message has it.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// Whose it is; may be empty.
    pub tenant_id: String,
    /// What it is known by.
    pub delivery_id: String,
    /// The body.
    pub body: Bytes,
    /// The labels of the message.
    pub labels: Vec<(String, String)>,
}

impl Parcel {
    /// The type of the body, if the message says it.
    pub(super) fn content_type(&self) -> Option<&str> {
        self.label(CONTENT_TYPE_LABEL)
    }

    /// A header of this delivery alone.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers().find(|(given, _)| given.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.labels.iter();
        pairs.filter_map(|(name, value)| Some((name.strip_prefix(HEADER_LABEL_PREFIX)?, &**value)))
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(given, _)| given == name).map(|(_, value)| &**value)
    }

    /// The version of the endpoint that there was when it was taken; 0 for a message of a bound topic.
    pub(super) fn endpoint_version(&self) -> u64 {
        self.label(ENDPOINT_VERSION_LABEL).and_then(|version| version.parse().ok()).unwrap_or(0)
    }

    /// What the receiver knows it by: one that is sent again is the delivery that it was.
    fn known_as(&self) -> &str {
        self.label(RESEND_OF_LABEL).unwrap_or(&self.delivery_id)
    }

    /// The same in every attempt, and different for every endpoint.
    pub(super) fn key(&self, endpoint: &str) -> String {
        short_hash(&[self.tenant_id.as_bytes(), endpoint.as_bytes(), self.known_as().as_bytes()])
    }
}

/// What an endpoint's secrets are now.
#[derive(Debug, Default)]
pub struct Keys {
    /// What webhooks are signed with.
    pub signing: Vec<SigningKey>,
    /// `Authorization`, or a password.
    pub credential: Option<Plain>,
}

/// Why no request can be made.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// A header of the endpoint is none.
    #[error("the header {0:?} of the endpoint cannot be sent; correct it")]
    Header(String),
    /// A header of the message is none.
    #[error("the label {HEADER_LABEL_PREFIX}{0} of the message cannot be sent as a header")]
    Label(String),
    /// The credential is no value of a header.
    #[error("the endpoint's credential cannot be sent as a header; it has a line break or control character")]
    Credential,
    /// The path of the URL is none.
    #[error("the path of the endpoint's URL cannot be sent: {0}")]
    Path(hyper::http::Error),
}

impl RequestError {
    /// Whether it is the message's own fault, so that trying again changes nothing.
    #[must_use]
    pub const fn is_of_message(&self) -> bool {
        matches!(self, Self::Label(_))
    }
}

/// The request of one attempt, at a moment in seconds since 1970.
///
/// # Errors
/// If the endpoint or the message has something in it that HTTP does not take.
pub fn request(
    endpoint: &Endpoint,
    target: &Target,
    parcel: &Parcel,
    keys: &Keys,
    now: i64,
) -> Result<Request<Full<Bytes>>, RequestError> {
    let mut headers = given_headers(endpoint, parcel)?;
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
    let host = HeaderValue::try_from(target.authority());
    headers.insert(HOST, host.map_err(|_| RequestError::Header(HOST.to_string()))?);
    match endpoint.kind {
        Kind::Webhook => sign(&mut headers, parcel, &keys.signing, now)?,
        Kind::Http | Kind::Email => {
            let key = HeaderValue::try_from(parcel.key(&endpoint.name)).expect("hex is a value of a header");
            headers.insert(KEY_HEADER, key);
            if let Some(credential) = &keys.credential {
                let value = HeaderValue::try_from(credential.expose());
                let mut value = value.map_err(|_| RequestError::Credential)?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
        }
    }
    let request = Request::builder().method(method(endpoint)).uri(&*target.path);
    let mut request = request.body(Full::new(parcel.body.clone())).map_err(RequestError::Path)?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// What the endpoint and the message have given, without what nobody may set.
fn given_headers(endpoint: &Endpoint, parcel: &Parcel) -> Result<HeaderMap, RequestError> {
    let mut headers = HeaderMap::new();
    let content_type = parcel.content_type().unwrap_or(CONTENT_TYPE_DEFAULT);
    let mut insert = |name: &str, value: &str| -> Result<(), Malformed> {
        let (name, value) = (HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        if !is_reserved(&name) {
            headers.insert(name, value);
        }
        Ok(())
    };
    insert(CONTENT_TYPE.as_str(), content_type)
        .map_err(|_| RequestError::Label(CONTENT_TYPE_LABEL.into()))?;
    for (name, value) in &endpoint.headers {
        insert(name, value).map_err(|_| RequestError::Header(name.clone()))?;
    }
    for (name, value) in parcel.headers() {
        insert(name, value).map_err(|_| RequestError::Label(name.to_owned()))?;
    }
    Ok(headers)
}

/// A name or a value that is none.
struct Malformed;

impl From<InvalidHeaderName> for Malformed {
    fn from(_: InvalidHeaderName) -> Self {
        Self
    }
}

impl From<InvalidHeaderValue> for Malformed {
    fn from(_: InvalidHeaderValue) -> Self {
        Self
    }
}

fn sign(headers: &mut HeaderMap, parcel: &Parcel, keys: &[SigningKey], now: i64) -> Result<(), RequestError> {
    let id = signature::webhook_id(parcel.known_as());
    let mut insert = |name: &'static str, value: Cow<'_, str>| {
        let value = HeaderValue::try_from(&*value).map_err(|_| RequestError::Header(name.to_owned()));
        value.map(|value| headers.insert(HeaderName::from_static(name), value)).map(drop)
    };
    if !keys.is_empty() {
        insert(SIGNATURE_HEADER, signature::sign(keys, &id, now, &parcel.body).into())?;
    }
    insert(TIMESTAMP_HEADER, now.to_string().into())?;
    insert(ID_HEADER, id.into())
}

const fn method(endpoint: &Endpoint) -> Method {
    match (endpoint.kind, endpoint.method) {
        (Kind::Webhook, _) | (_, None | Some(EndpointMethod::Post)) => Method::POST,
        (_, Some(EndpointMethod::Put)) => Method::PUT,
        (_, Some(EndpointMethod::Patch)) => Method::PATCH,
        (_, Some(EndpointMethod::Delete)) => Method::DELETE,
    }
}
