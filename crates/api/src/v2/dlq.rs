//! Dead letters: found, sent back, thrown away.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};
#[cfg(feature = "openapi")]
use utoipa::PartialSchema;
#[cfg(feature = "openapi")]
use utoipa::openapi::RefOr;
#[cfg(feature = "openapi")]
use utoipa::openapi::schema::Schema;

use super::browse::{self, Position};
use super::envelope::PARTITION_MAX;
use super::item::Item;
use super::labels::Labels;
use super::limits::{
    ERROR_BYTES_MAX, IDENTITY_BYTES_MAX, KEY_BYTES_MAX, LETTERS_MAX, NAME_BYTES_MAX, OFFSET_MAX,
    RATE_PER_SECOND_MAX,
};
use super::parameters::Parameters;
use super::read::{self, number, structure, text};
#[cfg(feature = "openapi")]
use super::shape;
use crate::fault::Fault;
use crate::moment::Moment;
use crate::query::Query;

/// To `GET /v2/dlq`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeadTopics {
    /// Topics that have dead letters, in order of their names.
    pub topics: Vec<DeadTopic>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A topic that has dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeadTopic {
    /// The topic that the letters came from.
    pub name: String,
    /// How many there are.
    pub letters: u64,
    /// When the oldest one died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_at: Option<Moment>,
}

/// To `GET /v2/dlq/{topic}`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Letters<'a> {
    /// Letters by partition and offset; `envelope.dead_letter` says where each came from and why.
    pub letters: Vec<Item<'a>>,
    /// Cursor of the next page, if there may be one. A page can be empty and have a next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Letters that were looked at.
    pub scanned: u64,
}

/// `GET /v2/dlq/{topic}`: which letters.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LettersQuery<'a> {
    /// Conditions, all of which must hold.
    pub filter: LetterFilter<'a>,
    /// Most letters on the page.
    pub limit: usize,
    /// Only after this one.
    pub cursor: Option<Position>,
}

impl<'a> LettersQuery<'a> {
    /// From the query of the URL.
    pub fn from_query(query: Query<'a>) -> Result<Self, Fault> {
        let mut parameters = Parameters::new(query);
        let filter = LetterFilter::take(&mut parameters)?;
        let (limit, cursor) = browse::page(&mut parameters)?;
        parameters.finish()?;
        Ok(Self { filter, limit, cursor })
    }
}

impl<'a> LetterFilter<'a> {
    /// From the query of the URL, where nothing else may be said.
    pub fn from_query(query: Query<'a>) -> Result<Self, Fault> {
        let mut parameters = Parameters::new(query);
        let filter = Self::take(&mut parameters)?;
        parameters.finish()?;
        Ok(filter)
    }

    fn take(parameters: &mut Parameters<'a>) -> Result<Self, Fault> {
        Ok(Self {
            group: parameters.text("group", 1, NAME_BYTES_MAX)?,
            key: parameters.text("key", 1, KEY_BYTES_MAX)?,
            run_id: parameters.text("run_id", 1, IDENTITY_BYTES_MAX)?,
            tenant_id: parameters.text("tenant_id", 1, IDENTITY_BYTES_MAX)?,
            labels: parameters.labels()?,
            reason: parameters.text("reason", 1, ERROR_BYTES_MAX)?,
            cause: parameters.text("cause", 1, ERROR_BYTES_MAX)?,
            before: parameters.moment("before")?,
            after: parameters.moment("after")?,
        })
    }
}

/// Conditions on dead letters, all of which must hold.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LetterFilter<'a> {
    /// Given up by this group.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, NAME_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    pub group: Option<Cow<'a, str>>,
    /// With this key.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, KEY_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 4096)]
    pub key: Option<Cow<'a, str>>,
    /// Of this run.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, IDENTITY_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 4096)]
    pub run_id: Option<Cow<'a, str>>,
    /// Of this tenant.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, IDENTITY_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 4096)]
    pub tenant_id: Option<Cow<'a, str>>,
    /// With all of these labels.
    #[serde(borrow, default, skip_serializing_if = "Labels::is_empty")]
    #[schema(value_type = Labels)]
    pub labels: Labels<'a>,
    /// Given up for this reason.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, ERROR_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: Option<Cow<'a, str>>,
    /// With this cause, as `GET /v2/dlq/{topic}/causes` lists it.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, ERROR_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 4096)]
    pub cause: Option<Cow<'a, str>>,
    /// Died before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Moment>,
    /// Died at this moment or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Moment>,
}

/// One dead letter by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LetterPlace {
    /// The partition.
    #[serde(deserialize_with = "number::required::<_, _, 0, PARTITION_MAX>")]
    #[schema(minimum = 0, maximum = 4095)]
    pub partition: u32,
    /// The offset.
    #[serde(deserialize_with = "number::required::<_, _, 0, OFFSET_MAX>")]
    #[schema(minimum = 0, maximum = 9_223_372_036_854_775_807_u64)]
    pub offset: u64,
}

