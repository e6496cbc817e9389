//! From a request to its answer.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use driftq_api::v1::mended;
use driftq_api::v2::{NeededTenants, NeededTopics, Needs, Operation, path_name};
use driftq_api::{Code, Fault};
use driftq_engine::Broker;
use driftq_engine::cluster::Seat;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use super::answer::{Answer, method_refusal, put, refusal, status, whole};
use super::audit::{Asked, Auditor};
use super::body::AnswerBody;
use super::budget::Budget;
use super::door::Entrance;
use super::endpoint::{Allowed, Endpoint, Target};
use super::front::SharedParts;
use super::guard::{Caller, Gone, Guard, ended};
use super::live::{self, Live};
use super::options::Options;
use super::peer::Peer;
use super::pulse::Pulse;
use super::request::{check_url, discard_body, read_body};
use super::request_id::{RequestIds, X_REQUEST_ID};
use super::turns::{Turns, WAIT_COUNTS};
use super::{ui, v1, v2};
use crate::metrics::{self, Format, Metrics};
use crate::trace::{Exporting, RequestTrace, TraceContext, Tracer};

/// Longest path that a log line shows.
const LOGGED_PATH_BYTES_MAX: usize = 256;

/// How often spans are looked for that should have ended.
const SWEEP_PAUSE: Duration = Duration::from_secs(5);

/// What all requests share while this server serves.
pub(crate) struct App {
    pub(super) guard: Guard,
    pub(super) auditor: Auditor,
    pub(crate) broker: Broker,
    pub(crate) options: Arc<Options>,
    pub(crate) metrics: Metrics,
    pub(crate) started: Instant,
    pub(crate) ids: Arc<RequestIds>,
    pub(crate) budget: Arc<Budget>,
    pub(super) live: Live,
    pub(super) report: v2::NewestReport,
    /// `None` if there is no collector of traces.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// This server's part in a cluster, if it has one.
    pub(super) seat: Option<Arc<Seat>>,
    turns: Arc<Turns>,
}

impl App {
    pub(super) fn new(broker: Broker, shared: &SharedParts, seat: Option<Arc<Seat>>) -> Self {
        let options = Arc::clone(&shared.options);
        let guard = Guard::new(&broker, options.keys_required, options.root_key);
        Self {
            guard,
            auditor: Auditor::new(),
            broker,
            options,
            metrics: shared.metrics.clone(),
            started: Instant::now(),
            ids: Arc::clone(&shared.ids),
            budget: Arc::clone(&shared.budget),
            live: Live::default(),
            report: v2::NewestReport::default(),
            tracer: None,
            seat,
            turns: Turns::new(),
        }
    }

    /// Begins to send traces, if there is a collector for them.
    pub(super) fn start_tracing(&mut self) -> Result<Option<Exporting>, String> {
        let started = Tracer::start(&self.options.traces, self.metrics.traces())?;
        Ok(started.map(|(tracer, exporting)| {
            self.tracer = Some(Arc::new(tracer));
            exporting
        }))
    }

    /// What goes on beside the requests, for as long as it is polled.
    pub(super) async fn keep(&self) {
        tokio::select! {
            () = live::keep(self) => {}
            () = self.sweep_traces() => {}
        }
    }

    /// Nothing new is begun from now on.
    pub(super) fn begin_stop(&self) {
        self.broker.begin_stop();
        self.live.end();
    }

    /// Ends the spans of what is over without having been settled, for ever.
    async fn sweep_traces(&self) {
        let Some(tracer) = &self.tracer else { return std::future::pending().await };
        loop {
            tokio::time::sleep(SWEEP_PAUSE).await;
            tracer.sweep(self.broker.now());
        }
    }

