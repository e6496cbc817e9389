//! What is asked of the ledger.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use driftq_core::{
    About, Answer, Blob, Description, EffectInput, EffectLease, EffectList, EffectReceipt, EffectView,
    Ending, FinishEffect, Identity, Input, Message, NewBlob, Query, Receipt, Reject, ResolveEffect, ShardId,
    Spotted,
};

use crate::broker::{Broker, unexpected};
use crate::effect_request::{EffectCall, EffectEnd, EffectEnded, EffectFilter, EffectSight, SeenEffect};
use crate::failure::Failure;
use crate::payload_store::{Extent, Lost, check_of};
use crate::shared::Shared;

/// How often a record is asked for again whose bytes were moved while they were being read.
pub(crate) const LOOKS_MAX: usize = 4;

impl Broker {
    /// The token of a lease of an effect: opaque to its holder, and made by the broker alone.
    #[must_use]
    pub fn effect_token(&self, receipt: EffectReceipt) -> String {
        self.house().seal.seal_effect(receipt)
    }

    /// The lease that a token names; `None` if the broker never wrote it.
    #[must_use]
    pub fn effect_receipt(&self, token: &str) -> Option<EffectReceipt> {
        self.house().seal.open_effect(token)
    }

    /// The holder of a lease says how its effect ended.
    pub async fn finish_effect(
        &self,
        receipt: EffectReceipt,
        end: &EffectEnd<'_>,
    ) -> Result<EffectEnded, Failure> {
        let (shard, receipt) = (self.shard(receipt.shard()), receipt.local());
        let finish = finishing(receipt, end);
        let bytes = finish.ending.bytes.len();
        let answer =
            shard.ask(bytes, true, |ticket| Input::Effect(EffectInput::Finish { ticket, finish })).await;
        let stale = |reject: &Reject| {
            matches!(reject, Reject::EffectStale(_) | Reject::EffectFenced | Reject::EffectDiffers)
        };
        if matches!(&answer, Err(Failure::Reject(reject)) if stale(reject)) {
            shard.meters.effects_stale.one();
        }
        ended(&answer?).inspect(|ended| {
            if !ended.already {
                shard.meters.effects_finished.one();
            }
        })
    }

