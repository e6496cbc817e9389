//! Errands: what a connector is asked for by a message and does as an effect. Deliveries and exports are errands.

use std::borrow::Cow;

use driftq_api::Fault;
use driftq_api::v2::{Envelope, Message, MessagePlace, Position};
use driftq_engine::core::{Browse, Ending, KeyHash, Reject, Stage, Time, TopicId, Wait, ledger};
use driftq_engine::{Failure, Seen, SeenEffect};
use hyper::StatusCode;
use sha2::{Digest, Sha256};

use super::produce::draft;
use super::words::looked;
use super::{Request, fault};
use crate::http::failure::{Call, fault as told};
use crate::http::v1::adopt;

/// Messages that one question takes from the broker.
const STRETCH: u32 = 100;
/// Messages that one call looks at; the cursor says where to go on.
const SCANNED_MAX: u64 = 2_000;
/// How long what was done can be looked up: seven days.
pub(super) const KEEP_MS: u64 = 7 * 24 * 3600 * 1000;

/// Where errands of one kind are asked for, and where they leave their traces.
pub(super) struct Errands {
    /// The topic of the messages that ask for them.
    pub(super) topic: String,
    /// The group of the connectors.
    pub(super) group: String,
    /// The scope of their effects.
    pub(super) scope: String,
}

/// An errand, by what its message and its effect say.
pub(super) struct Errand {
    pub(super) id: String,
    pub(super) tenant: String,
    pub(super) partition: u32,
    pub(super) offset: u64,
    pub(super) taken_at: Time,
    pub(super) standing: Standing,
    pub(super) next_at: Option<Time>,
    /// Why the last attempt of its message failed; empty if none did.
    pub(super) last_error: String,
    effect: Option<SeenEffect>,
}

/// Where an errand stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Pending,
    Running,
    Retrying,
    Unknown,
    Done,
    Failed,
}

/// Which errands are listed.
pub(super) struct Asked<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) limit: usize,
    pub(super) after: Option<Position>,
}

/// One page of them.
pub(super) struct ErrandPage<T> {
    pub(super) found: Vec<T>,
    pub(super) cursor: Option<String>,
    pub(super) scanned: u64,
}

/// A message that has been taken.
pub(super) struct Taken {
    pub(super) status: StatusCode,
    pub(super) is_duplicate: bool,
    pub(super) message: MessagePlace<'static>,
}

/// Asks for an errand: a message under its id. The same id with another value is no repeat.
pub(super) async fn ask(
    request: &Request<'_>,
    (topic, id): (&str, &str),
    envelope: Envelope<'_>,
    message: Message<'_>,
) -> Result<Taken, Fault> {
    let digest: String = Sha256::digest(&message.value).iter().map(|byte| format!("{byte:02x}")).collect();
    let envelope = Envelope {
        idempotency_key: Cow::Borrowed(id),
        // As SDKs do it, so that a worker's commit may ask for the same.
        request_hash: Cow::Owned(format!("sha256:{digest}")),
        ..envelope
    };
    let mut draft = draft(Message { envelope: Some(Box::new(envelope)), ..message });
    adopt(request.app, request.caller, topic, &mut draft.message)?;
    let stored = request.app.broker.produce_draft(topic, draft).await;
    let stored = stored.map_err(|failure| told(&failure, Call::Produce))?;
    Ok(Taken {
        status: if stored.duplicate { StatusCode::OK } else { StatusCode::CREATED },
        is_duplicate: stored.duplicate,
        message: place(&stored.topic, stored.partition, stored.offset),
    })
}

/// Where a message is.
pub(super) fn place(topic: &str, partition: u32, offset: u64) -> MessagePlace<'static> {
    MessagePlace { topic: Cow::Owned(topic.to_owned()), partition, offset, attempt: None }
}

impl Errands {
    /// One page: what `show` makes of them, without those of which it makes nothing.
    pub(super) async fn page<T>(
        &self,
        request: &Request<'_>,
        asked: &Asked<'_>,
        show: impl Fn(Errand) -> Option<T>,
    ) -> Result<ErrandPage<T>, Fault> {
        if let Some(id) = asked.id
            && let Some(seen) = self.by_id(request, id).await?
        {
            let found = self.errand(request, asked, &seen).await?.and_then(show).into_iter().collect();
            return Ok(ErrandPage { found, cursor: None, scanned: 1 });
        }
        let broker = &request.app.broker;
        let (partition, from) = asked.after.map_or((0, 0), |after| (after.partition, after.offset + 1));
        let mut browse = Browse {
            topic: TopicId::default(),
            partition,
            alone: false,
            from,
            limit: STRETCH,
            key: KeyHash::NONE,
        };
        let (mut found, mut scanned) = (Vec::new(), 0);
        loop {
            let glance =
                broker.glance(&self.topic, browse.clone()).await.map_err(|failure| fault(&failure))?;
            for next in glance.found {
                let at = Position { partition: next.partition, offset: next.offset };
                let seen = broker.see(glance.topic, next).await;
                scanned += 1;
                found.extend(self.errand(request, asked, &seen).await?.and_then(&show));
                if found.len() == asked.limit || scanned == SCANNED_MAX {
                    return Ok(ErrandPage { found, cursor: Some(at.cursor()), scanned });
                }
            }
            let Some((partition, from)) = glance.next else {
                return Ok(ErrandPage { found, cursor: None, scanned });
            };
            (browse.partition, browse.from) = (partition, from);
        }
    }

