//! Several commits in one call.

#[cfg(feature = "openapi")]
use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};
#[cfg(feature = "openapi")]
use utoipa::PartialSchema;
#[cfg(feature = "openapi")]
use utoipa::openapi::RefOr;
#[cfg(feature = "openapi")]
use utoipa::openapi::schema::Schema;

#[cfg(feature = "openapi")]
use super::commit::CommitShape;
use super::commit::{Commit, Committed, CommittedOutput};
use super::effect::CommitResult;
use super::limits::COMMITS_MAX;
use super::problem::Problem;
use super::produced::Produced;
use super::read::{self, structure};
#[cfg(feature = "openapi")]
use super::shape;
use super::write::{ObjectWriter, put_json};
use crate::fault::Fault;

/// `POST /v2/commit` with several commits: each is all or nothing on its own, in order.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Commits<'a> {
    /// The commits, with 10,000 items in all at the most.
    #[serde(borrow, deserialize_with = "structure::list::<_, _, COMMITS_MAX>")]
    #[schema(value_type = Vec<CommitShape>, min_items = 1, max_items = 1000)]
    pub commits: Vec<Commit<'a>>,
}

/// The body of `POST /v2/commit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitCall<'a> {
    /// One commit.
    One(Box<Commit<'a>>),
    /// Several.
    Many(Commits<'a>),
}

impl<'a> CommitCall<'a> {
    /// From a JSON body. A body with `commits` is that of several.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        if !read::begins_with(body, "commits") {
            return Commit::from_json(body).map(|commit| Self::One(Box::new(commit)));
        }
        let commits: Commits<'_> = read::object(body)?;
        for (place, commit) in commits.commits.iter().enumerate() {
            if let Err(fault) = commit.check() {
                let message = format!("commits[{place}].{}", fault.message);
                return Err(Fault { message: message.into(), ..fault });
            }
        }
        Ok(Self::Many(commits))
    }
}

/// Room for what became of a commit of one message.
const DONE_BYTES: usize = 160;

/// To `POST /v2/commit` with several commits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommitsDone<'a> {
    /// One result per commit, in order.
    #[schema(value_type = Vec<CommitDoneShape>)]
    pub results: Vec<CommitDone<'a>>,
}

/// What became of one commit of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum CommitDone<'a> {
    /// It was done now.
    Committed {
        /// Where each message of `produce` is stored, in order.
        produced: Vec<Produced<'a>>,
        /// What became of each output of `outputs`, in order.
        outputs: Vec<CommittedOutput<'a>>,
    },
    /// It had been done before, and this is what the first answer said.
    AlreadyCommitted {
        /// Where each message of `produce` is stored, in order.
        produced: Vec<Produced<'a>>,
        /// What became of each output of `outputs`, in order.
        outputs: Vec<CommittedOutput<'a>>,
    },
    /// Nothing of it was done.
    Refused {
        /// The problem that the same commit alone would have had; its `part` says where it is.
        problem: Box<Problem<'a>>,
    },
}

impl CommitsDone<'_> {
    /// Appends its JSON to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Self { results } = self;
        out.reserve(results.len() * DONE_BYTES);
        let mut object = ObjectWriter::new(out);
        object.list("results", results, |out, done| done.write(out));
        object.end();
    }
}

impl CommitDone<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let (word, produced, outputs) = match self {
            Self::Committed { produced, outputs } => ("committed", produced, outputs),
            Self::AlreadyCommitted { produced, outputs } => ("already_committed", produced, outputs),
            refused @ Self::Refused { .. } => return put_json(out, refused),
        };
        let mut object = ObjectWriter::new(out);
        object.text("result", word);
        object.list("produced", produced, |out, produced| produced.write(out));
        object.list("outputs", outputs, put_json);
        object.end();
    }
}

impl<'a> CommitDone<'a> {
    /// The result of a commit, or its refusal.
    #[must_use]
    pub fn of(result: Result<Committed<'a>, &'a Fault>) -> Self {
        match result {
            Ok(Committed { result: CommitResult::Committed, produced, outputs }) => {
                Self::Committed { produced, outputs }
            }
            Ok(Committed { result: CommitResult::AlreadyCommitted, produced, outputs }) => {
                Self::AlreadyCommitted { produced, outputs }
            }
            Err(fault) => Self::Refused { problem: Box::new(fault.v2()) },
        }
    }
}

/// The schema of a [`CommitDone`], with a name for each alternative so that generated clients tell them apart.
#[cfg(feature = "openapi")]
struct CommitDoneShape;

/// The schemas of the alternatives and their words, in the order of the variants.
#[cfg(feature = "openapi")]
const ALTERNATIVES: [(&str, &str); 3] =
    [("CommitDoneNow", "committed"), ("CommitDoneBefore", "already_committed"), ("CommitRefused", "refused")];

