//! Accepting connections, and letting go of them.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::crowd::Crowd;
use super::descriptors;
use super::front::{Lobby, SharedParts};
use super::peer::Peer;
use super::pulse::Pulse;
use super::secure::Secure;
use super::wire::Wire;

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

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    /// Finish what was begun, begin nothing.
    Draining,
    /// Let go.
    Closing,
}

/// Answers connections until `shutdown` resolves. Then: no new connections, streams end, requests under way are finished,
/// and what is not finished in time is cut off.
pub(super) fn listen(
    listener: TcpListener,
    lobby: Arc<Lobby>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let secure = Secure::new(&lobby.shared.options)?;
    Ok(tokio::spawn(run(listener, lobby, secure, shutdown)))
}

async fn run(
    listener: TcpListener,
    lobby: Arc<Lobby>,
    secure: Option<Secure>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let options = &lobby.shared.options;
    let limit = descriptors::connections_max(options.connections_max).clamp(1, CONNECTIONS_CEILING);
    let permits = Arc::new(Semaphore::new(limit));
    let (stage, watched) = watch::channel(Stage::Serving);
    tokio::select! {
        () = accept(&listener, &lobby, secure.as_ref(), &permits, &watched) => {}
        () = shutdown => {}
        () = freshness(secure.as_ref()) => {}
    }
    // Waiting peers see a refused connection instead of a silent one.
    drop(listener);
    lobby.begin_stop();
    stage.send_replace(Stage::Draining);
    // All permits are back when the last connection is gone.
    let all = u32::try_from(limit).unwrap_or(u32::MAX);
    if timeout(options.drain_timeout, permits.acquire_many(all)).await.is_err() {
        let connections = lobby.shared.metrics.connections();
        tracing::warn!(connections, "cutting off connections that did not finish in time");
        stage.send_replace(Stage::Closing);
        // They only have to notice: this takes no longer than one turn of each task.
        let _ = timeout(options.drain_timeout, permits.acquire_many(all)).await;
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
    lobby: &Arc<Lobby>,
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
                let Some(permit) = admit(&lobby.crowd, permits).await else { return };
                let socket = (socket, peer);
                tokio::spawn(connection(socket, Arc::clone(lobby), secure.cloned(), permit, stage.clone()));
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
async fn admit(crowd: &Crowd, permits: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    let mut place = std::pin::pin!(Arc::clone(permits).acquire_owned());
    if permits.available_permits() > 0 {
        return place.await.ok();
    }
    loop {
        crowd.dismiss_idlest(Instant::now());
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
    lobby: Arc<Lobby>,
    secure: Option<Secure>,
    _permit: OwnedSemaphorePermit,
    #[cfg_attr(
        not(feature = "tls"),
        expect(unused_mut, reason = "the handshake waits for a change of stage")
    )]
    mut stage: watch::Receiver<Stage>,
) {
    let _open = lobby.shared.metrics.open_connection();
    // Answers are written whole; waiting for more to send would only delay them.
    if let Err(error) = socket.set_nodelay(true).and_then(|()| bound_unsent(&socket)) {
        tracing::debug!(%error, "a connection was gone at once");
        return;
    }
    match secure {
        None => converse(socket, Peer { address, certificate: None }, &lobby, stage).await,
        #[cfg(feature = "tls")]
        Some(secure) => tokio::select! {
            begun = secure.begin(socket, lobby.shared.options.head_timeout, &lobby.shared.options.tls_client) => match begun {
                // Boxed: most of a connection's memory would be for the handshake, which is over soon.
                Ok((socket, certificate)) => {
                    Box::pin(converse(socket, Peer { address, certificate }, &lobby, stage)).await;
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
    lobby: &Arc<Lobby>,
    mut stage: watch::Receiver<Stage>,
) {
    let (SharedParts { options, ids, .. }, peer) = (&lobby.shared, Arc::new(peer));
    let pulse = Pulse::new(Instant::now(), options.head_timeout, options.idle_timeout);
    let pulse = Arc::new(pulse.with_answer_timeout(options.answer_timeout));
    let wire = TokioIo::new(Wire::new(socket, Arc::clone(&pulse), Arc::clone(ids)));
    let _member = lobby.crowd.join(Arc::clone(&pulse));
    let mut builder = http1::Builder::new();
    // The library's own timer also ends idle connections, and is set anew for every request; the wire has a better one.
    builder.header_read_timeout(None).max_buf_size(options.head_bytes_max.max(HEAD_BYTES_LEAST));
    let service =
        service_fn(|request| Arc::clone(lobby).handle(Arc::clone(&pulse), Arc::clone(&peer), request));
    let mut serving = std::pin::pin!(builder.serve_connection(wire, service));
    loop {
        tokio::select! {
            result = serving.as_mut() => return ended(result),
            () = pulse.dismissal() => {
                if pulse.is_cut_off() {
                    return;
                }
                serving.as_mut().graceful_shutdown();
            }
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
