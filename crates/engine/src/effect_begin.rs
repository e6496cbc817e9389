//! Effects that an asker wants to run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use driftq_core::{
    About, Abroad, Answer, BeginEffect, EffectAnswer, EffectInput, EffectLease, Identity, Input, NewBlob,
    Reject, RequestHash, ShardId, Ticket,
};
use tokio::sync::oneshot;

use crate::broker::{Broker, INTERRUPTED, STOPPING, unexpected};
use crate::effect_request::{Begun, EffectCall};
use crate::effects::{LOOKS_MAX, see_ending, short_hash, unreadable};
use crate::failure::Failure;
use crate::house::HOME;
use crate::inbox::{Reply, Request};
use crate::payload_store::{Lost, check_of};
use crate::shared::Shared;

impl Broker {
    /// Gives the lease of an effect, or says how it went. Dropping the future while it waits for another holder is
    /// harmless; a lease that was given by then lapses.
    pub async fn begin_effect(&self, call: &EffectCall<'_>) -> Result<Begun, Failure> {
        let shard = self.effect_shard(call);
        if self.is_all_in(shard, call) {
            self.begin_in(shard, call, Abroad::Nothing).await?.begun()
        } else {
            Box::pin(self.begin_abroad(shard, call)).await
        }
    }

    async fn begin_in(&self, shard: &Shared, call: &EffectCall<'_>, abroad: Abroad) -> Result<Said, Failure> {
        for _ in 0..LOOKS_MAX {
            let named = |failure| match failure {
                Failure::Reject(reject) => Failure::refused(reject, &call.expect),
                other => other,
            };
            match seen_begun(shard, ask_to_begin(shard, call, abroad).await.map_err(named)?).await {
                Ok(said) => return Ok(said),
                Err(Lost::Gone) => {}
                Err(lost) => return Err(unreadable(lost)),
            }
        }
        Err(unreadable(Lost::Gone))
    }

    /// The shard that an effect lives in.
    fn effect_shard(&self, call: &EffectCall<'_>) -> &Arc<Shared> {
        let About { tenant, scope, .. } = &call.about;
        self.shard(self.house().place_effect(tenant, scope, call.delivery.as_ref()))
    }

    /// Whether everything that a begin rests on is in the shard of its effect.
    fn is_all_in(&self, shard: &Shared, call: &EffectCall<'_>) -> bool {
        call.delivery.is_none_or(|receipt| receipt.topic.shard() == shard.id)
            && (call.expect.is_empty() || shard.id == HOME)
    }

    /// Begins an effect whose delivery or whose entities are in another shard. That shard is asked when a lease could be
    /// given, and before it is: a crash in between would leave the lease with nobody. With a delivery of another shard, the
    /// effect is then on loan for its own time, and remembered for its own time, whatever becomes of the delivery.
    async fn begin_abroad(&self, shard: &Shared, call: &EffectCall<'_>) -> Result<Begun, Failure> {
        let identity = Identity::of(&call.about.tenant, &call.about.scope, &call.about.key);
        let delivery = call.delivery.filter(|receipt| receipt.topic.shard() == shard.id);
        let (asked_at, mut wait_ms) = (Instant::now(), call.wait_ms);
        loop {
            let asks = EffectCall { wait_ms, ..call.clone() };
            let raised = match self.begin_in(shard, &asks, Abroad::Unchecked).await? {
                Said::Begun(begun) => return Ok(begun),
                Said::Free { raised } => raised,
            };
            if let Some(receipt) = call.delivery {
                self.is_current(receipt).await?;
            }
            let mut abroad = Abroad::Nothing;
            if !call.expect.is_empty() {
                abroad = Abroad::Raised;
                if !raised {
                    self.raise_for(identity, call).await?;
                }
            }
            let takes = EffectCall { wait_ms: 0, delivery, expect: Vec::new(), ..call.clone() };
            match self.begin_in(shard, &takes, abroad).await?.begun()? {
                // Another asker was faster: its ending is waited for, like that of any other holder.
                Begun::Running { .. } if wait_ms > 0 => {
                    let waited_ms = u64::try_from(asked_at.elapsed().as_millis()).unwrap_or(u64::MAX);
                    wait_ms = call.wait_ms.saturating_sub(waited_ms);
                }
                begun => return Ok(begun),
            }
        }
    }

