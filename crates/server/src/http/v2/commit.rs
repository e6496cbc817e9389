//! `POST /v2/commit`.

use std::borrow::Cow;
use std::sync::Arc;

use driftq_api::v2::{
    Commit, CommitDone, CommitFound, CommitOutput, CommitResult, CommitsDone, Committed, CommittedOutput,
    KeyAction, OutputResult, Produced,
};
use driftq_api::{Fault, v2};
use driftq_engine::core::{CommitPart, Identity, NewOutput, OutputDone, Read, RequestHash};
use driftq_engine::{Broker, CommitCall, Failure};
use hyper::StatusCode;

use super::effects::{taken_result, unknown_lease};
use super::entities::taken_expected;
use super::produce::draft;
use super::traced::TracedCommit;
use super::{Request, fault};
use crate::http::answer::{json, written};
use crate::http::v1::{Handled, adopt};
use crate::trace::{context_of, label};

pub(super) async fn commit(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let header = request.key()?;
    match v2::CommitCall::from_json(request.json()?)? {
        v2::CommitCall::One(asked) => {
            let (call, outputs) = taken(request, *asked, header, &mut Vec::new())?;
            let traced = TracedCommit::of(request, &call);
            let done = request.app.broker.commit(call).await.map_err(|failure| refused(&failure));
            if let Some(traced) = traced {
                traced.tell(done.as_ref().err());
            }
            let done = done?;
            Ok(json(StatusCode::OK, &shown(outputs, &done)))
        }
        v2::CommitCall::Many(asked) => Box::pin(commit_many(request, asked, header)).await,
    }
}

/// Does several commits. What is wrong with one of them is its own result.
async fn commit_many(request: &Request<'_>, asked: v2::Commits<'_>, header: Option<String>) -> Handled {
    let count = asked.commits.len();
    let (mut kept, mut calls) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut said = Vec::new();
    for (place, commit) in asked.commits.into_iter().enumerate() {
        let name = header.as_ref().filter(|_| commit.idempotency_key.is_none());
        let name = name.map(|header| format!("{header}/{place}"));
        kept.push(taken(request, commit, name, &mut said).map(|(call, outputs)| {
            calls.push(call);
            outputs
        }));
    }
    let done = match calls.is_empty() {
        true => Vec::new(),
        false => {
            let traced: Vec<_> = calls.iter().map(|call| TracedCommit::of(request, call)).collect();
            let done = request.app.broker.commit_many(calls).await.map_err(|failure| fault(&failure))?;
            for (traced, done) in traced.into_iter().zip(&done) {
                let refused = done.as_ref().err().map(refused);
                if let Some(traced) = traced {
                    traced.tell(refused.as_ref());
                }
            }
            done
        }
    };
    let mut done = done.into_iter();
    let results: Vec<Result<_, Fault>> = kept
        .into_iter()
        .filter_map(|kept| match kept {
            Err(fault) => Some(Err(fault)),
            Ok(outputs) => done.next().map(|done| match done {
                Ok(done) => Ok((outputs, done)),
                Err(failure) => Err(refused(&failure)),
            }),
        })
        .collect();
    let results = results.iter().map(|result| match result {
        Ok((outputs, done)) => CommitDone::of(Ok(shown(outputs.clone(), done))),
        Err(fault) => CommitDone::of(Err(fault)),
    });
    let done = CommitsDone { results: results.collect() };
    Ok(written(StatusCode::OK, |out| done.write(out)))
}

