//! Asks for messages, one call at a time.

use std::{pin::Pin, time::Duration};

use driftq_api::v2::{Item, LeaseRequest, Leased, Release, ReleaseLease, Settlements};
use tokio::time::{Instant, sleep};

use super::Args;
use crate::{CallError, Client, Path, Session, client::fresh_id};

/// How long the server may wait for messages before it answers that there are none.
const WAIT: Duration = Duration::from_secs(20);
/// A server that waits takes longer than this to say that there are none.
const EMPTY_AFTER: Duration = Duration::from_secs(1);
/// The pause before the next question to a server that does not wait.
const PAUSE: Duration = Duration::from_millis(500);
/// Waits between two tries while the server is away: first and longest.
const AWAY_FIRST: Duration = Duration::from_millis(50);
const AWAY_MAX: Duration = Duration::from_secs(2);

type Answer = Result<Vec<Item<'static>>, CallError>;

/// Knows how to ask.
pub(super) struct Poller {
    client: Client,
    path: Path,
    request: LeaseRequest<'static>,
    /// The pause before the next call.
    pause: Duration,
    /// As many wait at the server as may: this one asks without waiting.
    is_crowded: bool,
}

/// A call that is under way. Dropping it closes its connection.
pub(super) struct Poll {
    request: LeaseRequest<'static>,
    pub(super) call: Pin<Box<dyn Future<Output = Polled> + Send>>,
}

/// What it came back with.
pub(super) struct Polled {
    took: Duration,
    wait_ms: u64,
    answer: Answer,
}

impl Poller {
    pub(super) fn new(client: &Client, args: &Args) -> Self {
        let request = LeaseRequest {
            owner: args.owner.clone().into(),
            max: 1,
            wait_ms: 0,
            lease_ms: Some(args.lease_ms),
            request_id: None,
        };
        Self {
            client: client.clone(),
            path: Path::group(&args.topic, &args.group).word("lease"),
            request,
            pause: Duration::ZERO,
            is_crowded: false,
        }
    }

    /// Asks for up to `max` messages, and waits for them no longer than until then.
    pub(super) fn ask(&mut self, max: u32, until: Option<Instant>) -> Poll {
        let left = until.map_or(WAIT, |until| until.saturating_duration_since(Instant::now()).min(WAIT));
        let wait = if self.is_crowded { Duration::ZERO } else { left };
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or_default();
        let request =
            LeaseRequest { max, wait_ms, request_id: Some(fresh_id().into()), ..self.request.clone() };
        let mut session = self.client.session().waiting(WAIT);
        let (path, asked, pause) = (self.path.clone(), request.clone(), self.pause);
        let call = Box::pin(async move {
            sleep(pause).await;
            let asked_at = Instant::now();
            let answer = session.post::<Leased<'static>>(path, &asked).await;
            let answer = answer.map(|leased| leased.messages);
            Polled { took: asked_at.elapsed(), wait_ms, answer }
        });
        Poll { request, call }
    }

    /// What came, and when to ask next.
    pub(super) fn answered(&mut self, polled: Polled) -> Answer {
        let Polled { took, wait_ms, answer } = polled;
        match answer {
            Ok(items) => {
                let is_idle = items.is_empty() && took < EMPTY_AFTER.min(Duration::from_millis(wait_ms));
                let must_pause = is_idle || (items.is_empty() && self.is_crowded);
                self.pause = if must_pause { PAUSE } else { Duration::ZERO };
                self.is_crowded = false;
                Ok(items)
            }
            Err(error) if error.code() == "LIMIT_REACHED" && !self.is_crowded => {
                self.is_crowded = true;
                self.pause = Duration::ZERO;
                Ok(Vec::new())
            }
            // An operator deleted the group while this call waited: the next one begins it anew.
            Err(error) if error.code() == "GROUP_UNKNOWN" => Ok(Vec::new()),
            Err(error) => {
                self.pause = (self.pause * 2).clamp(AWAY_FIRST, AWAY_MAX);
                Err(error)
            }
        }
    }

    /// Gives back what a call has borrowed that was cut off: it is found by the call's name. Who does not hear of it
    /// learns it when the lease ends, so nothing here is worth a second try.
    pub(super) async fn give_up(&self, poll: Poll) {
        let Poll { request, call } = poll;
        drop(call);
        let mut session = self.client.session();
        let request = LeaseRequest { wait_ms: 0, ..request };
        if let Ok(leased) = session.post::<Leased<'static>>(&self.path, &request).await {
            let tokens = leased.messages.into_iter().filter_map(|item| item.lease).map(|lease| lease.token);
            release(&mut session, tokens.map(|token| token.into_owned()).collect()).await;
        }
    }
}

/// Gives messages back that were not begun: their attempt does not count.
pub(super) async fn release(session: &mut Session, tokens: Vec<String>) {
    if tokens.is_empty() {
        return;
    }
    let leases = tokens
        .into_iter()
        .map(|token| ReleaseLease { token: token.into(), delay_ms: None, effect: None })
        .collect();
    drop(session.post::<Settlements>("/v2/leases/release", &Release { leases }).await);
}