    /// The same for several effects, in one question to each shard: no asker waits, and each has its own answer, in
    /// order.
    pub async fn begin_effects(
        &self,
        calls: &[EffectCall<'_>],
    ) -> Result<Vec<Result<Begun, Failure>>, Failure> {
        let mut begun: Vec<Option<Result<Begun, Failure>>> = calls.iter().map(|_| None).collect();
        let mut of_shards: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
        for (place, call) in calls.iter().enumerate() {
            let shard = self.effect_shard(call);
            if self.is_all_in(shard, call) {
                of_shards.entry(shard.id).or_default().push(place);
            } else {
                begun[place] = Some(Box::pin(self.begin_abroad(shard, call)).await);
            }
        }
        for (shard, places) in of_shards {
            let shard = self.shard(shard);
            let asks: Vec<BeginEffect> = places.iter().map(|place| taken(&calls[*place])).collect();
            let bytes = asks.iter().map(|ask| ask.about.bytes.len() + size_of::<BeginEffect>()).sum();
            let input = |ticket| Input::Effect(EffectInput::BeginMany { ticket, asks });
            let answers = match shard.ask(bytes, true, input).await? {
                Answer::Effects(answers) => answers,
                other => return Err(unexpected(&other)),
            };
            for (place, answer) in places.into_iter().zip(answers) {
                begun[place] = Some(self.begun_among(shard, &calls[place], answer).await);
            }
        }
        let interrupted = || Err(Failure::Unavailable(INTERRUPTED.into()));
        Ok(begun.into_iter().map(|begun| begun.unwrap_or_else(interrupted)).collect())
    }

    async fn begun_among(
        &self,
        shard: &Shared,
        call: &EffectCall<'_>,
        answer: Result<EffectAnswer, Reject>,
    ) -> Result<Begun, Failure> {
        let answer = answer.map_err(|reject| {
            shard.meters.rejected.one();
            Failure::refused(reject, &call.expect)
        })?;
        match seen_begun(shard, answer).await {
            Ok(said) => said.begun(),
            // Moved while it was being read: this one is asked for again.
            Err(Lost::Gone) => self.begin_effect(call).await,
            Err(lost) => Err(unreadable(lost)),
        }
    }
}

/// What a shard says to an asker.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives for a moment, and is nearly always the large one")]
enum Said {
    Begun(Begun),
    /// As [`EffectAnswer::Free`].
    Free {
        raised: bool,
    },
}

impl Said {
    /// What an asker is told that has left nothing unchecked.
    fn begun(self) -> Result<Begun, Failure> {
        match self {
            Self::Begun(begun) => Ok(begun),
            free @ Self::Free { .. } => Err(unexpected(&free)),
        }
    }
}

/// An answer with what the log keeps about the effect; counted.
async fn seen_begun(shard: &Shared, answer: EffectAnswer) -> Result<Said, Lost> {
    let begun = match answer {
        EffectAnswer::Execute(lease) => {
            Begun::Execute(EffectLease { receipt: lease.receipt.sent_from(shard.id), ..lease })
        }
        EffectAnswer::Running { epoch, attempt, retry_after_ms } => {
            Begun::Running { epoch, attempt, retry_after_ms }
        }
        EffectAnswer::Unknown(view) => Begun::Unknown(view),
        EffectAnswer::Replay(view) => Begun::Replay(see_ending(shard, view).await?),
        EffectAnswer::Retryable { view, left } => {
            Begun::Retryable { seen: see_ending(shard, view).await?, left }
        }
        EffectAnswer::Free { raised } => return Ok(Said::Free { raised }),
    };
    match begun {
        Begun::Execute(_) => shard.meters.effects_executed.one(),
        Begun::Replay(_) => shard.meters.effects_replayed.one(),
        Begun::Running { .. } | Begun::Retryable { .. } | Begun::Unknown(_) => {}
    }
    Ok(Said::Begun(begun))
}

async fn ask_to_begin(
    shared: &Shared,
    call: &EffectCall<'_>,
    abroad: Abroad,
) -> Result<EffectAnswer, Failure> {
    let ticket = shared.ticket();
    let (reply, answer) = oneshot::channel();
    let ask = Box::new(BeginEffect { abroad, ..taken(call) });
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
    let mut stopping = shared.house.stopping.subscribe();
    tokio::select! {
        biased;
        answer = asked.answer() => answer,
        _ = stopping.wait_for(|stopping| *stopping) => Err(Failure::Unavailable(STOPPING.into())),
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
        abroad: Abroad::Nothing,
    }
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
        match self.shared.heard(answer)? {
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