/// A commit as the broker takes it, and its outputs as they were given. `name` names it if it does not itself. `said` is
/// room for its text, used again for the next one.
fn taken<'a>(
    request: &Request<'_>,
    mut asked: Commit<'a>,
    name: Option<String>,
    said: &mut Vec<u8>,
) -> Result<(CommitCall<'a>, Vec<CommitOutput<'a>>), Fault> {
    let name = match (asked.idempotency_key.take(), name) {
        (Some(_), Some(_)) => {
            let text = "Idempotency-Key: the commit has an idempotency_key of its own; send one of them";
            return Err(Fault::invalid(text));
        }
        (own, name) => own.map(Cow::into_owned).or(name),
    };
    check_parts(request, &asked)?;
    let is_scoped =
        name.is_some() || !(asked.outputs.is_empty() && asked.reads.is_empty() && asked.expect.is_empty());
    if is_scoped || !asked.tenant_id.is_empty() {
        asked.tenant_id = request.tenant(asked.tenant_id)?;
    }
    // As it was understood: a client that builds the body anew may order it differently.
    said.clear();
    asked.write(said);
    let broker = &request.app.broker;
    let is_fenced = !(asked.ack.is_empty() && asked.fence.is_empty() && asked.effects.is_empty());
    let (name, said_as) = match name {
        Some(key) => (Some(named(&asked.tenant_id, &key)), RequestHash::of(said)),
        // A body with a token in it is that of one commit only, and names it: nothing else can have that name.
        None if is_fenced => (Some(Identity::of_parts(&[b"commit", said])), RequestHash::NONE),
        // Without one, equal bodies may be two commits.
        None => (None, RequestHash::NONE),
    };
    let call = CommitCall {
        name,
        request: said_as,
        acks: receipts(broker, "ack", &asked.ack)?,
        fences: receipts(broker, "fence", &asked.fence)?,
        effects: effects(request, asked.effects)?,
        messages: messages(request, asked.produce)?,
        outputs: asked.outputs.iter().map(taken_output).collect(),
        reads: asked.reads.iter().map(taken_read).collect(),
        tenant: asked.tenant_id.into_owned(),
        expect: asked.expect.into_iter().map(taken_expected).collect(),
    };
    Ok((call, asked.outputs))
}

/// Each part of a commit needs what it would need as a call of its own. Its tokens are authority for themselves.
fn check_parts(request: &Request<'_>, asked: &Commit<'_>) -> Result<(), Fault> {
    let parts = [
        (asked.produce.is_empty(), KeyAction::Produce),
        (asked.effects.is_empty(), KeyAction::Effects),
        (asked.outputs.is_empty(), KeyAction::Outputs),
    ];
    for (is_empty, action) in parts {
        if !is_empty {
            request.caller.may(action)?;
        }
    }
    for item in &asked.produce {
        request.caller.may_use(&item.topic)?;
    }
    Ok(())
}

type Messages<'a> = Vec<(Cow<'a, str>, driftq_engine::Draft<'a>)>;

/// The messages of a commit as the broker takes them, each sent as a tenant of the caller.
fn messages<'a>(request: &Request<'_>, produce: Vec<v2::CommitMessage<'a>>) -> Result<Messages<'a>, Fault> {
    let trace = context_of(request.head);
    let drafts = produce.into_iter().enumerate().map(|(place, item)| {
        let mut draft = draft(item.message);
        adopt(request.app, request.caller, &item.topic, &mut draft.message)
            .map_err(|fault| fault.in_part(format!("produce[{place}]")))?;
        label(trace, &mut draft.message);
        Ok((item.topic, draft))
    });
    drafts.collect()
}

/// What the key of a commit stands for: each tenant has its own.
fn named(tenant: &str, key: &str) -> Identity {
    if tenant.is_empty() {
        return Identity::of_parts(&[b"commit by key", key.as_bytes()]);
    }
    Identity::of_parts(&[b"commit by key of tenant", tenant.as_bytes(), key.as_bytes()])
}

/// Whether a commit was done, for a caller that did not hear the answer.
pub(super) async fn get(request: &Request<'_>) -> Handled {
    let (key, tenant) = (request.name(0, "key")?, request.tenant(v2::tenant(request.query()?)?)?);
    let found = request.app.broker.committed_as(named(&tenant, &key)).await;
    let unknown = || {
        let text =
            "no commit under that key is remembered: it was not done, is not done yet, or is forgotten";
        Fault::new(driftq_api::Code::CommitUnknown, text)
    };
    let done = found.map_err(|failure| fault(&failure))?.ok_or_else(unknown)?;
    let outputs = done.outputs.iter().map(|done| result_of(*done)).collect();
    let Committed { result, produced, .. } = shown(Vec::new(), &done);
    Ok(json(StatusCode::OK, &CommitFound { result, produced, outputs }))
}

