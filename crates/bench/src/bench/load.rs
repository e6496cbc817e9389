//! A lean load generator: plain sockets, rendered requests, answers parsed no further than needed.

use std::{
    cell::Cell,
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    task::LocalSet,
};

use super::template::Template;

/// When a round ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Length {
    Time(Duration),
    Requests(u64),
}

/// One round.
pub(super) struct Load {
    pub(super) address: SocketAddr,
    pub(super) connections: usize,
    /// Requests in flight per connection: sent together, answered together.
    pub(super) pipeline: usize,
    /// Taken in turn.
    pub(super) templates: Vec<Template>,
    pub(super) length: Length,
}

/// What a round did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) requests: u64,
    pub(super) seconds: f64,
}

impl Done {
    pub(super) fn rate(self) -> f64 {
        self.requests as f64 / self.seconds
    }
}

/// Shared by the connections of a round; they all live on one thread.
struct Round {
    load: Load,
    started: Instant,
    /// Requests not yet taken by a connection; used when the length is a number.
    left: Cell<u64>,
    answered: Cell<u64>,
}

impl Round {
    /// How many requests a connection sends next; zero ends it.
    fn take(&self) -> usize {
        match self.load.length {
            Length::Time(length) if self.started.elapsed() >= length => 0,
            Length::Time(_) => self.load.pipeline,
            Length::Requests(_) => {
                let taken = self.left.get().min(self.load.pipeline as u64);
                self.left.set(self.left.get() - taken);
                usize::try_from(taken).unwrap_or(0)
            }
        }
    }
}

/// Runs one round. Any answer but success ends it: a refused request measures nothing.
pub(super) async fn run(load: Load) -> Result<Done> {
    let mut sockets = Vec::new();
    for _ in 0..load.connections {
        sockets.push(Connection::open(load.address).await?);
    }
    run_on(load, sockets).await
}

/// The same on connections that are open.
pub(super) async fn run_on(load: Load, sockets: Vec<Connection>) -> Result<Done> {
    let left = match load.length {
        Length::Requests(count) => count,
        Length::Time(_) => 0,
    };
    let round =
        Rc::new(Round { load, started: Instant::now(), left: Cell::new(left), answered: Cell::new(0) });
    let local = LocalSet::new();
    let tasks: Vec<_> = sockets
        .into_iter()
        .enumerate()
        .map(|(index, socket)| local.spawn_local(drive(round.clone(), socket, index)))
        .collect();
    local
        .run_until(async {
            for task in tasks {
                task.await.context("a connection's task ended")??;
            }
            Ok::<_, anyhow::Error>(())
        })
        .await?;
    Ok(Done { requests: round.answered.get(), seconds: round.started.elapsed().as_secs_f64() })
}

async fn drive(round: Rc<Round>, mut connection: Connection, index: usize) -> Result<()> {
    let mut out = Vec::new();
    let mut turn = index;
    loop {
        let count = round.take();
        if count == 0 {
            return Ok(());
        }
        out.clear();
        for _ in 0..count {
            round.load.templates[turn % round.load.templates.len()].render(&mut out);
            turn += round.load.connections;
        }
        connection.send(&out).await?;
        for _ in 0..count {
            let status = connection.answer().await?.status;
            if !(200..300).contains(&status) {
                bail!("the server answered {status}: {}", String::from_utf8_lossy(&connection.body));
            }
        }
        round.answered.set(round.answered.get() + count as u64);
    }
}

/// What bytes go over.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// An HTTP/1.1 connection for answers that carry a length.
pub(super) struct Connection {
    socket: Box<dyn Wire>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that earlier answers have used up.
    used: usize,
    /// Body of the last answer that was not a success; successes are copied only when asked for.
    body: Vec<u8>,
    keeps_bodies: bool,
}

/// The head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Bytes of the head itself.
    pub(super) bytes: usize,
    /// Bytes of the body behind it.
    pub(super) content: usize,
}

const READ_BYTES: usize = 16 << 10;
/// No head of ours is near this.
const HEAD_BYTES_MAX: usize = 64 << 10;

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
        socket.set_nodelay(true).context("setting no-delay")?;
        Ok(Self::over(socket))
    }

    /// One that was opened in another way.
    pub(super) fn over(socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        Self {
            socket: Box::new(socket),
            buffer: Vec::with_capacity(2 * READ_BYTES),
            used: 0,
            body: Vec::new(),
            keeps_bodies: false,
        }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.write_all(bytes).await.context("sending")?;
        // What encrypts may hold something back.
        self.socket.flush().await.context("sending")
    }

    /// The next answer with its body.
    pub(super) async fn answer_body(&mut self) -> Result<(u16, Vec<u8>)> {
        self.keeps_bodies = true;
        let head = self.answer().await;
        self.keeps_bodies = false;
        Ok((head?.status, std::mem::take(&mut self.body)))
    }

    pub(super) async fn answer(&mut self) -> Result<Head> {
        loop {
            let unread = &self.buffer[self.used..];
            if let Some(head) = parse_head(unread)?
                && unread.len() >= head.bytes + head.content
            {
                if self.keeps_bodies || !(200..300).contains(&head.status) {
                    self.body = unread[head.bytes..head.bytes + head.content].to_vec();
                }
                self.used += head.bytes + head.content;
                if self.used == self.buffer.len() {
                    self.buffer.clear();
                    self.used = 0;
                }
                return Ok(head);
            }
            self.buffer.drain(..self.used);
            self.used = 0;
            self.buffer.reserve(READ_BYTES);
            if self.socket.read_buf(&mut self.buffer).await.context("reading an answer")? == 0 {
                bail!("the server closed the connection");
            }
        }
    }
}

/// Reads the head if all of it is there.
pub(super) fn parse_head(bytes: &[u8]) -> Result<Option<Head>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        if bytes.len() > HEAD_BYTES_MAX {
            bail!("an answer without the end of its head");
        }
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end]).context("the head of an answer is not text")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let status = status.context("an answer without a status")?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    });
    let content = match length {
        Some(length) => length.context("an answer with a strange length")?,
        None if status == 204 => 0,
        None => bail!("an answer without a length"),
    };
    Ok(Some(Head { status, bytes: end + 4, content }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_when_they_are_whole() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nx: y\r\n\r\n{}";
        for cut in 0..text.len() - 2 {
            assert_eq!(parse_head(&text[..cut]).unwrap(), None, "{cut}");
        }
        assert_eq!(parse_head(text).unwrap(), Some(Head { status: 200, bytes: text.len() - 2, content: 2 }));
        let empty = parse_head(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().unwrap();
        assert_eq!((empty.status, empty.content), (204, 0));
        assert!(parse_head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(parse_head(b"nonsense\r\n\r\n").is_err());
    }
}
