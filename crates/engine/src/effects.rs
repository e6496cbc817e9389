//! What is asked of the ledger.

use std::borrow::Cow;

use bytes::Bytes;
use driftq_core::{
    About, Answer, BeginEffect, Blob, Description, EffectAnswer, EffectInput, EffectLease, EffectList,
    EffectReceipt, EffectView, Ending, FinishEffect, Identity, Input, Message, NewBlob, Query, Receipt,
    Reject, RequestHash, ResolveEffect, Spotted, Ticket,
};
use tokio::sync::oneshot;

use crate::broker::{Broker, INTERRUPTED, STOPPING, heard, unexpected};
use crate::effect_request::{
    Begun, EffectCall, EffectEnd, EffectEnded, EffectFilter, EffectSight, SeenEffect,
};
use crate::failure::Failure;
use crate::inbox::{Reply, Request};
use crate::payload_store::{Extent, Lost, check_of};
use crate::shared::Shared;

/// How often a record is asked for again whose bytes were moved while they were being read.
const LOOKS_MAX: usize = 4;

impl Broker {
    /// The token of a lease of an effect: opaque to its holder, and made by the broker alone.
    #[must_use]
    pub fn effect_token(&self, receipt: EffectReceipt) -> String {
        self.shared().seal.seal_effect(receipt)
    }

    /// The lease that a token names; `None` if the broker never wrote it.
    #[must_use]
    pub fn effect_receipt(&self, token: &str) -> Option<EffectReceipt> {
        self.shared().seal.open_effect(token)
    }

    /// Gives the lease of an effect, or says how it went. Dropping the future while it waits for another holder is
    /// harmless; a lease that was given by then lapses.
    pub async fn begin_effect(&self, call: &EffectCall<'_>) -> Result<Begun, Failure> {
        for _ in 0..LOOKS_MAX {
            let named = |failure| match failure {
                Failure::Reject(reject) => Failure::refused(reject, &call.expect),
                other => other,
            };
            match self.seen_begun(self.ask_to_begin(call).await.map_err(named)?).await {
                Ok(begun) => return Ok(begun),
                Err(Lost::Gone) => {}
                Err(lost) => return Err(unreadable(lost)),
            }
        }
        Err(unreadable(Lost::Gone))
    }