fn taken_read(read: &v2::DatasetVersion<'_>) -> Read {
    Read { dataset: read.dataset.to_string(), version: read.version.to_string() }
}

fn shown<'a>(outputs: Vec<CommitOutput<'a>>, done: &'a driftq_engine::Committed) -> Committed<'a> {
    let mut kept = done.kept.iter();
    let outputs = outputs.into_iter().zip(&done.outputs);
    let outputs = outputs.map(|(output, done)| shown_output(output, *done, &mut kept)).collect();
    let produced = done.produced.iter().map(|stored| Produced {
        topic: Cow::Borrowed(&stored.topic),
        partition: stored.partition,
        offset: stored.offset,
        duplicate: stored.duplicate,
    });
    Committed {
        result: if done.already { CommitResult::AlreadyCommitted } else { CommitResult::Committed },
        produced: produced.collect(),
        outputs,
    }
}

fn receipts(
    broker: &Broker,
    part: &str,
    tokens: &[Cow<'_, str>],
) -> Result<Vec<driftq_engine::core::Receipt>, Fault> {
    let opened = tokens.iter().enumerate().map(|(place, token)| {
        broker.receipt(token).ok_or_else(|| unknown_lease().in_part(format!("{part}[{place}]")))
    });
    opened.collect()
}

type Ends<'a> = Vec<(driftq_engine::core::EffectReceipt, driftq_engine::EffectEnd<'a>)>;

fn effects<'a>(request: &Request<'_>, effects: Vec<v2::EffectFinish<'a>>) -> Result<Ends<'a>, Fault> {
    let opened = effects.into_iter().enumerate().map(|(place, effect)| {
        let receipt = super::effects::receipt(request, &effect.token)
            .map_err(|fault| fault.in_part(format!("effects[{place}]")))?;
        Ok((receipt, taken_result(effect.result)))
    });
    opened.collect()
}

fn taken_output(output: &CommitOutput<'_>) -> NewOutput {
    NewOutput {
        dataset: output.dataset.to_string(),
        version: output.version.to_string(),
        partition_key: output.partition_key.to_string(),
        dedupe_key: output.dedupe_key.as_deref().unwrap_or_default().to_owned(),
        location: output.location.to_string(),
        digest: output.digest.to_string(),
    }
}

/// What became of an output. A duplicate names the location that stays, so that the other one can be cleared away.
fn shown_output<'a>(
    output: CommitOutput<'a>,
    done: OutputDone,
    kept: &mut impl Iterator<Item = &'a Arc<str>>,
) -> CommittedOutput<'a> {
    let result = result_of(done);
    let stays =
        if done == OutputDone::Duplicate { kept.next().filter(|stays| !stays.is_empty()) } else { None };
    let location = stays.map_or(output.location, |stays| Cow::Borrowed(&**stays));
    CommittedOutput { result, location }
}

const fn result_of(done: OutputDone) -> OutputResult {
    match done {
        OutputDone::Replaced => OutputResult::Replaced,
        OutputDone::Appended => OutputResult::Appended,
        OutputDone::Duplicate => OutputResult::Duplicate,
    }
}

/// A refusal names the part that was at fault.
fn refused(failure: &Failure) -> Fault {
    let Failure::Commit(part, why) = failure else { return fault(failure) };
    let fault = fault(why);
    match part {
        CommitPart::Ack(place) => fault.in_part(format!("ack[{place}]")),
        CommitPart::Fence(place) => fault.in_part(format!("fence[{place}]")),
        CommitPart::Effect(place) => fault.in_part(format!("effects[{place}]")),
        CommitPart::Produce(place) => fault.in_part(format!("produce[{place}]")),
        CommitPart::Expect(place) => fault.in_part(format!("expect[{place}]")),
        CommitPart::Output(place) => fault.in_part(format!("outputs[{place}]")),
        CommitPart::Whole => fault,
    }
}