/// Which dead letters a job takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection<'a> {
    /// Exactly these.
    Letters(Vec<LetterPlace>),
    /// All that fit.
    Filter(Box<LetterFilter<'a>>),
    /// All.
    All,
}

/// `POST /v2/dlq/{topic}/redrive`: letters go back to where they came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redrive<'a> {
    /// Which ones.
    pub selection: Selection<'a>,
    /// At most so many per second; as fast as it goes if not given.
    pub rate_per_second: Option<u32>,
    /// Only count them.
    pub dry_run: bool,
    /// Goes to this topic instead.
    pub target_topic: Option<Cow<'a, str>>,
}

/// `POST /v2/dlq/{topic}/purge`: letters are thrown away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge<'a> {
    /// Which ones.
    pub selection: Selection<'a>,
    /// Only count them.
    pub dry_run: bool,
}

/// A redrive as JSON writes it.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RedriveFields<'a> {
    /// Exactly these. Exactly one of `letters`, `filter` and `all` is given.
    #[serde(
        default,
        deserialize_with = "structure::optional_list::<_, _, LETTERS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_items = 1, max_items = 1000)]
    letters: Option<Vec<LetterPlace>>,
    /// All that fit.
    #[serde(
        borrow,
        default,
        deserialize_with = "structure::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<LetterFilter>)]
    filter: Option<Box<LetterFilter<'a>>>,
    /// All of them; only `true` can be given.
    #[serde(default, deserialize_with = "yes", skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = yes_schema)]
    all: Option<bool>,
    /// At most so many per second; as fast as it goes if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, RATE_PER_SECOND_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 1_000_000)]
    rate_per_second: Option<u32>,
    /// Only count them.
    #[serde(default, deserialize_with = "structure::flag")]
    #[schema(value_type = Option<bool>)]
    dry_run: bool,
    /// They go to this topic instead of the one that they came from.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, NAME_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    target_topic: Option<Cow<'a, str>>,
}

/// A purge as JSON writes it.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PurgeFields<'a> {
    /// Exactly these. Exactly one of `letters`, `filter` and `all` is given.
    #[serde(
        default,
        deserialize_with = "structure::optional_list::<_, _, LETTERS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_items = 1, max_items = 1000)]
    letters: Option<Vec<LetterPlace>>,
    /// All that fit.
    #[serde(
        borrow,
        default,
        deserialize_with = "structure::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<LetterFilter>)]
    filter: Option<Box<LetterFilter<'a>>>,
    /// All of them; only `true` can be given.
    #[serde(default, deserialize_with = "yes", skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = yes_schema)]
    all: Option<bool>,
    /// Only count them.
    #[serde(default, deserialize_with = "structure::flag")]
    #[schema(value_type = Option<bool>)]
    dry_run: bool,
}

/// `true`, `null`, or nothing: `false` would ask for nothing and is more likely a mistake.
fn yes<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    match Option::deserialize(from)? {
        Some(false) => Err(serde::de::Error::custom("must be true, or not given")),
        other => Ok(other),
    }
}

#[cfg(feature = "openapi")]
fn yes_schema() -> Schema {
    shape::one_of_values(
        [serde_json::Value::Bool(true), serde_json::Value::Null],
        "All of them; only `true` can be given.",
    )
}

impl<'a> Selection<'a> {
    fn checked(
        letters: Option<Vec<LetterPlace>>,
        filter: Option<Box<LetterFilter<'a>>>,
        all: Option<bool>,
    ) -> Result<Self, Fault> {
        match (letters, filter, all) {
            (Some(letters), None, None) => Ok(Self::Letters(letters)),
            (None, Some(filter), None) if *filter == LetterFilter::default() => {
                Err(Fault::invalid("filter: must have at least one condition; everything is all: true"))
            }
            (None, Some(filter), None) => Ok(Self::Filter(filter)),
            (None, None, Some(_)) => Ok(Self::All),
            (None, None, None) => Err(Fault::invalid("one of letters, filter and all is required")),
            _ => Err(Fault::invalid("letters, filter and all exclude each other")),
        }
    }

    fn parts(&self) -> (Option<Vec<LetterPlace>>, Option<Box<LetterFilter<'a>>>, Option<bool>) {
        match self {
            Self::Letters(letters) => (Some(letters.clone()), None, None),
            Self::Filter(filter) => (None, Some(filter.clone()), None),
            Self::All => (None, None, Some(true)),
        }
    }
}

impl<'a> Redrive<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        let fields: RedriveFields<'a> = read::object(body)?;
        Ok(Self {
            selection: Selection::checked(fields.letters, fields.filter, fields.all)?,
            rate_per_second: fields.rate_per_second,
            dry_run: fields.dry_run,
            target_topic: fields.target_topic,
        })
    }
}