    /// The holder of a lease goes on; says until when.
    pub async fn renew_effect(
        &self,
        receipt: EffectReceipt,
        lease_ms: Option<u64>,
    ) -> Result<EffectLease, Failure> {
        let (shard, told) = (self.shard(receipt.shard()), receipt);
        let receipt = receipt.local();
        match shard
            .ask(0, true, |ticket| Input::Effect(EffectInput::Renew { ticket, receipt, lease_ms }))
            .await?
        {
            Answer::EffectRenewed { attempt, expires, .. } => {
                Ok(EffectLease { receipt: told, attempt, expires })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// The holder of a lease gives it up, because nothing was sent or because that is not known; says whether it had
    /// before.
    pub async fn release_effect(&self, receipt: EffectReceipt, uncertain: bool) -> Result<bool, Failure> {
        let (shard, receipt) = (self.shard(receipt.shard()), receipt.local());
        match shard
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
        let messages: Vec<Spotted> = heirs.iter().map(|(_, message)| *message).collect();
        let blobs = self.blobs_of(&messages).await?;
        for ((call, message), blob) in heirs.into_iter().zip(blobs) {
            // What is gone has no delivery that may begin anything: the shard says so.
            let Some(blob) = blob else { continue };
            let Ok(payload) = read_blob(self.at(message.topic), blob).await else { continue };
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

    /// Where the payloads of some messages lie, each in the log of its shard; `None` for what is not kept.
    async fn blobs_of(&self, messages: &[Spotted]) -> Result<Vec<Option<Blob>>, Failure> {
        let mut blobs = vec![None; messages.len()];
        let mut of_shards: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
        for (place, message) in messages.iter().enumerate() {
            of_shards.entry(message.topic.shard()).or_default().push(place);
        }
        for (shard, places) in of_shards {
            let wanted = places.iter().map(|place| messages[*place]).collect();
            match self.shard(shard).describe(Query::Payloads(wanted)).await? {
                Description::Payloads(found) => {
                    places.into_iter().zip(found).for_each(|(place, blob)| blobs[place] = blob);
                }
                other => return Err(unexpected(&other)),
            }
        }
        Ok(blobs)
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
        let shard = self.shard(self.house().find_effect(tenant, scope, None));
        ended(
            &shard
                .ask(length, true, |ticket| Input::Effect(EffectInput::Resolve { ticket, resolve }))
                .await?,
        )
    }

    /// One effect.
    pub async fn effect(&self, tenant: &str, scope: &str, key: &str) -> Result<SeenEffect, Failure> {
        let identity = Identity::of(tenant, scope, key);
        let shard = self.shard(self.house().find_effect(tenant, scope, None));
        for _ in 0..LOOKS_MAX {
            match shard.describe(Query::Effect(identity)).await? {
                Description::Effect(None) => return Err(Failure::Reject(Reject::EffectUnknown)),
                Description::Effect(Some(view)) => match see_effect(shard, view).await {
                    Ok(seen) => return Ok(seen),
                    Err(Lost::Gone) => {}
                    Err(lost) => return Err(unreadable(lost)),
                },
                other => return Err(unexpected(&other)),
            }
        }
        Err(unreadable(Lost::Gone))
    }

    /// Some effects, those of one shard after those of another, oldest first. What was moved while it was being read is
    /// left out.
    pub async fn effects(&self, filter: &EffectFilter<'_>) -> Result<EffectSight, Failure> {
        let after = EffectReceipt { number: filter.after, epoch: 0 };
        let first = usize::from(after.shard().0);
        let mut sight = EffectSight::default();
        for shard in self.shards().iter().skip(first) {
            let begins_here = usize::from(shard.id.0) == first;
            let list = EffectList {
                after: if begins_here { after.local().number } else { 0 },
                limit: filter.limit.saturating_sub(u32::try_from(sight.seen.len()).unwrap_or(u32::MAX)),
                status: filter.status,
                tenant: filter.tenant.as_deref().map(short_hash),
                scope: filter.scope.as_deref().map(short_hash),
            };
            let page = match shard.describe(Query::Effects(list)).await? {
                Description::Effects(page) => page,
                other => return Err(unexpected(&other)),
            };
            for view in page.effects {
                if let Ok(effect) = see_effect(shard, view).await
                    && filter.takes(&effect)
                {
                    sight.seen.push(effect);
                }
            }
            sight.scanned += page.scanned;
            sight.next = page.next.map(|next| place(shard.id, next));
            let is_last = usize::from(shard.id.0) + 1 == self.shard_count();
            if sight.next.is_some() || is_last {
                break;
            }
            if sight.seen.len() >= filter.limit as usize {
                sight.next = Some(place(ShardId(shard.id.0 + 1), 0));
                break;
            }
        }
        Ok(sight)
    }
}

/// Where a list goes on.
const fn place(shard: ShardId, number: u64) -> u64 {
    EffectReceipt { number, epoch: 0 }.sent_from(shard).number
}

/// Reads everything that the log of its shard keeps about an effect.
pub(crate) async fn see_effect(shard: &Shared, view: EffectView) -> Result<SeenEffect, Lost> {
    let about = read_blob(shard, view.about).await?;
    Ok(SeenEffect { about, ..see_ending(shard, view).await? })
}

pub(crate) async fn see_ending(shard: &Shared, view: EffectView) -> Result<SeenEffect, Lost> {
    let ending = match view.ending {
        Some(blob) => Some(read_blob(shard, blob).await?),
        None => None,
    };
    Ok(SeenEffect { view, about: Bytes::new(), ending })
}

async fn read_blob(shard: &Shared, Blob { position, length, check }: Blob) -> Result<Bytes, Lost> {
    shard.payload_store.fetch(Extent { position, length, check }).await
}

impl EffectFilter<'_> {
    /// The shard compares hashes; two texts may have the same.
    fn takes(&self, seen: &SeenEffect) -> bool {
        let Ok(about) = About::decode(&seen.about) else { return false };
        self.tenant.as_deref().is_none_or(|tenant| about.tenant == tenant)
            && self.scope.as_deref().is_none_or(|scope| about.scope == scope)
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
pub(crate) fn short_hash(text: &str) -> u32 {
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

pub(crate) fn unreadable(lost: Lost) -> Failure {
    tracing::error!(%lost, "what the log keeps about an effect cannot be read");
    Failure::Unavailable("what is kept about the effect cannot be read now".into())
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