    /// Answers one request, and writes down and logs what came of it.
    pub(super) async fn finished(
        &self,
        (head, body): (&Parts, Incoming),
        id: &HeaderValue,
        (peer, pulse): (&Peer, &Arc<Pulse>),
    ) -> Answer {
        let begun = Instant::now();
        let target = Target::find(&head.method, head.uri.path());
        let endpoint = target.endpoint;
        let asked = Asked { head, id, peer, caller: OnceLock::new() };
        let mut answer = match self.refuse_unsure(endpoint, head, id).await {
            None => self.told(target, &asked, body, pulse).await,
            Some(refused) => {
                discard_body(body).await;
                refused
            }
        };
        let now = Instant::now();
        self.metrics.on_request(endpoint, answer.status(), now - begun);
        log(head, answer.status(), now - begun, id);
        if let (Some(tracer), Some(trace)) = (&self.tracer, RequestTrace::of(head)) {
            tracer.answered(trace, head, endpoint.route(), answer.status());
        }
        put(&mut answer, X_REQUEST_ID, id.clone());
        self.options.door.grant(&head.headers, answer.headers_mut());
        if matches!(answer.body(), AnswerBody::Whole(_)) {
            pulse.begin_answer(now);
        }
        answer
    }

    /// Answers one request, and writes down what came of it.
    async fn told(
        &self,
        target: Target<'_>,
        asked: &Asked<'_>,
        body: Incoming,
        pulse: &Arc<Pulse>,
    ) -> Answer {
        let (endpoint, method, id) = (target.endpoint, &asked.head.method, asked.id);
        let mut answered = self.answered(target, asked, body, pulse).await;
        let status = match &answered {
            Ok(answer) => answer.status(),
            Err(refused) => refused.status(),
        };
        if let Some(instead) = self.instead_of_stale(endpoint, (method, status), id) {
            return instead;
        }
        match &mut answered {
            Ok(answer) => self.audit(asked, &target, Ok(answer)).await,
            Err(Refused::Fault(fault)) => self.audit(asked, &target, Err(fault)).await,
            Err(Refused::Method(_)) => {}
        }
        match answered {
            Ok(answer) => match self.charged(endpoint, method, answer).await {
                Ok(answer) => answer,
                Err(fault) => refusal(&fault, endpoint.dialect(), id),
            },
            Err(Refused::Fault(fault)) => refusal(&fault, endpoint.dialect(), id),
            Err(Refused::Method(allow)) => method_refusal(
                &Fault::new(Code::MethodNotAllowed, "method not allowed"),
                endpoint.dialect(),
                allow,
                id,
            ),
        }
    }

    /// Charges the edge's budget with an answer until it is written. If there is no room for it, a client that only
    /// read may ask again later; a client that has changed something is answered in any case, and so is an operator.
    async fn charged(&self, endpoint: Endpoint, method: &Method, answer: Answer) -> Result<Answer, Fault> {
        let AnswerBody::Whole(body) = answer.body() else { return Ok(answer) };
        // It has counted its own.
        if matches!(endpoint, Endpoint::V2(Operation::Lease)) {
            return Ok(answer);
        }
        let (mut charge, bytes) = (self.budget.open(), body.len());
        match endpoint {
            Endpoint::V2(Operation::GetEffect | Operation::BeginEffect) => charge.grow(bytes).await?,
            Endpoint::V2(_) if method == Method::GET => charge.grow(bytes).await?,
            _ => charge.overdraw(bytes),
        }
        Ok(answer.map(|body| match body {
            AnswerBody::Whole(body) => AnswerBody::Whole(charge.carried_by(body)),
            going_on @ (AnswerBody::Stream(_) | AnswerBody::Events(_) | AnswerBody::Relayed(_)) => going_on,
        }))
    }

