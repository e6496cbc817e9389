//! Accepting connections, and letting go of them.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use driftq_engine::Broker;
use driftq_engine::cluster::Seat;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use super::answer::Answer;
use super::app::App;
use super::crowd::Crowd;
use super::descriptors;
use super::options::Options;
use super::peer::Peer;
use super::pulse::Pulse;
use super::request_id::RequestIds;
use super::secure::Secure;
use super::standby::Standby;
use super::wire::Wire;
use crate::metrics::{Deliveries, Metrics};

/// Pause after an accept that failed for want of something (file descriptors, memory), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often the log mentions connections that wait for a place: a line for each would be a second flood.
const CROWD_SILENCE: Duration = Duration::from_secs(10);

/// How often a full server looks for a connection that may be closed.
const CROWD_PAUSE: Duration = Duration::from_millis(100);

/// Most permits that the connection limit can have.
const CONNECTIONS_CEILING: usize = u32::MAX as usize >> 4;

/// What the system takes for a connection beyond what its peer has room for.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 64 << 10;

/// How long a connection that was just made waits for its first request when the edge ends: whoever has made it meant to
/// ask, and would not know whether a request that was on its way was carried out.
const NEWCOMER_PATIENCE: Duration = Duration::from_millis(500);

/// The HTTP library panics below this.
const HEAD_BYTES_LEAST: usize = 8 << 10;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    /// Finish what was begun, begin nothing.
    Draining,
    /// Let go.
    Closing,
}

/// What runs in the same process, as far as requests ask about it.
#[derive(Debug, Default)]
pub struct Beside {
    /// What connectors in this process deliver, for `/metrics`.
    pub deliveries: Option<Deliveries>,
    /// This server's part in a cluster, if it has one.
    pub seat: Option<Arc<Seat>>,
}

/// Serves until `shutdown` resolves. Then: no new connections, streams end, requests under way are finished, and what is
/// not finished in time is cut off.
///
/// Boxed, as a future is compiled by the crate that names its type: the whole edge is compiled here, once, and not
/// again by the binary.
pub fn serve(
    listener: TcpListener,
    broker: Broker,
    options: Options,
    beside: Beside,
    shutdown: Boxed<()>,
) -> Boxed<io::Result<()>> {
    Box::pin(serve_until(listener, broker, options, beside, shutdown))
}

/// What connections lead to: a broker in this process, or the way to another server that has it.
pub(super) trait Edge: Send + Sync + 'static {
    fn options(&self) -> &Options;
    fn metrics(&self) -> &Metrics;
    fn crowd(&self) -> &Crowd;
    fn ids(&self) -> &Arc<RequestIds>;
    /// Answers one request; never fails, because a failure is an answer too.
    fn handle(
        self: Arc<Self>,
        pulse: Arc<Pulse>,
        peer: Arc<Peer>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Answer, Infallible>> + Send;
    /// What goes on beside the connections, for as long as it is polled.
    fn keep(&self) -> impl Future<Output = ()> + Send;
    /// Nothing new is begun from now on.
    fn begin_stop(&self);
}

async fn serve_until(
    listener: TcpListener,
    broker: Broker,
    options: Options,
    beside: Beside,
    shutdown: Boxed<()>,
) -> io::Result<()> {
    let mut app = App::new(broker, options, beside.seat);
    let exporting = app.start_tracing().map_err(io::Error::other)?;
    let app = Arc::new(app);
    beside.deliveries.into_iter().for_each(|deliveries| app.metrics.also_tell(deliveries));
    app.guard.warn_of_idle(&app.options.tls_client, &app.broker);
    run(listener, app, shutdown).await?;
    if let Some(exporting) = exporting {
        exporting.stop().await;
    }
    Ok(())
}

/// Serves as [`serve`] does while another server of the cluster has the broker: what is asked here is passed on to it.
pub fn stand_by(
    listener: TcpListener,
    options: Options,
    seat: Arc<Seat>,
    shutdown: Boxed<()>,
) -> Boxed<io::Result<()>> {
    Box::pin(run(listener, Arc::new(Standby::new(options, seat)), shutdown))
}

async fn run<E: Edge>(listener: TcpListener, app: Arc<E>, shutdown: Boxed<()>) -> io::Result<()> {
    let options = app.options();
    let limit = descriptors::connections_max(options.connections_max).clamp(1, CONNECTIONS_CEILING);
    let permits = Arc::new(Semaphore::new(limit));
    let drain_timeout = options.drain_timeout;
    let (stage, watched) = watch::channel(Stage::Serving);
    let secure = Secure::new(options)?;
    tokio::select! {
        () = accept(&listener, &app, secure.as_ref(), &permits, &watched) => {}
        () = shutdown => {}
        () = freshness(secure.as_ref()) => {}
        () = app.keep() => {}
    }
    // Waiting peers see a refused connection instead of a silent one.
    drop(listener);
    app.begin_stop();
    stage.send_replace(Stage::Draining);
    // All permits are back when the last connection is gone.
    let all = u32::try_from(limit).unwrap_or(u32::MAX);
    if timeout(drain_timeout, permits.acquire_many(all)).await.is_err() {
        let connections = app.metrics().connections();
        tracing::warn!(connections, "cutting off connections that did not finish in time");
        stage.send_replace(Stage::Closing);
        // They only have to notice: this takes no longer than one turn of each task.
        let _ = timeout(drain_timeout, permits.acquire_many(all)).await;
    }
    Ok(())
}

