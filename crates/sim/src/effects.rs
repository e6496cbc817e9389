//! Workers that run effects: begin, execute, finish in time, late, twice or never; and a resolver that finds out.

use driftq_core::ledger::{OnLapse, Status};
use driftq_core::{
    About, Answer, BeginEffect, EffectAnswer, EffectInput, EffectReceipt, Ending, FinishEffect, Identity,
    Input, NewBlob, RequestHash, ResolveEffect, Time, Urge,
};

use crate::asked::Asked;
use crate::clients::Request;
use crate::commits::LOOKS;
use crate::oracle::{CheckResult, Finishing, Oracle, Refused, Resolving, Span, Tie, Tied, Told};
use crate::server::check;
use crate::world::World;

/// Identities that all workers want.
pub(crate) const KEYS: u64 = 6;
/// Old leases that are kept to be tried again at the wrong time.
const OLD_LEASES_MAX: usize = 24;

/// A request to run an effect.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) key: u64,
    pub(crate) request: RequestHash,
    pub(crate) lease_ms: u64,
    pub(crate) ttl_ms: u64,
    pub(crate) on_lapse: OnLapse,
    pub(crate) cap: Option<u32>,
    pub(crate) urge: Urge,
    pub(crate) wait_ms: u64,
    /// Its name, if it can be asked again; zero if it has none.
    pub(crate) caller: u64,
    pub(crate) tie: Option<Tied>,
}

/// A lease in the hands of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) key: u64,
    pub(crate) receipt: EffectReceipt,
    pub(crate) tie: Option<Tied>,
}

/// How an effect ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) status: Status,
    pub(crate) bytes: Vec<u8>,
}

/// The identity of an effect.
pub(crate) fn effect_identity(key: u64) -> Identity {
    Identity::of("", "effects", &key.to_string())
}

fn blob(bytes: &[u8]) -> NewBlob {
    NewBlob { bytes: bytes.to_vec(), check: check(bytes) }
}

impl End {
    /// It went well, and this came of it.
    pub(crate) fn succeeded(body: &[u8]) -> Self {
        let bytes = Ending { code: Some(200), body: Some(body.into()), ..Ending::default() }.encode();
        Self { status: Status::Succeeded, bytes }
    }

    pub(crate) fn finish(&self, receipt: EffectReceipt) -> FinishEffect {
        let digest = Ending::digest(&self.bytes);
        FinishEffect { receipt, status: self.status, ending: blob(&self.bytes), digest }
    }
}

impl World {
    /// Something happens to effects.
    pub(crate) fn run_effects(&mut self) -> CheckResult {
        match self.rng.below(20) {
            0..7 => {
                let ask = self.compose_ask();
                self.network.push(Request::Begin(ask));
            }
            7..12 => self.end_effect(),
            12..14 => self.renew_effect(),
            14 => self.forget_effect(),
            15 => self.end_stale_effect(),
            16..18 => self.find_out(),
            18 => self.repeat_begin(),
            _ => return self.forsake_begin(),
        }
        Ok(())
    }

    pub(crate) fn compose_ask(&mut self) -> Ask {
        self.calls += 1;
        let tie = if self.rng.chance(1, 3) && !self.loans.is_empty() {
            let loan = self.rng.pick(&self.loans).clone();
            Some(Oracle::tied(&loan))
        } else {
            None
        };
        let other = self.rng.chance(1, 12);
        Ask {
            key: self.rng.below(KEYS),
            request: if other {
                RequestHash(2)
            } else {
                *self.rng.pick(&[RequestHash::NONE, RequestHash(1)])
            },
            lease_ms: *self.rng.pick(&[20, 100, 400, 2000]),
            ttl_ms: *self.rng.pick(&[150, 1500, 15_000]),
            on_lapse: if self.rng.chance(1, 3) { OnLapse::Hold } else { OnLapse::Retry },
            cap: self.rng.chance(1, 4).then(|| 1 + u32::try_from(self.rng.below(4)).expect("small")),
            urge: *self.rng.pick(&[Urge::Begin, Urge::Begin, Urge::BeginOrReacquire, Urge::Reacquire]),
            wait_ms: *self.rng.pick(&[0, 0, 0, 60, 600]),
            caller: if self.rng.chance(2, 3) { self.calls } else { 0 },
            tie,
        }
    }

    pub(crate) fn compose_end(&mut self) -> End {
        self.calls += 1;
        let status = match self.rng.below(8) {
            0..4 => Status::Succeeded,
            4 => Status::FailedFinal,
            _ => Status::FailedRetryable,
        };
        let body = format!("result {}", self.calls).into_bytes();
        let bytes = Ending { code: Some(200), body: Some(body.into()), ..Ending::default() }.encode();
        End { status, bytes }
    }

    fn end_effect(&mut self) {
        let Some(lease) = self.rng.take(&mut self.leases) else { return };
        let end = self.compose_end();
        if self.rng.chance(1, 3) {
            self.keep_lease(&lease);
        }
        self.network.push(Request::Finish(lease, end));
    }

