//! What answers behind an open address: the broker in this process, or the way to the server that has it.
//!
//! Connections belong to the address and not to what answers: a server of a cluster that takes over or hands over changes
//! its role, and whoever is connected sends the next request as if nothing had happened. To close a connection that
//! rests is never safe: a request may be on its way in just that moment, and its sender would not know what became of it.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use driftq_api::{Code, Fault};
use driftq_engine::Broker;
use driftq_engine::cluster::Seat;
use hyper::Request;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;

use super::answer::{Answer, refusal};
use super::app::App;
use super::budget::Budget;
use super::crowd::Crowd;
use super::endpoint::Target;
use super::options::Options;
use super::peer::Peer;
use super::pulse::Pulse;
use super::relay;
use super::request_id::RequestIds;
use super::server::listen;
use super::standby::Standby;
use crate::metrics::{Deliveries, Metrics};
use crate::trace::Exporting;

/// What runs in the same process, as far as requests ask about it.
#[derive(Debug, Default)]
pub struct Beside {
    /// What connectors in this process deliver, for `/metrics`.
    pub deliveries: Option<Deliveries>,
    /// This server's part in a cluster, if it has one.
    pub seat: Option<Arc<Seat>>,
}

/// An open address, and what answers there. Dropping it closes the address.
pub struct Front {
    lobby: Arc<Lobby>,
    /// What ends with the role of the server that serves.
    serving: Option<ServingTasks>,
    /// Dropping it ends the front.
    stop: oneshot::Sender<()>,
    listening: JoinHandle<io::Result<()>>,
}

/// What goes on beside the requests of a server that serves.
struct ServingTasks {
    keeping: AbortHandle,
    exporting: Option<Exporting>,
}

impl ServingTasks {
    async fn end(self) {
        self.keeping.abort();
        if let Some(exporting) = self.exporting {
            exporting.stop().await;
        }
    }
}

impl Front {
    /// Serves what the broker in this process has.
    ///
    /// # Errors
    /// If the certificate cannot be used, or traces cannot be sent.
    pub fn serving(
        listener: TcpListener,
        options: Options,
        broker: Broker,
        beside: Beside,
    ) -> io::Result<Self> {
        let shared = SharedParts::new(options);
        let (app, exporting) = app(&shared, broker, beside)?;
        let mut front = Self::open(listener, shared, Role::Serves(Arc::clone(&app)))?;
        front.serving = Some(ServingTasks { keeping: keep(app), exporting });
        Ok(front)
    }

    /// Passes on what is asked here to the server of the cluster that serves.
    ///
    /// # Errors
    /// If the certificate cannot be used.
    pub fn standing_by(listener: TcpListener, options: Options, seat: Arc<Seat>) -> io::Result<Self> {
        let shared = SharedParts::new(options);
        let standby = Standby::new(&shared, seat);
        Self::open(listener, shared, Role::StandsBy(Arc::new(standby)))
    }

    fn open(listener: TcpListener, shared: SharedParts, role: Role) -> io::Result<Self> {
        let lobby = Arc::new(Lobby { shared, crowd: Crowd::default(), role: RwLock::new(role) });
        let (stop, stopped) = oneshot::channel::<()>();
        // A sender that is gone means stop, too.
        let shutdown = async move { drop(stopped.await) };
        let listening = listen(listener, Arc::clone(&lobby), shutdown)?;
        Ok(Self { lobby, serving: None, stop, listening })
    }

    /// Answers from the broker in this process from now on. What is being passed on comes to its end by itself.
    ///
    /// # Errors
    /// If traces cannot be sent.
    pub fn serve(&mut self, broker: Broker, beside: Beside) -> io::Result<()> {
        let (app, exporting) = app(&self.lobby.shared, broker, beside)?;
        self.serving = Some(ServingTasks { keeping: keep(Arc::clone(&app)), exporting });
        drop(self.lobby.change(Role::Serves(app)));
        Ok(())
    }

    /// Passes on what is asked from now on. Streams end, and what is under way here is finished; requests that are not
    /// finished in time are cut off, with their connections.
    pub async fn stand_by(&mut self, seat: Arc<Seat>) {
        let standby = Standby::new(&self.lobby.shared, seat);
        let before = self.lobby.change(Role::StandsBy(Arc::new(standby)));
        before.begin_stop();
        self.lobby.finish().await;
        drop(before);
        if let Some(serving) = self.serving.take() {
            serving.end().await;
        }
    }

    /// Ends gracefully: no new connections, streams end, requests under way are finished, and what is not finished in time
    /// is cut off.
    ///
    /// # Errors
    /// If the task that listens has failed.
    pub async fn end(self) -> io::Result<()> {
        let Self { serving, stop, listening, .. } = self;
        drop(stop);
        listening.await.map_err(io::Error::other)??;
        if let Some(serving) = serving {
            serving.end().await;
        }
        Ok(())
    }
}

