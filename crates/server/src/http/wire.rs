//! The socket of one connection, with a watch on peers that are too slow.
//!
//! One timer per connection, moved only when it fires or when the deadline comes nearer: busy connections hardly
//! ever touch it.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::overlong::{self, Opening};
use super::pulse::Pulse;
use super::request_id::RequestIds;

/// Of a request that was refused while its peer was still sending, this much is read and thrown away before the
/// connection closes: otherwise the peer may lose the refusal with it.
const DISCARD_BYTES_MAX: usize = 16 << 20;

/// Taken from the socket in one go. The HTTP library makes its buffers as large as what a read brings, up to the size of
/// the largest head, and a body that waits for its turn would hold two of them.
const READ_BYTES_MAX: u64 = 16 << 10;

/// A socket that gives up at the deadline of its [`Pulse`], and counts what it has taken.
pub(crate) struct Wire<S> {
    socket: S,
    pulse: Arc<Pulse>,
    timer: Option<Pin<Box<Sleep>>>,
    opening: Opening,
    /// What is left to be written instead of the library's own refusal.
    instead: Option<Vec<u8>>,
    /// Of what may be thrown away at the end.
    discarded: usize,
    ids: Arc<RequestIds>,
}

impl<S> Wire<S> {
    pub(crate) fn new(socket: S, pulse: Arc<Pulse>, ids: Arc<RequestIds>) -> Self {
        Self { socket, pulse, timer: None, opening: Opening::default(), instead: None, discarded: 0, ids }
    }

    /// The socket has nothing for us: pending, unless the peer had its chance.
    fn poll_patience<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let Some(deadline) = self.pulse.deadline() else { return Poll::Pending };
        let deadline = tokio::time::Instant::from_std(deadline);
        let timer = match &mut self.timer {
            // It will fire in time, and then look at the deadline of that time.
            Some(timer) if timer.deadline() <= deadline && !timer.is_elapsed() => return Poll::Pending,
            Some(timer) => {
                if timer.deadline() > deadline {
                    timer.as_mut().reset(deadline);
                }
                timer
            }
            none => none.insert(Box::pin(tokio::time::sleep_until(deadline))),
        };
        while timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline.into_std() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let mut part = (&mut self.socket).take(READ_BYTES_MAX);
        let Poll::Ready(result) = Pin::new(&mut part).poll_read(cx, buffer) else {
            return self.poll_patience(cx);
        };
        if buffer.filled().len() > before {
            if self.pulse.is_idle() {
                self.opening.forget();
            }
            self.opening.see(&buffer.filled()[before..]);
            self.pulse.on_bytes();
        }
        Poll::Ready(result)
    }
}

impl<S: AsyncWrite + Unpin> Wire<S> {
    /// Writes the words of the edge if `bytes` are a refusal that the library makes by itself; `None` if they are not.
    fn poll_instead(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Option<Poll<io::Result<()>>> {
        if self.instead.is_none() {
            self.instead = Some(overlong::instead(bytes, &self.opening, &self.ids)?);
        }
        let rest = self.instead.as_mut()?;
        while !rest.is_empty() {
            match Pin::new(&mut self.socket).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(count)) => drop(rest.drain(..count)),
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                Poll::Pending => return Some(self.poll_patience(cx)),
            }
        }
        Some(Poll::Ready(Ok(())))
    }
}

impl<S: AsyncRead + Unpin> Wire<S> {
    /// Reads and discards what the peer sends, until it has sent all of it, or enough of it, or its time is up.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut space = [0; 8 << 10];
        while self.discarded < DISCARD_BYTES_MAX {
            let mut buffer = ReadBuf::new(&mut space);
            match Pin::new(&mut self.socket).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => self.discarded += buffer.filled().len(),
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return self.poll_patience::<()>(cx).map(drop),
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(written) = self.poll_instead(cx, bytes) {
            return written.map_ok(|()| bytes.len());
        }
        match Pin::new(&mut self.socket).poll_write(cx, bytes) {
            Poll::Ready(result) => {
                self.pulse.on_write();
                Poll::Ready(result)
            }
            Poll::Pending => self.poll_patience(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(written) = slices.first().and_then(|first| self.poll_instead(cx, first)) {
            return written.map_ok(|()| slices.iter().map(|slice| slice.len()).sum());
        }
        match Pin::new(&mut self.socket).poll_write_vectored(cx, slices) {
            Poll::Ready(result) => {
                self.pulse.on_write();
                Poll::Ready(result)
            }
            Poll::Pending => self.poll_patience(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    /// Called when everything buffered above has been written: this is how a stream learns that its line is out.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.socket).poll_flush(cx))?;
        if self.pulse.on_flush() {
            cx.waker().wake_by_ref();
        }
        // An answer has just left. The connection is not read again before the peer sends something, so this is the
        // moment to have the timer wait for it.
        match self.poll_patience(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.socket).poll_shutdown(cx))?;
        if self.instead.is_some() {
            ready!(self.poll_discard(cx));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    fn wire(head: u64, idle: u64) -> (Wire<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let (near, far) = tokio::io::duplex(16);
        let pulse = Pulse::new(Instant::now(), Duration::from_millis(head), Duration::from_millis(idle));
        (Wire::new(near, Arc::new(pulse), Arc::new(RequestIds::new())), far)
    }

    #[tokio::test]
    async fn a_silent_peer_is_given_up() {
        let (mut wire, _far) = wire(60_000, 20);
        let error = wire.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_begins_and_does_not_end_is_given_up_sooner() {
        let (mut wire, mut far) = wire(20, 60_000);
        far.write_all(b"G").await.unwrap();
        assert_eq!(wire.read_u8().await.unwrap(), b'G');
        assert_eq!(wire.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_does_not_take_its_answer_is_given_up() {
        let (mut wire, _far) = wire(60_000, 20);
        assert_eq!(wire.write_all(&[0; 64]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_reader_that_does_not_take_its_line_is_given_up_and_a_slow_one_is_not() {
        let (mut wire, mut far) = wire(60_000, 200);
        wire.pulse.busy();
        wire.pulse.begin_write(Instant::now());
        let slow = async {
            let mut byte = [0; 16];
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_millis(80)).await;
                far.read_exact(&mut byte).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(wire.write_all(&[0; 64]), slow);
        written.expect("it takes longer than the deadline, but it is taken");
        wire.flush().await.unwrap();
        wire.pulse.begin_write(Instant::now());
        assert_eq!(wire.write_all(&[0; 64]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_request_that_is_being_answered_has_no_deadline_here() {
        let (mut wire, mut far) = wire(5, 5);
        wire.pulse.busy();
        let late = async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            far.write_all(b"x").await.unwrap();
        };
        let (byte, ()) = tokio::join!(wire.read_u8(), late);
        assert_eq!(byte.unwrap(), b'x');
    }
}