    /// Lets the caller in and answers. A key that ends while its call waits ends the wait, and its streams end with it.
    async fn answered(
        &self,
        target: Target<'_>,
        asked: &Asked<'_>,
        body: Incoming,
        pulse: &Arc<Pulse>,
    ) -> Result<Answer, Refused> {
        let (endpoint, head) = (target.endpoint, asked.head);
        let body = match self.options.door.admit(head, body).await? {
            Entrance::Open(body) => body,
            Entrance::Preflight(answer) => return Ok(answer),
        };
        let needs = endpoint.needs(head.method == Method::POST);
        let admitted = self.admitted(needs, &target, asked).and_then(|caller| {
            let gone = if endpoint.waits() { self.gone(&caller)? } else { None };
            Ok((caller, gone))
        });
        let (caller, gone) = match admitted {
            Ok(admitted) => admitted,
            Err(fault) => {
                discard_body(body).await;
                return Err(fault.into());
            }
        };
        let respond = self.respond(target, head, body, (&caller, pulse));
        let Some(mut gone) = gone else { return respond.await };
        let mut answer = tokio::select! {
            answer = respond => answer?,
            () = &mut gone => return Err(ended().into()),
        };
        match answer.body_mut() {
            AnswerBody::Stream(lines) => lines.end_with(gone),
            AnswerBody::Events(events) => events.end_with(gone),
            AnswerBody::Whole(_) | AnswerBody::Relayed(_) => {}
        }
        Ok(answer)
    }

    /// Who asks, if they may.
    fn admitted(&self, needs: Needs, target: &Target<'_>, asked: &Asked<'_>) -> Result<Caller, Fault> {
        if needs.action.is_none() {
            return Ok(Caller::Anybody);
        }
        let caller = self.guard.admit(&asked.head.headers, asked.peer.certificate.as_ref(), &self.broker)?;
        let caller = asked.caller.get_or_init(|| caller).clone();
        if !matches!(caller, Caller::Key { .. }) {
            return Ok(caller);
        }
        // Also what is refused below is a call.
        caller.take_request()?;
        let is_in_path = needs.topics == NeededTopics::InPath
            || matches!(needs.tenants, NeededTenants::OwnTopic | NeededTenants::OwnMessages);
        let topic = if is_in_path { path_name("topic", target.names[0])? } else { Cow::Borrowed("") };
        caller.check(needs, &topic, &self.broker)?;
        Ok(caller)
    }

    /// Resolves when the key of a caller has ended; `None` if it cannot. Until it is dropped, the call counts as one of
    /// those that the key has open.
    fn gone(&self, caller: &Caller) -> Result<Option<Gone>, Fault> {
        let Some(gone) = self.guard.gone(caller, &self.broker) else { return Ok(None) };
        let open = caller.open_wait()?;
        Ok(Some(Box::pin(async move {
            gone.await;
            drop(open);
        })))
    }

    async fn respond(
        &self,
        target: Target<'_>,
        head: &Parts,
        body: Incoming,
        (caller, pulse): (&Caller, &Arc<Pulse>),
    ) -> Result<Answer, Refused> {
        let endpoint = target.endpoint;
        check_url(head, self.options.url_bytes_max)?;
        if let Some(allowed) = target.allowed {
            discard_body(body).await;
            return Err(Refused::Method(allowed));
        }
        // What is charged for a body is charged until it is handled, also if it was mended by copying.
        let mut charged = None;
        let body = match endpoint {
            Endpoint::Topics | Endpoint::Produce | Endpoint::Consume | Endpoint::Ack | Endpoint::Nack => {
                let body = read_body(head, body, &self.options, &self.budget).await?;
                charged.clone_from(&body);
                body.map(|body| mended(&body).map_or(body, Into::into))
            }
            Endpoint::V2(operation) if v2::takes_body(operation) => {
                read_body(head, body, &self.options, &self.budget).await?
            }
            _ => {
                // Unread, it would end a connection on which the next request is already under way.
                discard_body(body).await;
                None
            }
        };
        let bytes = body.as_ref().map_or(0, bytes::Bytes::len);
        caller.take_bytes(bytes)?;
        let lane = caller.lane(endpoint.waits());
        let mut turn = None;
        if let Some(lane) = lane {
            turn = Some(self.turns.take(lane, bytes).await);
            // Last of all: its key may have ended while the body was on its way, or while it waited for its turn.
            self.guard.check_live(caller, &self.broker)?;
        }
        let mut handled = std::pin::pin!(self.handled(target, head, body, (caller, pulse)));
        if lane.is_some_and(|lane| lane.waits) {
            let soon = tokio::time::timeout(WAIT_COUNTS, handled.as_mut()).await;
            drop(turn.take());
            if let Ok(handled) = soon {
                return handled;
            }
        }
        let handled = handled.await;
        drop((turn, charged));
        handled
    }

