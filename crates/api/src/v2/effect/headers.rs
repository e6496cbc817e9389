//! Headers of an outcome: small facts beside the body.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use crate::v2::limits::{HEADER_NAME_BYTES_MAX, HEADER_VALUE_BYTES_MAX, HEADERS_MAX};
use crate::v2::read::pairs::{self, Bounds};

/// Names and values, sorted by name, each name once. Names are taken as they are, upper and lower case apart.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Headers<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

const BOUNDS: Bounds = Bounds {
    what: "header",
    pairs_max: HEADERS_MAX,
    name_bytes_max: HEADER_NAME_BYTES_MAX,
    value_bytes_max: HEADER_VALUE_BYTES_MAX,
};

impl<'a> Headers<'a> {
    /// From pairs in any order. Says what is wrong with them if there are too many, or one is too long or doubled.
    pub fn new(pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>) -> Result<Self, String> {
        BOUNDS.sorted(pairs).map(Self)
    }

    /// From pairs that were checked when they were stored.
    #[must_use]
    pub const fn stored(pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>) -> Self {
        Self(pairs)
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pairs, sorted by name.
    #[must_use]
    pub fn pairs(&self) -> &[(Cow<'a, str>, Cow<'a, str>)] {
        &self.0
    }

    /// The pairs, sorted by name.
    #[must_use]
    pub fn into_pairs(self) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
        self.0
    }
}

impl Serialize for Headers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        pairs::write(&self.0, serializer)
    }
}

/// Headers of an answer: taken as they are, since the server has checked them, and owned by the reader.
pub(super) fn stored<'de, D: Deserializer<'de>>(from: D) -> Result<Headers<'static>, D::Error> {
    pairs::stored(from).map(Headers)
}

impl<'de: 'a, 'a> Deserialize<'de> for Headers<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        BOUNDS.read(from).map(Self)
    }
}

impl PartialSchema for Headers<'_> {
    fn schema() -> RefOr<Schema> {
        BOUNDS.schema("Small facts beside the body: names and their values. Lengths count bytes.")
    }
}

impl ToSchema for Headers<'_> {
    fn name() -> Cow<'static, str> {
        "Headers".into()
    }
}