    /// The message that the produce gate remembers under the id of an errand.
    async fn by_id(&self, request: &Request<'_>, id: &str) -> Result<Option<Seen>, Fault> {
        let broker = &request.app.broker;
        let tenant = match request.caller.tenants() {
            Some([only]) => only,
            _ => "",
        };
        let place = broker.whereabouts(&self.topic, tenant, id).await.map_err(|failure| fault(&failure))?;
        let Some((topic, partition, offset)) = place else { return Ok(None) };
        match broker.look_at(&topic, partition, offset).await {
            Ok((seen, _)) => Ok(Some(seen)),
            Err(Failure::Reject(Reject::MessageUnknown)) => Ok(None),
            Err(failure) => Err(fault(&failure)),
        }
    }

    /// What is known of an errand, if it is one that is asked for and the caller may see.
    async fn errand(
        &self,
        request: &Request<'_>,
        asked: &Asked<'_>,
        seen: &Seen,
    ) -> Result<Option<Errand>, Fault> {
        let Some((_, message)) = looked(std::slice::from_ref(seen)).next() else { return Ok(None) };
        let (partition, offset) = (seen.found.partition, seen.found.offset);
        let envelope = message.envelope.as_ref();
        let tenant = envelope.map_or("", |envelope| &*envelope.tenant_id);
        let id = envelope.map(|envelope| envelope.idempotency_key.to_string()).filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| match &message.origin {
            Some(born) => format!("{}/{}/{}/{}", born.topic, born.incarnation.0, born.partition, born.offset),
            None => format!("{}/{}/{partition}/{offset}", self.topic, seen.topic.0),
        });
        if asked.id.is_some_and(|wanted| wanted != id) || !request.caller.acts_as(tenant) {
            return Ok(None);
        }
        let effect = match request.app.broker.effect(tenant, &self.scope, &id).await {
            Ok(effect) => Some(effect),
            Err(Failure::Reject(Reject::EffectUnknown)) => None,
            Err(failure) => return Err(fault(&failure)),
        };
        let (standing, next_at, last_error) = self.standing(request, seen, effect.as_ref()).await?;
        let (tenant, taken_at) = (tenant.to_owned(), seen.found.at);
        Ok(Some(Errand { id, tenant, partition, offset, taken_at, standing, next_at, last_error, effect }))
    }

    async fn standing(
        &self,
        request: &Request<'_>,
        seen: &Seen,
        effect: Option<&SeenEffect>,
    ) -> Result<(Standing, Option<Time>, String), Fault> {
        let status = effect.map(|effect| effect.view.status);
        let is_over = status == Some(ledger::Status::Succeeded);
        let broker = &request.app.broker;
        let described = match broker.look_at(&self.topic, seen.found.partition, seen.found.offset).await {
            Ok((_, described)) => Some(described),
            Err(Failure::Reject(Reject::MessageUnknown)) => None,
            Err(failure) => return Err(fault(&failure)),
        };
        let mut groups = described.into_iter().flat_map(|described| described.groups);
        let Some(stands) = groups.find(|stands| *stands.group == *self.group) else {
            // Without a connector so far, or with none that counts: the message as a whole tells.
            let standing = match (is_over, seen.found.stage) {
                (true, _) => Standing::Done,
                (false, Stage::Done) => Standing::Failed,
                (false, _) => Standing::Pending,
            };
            let next_at = seen.found.due.filter(|_| standing == Standing::Pending);
            return Ok((standing, next_at, String::new()));
        };
        let (standing, next_at) = match stands.wait {
            Wait::Done if is_over => (Standing::Done, None),
            Wait::Done | Wait::Dying => (Standing::Failed, None),
            Wait::InFlight => (Standing::Running, None),
            Wait::Effect if status == Some(ledger::Status::Unknown) => (Standing::Unknown, None),
            _ if stands.attempts > 0 => (Standing::Retrying, stands.until),
            _ => (Standing::Pending, stands.until),
        };
        Ok((standing, next_at, stands.last_error.to_string()))
    }
}

impl Errand {
    /// What its effect's outcome says; none if it has none, or none that can be read.
    pub(super) fn ending(&self) -> Option<Ending<'_>> {
        let bytes = self.effect.as_ref()?.ending.as_ref()?;
        Ending::decode(bytes).ok()
    }
}