#[cfg(feature = "openapi")]
impl PartialSchema for CommitDoneShape {
    fn schema() -> RefOr<Schema> {
        shape::told_apart("result", &ALTERNATIVES, "What became of one commit of several.")
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for CommitDoneShape {
    fn name() -> Cow<'static, str> {
        CommitDone::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        CommitDone::schemas(schemas);
        if let RefOr::T(Schema::OneOf(derived)) = CommitDone::schema() {
            let names = ALTERNATIVES.iter().map(|(name, _)| (*name).to_owned());
            schemas.extend(names.zip(derived.items));
        }
    }
}

/// The schema of a [`CommitCall`].
pub(super) struct CommitCallShape;

#[cfg(feature = "openapi")]
impl PartialSchema for CommitCallShape {
    fn schema() -> RefOr<Schema> {
        shape::either(&[CommitShape::name(), Commits::name()], "One commit, or several.")
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for CommitCallShape {
    fn name() -> Cow<'static, str> {
        "CommitCall".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        shape::add::<CommitShape>(schemas);
        shape::add::<Commits<'_>>(schemas);
    }
}

/// The schema of the answer: what one commit did, or a list of results.
pub(super) struct CommitAnswerShape;

#[cfg(feature = "openapi")]
impl PartialSchema for CommitAnswerShape {
    fn schema() -> RefOr<Schema> {
        let about = "What the commit did, or what became of each of several.";
        shape::either(&[Committed::name(), CommitsDone::name()], about)
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for CommitAnswerShape {
    fn name() -> Cow<'static, str> {
        "CommitAnswer".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        shape::add::<Committed<'_>>(schemas);
        shape::add::<CommitsDone<'_>>(schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Code;

    #[test]
    fn one_or_several() {
        let one = CommitCall::from_json(br#"{"ack":["a"],"idempotency_key":"k"}"#).unwrap();
        let CommitCall::One(one) = one else { panic!("many") };
        assert_eq!((one.ack.len(), one.idempotency_key.as_deref()), (1, Some("k")));
        let text = br#"{"commits":[{"ack":["a"]},{"fence":["b"],"idempotency_key":"k"}]}"#;
        let CommitCall::Many(many) = CommitCall::from_json(text).unwrap() else { panic!("one") };
        assert_eq!(many.commits[1].idempotency_key.as_deref(), Some("k"));
        assert_eq!(serde_json::to_vec(&many).unwrap(), text);
    }

    #[test]
    fn refusals_name_the_commit() {
        let many = format!(r#"{{"commits":[{}]}}"#, [r#"{"ack":["a"]}"#; 1001].join(","));
        for (body, message) in [
            (r#"{"commits":[]}"#, "commits: must have 1 to 1000 items, has none"),
            (&*many, "commits: must have 1 to 1000 items, has more"),
            (r#"{"commits":[{"ack":["a"]},{}]}"#, "commits[1].one of ack, fence, effects, produce"),
            (r#"{"commits":[{"ack":["a"],"nack":[]}]}"#, "commits[0].nack: unknown field"),
            (r#"{"commits":[{"ack":["a"]}],"ack":["a"]}"#, "ack: unknown field"),
            (r#"{"ack":["a"],"commits":[]}"#, "commits: unknown field"),
        ] {
            let found = CommitCall::from_json(body.as_bytes()).unwrap_err().message;
            assert!(found.starts_with(message), "{body:.100}: {found}");
        }
    }

    #[test]
    fn results_say_what_became_of_each() {
        let fault = Fault::new(Code::StaleLease, "late").in_part("ack[0]");
        let done = |result| Committed { result, produced: Vec::new(), outputs: Vec::new() };
        let results = vec![
            CommitDone::of(Ok(done(CommitResult::Committed))),
            CommitDone::of(Ok(done(CommitResult::AlreadyCommitted))),
            CommitDone::of(Err(&fault)),
        ];
        let text = serde_json::to_string(&CommitsDone { results: results.clone() }).unwrap();
        let expected = r#"{"results":[{"result":"committed","produced":[],"outputs":[]},{"result":"already_committed","produced":[],"outputs":[]},{"result":"refused","problem":{"code":"STALE_LEASE""#;
        assert!(text.starts_with(expected) && text.contains(r#""part":"ack[0]""#), "{text}");
        assert_eq!(serde_json::from_str::<CommitsDone<'_>>(&text).unwrap().results, results);
    }

    #[test]
    fn results_write_themselves_as_serde_writes_them() {
        let fault = Fault::new(Code::StaleLease, "late").in_part("ack[0]");
        let text = r#"{"result":"committed","produced":[{"topic":"a\"b","partition":1,"offset":2,"duplicate":true},{"topic":"t","partition":0,"offset":3,"duplicate":false}],"outputs":[{"result":"appended","location":"l"}]}"#;
        let full = || serde_json::from_str::<Committed<'_>>(text).unwrap();
        let before = Committed { result: CommitResult::AlreadyCommitted, ..full() };
        let none = Committed { produced: Vec::new(), outputs: Vec::new(), ..full() };
        let done = [Ok(full()), Ok(before), Ok(none), Err(&fault)].map(CommitDone::of);
        for results in [done.to_vec(), Vec::new()] {
            let (done, mut out) = (CommitsDone { results }, Vec::new());
            done.write(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&done).unwrap());
        }
    }
}