impl<'a> Purge<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        let fields: PurgeFields<'a> = read::object(body)?;
        let selection = Selection::checked(fields.letters, fields.filter, fields.all)?;
        Ok(Self { selection, dry_run: fields.dry_run })
    }
}

impl Serialize for Redrive<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (letters, filter, all) = self.selection.parts();
        let (rate_per_second, dry_run, target_topic) =
            (self.rate_per_second, self.dry_run, self.target_topic.clone());
        RedriveFields { letters, filter, all, rate_per_second, dry_run, target_topic }.serialize(serializer)
    }
}

impl Serialize for Purge<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (letters, filter, all) = self.selection.parts();
        PurgeFields { letters, filter, all, dry_run: self.dry_run }.serialize(serializer)
    }
}

#[cfg(feature = "openapi")]
const CONDITIONS: [&str; 9] =
    ["group", "key", "run_id", "tenant_id", "labels", "reason", "cause", "before", "after"];

macro_rules! selecting_schema {
    ($($request:ident = $fields:ident),*) => {$(
        #[cfg(feature = "openapi")]
        impl PartialSchema for $request<'_> {
            fn schema() -> RefOr<Schema> {
                shape::all_of(
                    $fields::schema(),
                    [
                        shape::exactly_one(&["letters", "filter", "all"]),
                        shape::any_of([shape::absent("filter"), shape::not_empty("filter", &CONDITIONS)]),
                    ],
                )
            }
        }

        #[cfg(feature = "openapi")]
        impl ToSchema for $request<'_> {
            fn name() -> Cow<'static, str> {
                stringify!($request).into()
            }

            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                $fields::schemas(schemas);
            }
        }
    )*};
}

selecting_schema!(Redrive = RedriveFields, Purge = PurgeFields);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections() {
        let redrive =
            Redrive::from_json(br#"{"letters":[{"partition":0,"offset":1}],"rate_per_second":5}"#).unwrap();
        let place = LetterPlace { partition: 0, offset: 1 };
        assert_eq!(redrive.selection, Selection::Letters(vec![place]));
        let text = serde_json::to_vec(&redrive).unwrap();
        assert_eq!(Redrive::from_json(&text).unwrap(), redrive);
        let purge = Purge::from_json(br#"{"all":true,"dry_run":true,"filter":null}"#).unwrap();
        assert_eq!(purge, Purge { selection: Selection::All, dry_run: true });
        assert_eq!(serde_json::to_string(&purge).unwrap(), r#"{"all":true,"dry_run":true}"#);
        let filtered = Purge::from_json(br#"{"filter":{"group":"g","labels":{"a":"1"}}}"#).unwrap();
        let Selection::Filter(filter) = filtered.selection else { panic!("a filter") };
        assert_eq!((filter.group.as_deref(), filter.labels.pairs().len()), (Some("g"), 1));
        for (body, message) in [
            ("{}", "one of letters, filter and all is required"),
            (r#"{"filter":{}}"#, "filter: must have at least one condition; everything is all: true"),
            (r#"{"filter":{"labels":{},"key":null}}"#, "filter: must have at least one condition"),
            (r#"{"all":true,"filter":{}}"#, "letters, filter and all exclude each other"),
            (r#"{"all":false}"#, "all: must be true, or not given"),
            (r#"{"letters":[]}"#, "letters: must have 1 to 1000 items, has none"),
            (r#"{"letters":[{"partition":0}]}"#, "letters[0]: missing field `offset`"),
            (r#"{"filter":{"grup":"g"}}"#, "filter.grup: unknown field, expected one of"),
            (
                r#"{"filter":{"before":"now"}}"#,
                "filter.before: invalid value: string \"now\", expected an RFC 3339",
            ),
        ] {
            let found = Purge::from_json(body.as_bytes()).unwrap_err().message;
            assert!(found.starts_with(message), "{found}");
            assert!(Redrive::from_json(body.as_bytes()).unwrap_err().message.starts_with(message), "{body}");
        }
        assert!(Purge::from_json(br#"{"all":true,"target_topic":"t"}"#).is_err());
    }

    #[test]
    fn the_query_of_a_list() {
        let raw = "group=g&reason=r&label.a=1&before=2025-12-21T12:00:00Z&limit=5";
        let query = LettersQuery::from_query(Query::parse(raw).unwrap()).unwrap();
        assert_eq!((query.limit, query.filter.group.as_deref()), (5, Some("g")));
        let bad = LettersQuery::from_query(Query::parse("before=now").unwrap()).unwrap_err();
        assert_eq!(bad.message, "before: must be an RFC 3339 time such as 2025-12-21T12:00:00Z");
    }
}
