//! Several changes that happen together or not at all.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};
#[cfg(feature = "openapi")]
use utoipa::PartialSchema;
#[cfg(feature = "openapi")]
use utoipa::openapi::RefOr;
#[cfg(feature = "openapi")]
use utoipa::openapi::schema::Schema;

use super::effect::{CommitResult, EffectFinish};
use super::entity::{self, Expected};
use super::limits::{
    COMMIT_ITEMS_MAX, DIGEST_BYTES_MAX, EXPECTED_MAX, IDEMPOTENCY_HEADER_BYTES_MAX, IDENTITY_BYTES_MAX,
    LOCATION_BYTES_MAX, NAME_BYTES_MAX, OUTPUT_NAME_BYTES_MAX, READS_MAX, TOKEN_BYTES_MAX,
};
use super::message::Message;
use super::output::{DatasetVersion, OutputMode, version};
use super::produced::Produced;
use super::read::{self, structure, text};
#[cfg(feature = "openapi")]
use super::shape;
use super::write::{ObjectWriter, put_json, put_text};
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
    #[schema(schema_with = ack_schema)]
    pub ack: Vec<Cow<'a, str>>,
    /// Leases of messages that must still be held, by their tokens. They are not acked.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::list::<_, 1, TOKEN_BYTES_MAX, COMMIT_ITEMS_MAX>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(schema_with = fence_schema)]
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
    /// Versions of datasets that the work has read, for the run that its first message belongs to. They are only
    /// remembered, and need not be there any more.
    #[serde(
        borrow,
        default,
        deserialize_with = "structure::objects::<_, _, READS_MAX>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(value_type = Option<Vec<DatasetVersion>>, max_items = 100)]
    pub reads: Vec<DatasetVersion<'a>>,
    /// Only if these entities of `tenant_id` have these versions: otherwise it is refused with `PRECONDITION_FAILED`.
    /// They are compared and raised by one together with the rest. The same commit again is answered as the first
    /// time, and compares nothing.
    #[serde(
        borrow,
        default,
        deserialize_with = "structure::objects::<_, _, EXPECTED_MAX>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(value_type = Option<Vec<Expected>>, max_items = 100)]
    pub expect: Vec<Expected<'a>>,
    /// The tenant that the datasets, the entities and the `idempotency_key` belong to; no tenant if not given.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, IDENTITY_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 4096)]
    pub tenant_id: Cow<'a, str>,
    /// Names it, so that the same again does nothing; as the header `Idempotency-Key` does for one commit. Without it,
    /// a commit with a token in it is known again by what it says.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, IDEMPOTENCY_HEADER_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    pub idempotency_key: Option<Cow<'a, str>>,
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
        commit.check()?;
        Ok(commit)
    }

    /// Appends its JSON to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Self { ack, fence, effects, produce, outputs, reads, expect, tenant_id, idempotency_key } = self;
        let mut object = ObjectWriter::new(out);
        object.list_if_any("ack", ack, |out, token| put_text(out, token));
        object.list_if_any("fence", fence, |out, token| put_text(out, token));
        object.list_if_any("effects", effects, |out, effect| effect.write(out));
        object.list_if_any("produce", produce, |out, message| message.write(out));
        object.list_if_any("outputs", outputs, put_json);
        object.list_if_any("reads", reads, put_json);
        object.list_if_any("expect", expect, put_json);
        object.text_if_any("tenant_id", tenant_id);
        object.value_if_some("idempotency_key", idempotency_key.as_ref());
        object.end();
    }

    /// The rules between its lists.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let has_token = !(self.ack.is_empty() && self.fence.is_empty() && self.effects.is_empty());
        if !has_token && self.produce.is_empty() && self.outputs.is_empty() && self.expect.is_empty() {
            return Err(Fault::invalid(
                "one of ack, fence, effects, produce, outputs and expect is required",
            ));
        }
        if !has_token && !self.outputs.is_empty() {
            return Err(Fault::invalid("outputs: need at least one token in ack, fence or effects"));
        }
        entity::check(&self.expect)?;
        for (index, output) in self.outputs.iter().enumerate() {
            if let Err(refusal) = output.check() {
                let fault = Fault::invalid(format!("outputs[{index}].dedupe_key: {refusal}"));
                return Err(fault.in_part(format!("outputs[{index}]")));
            }
        }
        Ok(())
    }
}