fn app(
    shared: &SharedParts,
    broker: Broker,
    Beside { deliveries, seat }: Beside,
) -> io::Result<(Arc<App>, Option<Exporting>)> {
    let mut app = App::new(broker, shared, seat);
    let exporting = app.start_tracing().map_err(io::Error::other)?;
    deliveries.into_iter().for_each(|deliveries| app.metrics.also_tell(deliveries));
    app.guard.warn_of_idle(&app.options.tls_client, &app.broker);
    Ok((Arc::new(app), exporting))
}

fn keep(app: Arc<App>) -> AbortHandle {
    tokio::spawn(async move { app.keep().await }).abort_handle()
}

/// What stays when the role changes.
pub(super) struct SharedParts {
    pub(super) options: Arc<Options>,
    pub(super) metrics: Metrics,
    pub(super) ids: Arc<RequestIds>,
    pub(super) budget: Arc<Budget>,
}

impl SharedParts {
    pub(super) fn new(options: Options) -> Self {
        let metrics = Metrics::default();
        let budget = Budget::new(options.edge_bytes_max, metrics.clone());
        Self { options: Arc::new(options), metrics, ids: Arc::new(RequestIds::new()), budget }
    }
}

/// What answers.
#[derive(Clone)]
enum Role {
    Serves(Arc<App>),
    StandsBy(Arc<Standby>),
}

impl Role {
    /// Nothing new is begun from now on, and what has no end of its own ends.
    fn begin_stop(&self) {
        match self {
            Self::Serves(app) => app.begin_stop(),
            Self::StandsBy(_) => {}
        }
    }
}

/// What all connections share.
pub(super) struct Lobby {
    pub(super) shared: SharedParts,
    pub(super) crowd: Crowd,
    role: RwLock<Role>,
}

impl Lobby {
    fn role(&self) -> Role {
        // It is one value, and whole at every point.
        self.role.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests that are heard from now on are answered in another role. Returns the one before.
    fn change(&self, role: Role) -> Role {
        std::mem::replace(&mut *self.role.write().unwrap_or_else(PoisonError::into_inner), role)
    }

    /// Waits until no request is under way that was heard before, or cuts it off.
    async fn finish(&self) {
        let (under_way, mut finished) = mpsc::channel(1);
        let busy = self.crowd.await_rest(&under_way);
        drop(under_way);
        // All senders are gone when the last of them has answered.
        if timeout(self.shared.options.drain_timeout, finished.recv()).await.is_err() {
            let late = busy.iter().filter(|pulse| pulse.cut_off()).count();
            tracing::warn!(connections = late, "cutting off connections that did not finish in time");
        }
    }

    pub(super) fn begin_stop(&self) {
        self.role().begin_stop();
    }

    /// Answers one request; never fails, because a failure is an answer too.
    pub(super) async fn handle(
        self: Arc<Self>,
        pulse: Arc<Pulse>,
        peer: Arc<Peer>,
        request: Request<Incoming>,
    ) -> Result<Answer, Infallible> {
        // Before the role is looked at: whoever changes it looks for connections that are busy afterwards.
        pulse.busy();
        let app = match self.role() {
            Role::Serves(app) => app,
            // Boxed: the state of every call would have room for it otherwise.
            Role::StandsBy(standby) => return Ok(Box::pin(standby.handle(pulse, peer, request)).await),
        };
        drop(self);
        let (mut head, body) = request.into_parts();
        let seat = app.seat.as_deref();
        let sender = seat.and_then(|seat| relay::vouched(seat, &app.options.tls_client, &head));
        let peer = sender.map_or(peer, Arc::new);
        let id = app.ids.of(&head.headers);
        let endpoint = Target::find(&head.method, head.uri.path()).endpoint;
        let asked = app.tracer.as_ref().and_then(|tracer| tracer.asked(&head.headers, endpoint.produces()));
        if let Some(trace) = asked {
            head.extensions.insert(trace);
        }
        if !endpoint.is_audited(&head.method) {
            return Ok(app.finished((&head, body), &id, (&peer, &pulse)).await);
        }
        // Apart from the connection: whoever hangs up must not leave a deed behind of which the audit does not tell.
        let echo = id.clone();
        let apart = async move { app.finished((&head, body), &id, (&peer, &pulse)).await };
        Ok(tokio::spawn(apart).await.unwrap_or_else(|_| {
            let fault =
                Fault::new(Code::Internal, "the request could not be handled; the server's log says why");
            refusal(&fault, endpoint.dialect(), &echo)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, Incoming, Lobby, Peer, Pulse, Request};

    /// Every request moves this much at least twice, and every connection keeps as much.
    const CALL_BYTES_MAX: usize = 8 << 10;

    type Handle<F> = fn(Arc<Lobby>, Arc<Pulse>, Arc<Peer>, Request<Incoming>) -> F;

    fn bytes_of<F>(_: Handle<F>) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_state_of_a_call_stays_small() {
        let bytes = bytes_of(Lobby::handle);
        assert!(bytes <= CALL_BYTES_MAX, "{bytes} bytes: box what is rarely called");
    }
}