    /// The same for several effects, in one question: no asker waits, and each has its own answer, in order.
    pub async fn begin_effects(
        &self,
        calls: &[EffectCall<'_>],
    ) -> Result<Vec<Result<Begun, Failure>>, Failure> {
        let asks: Vec<BeginEffect> = calls.iter().map(taken).collect();
        let bytes = asks.iter().map(|ask| ask.about.bytes.len() + size_of::<BeginEffect>()).sum();
        let answers = match self
            .ask(bytes, true, |ticket| Input::Effect(EffectInput::BeginMany { ticket, asks }))
            .await?
        {
            Answer::Effects(answers) => answers,
            other => return Err(unexpected(&other)),
        };
        let mut begun = Vec::with_capacity(answers.len());
        for (call, answer) in calls.iter().zip(answers) {
            begun.push(match answer {
                Err(reject) => {
                    self.shared().meters.rejected.one();
                    Err(Failure::refused(reject, &call.expect))
                }
                Ok(answer) => match self.seen_begun(answer).await {
                    Ok(begun) => Ok(begun),
                    // Moved while it was being read: this one is asked for again.
                    Err(Lost::Gone) => self.begin_effect(call).await,
                    Err(lost) => Err(unreadable(lost)),
                },
            });
        }
        Ok(begun)
    }

    /// An answer with what the log keeps about the effect; counted.
    async fn seen_begun(&self, answer: EffectAnswer) -> Result<Begun, Lost> {
        let begun = match answer {
            EffectAnswer::Execute(lease) => Begun::Execute(lease),
            EffectAnswer::Running { epoch, attempt, retry_after_ms } => {
                Begun::Running { epoch, attempt, retry_after_ms }
            }
            EffectAnswer::Unknown(view) => Begun::Unknown(view),
            EffectAnswer::Replay(view) => Begun::Replay(self.see_ending(view).await?),
            EffectAnswer::Retryable { view, left } => {
                Begun::Retryable { seen: self.see_ending(view).await?, left }
            }
        };
        self.count_begun(&begun);
        Ok(begun)
    }

    fn count_begun(&self, begun: &Begun) {
        let meters = &self.shared().meters;
        match begun {
            Begun::Execute(_) => meters.effects_executed.one(),
            Begun::Replay(_) => meters.effects_replayed.one(),
            Begun::Running { .. } | Begun::Retryable { .. } | Begun::Unknown(_) => {}
        }
    }

    async fn ask_to_begin(&self, call: &EffectCall<'_>) -> Result<EffectAnswer, Failure> {
        let shared = self.shared();
        let ticket = shared.ticket();
        let (reply, answer) = oneshot::channel();
        let ask = Box::new(taken(call));
        let bytes = ask.about.bytes.len();
        let input = Input::Effect(EffectInput::Begin { ticket, ask });
        let request = Request { ticket, input, reply, bytes, writes: true, stream: None };
        if let Err(failure) = shared.inbox.ask(request) {
            if failure == Failure::Busy {
                shared.meters.requests_busy.one();
            }
            return Err(failure);
        }
        shared.meters.requests.one();
        let mut asked = Asked { shared, ticket, answer: Some(answer) };
        if call.wait_ms == 0 {
            return asked.answer().await;
        }
        let mut stopping = shared.stopping.subscribe();
        tokio::select! {
            biased;
            answer = asked.answer() => answer,
            _ = stopping.wait_for(|stopping| *stopping) => Err(Failure::Unavailable(STOPPING.into())),
        }
    }

    /// The holder of a lease says how its effect ended.
    pub async fn finish_effect(
        &self,
        receipt: EffectReceipt,
        end: &EffectEnd<'_>,
    ) -> Result<EffectEnded, Failure> {
        let finish = finishing(receipt, end);
        let bytes = finish.ending.bytes.len();
        let answer =
            self.ask(bytes, true, |ticket| Input::Effect(EffectInput::Finish { ticket, finish })).await;
        let stale = |reject: &Reject| {
            matches!(reject, Reject::EffectStale(_) | Reject::EffectFenced | Reject::EffectDiffers)
        };
        if matches!(&answer, Err(Failure::Reject(reject)) if stale(reject)) {
            self.shared().meters.effects_stale.one();
        }
        ended(&answer?).inspect(|ended| {
            if !ended.already {
                self.shared().meters.effects_finished.one();
            }
        })
    }

    /// The holder of a lease goes on; says until when.
    pub async fn renew_effect(
        &self,
        receipt: EffectReceipt,
        lease_ms: Option<u64>,
    ) -> Result<EffectLease, Failure> {
        match self
            .ask(0, true, |ticket| Input::Effect(EffectInput::Renew { ticket, receipt, lease_ms }))
            .await?
        {
            Answer::EffectRenewed { attempt, expires, .. } => Ok(EffectLease { receipt, attempt, expires }),
            other => Err(unexpected(&other)),
        }
    }

    /// The holder of a lease gives it up, because nothing was sent or because that is not known; says whether it had
    /// before.
    pub async fn release_effect(&self, receipt: EffectReceipt, uncertain: bool) -> Result<bool, Failure> {
        match self
            .ask(0, true, |ticket| Input::Effect(EffectInput::Release { ticket, receipt, uncertain }))
            .await?
        {
            Answer::EffectReleased { already } => Ok(already),
            other => Err(unexpected(&other)),
        }
    }

    /// Gives effects of a delivery what their askers left out: tenant, run and step of its message.
    pub async fn inherit(&self, calls: &mut [EffectCall<'_>]) -> Result<(), Failure> {
        let lacking = |call: &EffectCall<'_>| call.about.tenant.is_empty();
        let of_message = |receipt: Receipt| {
            let Receipt { topic, partition, offset, .. } = receipt;
            Spotted { topic, partition, offset }
        };
        let heirs: Vec<(&mut EffectCall<'_>, Spotted)> = calls
            .iter_mut()
            .filter(|call| lacking(call))
            .filter_map(|call| call.delivery.map(|receipt| (call, of_message(receipt))))
            .collect();
        if heirs.is_empty() {
            return Ok(());
        }
        let messages = heirs.iter().map(|(_, message)| *message).collect();
        let blobs = match self.describe(Query::Payloads(messages)).await? {
            Description::Payloads(blobs) => blobs,
            other => return Err(unexpected(&other)),
        };
        for ((call, _), blob) in heirs.into_iter().zip(blobs) {
            // What is gone has no delivery that may begin anything: the shard says so.
            let Some(blob) = blob else { continue };
            let Ok(payload) = self.read_blob(blob).await else { continue };
            let Ok(message) = Message::decode(&payload) else { continue };
            let Some(envelope) = message.envelope else { continue };
            let left = |own: &mut Cow<'_, str>, inherited: &str| {
                if own.is_empty() && !inherited.is_empty() {
                    *own = Cow::Owned(inherited.to_owned());
                }
            };
            left(&mut call.about.tenant, &envelope.tenant_id);
            left(&mut call.about.run, &envelope.run_id);
            left(&mut call.about.step, &envelope.step_id);
        }
        Ok(())
    }

    /// A resolver has found out how an effect ended.
    pub async fn resolve_effect(
        &self,
        (tenant, scope, key): (&str, &str, &str),
        seen: Option<u32>,
        end: &EffectEnd<'_>,
    ) -> Result<EffectEnded, Failure> {
        let bytes = end.ending.encode();
        let resolve = ResolveEffect {
            identity: Identity::of(tenant, scope, key),
            seen,
            status: end.status,
            digest: Ending::digest(&bytes),
            ending: NewBlob { check: check_of(&bytes), bytes },
        };
        let length = resolve.ending.bytes.len();
        ended(
            &self.ask(length, true, |ticket| Input::Effect(EffectInput::Resolve { ticket, resolve })).await?,
        )
    }

    /// One effect.
    pub async fn effect(&self, tenant: &str, scope: &str, key: &str) -> Result<SeenEffect, Failure> {
        let identity = Identity::of(tenant, scope, key);
        for _ in 0..LOOKS_MAX {
            match self.describe(Query::Effect(identity)).await? {
                Description::Effect(None) => return Err(Failure::Reject(Reject::EffectUnknown)),
                Description::Effect(Some(view)) => match self.see_effect(view).await {
                    Ok(seen) => return Ok(seen),
                    Err(Lost::Gone) => {}
                    Err(lost) => return Err(unreadable(lost)),
                },
                other => return Err(unexpected(&other)),
            }
        }
        Err(unreadable(Lost::Gone))
    }

    /// Some effects, oldest first. What was moved while it was being read is left out.
    pub async fn effects(&self, filter: &EffectFilter<'_>) -> Result<EffectSight, Failure> {
        let list = EffectList {
            after: filter.after,
            limit: filter.limit,
            status: filter.status,
            tenant: filter.tenant.as_deref().map(short_hash),
            scope: filter.scope.as_deref().map(short_hash),
        };
        match self.describe(Query::Effects(list)).await? {
            Description::Effects(page) => {
                let mut seen = Vec::with_capacity(page.effects.len());
                for view in page.effects {
                    if let Ok(effect) = self.see_effect(view).await
                        && filter.takes(&effect)
                    {
                        seen.push(effect);
                    }
                }
                Ok(EffectSight { seen, scanned: page.scanned, next: page.next })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Reads everything that the log keeps about an effect.
    pub(crate) async fn see_effect(&self, view: EffectView) -> Result<SeenEffect, Lost> {
        let about = self.read_blob(view.about).await?;
        Ok(SeenEffect { about, ..self.see_ending(view).await? })
    }

    async fn see_ending(&self, view: EffectView) -> Result<SeenEffect, Lost> {
        let ending = match view.ending {
            Some(blob) => Some(self.read_blob(blob).await?),
            None => None,
        };
        Ok(SeenEffect { view, about: Bytes::new(), ending })
    }

    async fn read_blob(&self, Blob { position, length, check }: Blob) -> Result<Bytes, Lost> {
        self.shared().payload_store.fetch(Extent { position, length, check }).await
    }
}

impl EffectFilter<'_> {
    /// The shard compares hashes; two texts may have the same.
    fn takes(&self, seen: &SeenEffect) -> bool {
        let Ok(about) = About::decode(&seen.about) else { return false };
        self.tenant.as_deref().is_none_or(|tenant| about.tenant == tenant)
            && self.scope.as_deref().is_none_or(|scope| about.scope == scope)
    }
}

/// What the shard is asked.
fn taken(call: &EffectCall<'_>) -> BeginEffect {
    let about = &call.about;
    let bytes = about.encode();
    let request = match &*about.request {
        "" => RequestHash::NONE,
        request => RequestHash::of(request.as_bytes()),
    };
    BeginEffect {
        identity: Identity::of(&about.tenant, &about.scope, &about.key),
        request,
        tenant: short_hash(&about.tenant),
        scope: short_hash(&about.scope),
        about: NewBlob { check: check_of(&bytes), bytes },
        lease_ms: call.lease_ms,
        ttl_ms: call.ttl_ms,
        on_lapse: call.on_lapse,
        attempts_max: call.attempts_max,
        urge: call.urge,
        wait_ms: call.wait_ms,
        caller: call.request_id.as_deref().map_or(0, |id| RequestHash::of(id.as_bytes()).0),
        owner: call.owner.to_string(),
        delivery: call.delivery,
        run: about.run.to_string(),
        whose: about.tenant.to_string(),
        expect: call.expect.clone(),
    }
}

/// What the shard is told about an ending.
pub(crate) fn finishing(receipt: EffectReceipt, end: &EffectEnd<'_>) -> FinishEffect {
    let bytes = end.ending.encode();
    FinishEffect {
        receipt,
        status: end.status,
        digest: Ending::digest(&bytes),
        ending: NewBlob { check: check_of(&bytes), bytes },
    }
}

/// Enough to skip most of what a list does not ask for, and to count by: [`driftq_core::short_hash`], fast.
fn short_hash(text: &str) -> u32 {
    crc_fast::crc32_iscsi(text.as_bytes())
}

fn ended(answer: &Answer) -> Result<EffectEnded, Failure> {
    match *answer {
        Answer::EffectEnded { already, epoch, attempt, expires } => {
            Ok(EffectEnded { already, epoch, attempt, expires })
        }
        ref other => Err(unexpected(other)),
    }
}

fn unreadable(lost: Lost) -> Failure {
    tracing::error!(%lost, "what the log keeps about an effect cannot be read");
    Failure::Unavailable("what is kept about the effect cannot be read now".into())
}

/// A begin under way. Dropped early, it stops waiting.
struct Asked<'a> {
    shared: &'a Shared,
    ticket: Ticket,
    answer: Option<oneshot::Receiver<Reply>>,
}

impl Asked<'_> {
    async fn answer(&mut self) -> Result<EffectAnswer, Failure> {
        let Some(answer) = &mut self.answer else { return Err(Failure::Unavailable(INTERRUPTED.into())) };
        let answer = answer.await;
        self.answer = None;
        match heard(self.shared, answer)? {
            Answer::Effect(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.answer.take().is_some() {
            self.shared.inbox.input(Input::Forsake { ticket: self.ticket });
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn short_hashes_are_those_by_which_the_shard_counts() {
        for text in ["", "acme", "a name of a tenant that is longer than any register, by far", "m\u{fc}ller"]
        {
            assert_eq!(super::short_hash(text), driftq_core::short_hash(text), "{text}");
        }
    }
}