impl CommitMessage<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let Self { topic, message } = self;
        let mut object = ObjectWriter::new(out);
        object.text("topic", topic);
        object.with("message", |out| message.write(out));
        object.end();
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

#[cfg(feature = "openapi")]
fn ack_schema() -> Schema {
    shape::texts(
        1,
        TOKEN_BYTES_MAX,
        COMMIT_ITEMS_MAX,
        "Leases of messages whose work is done, by their tokens.",
    )
}

#[cfg(feature = "openapi")]
fn fence_schema() -> Schema {
    let about = "Leases of messages that must still be held, by their tokens. They are not acked.";
    shape::texts(1, TOKEN_BYTES_MAX, COMMIT_ITEMS_MAX, about)
}

/// The schema of a [`Commit`] with the rules between its lists.
#[cfg(feature = "openapi")]
pub(super) struct CommitShape;

#[cfg(feature = "openapi")]
impl PartialSchema for CommitShape {
    fn schema() -> RefOr<Schema> {
        let has_token = || ["ack", "fence", "effects"].map(shape::filled);
        let anything = has_token().into_iter().chain(["produce", "outputs", "expect"].map(shape::filled));
        let fenced = has_token().into_iter().chain([shape::unfilled("outputs")]);
        shape::all_of(Commit::schema(), [shape::any_of(anything), shape::any_of(fenced)])
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for CommitShape {
    fn name() -> Cow<'static, str> {
        Commit::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Commit::schemas(schemas);
    }
}

/// The schema of a [`CommitOutput`] with the rule about its key.
#[cfg(feature = "openapi")]
struct CommitOutputShape;

#[cfg(feature = "openapi")]
impl PartialSchema for CommitOutputShape {
    fn schema() -> RefOr<Schema> {
        let modes = [
            shape::word_with("mode", "append", "dedupe_key"),
            shape::word_without("mode", "replace", "dedupe_key"),
        ];
        shape::all_of(CommitOutput::schema(), [shape::any_of(modes)])
    }
}

#[cfg(feature = "openapi")]
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

/// To `GET /v2/commits/{key}`: what a commit did, for a caller that did not hear the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommitFound<'a> {
    /// It was done.
    pub result: CommitResult,
    /// Where each message of `produce` is stored, in order.
    pub produced: Vec<Produced<'a>>,
    /// What became of each output of `outputs`, in order.
    pub outputs: Vec<OutputResult>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Code;
    use crate::v2::EffectStatus;

    const FULL: &str = r#"{"ack":["a"],"fence":["b"],"effects":[{"token":"c","status":"failed_final","error":"no"}],"produce":[{"topic":"t","message":{"value":"v","priority":0}}],"outputs":[{"dataset":"d","version":"1","partition_key":"p","mode":"append","dedupe_key":"k","location":"l","digest":"h"},{"dataset":"d","version":"1","partition_key":"q","mode":"replace","location":"l","digest":"h"}],"reads":[{"dataset":"d","version":"0"}],"expect":[{"entity":"e","version":2}],"tenant_id":"t"}"#;

    fn with_output(mode: &str) -> String {
        format!(
            r#"{{"ack":["a"],"outputs":[{{"dataset":"d","version":"1","partition_key":"p","location":"l","digest":"h",{mode}}}]}}"#
        )
    }

    fn refusal(body: &str) -> (Code, String, Option<String>) {
        let fault = Commit::from_json(body.as_bytes()).unwrap_err();
        (fault.code, fault.message.into_owned(), fault.part.map(Cow::into_owned))
    }