    fn keep_lease(&mut self, lease: &Lease) {
        self.old_leases.push(lease.clone());
        if self.old_leases.len() > OLD_LEASES_MAX {
            self.old_leases.remove(0);
        }
    }

    fn renew_effect(&mut self) {
        if self.leases.is_empty() {
            return;
        }
        let lease = self.rng.pick(&self.leases).clone();
        let lease_ms = *self.rng.pick(&[30, 300, 1500]);
        self.network.push(Request::Renew(lease, lease_ms));
    }

    /// A worker dies after it has run the effect, and before it could say so.
    fn forget_effect(&mut self) {
        if let Some(lease) = self.rng.take(&mut self.leases) {
            self.keep_lease(&lease);
        }
    }

    /// A worker that was thought dead says how it went.
    fn end_stale_effect(&mut self) {
        let Some(lease) = self.rng.take(&mut self.old_leases) else { return };
        if self.rng.chance(1, 2) {
            self.old_leases.push(lease.clone());
        }
        let end = self.compose_end();
        self.network.push(Request::Finish(lease, end));
    }

    /// A resolver looks into what is not known.
    fn find_out(&mut self) {
        let key = self.rng.below(KEYS);
        let seen = self.oracle.effect(key).filter(|_| self.rng.chance(1, 2)).map(|known| known.epoch);
        let end = self.compose_end();
        self.network.push(Request::Resolve { key, seen, end });
    }

    fn repeat_begin(&mut self) {
        if let Some(ask) = self.rng.take(&mut self.lost_asks) {
            self.network.push(Request::Begin(ask));
        }
    }

    /// An asker no longer waits for the holder that runs the effect.
    fn forsake_begin(&mut self) -> CheckResult {
        let waiting = self.waiting_begins();
        // No client can know which asker waits for an answer that is on its way already.
        if waiting.is_empty() || !self.is_quiet() {
            return Ok(());
        }
        let (ticket, _) = *self.rng.pick(&waiting);
        self.forget_ticket(ticket);
        self.hand(Input::Forsake { ticket })
    }

    /// An asker that wants to wait for another holder waits no longer than that.
    pub(crate) fn check_waiting(&self) -> CheckResult {
        let late = self.waiting_begins().into_iter().find(|(_, until)| *until <= self.now);
        match late.filter(|_| self.is_quiet()) {
            Some((ticket, until)) => Err(format!("waiting: {ticket:?} waits since {until:?}")),
            None => Ok(()),
        }
    }

    /// Whether what was told about an effect is how it stands.
    fn is_exact(&self, key: u64) -> bool {
        self.is_quiet() || !self.is_asked_about(key)
    }

    pub(crate) fn hand_begin(&mut self, ask: &Ask) -> CheckResult {
        let about = About { scope: "effects".into(), key: ask.key.to_string().into(), ..About::default() };
        let input = BeginEffect {
            identity: effect_identity(ask.key),
            request: ask.request,
            about: blob(&about.encode()),
            lease_ms: Some(ask.lease_ms),
            ttl_ms: Some(ask.ttl_ms),
            on_lapse: ask.on_lapse,
            attempts_max: ask.cap,
            urge: ask.urge,
            wait_ms: ask.wait_ms,
            caller: ask.caller,
            delivery: ask.tie.as_ref().map(|tied| tied.loan.receipt),
            run: if ask.key == 0 { "run".into() } else { String::new() },
            ..BeginEffect::default()
        };
        self.oracle.effect_asked(ask);
        let exact = self.is_exact(ask.key);
        let ticket = self.ticket(Asked::Begin { ask: ask.clone(), at: self.now });
        let (actions, refused) =
            self.try_hand(ticket, Input::Effect(EffectInput::Begin { ticket, ask: Box::new(input) }));
        if let Some((reject, written)) = refused {
            return self.oracle.begin_refused(ask, Refused { reject, written, exact }, self.now);
        }
        self.execute(actions)
    }

    pub(crate) fn begin_answered(&mut self, ask: &Ask, at: Time, answer: &Answer) -> CheckResult {
        let span = Span { from: at, to: if ask.wait_ms > 0 { self.now } else { at } };
        let answer = match answer {
            Answer::Effect(answer) => answer,
            Answer::Rejected(reject) => {
                // An asker that waited is refused like any other.
                let exact = false;
                let refused = Refused { reject: *reject, written: 0, exact };
                return self.oracle.begin_refused(ask, refused, self.now);
            }
            other => return Err(format!("answers: {ask:?} was answered with {other:?}")),
        };
        match answer {
            EffectAnswer::Execute(lease) => {
                self.oracle.executes(ask, lease, span, self.now)?;
                // An answer that is lost is asked for again, if the call has a name.
                if !self.calm && self.rng.chance(1, 5) {
                    if ask.caller != 0 {
                        self.lost_asks.push(ask.clone());
                    }
                    return Ok(());
                }
                self.oracle.outside.execute(ask, lease, at, self.now)?;
                self.leases.push(Lease { key: ask.key, receipt: lease.receipt, tie: ask.tie.clone() });
                Ok(())
            }
            EffectAnswer::Replay(view) => {
                self.oracle.replayed(ask, view, span)?;
                self.read_effect(ask.key, view, LOOKS)
            }
            EffectAnswer::Running { epoch, attempt, .. } if ask.wait_ms == 0 => {
                self.oracle.runs(ask, (*epoch, *attempt), span, self.now)
            }
            EffectAnswer::Running { .. } => {
                let exact = !self.is_asked_about(ask.key);
                self.oracle.waited(ask, span, exact, self.now)
            }
            EffectAnswer::Retryable { view, left } => {
                self.oracle.retryable(ask, view, *left, span)?;
                self.read_effect(ask.key, view, LOOKS)
            }
            EffectAnswer::Unknown(view) => self.oracle.unknown(ask, view, span, self.now),
            EffectAnswer::Free { .. } => {
                Err(format!("begin: {ask:?} was told {answer:?}, although all of it is here"))
            }
        }
    }

