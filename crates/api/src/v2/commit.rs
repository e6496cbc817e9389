//! Several changes that happen together or not at all.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::effect::{CommitResult, EffectFinish};
use super::limits::{
    COMMIT_ITEMS_MAX, DIGEST_BYTES_MAX, LOCATION_BYTES_MAX, NAME_BYTES_MAX, OUTPUT_NAME_BYTES_MAX,
    TOKEN_BYTES_MAX,
};
use super::message::Message;
use super::output::{OutputMode, version};
use super::produced::Produced;
use super::read::{self, structure, text};
use super::shape;
use crate::fault::Fault;

/// `POST /v2/commit`: all of it, or none. At least one list has an item. Outputs need a token in one of the other
/// lists, because nothing is registered that no lease stands for.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Commit<'a> {
    /// Leases of messages whose work is done, by their tokens.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::list::<_, 1, TOKEN_BYTES_MAX, COMMIT_ITEMS_MAX>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(value_type = Option<Vec<String>>, max_items = 1000)]
    pub ack: Vec<Cow<'a, str>>,
    /// Leases of messages that must still be held, by their tokens. They are not acked.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::list::<_, 1, TOKEN_BYTES_MAX, COMMIT_ITEMS_MAX>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(value_type = Option<Vec<String>>, max_items = 1000)]
    pub fence: Vec<Cow<'a, str>>,
    /// Effects that have ended.
    #[serde(
        borrow,
        default,
        deserialize_with = "structure::objects::<_, _, COMMIT_ITEMS_MAX>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(value_type = Option<Vec<EffectFinish>>, max_items = 1000)]
    pub effects: Vec<EffectFinish<'a>>,
    /// Messages to store.
    #[serde(
        borrow,
        default,
        deserialize_with = "structure::objects::<_, _, COMMIT_ITEMS_MAX>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(value_type = Option<Vec<CommitMessage>>, max_items = 1000)]
    pub produce: Vec<CommitMessage<'a>>,
    /// Outputs to register.
    #[serde(
        borrow,
        default,
        deserialize_with = "structure::objects::<_, _, COMMIT_ITEMS_MAX>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(value_type = Option<Vec<CommitOutputShape>>, max_items = 1000)]
    pub outputs: Vec<CommitOutput<'a>>,
}

/// One message of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitMessage<'a> {
    /// The topic that it goes to, unless its envelope or a router says otherwise.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, NAME_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    pub topic: Cow<'a, str>,
    /// The message.
    #[serde(borrow)]
    pub message: Message<'a>,
}

/// One output of a commit: where the work's result lies, which the broker remembers and never reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitOutput<'a> {
    /// The dataset.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, OUTPUT_NAME_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    pub dataset: Cow<'a, str>,
    /// The version of the dataset; `current` is reserved.
    #[serde(borrow, deserialize_with = "version::required")]
    #[schema(min_length = 1, max_length = 255)]
    pub version: Cow<'a, str>,
    /// Which part of the version it is.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, OUTPUT_NAME_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    pub partition_key: Cow<'a, str>,
    /// Whether it takes the place of what was there or stands beside it.
    pub mode: OutputMode,
    /// Names it among what is appended: the same again is a duplicate. Given with `append`, and only then.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, OUTPUT_NAME_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    pub dedupe_key: Option<Cow<'a, str>>,
    /// Where it lies.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, LOCATION_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 2048)]
    pub location: Cow<'a, str>,
    /// What it holds, as a hash.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, DIGEST_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    pub digest: Cow<'a, str>,
}

impl<'a> Commit<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        let commit: Self = read::object(body)?;
        let has_token = !(commit.ack.is_empty() && commit.fence.is_empty() && commit.effects.is_empty());
        if !has_token && commit.produce.is_empty() && commit.outputs.is_empty() {
            return Err(Fault::invalid("one of ack, fence, effects, produce and outputs is required"));
        }
        if !has_token && !commit.outputs.is_empty() {
            return Err(Fault::invalid("outputs: need at least one token in ack, fence or effects"));
        }
        for (index, output) in commit.outputs.iter().enumerate() {
            if let Err(refusal) = output.check() {
                let fault = Fault::invalid(format!("outputs[{index}].dedupe_key: {refusal}"));
                return Err(fault.in_part(format!("outputs[{index}]")));
            }
        }
        Ok(commit)
    }
}

impl CommitOutput<'_> {
    fn check(&self) -> Result<(), &'static str> {
        match (self.mode, &self.dedupe_key) {
            (OutputMode::Append, None) => Err("must be given with mode append"),
            (OutputMode::Replace, Some(_)) => Err("must not be given with mode replace"),
            _ => Ok(()),
        }
    }
}

/// The schema of a [`Commit`] with the rules between its lists.
pub(super) struct CommitShape;

impl PartialSchema for CommitShape {
    fn schema() -> RefOr<Schema> {
        let has_token = || ["ack", "fence", "effects"].map(shape::filled);
        let anything = has_token().into_iter().chain(["produce", "outputs"].map(shape::filled));
        let fenced = has_token().into_iter().chain([shape::unfilled("outputs")]);
        shape::all_of(Commit::schema(), [shape::any_of(anything), shape::any_of(fenced)])
    }
}

impl ToSchema for CommitShape {
    fn name() -> Cow<'static, str> {
        Commit::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Commit::schemas(schemas);
    }
}

/// The schema of a [`CommitOutput`] with the rule about its key.
struct CommitOutputShape;

impl PartialSchema for CommitOutputShape {
    fn schema() -> RefOr<Schema> {
        let modes = [
            shape::word_with("mode", "append", "dedupe_key"),
            shape::word_without("mode", "replace", "dedupe_key"),
        ];
        shape::all_of(CommitOutput::schema(), [shape::any_of(modes)])
    }
}

impl ToSchema for CommitOutputShape {
    fn name() -> Cow<'static, str> {
        CommitOutput::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        CommitOutput::schemas(schemas);
    }
}

/// To `POST /v2/commit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Committed<'a> {
    /// Whether it was done now; if not, the rest is what the first answer said.
    pub result: CommitResult,
    /// Where each message of `produce` is stored, in order.
    pub produced: Vec<Produced<'a>>,
    /// What became of each output of `outputs`, in order.
    pub outputs: Vec<CommittedOutput<'a>>,
}

/// What became of one output of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommittedOutput<'a> {
    /// In one word.
    pub result: OutputResult,
    /// Where the output lies that counts: of a duplicate, the first one.
    pub location: Cow<'a, str>,
}

/// What became of an output, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputResult {
    /// It is the output of its partition key now.
    Replaced,
    /// It stands beside what was there.
    Appended,
    /// One with the same key had been appended before, and stays.
    Duplicate,
}