    #[test]
    fn everything_at_once_is_borrowed_and_comes_back() {
        let commit = Commit::from_json(FULL.as_bytes()).unwrap();
        assert!(matches!((&commit.ack[..], &commit.fence[..]), ([Cow::Borrowed("a")], [Cow::Borrowed("b")])));
        assert_eq!(commit.effects[0].result.status, EffectStatus::FailedFinal);
        assert!(matches!(commit.effects[0].token, Cow::Borrowed("c")));
        assert_eq!((&*commit.produce[0].topic, &*commit.produce[0].message.value), ("t", &b"v"[..]));
        let modes: Vec<OutputMode> = commit.outputs.iter().map(|output| output.mode).collect();
        assert_eq!(modes, [OutputMode::Append, OutputMode::Replace]);
        assert_eq!(serde_json::to_string(&commit).unwrap(), FULL);
    }

    /// What names a commit is what it says: two writers of it must not differ.
    #[test]
    fn it_writes_itself_as_serde_writes_it() {
        let named = FULL.replace(r#""tenant_id":"t""#, r#""tenant_id":"\"t","idempotency_key":"k\n""#);
        let full_effect = r#"{"effects":[{"token":"c","status":"succeeded","code":-7,"headers":{"a":"1","b\"":"2"},"body":"x\u0001","error":"e"},{"token":"d","status":"failed_retryable","body_b64":"/w=="}]}"#;
        let full_message = r#"{"produce":[{"topic":"t","message":{"key":"k","value":{"a":1},"priority":9,"deliver_at":"2026-01-02T03:04:05Z","envelope":{"run_id":"r","labels":{"a":"b"}}}},{"topic":"u","message":{"key_b64":"/w==","value_b64":"/w==","delay_ms":5}},{"topic":"v","message":{"value":"a\\b"}}]}"#;
        for body in [FULL, &named, full_effect, full_message, r#"{"fence":["a","b"]}"#] {
            let commit = Commit::from_json(body.as_bytes()).unwrap();
            let mut out = Vec::new();
            commit.write(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&commit).unwrap());
        }
        let mut nothing = Vec::new();
        Commit::default().write(&mut nothing);
        assert_eq!(nothing, serde_json::to_vec(&Commit::default()).unwrap());
    }