    /// Does what a request asks for.
    async fn handled(
        &self,
        target: Target<'_>,
        head: &Parts,
        body: Option<bytes::Bytes>,
        (caller, pulse): (&Caller, &Arc<Pulse>),
    ) -> Result<Answer, Refused> {
        let handled = match target.endpoint {
            Endpoint::Produce => v1::produce(self, head, body, caller).await,
            Endpoint::Ack => v1::ack(self, head, body, caller).await,
            Endpoint::Nack => v1::nack(self, head, body, caller).await,
            Endpoint::Consume => v1::consume(self, head, body, (caller, pulse)).await,
            Endpoint::Topics if head.method == Method::POST => {
                v1::create_topic(self, head, body, caller).await
            }
            Endpoint::Topics => Ok(v1::list_topics(self, caller)),
            Endpoint::Healthz => Ok(v1::healthz()),
            Endpoint::Version => Ok(v1::version(self)),
            Endpoint::V2(operation) => {
                let request = v2::Request { app: self, head, names: target.names, body, pulse, caller };
                v2::answer(operation, request).await
            }
            Endpoint::Metrics => self.scrape(Format::wanted(&head.headers)).await,
            Endpoint::Ui => ui::answer(head),
            Endpoint::UnknownV2 => Err(v2::unknown()),
            Endpoint::UnknownV1 => Err(v1::unknown()),
            Endpoint::Unversioned => Err(v1::unversioned()),
        };
        handled.map_err(Refused::Fault)
    }

    async fn scrape(&self, format: Format) -> Result<Answer, Fault> {
        // What the engine can say for itself is worth having even when the shard does not answer.
        let tally = self.broker.scraped().await.ok();
        let router = self.broker.router().map(|hook| hook.counts());
        let (counters, status) = (self.broker.counters(), self.broker.status());
        let text = metrics::encode(format, &self.metrics, counters, &status, tally, router);
        let text = text.map_err(|_| Fault::new(Code::Internal, "the metrics could not be written"))?;
        Ok(whole(StatusCode::OK, format.content_type(), text.into()))
    }
}

enum Refused {
    Fault(Fault),
    /// With the methods that would be taken.
    Method(Allowed),
}

impl Refused {
    fn status(&self) -> StatusCode {
        match self {
            Self::Fault(fault) => status(fault.entry().status),
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
        }
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// One line per request. The query is left out: clients put payloads there.
fn log(head: &Parts, status: StatusCode, latency: Duration, id: &HeaderValue) {
    // Only for a line that is written.
    let trace_id = || {
        let trace = RequestTrace::of(head).map(|trace| trace.context);
        trace.or_else(|| TraceContext::of(&head.headers)).map(|context| context.trace_id())
    };
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                method = %head.method,
                path = shortened(head.uri.path()),
                status = status.as_u16(),
                latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX),
                request_id = id.to_str().unwrap_or_default(),
                trace_id = trace_id(),
                "request"
            )
        };
    }
    match status.as_u16() {
        500.. => line!(warn),
        400.. => line!(info),
        _ => line!(debug),
    }
}

fn shortened(path: &str) -> &str {
    path.get(..LOGGED_PATH_BYTES_MAX).unwrap_or(path)
}