    pub(crate) fn finishing(&self, lease: &Lease, end: &End) -> Finishing {
        let fenced = self.oracle.tie(lease.tie.as_ref(), self.now) == Tie::Fenced;
        Finishing { key: lease.key, receipt: lease.receipt, end: end.clone(), at: self.now, fenced }
    }

    pub(crate) fn hand_finish(&mut self, lease: &Lease, end: &End) -> CheckResult {
        let finishing = self.finishing(lease, end);
        let exact = self.is_exact(lease.key);
        let ticket = self.ticket(Asked::Finish(finishing.clone(), lease.clone()));
        let finish = end.finish(lease.receipt);
        let (actions, refused) = self.try_hand(ticket, Input::Effect(EffectInput::Finish { ticket, finish }));
        if let Some((reject, written)) = refused {
            let refused = Refused { reject, written, exact };
            return self.oracle.finish_refused(&finishing, lease, refused, self.now);
        }
        self.oracle.outside.ending(lease.key, end, self.now);
        self.execute(actions)
    }

    pub(crate) fn hand_renew(&mut self, lease: &Lease, lease_ms: u64) -> CheckResult {
        let (until, receipt) = (self.now.after_ms(lease_ms), lease.receipt);
        let fenced = self.oracle.tie(lease.tie.as_ref(), self.now) == Tie::Fenced;
        let exact = self.is_exact(lease.key);
        let ticket = self.ticket(Asked::Renew { lease: lease.clone(), until, fenced });
        let input = Input::Effect(EffectInput::Renew { ticket, receipt, lease_ms: Some(lease_ms) });
        let (actions, refused) = self.try_hand(ticket, input);
        if let Some((reject, written)) = refused {
            return self.oracle.renew_refused(lease, Refused { reject, written, exact }, self.now);
        }
        self.oracle.outside.renewal(lease.key, receipt, until, false);
        self.execute(actions)
    }

    pub(crate) fn hand_resolve(&mut self, key: u64, seen: Option<u32>, end: &End) -> CheckResult {
        let resolving = Resolving { key, seen, end: end.clone(), at: self.now };
        let exact = self.is_exact(key);
        let ticket = self.ticket(Asked::Resolve(resolving.clone()));
        let FinishEffect { status, ending, digest, .. } = end.finish(EffectReceipt::default());
        let resolve = ResolveEffect { identity: effect_identity(key), seen, status, ending, digest };
        let (actions, refused) =
            self.try_hand(ticket, Input::Effect(EffectInput::Resolve { ticket, resolve }));
        if let Some((reject, written)) = refused {
            return self.oracle.resolve_refused(&resolving, Refused { reject, written, exact }, self.now);
        }
        self.oracle.outside.ending(key, end, self.now);
        self.execute(actions)
    }

    /// The answer to something that is said about an effect.
    pub(crate) fn effect_answered(&mut self, asked: &Asked, answer: &Answer) -> CheckResult {
        match (asked, answer) {
            (Asked::Begin { ask, at }, _) => self.begin_answered(ask, *at, answer),
            (Asked::Finish(finishing, _), Answer::EffectEnded { .. }) => {
                self.oracle.finished(finishing, told(answer))
            }
            (Asked::Resolve(resolving), Answer::EffectEnded { .. }) => {
                self.oracle.resolved(resolving, told(answer), self.now)
            }
            (Asked::Renew { lease, until, fenced }, Answer::EffectRenewed { epoch, expires, .. }) => {
                self.oracle.outside.renewal(lease.key, lease.receipt, *expires, true);
                let of = (lease.key, lease.receipt);
                self.oracle.renewed(of, *until, *fenced, (*epoch, *expires))
            }
            _ => Err(format!("answers: {asked:?} was answered with {answer:?}")),
        }
    }
}

fn told(answer: &Answer) -> Told {
    match answer {
        Answer::EffectEnded { already, epoch, attempt, expires } => {
            Told { already: *already, epoch: *epoch, attempt: *attempt, expires: *expires }
        }
        _ => Told { already: false, epoch: 0, attempt: 0, expires: Time(0) },
    }
}
