//! As much of the protocol of NATS as it takes to publish to a stream and wait for the acknowledgement: what a log in
//! JetStream is measured beside.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

const INBOX: &str = "_INBOX.driftq_bench";
/// An answer larger than this is none to a question of ours.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A connection that asks one thing at a time.
pub(super) struct Nats {
    socket: BufReader<TcpStream>,
    line: String,
}

/// Where a log of DriftQ lies: `nats://[user:password@]host:port[,…]/NAME[?…]`.
pub(super) struct Place<'a> {
    user: Option<(&'a str, &'a str)>,
    host: &'a str,
    /// Everything but the name of the stream.
    parts: (&'a str, &'a str),
}

impl<'a> Place<'a> {
    pub(super) fn of(url: &'a str) -> Result<Self> {
        let found = || {
            let rest = url.strip_prefix("nats://")?;
            let (servers, path) = rest.split_once('/')?;
            let query = path.find('?').map_or("", |at| &path[at..]);
            let before = &url[..url.len() - path.len()];
            let (user, hosts) = match servers.rsplit_once('@') {
                Some((user, hosts)) => (user.split_once(':'), hosts),
                None => (None, servers),
            };
            Some(Self { user, host: hosts.split(',').next()?, parts: (before, query) })
        };
        found().with_context(|| {
            format!("--nats {url}: give it as nats://host:port/NAME?monitor=http://host:8222")
        })
    }

    /// The same place with a log of another name.
    pub(super) fn named(&self, name: &str) -> String {
        format!("{}{name}{}", self.parts.0, self.parts.1)
    }
}

impl Nats {
    pub(super) async fn connect(place: &Place<'_>) -> Result<Self> {
        let socket =
            TcpStream::connect(place.host).await.with_context(|| format!("connecting to {}", place.host))?;
        socket.set_nodelay(true).context("setting no-delay")?;
        let mut nats = Self { socket: BufReader::new(socket), line: String::new() };
        let mut options = json!({"verbose": false, "pedantic": false, "headers": true, "no_responders": true, "lang": "rust"});
        if let Some((user, password)) = place.user {
            options["user"] = user.into();
            options["pass"] = password.into();
        }
        nats.read_line().await?;
        nats.send(format!("CONNECT {options}\r\nSUB {INBOX} 1\r\nPING\r\n").as_bytes()).await?;
        while nats.read_line().await? != "PONG" {
            nats.refuse_errors()?;
        }
        Ok(nats)
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.get_mut().write_all(bytes).await.context("sending to NATS")
    }

    async fn read_line(&mut self) -> Result<&str> {
        self.line.clear();
        if self.socket.read_line(&mut self.line).await.context("reading from NATS")? == 0 {
            bail!("NATS closed the connection");
        }
        Ok(self.line.trim_end())
    }

    fn refuse_errors(&self) -> Result<()> {
        if self.line.starts_with("-ERR") {
            bail!("NATS refuses: {}", self.line.trim_end());
        }
        Ok(())
    }

    /// Publishes, and waits for the answer.
    pub(super) async fn ask(&mut self, subject: &str, body: &[u8]) -> Result<Value> {
        let mut out = format!("PUB {subject} {INBOX} {}\r\n", body.len()).into_bytes();
        out.extend_from_slice(body);
        out.extend_from_slice(b"\r\n");
        self.send(&out).await?;
        loop {
            self.read_line().await?;
            self.refuse_errors()?;
            let mut words = self.line.split_whitespace();
            match words.next() {
                Some("PING") => self.send(b"PONG\r\n").await?,
                Some("HMSG") => bail!("no stream takes {subject}"),
                Some("MSG") => {
                    let length: usize =
                        words.last().and_then(|length| length.parse().ok()).unwrap_or(usize::MAX);
                    if length > ANSWER_BYTES_MAX {
                        bail!("an answer of NATS without a length that can be believed");
                    }
                    let mut answer = vec![0; length + 2];
                    self.socket.read_exact(&mut answer).await.context("reading from NATS")?;
                    let answer: Value =
                        serde_json::from_slice(&answer[..length]).context("an answer of NATS")?;
                    return match answer.get("error") {
                        Some(error) => bail!("{subject}: {error}"),
                        None => Ok(answer),
                    };
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_of_another_name_is_found_at_the_same_place() {
        let place = Place::of("nats://me:secret@n1:4222,n2:4222/queue?monitor=http://n1:8222").unwrap();
        assert_eq!((place.user, place.host), (Some(("me", "secret")), "n1:4222"));
        assert_eq!(place.named("bench"), "nats://me:secret@n1:4222,n2:4222/bench?monitor=http://n1:8222");
        assert!(Place::of("postgres://me@db/queue").is_err());
        assert!(Place::of("nats://n1:4222").is_err());
    }
}