    #[test]
    fn one_part_is_enough() {
        let tokens = format!(r#"{{"ack":[{}]}}"#, [r#""t""#; 1000].join(","));
        for body in [
            &tokens,
            r#"{"fence":["b"],"ack":[],"effects":null}"#,
            r#"{"effects":[{"token":"c","status":"succeeded"}]}"#,
            r#"{"produce":[{"topic":"t","message":{"value":"v"}}],"outputs":[]}"#,
            r#"{"expect":[{"entity":"e","version":0}]}"#,
            &with_output(r#""mode":"replace","dedupe_key":null"#),
            &with_output(r#""mode":"append","dedupe_key":"k""#),
        ] {
            assert!(Commit::from_json(body.as_bytes()).is_ok(), "{body}");
        }
        let fenced = with_output(r#""mode":"replace""#);
        for tokens in [r#""fence":["b"]"#, r#""effects":[{"token":"c","status":"succeeded"}]"#] {
            let body = fenced.replace(r#""ack":["a"]"#, tokens);
            assert!(Commit::from_json(body.as_bytes()).is_ok(), "{body}");
        }
    }

    #[test]
    fn refusals_name_the_place() {
        let nothing = "one of ack, fence, effects, produce, outputs and expect is required";
        let unfenced = with_output(r#""mode":"replace""#).replace(r#""ack":["a"],"#, "");
        let many = format!(r#"{{"ack":[{}]}}"#, [r#""t""#; 1001].join(","));
        let long = format!(r#"{{"ack":["a","{}"]}}"#, "t".repeat(129));
        for (body, message) in [
            ("{}", nothing),
            (r#"{"ack":[],"fence":null,"effects":[],"produce":[],"outputs":[]}"#, nothing),
            (&*unfenced, "outputs: need at least one token in ack, fence or effects"),
            (
                r#"{"expect":[{"entity":"e","version":0},{"entity":"e","version":1}]}"#,
                "expect[1].entity: is there twice",
            ),
            (&many, "ack: must have at most 1000 items, has more"),
            (&many.replace("ack", "fence"), "fence: must have at most 1000 items, has more"),
            (&long, "ack[1]: must have 1 to 128 bytes, has 129"),
            (r#"{"ack":[""]}"#, "ack[0]: must have 1 to 128 bytes, has 0"),
            (r#"{"ack":"a"}"#, "ack: invalid type: string \"a\", expected a list of at most 1000 items"),
            (r#"{"ack":[{"token":"a"}]}"#, "ack[0]: invalid type: map, expected a text of 1 to 128 bytes"),
            (r#"{"ack":["a"],"nack":["b"]}"#, "nack: unknown field, expected one of `ack`, `fence`"),
            (r#"{"ack":["a"],"ack":["b"]}"#, "duplicate field `ack`"),
            (r#"{"effects":[{"status":"succeeded"}]}"#, "effects[0]: missing field `token`"),
            (
                r#"{"effects":[{"token":"c","status":"succeeded"},{"token":"c","status":"succeeded","body":"","body_b64":""}]}"#,
                "effects[1]: body and body_b64 exclude each other",
            ),
            (r#"{"effects":[["c"]]}"#, "effects[0]: invalid type: sequence, expected an object"),
            (r#"{"produce":[{"message":{"value":"v"}}]}"#, "produce[0]: missing field `topic`"),
            (r#"{"produce":[{"topic":"t","value":"v"}]}"#, "produce[0].value: unknown field"),
            (
                r#"{"produce":[{"topic":"t","message":{"value":"v","priority":10}}]}"#,
                "produce[0].message.priority: must be between 0 and 9",
            ),
            (&with_output(r#""mode":"merge""#), "outputs[0].mode: must be replace or append"),
            (
                &with_output(r#""mode":"replace""#).replace(r#""version":"1""#, r#""version":"current""#),
                "outputs[0].version: must not be current, which is reserved",
            ),
            (
                &with_output(r#""mode":"replace""#).replace(r#""l""#, &format!("\"{}\"", "l".repeat(2049))),
                "outputs[0].location: must have 1 to 2048 bytes, has 2049",
            ),
            (
                &with_output(r#""mode":"replace""#).replace(r#","digest":"h""#, ""),
                "outputs[0]: missing field `digest`",
            ),
        ] {
            let (_, found, part) = refusal(body);
            assert!(found.starts_with(message), "{body:.200}: {found}");
            assert_eq!(part, None, "{body:.200}");
        }
    }

    #[test]
    fn only_what_is_appended_has_a_key() {
        for (mode, message) in [
            (r#""mode":"append""#, "outputs[0].dedupe_key: must be given with mode append"),
            (
                r#""mode":"replace","dedupe_key":"k""#,
                "outputs[0].dedupe_key: must not be given with mode replace",
            ),
        ] {
            let expected = (Code::InvalidArgument, message.to_owned(), Some("outputs[0]".to_owned()));
            assert_eq!(refusal(&with_output(mode)), expected);
        }
    }

    #[test]
    fn the_answer_round_trips() {
        let text = r#"{"result":"already_committed","produced":[{"topic":"t","partition":0,"offset":4,"duplicate":false}],"outputs":[{"result":"replaced","location":"l"},{"result":"appended","location":"l"},{"result":"duplicate","location":"m"}]}"#;
        let committed: Committed<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(committed.result, CommitResult::AlreadyCommitted);
        assert_eq!(serde_json::to_string(&committed).unwrap(), text);
    }
}