/// Keeps the certificate fresh for ever, if there is one.
async fn freshness(secure: Option<&Secure>) {
    #[cfg(feature = "tls")]
    if let Some(secure) = secure {
        secure.clone().keep_fresh().await;
    }
    #[cfg(not(feature = "tls"))]
    let _ = secure;
    std::future::pending().await
}

/// Accepts for ever.
async fn accept(
    listener: &TcpListener,
    app: &Arc<impl Edge>,
    secure: Option<&Secure>,
    permits: &Arc<Semaphore>,
    stage: &watch::Receiver<Stage>,
) {
    let mut told: Option<Instant> = None;
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                if permits.available_permits() == 0 && told.is_none_or(|told| told.elapsed() >= CROWD_SILENCE)
                {
                    tracing::warn!("all connections that may be open are; the idlest make room, others wait");
                    told = Some(Instant::now());
                }
                let Some(permit) = admit(&**app, permits).await else { return };
                let socket = (socket, peer);
                tokio::spawn(connection(socket, Arc::clone(app), secure.cloned(), permit, stage.clone()));
            }
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "cannot accept connections; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A place for one more connection, as soon as there is one. `None` when no connection is admitted any more.
async fn admit(app: &impl Edge, permits: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    let mut place = std::pin::pin!(Arc::clone(permits).acquire_owned());
    if permits.available_permits() > 0 {
        return place.await.ok();
    }
    loop {
        app.crowd().dismiss_idlest(Instant::now());
        tokio::select! {
            permit = place.as_mut() => return permit.ok(),
            () = tokio::time::sleep(CROWD_PAUSE) => {}
        }
    }
}

/// The peer was gone before we got to it.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Without it the system takes megabytes for a peer that reads nothing, and a stream would take that for reading.
#[cfg(target_os = "linux")]
fn bound_unsent(socket: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)
}

/// Other systems keep what they keep.
#[cfg(not(target_os = "linux"))]
fn bound_unsent(_: &TcpStream) -> io::Result<()> {
    Ok(())
}

async fn connection(
    (socket, address): (TcpStream, SocketAddr),
    app: Arc<impl Edge>,
    secure: Option<Secure>,
    _permit: OwnedSemaphorePermit,
    #[cfg_attr(
        not(feature = "tls"),
        expect(unused_mut, reason = "the handshake waits for a change of stage")
    )]
    mut stage: watch::Receiver<Stage>,
) {
    let _open = app.metrics().open_connection();
    // Answers are written whole; waiting for more to send would only delay them.
    if let Err(error) = socket.set_nodelay(true).and_then(|()| bound_unsent(&socket)) {
        tracing::debug!(%error, "a connection was gone at once");
        return;
    }
    match secure {
        None => converse(socket, Peer { address, certificate: None }, &app, stage).await,
        #[cfg(feature = "tls")]
        Some(secure) => tokio::select! {
            begun = secure.begin(socket, app.options().head_timeout, &app.options().tls_client) => match begun {
                // Boxed: most of a connection's memory would be for the handshake, which is over soon.
                Ok((socket, certificate)) => {
                    Box::pin(converse(socket, Peer { address, certificate }, &app, stage)).await;
                }
                Err(error) if driftq_tls::is_untrusted(&error) => {
                    tracing::info!(%error, peer = %address, "the certificate of a client was refused");
                }
                Err(error) => tracing::debug!(%error, "a connection ended before TLS had begun"),
            },
            // Nothing was asked yet, so nothing has to be answered before the end.
            _ = stage.changed() => {}
        },
        #[cfg(not(feature = "tls"))]
        Some(never) => match never {},
    }
}

/// Peers come and go as they like: nothing here is worth more than a debug line.
fn ended(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Speaks HTTP.
async fn converse(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    app: &Arc<impl Edge>,
    mut stage: watch::Receiver<Stage>,
) {
    let (options, peer) = (app.options(), Arc::new(peer));
    let pulse = Pulse::new(Instant::now(), options.head_timeout, options.idle_timeout);
    let pulse = Arc::new(pulse.with_answer_timeout(options.answer_timeout));
    let wire = TokioIo::new(Wire::new(socket, Arc::clone(&pulse), Arc::clone(app.ids())));
    let _member = app.crowd().join(Arc::clone(&pulse));
    let mut builder = http1::Builder::new();
    // The library's own timer also ends idle connections, and is set anew for every request; the wire has a better one.
    builder.header_read_timeout(None).max_buf_size(options.head_bytes_max.max(HEAD_BYTES_LEAST));
    let service =
        service_fn(|request| Arc::clone(app).handle(Arc::clone(&pulse), Arc::clone(&peer), request));
    let mut serving = std::pin::pin!(builder.serve_connection(wire, service));
    loop {
        tokio::select! {
            result = serving.as_mut() => return ended(result),
            () = pulse.dismissal() => serving.as_mut().graceful_shutdown(),
            changed = stage.changed() => {
                let now = if changed.is_ok() { *stage.borrow_and_update() } else { Stage::Closing };
                match now {
                    Stage::Serving => {}
                    Stage::Draining => {
                        // The library would close it without a look at what is on its way.
                        let heard = poll_fn(|context| match serving.as_mut().poll(context) {
                            Poll::Ready(result) => Poll::Ready(Some(result)),
                            Poll::Pending if pulse.is_new() => Poll::Pending,
                            Poll::Pending => Poll::Ready(None),
                        });
                        if pulse.is_new()
                            && let Ok(Some(result)) = timeout(NEWCOMER_PATIENCE, heard).await
                        {
                            return ended(result);
                        }
                        serving.as_mut().graceful_shutdown();
                    }
                    Stage::Closing => return,
                }
            }
        }
    }
}
