//! Stands between a worker and the server, and does to calls what networks and busy servers do.

use std::io;
use std::sync::{Arc, Mutex};

use driftq_client::Failure;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::place::{Ends, Place};

/// Passes calls on as the rules of a scenario say.
pub(crate) struct Front {
    pub(crate) url: String,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

struct Seen {
    /// `host:port`.
    server: String,
    /// TLS with both sides, if that is what they speak.
    ends: Option<Ends>,
    rules: Vec<Value>,
    /// How often each rule has lost something.
    lost: Mutex<Vec<u64>>,
    /// The paths and bodies of all calls, with those that were lost.
    posts: Mutex<Vec<(String, String)>>,
}

/// A request, as far as it matters here.
struct Request {
    method: String,
    path: String,
    /// The header that shows a key, as a line; empty without one.
    key: String,
    body: Vec<u8>,
}

impl Front {
    pub(crate) async fn before(place: &Place, rules: &Value) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let rules = rules.as_array().cloned().unwrap_or_default();
        let ends = place.ends();
        let url = place.url();
        let (scheme, server) = url.split_once("://").expect("a URL has a scheme");
        let seen = Arc::new(Seen {
            server: server.to_owned(),
            ends,
            lost: Mutex::new(vec![0; rules.len()]),
            rules,
            posts: Mutex::default(),
        });
        let url = format!("{scheme}://{}", listener.local_addr()?);
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&shared);
                // A connection that breaks is what this is here for.
                tokio::spawn(async move { drop(seen.welcome(stream).await) });
            }
        });
        Ok(Self { url, seen, task })
    }

    /// How many calls of this path came whose bodies have this text.
    pub(crate) fn posts(&self, path: &str, has: &str) -> u64 {
        let posts = self.seen.posts.lock().unwrap();
        posts.iter().filter(|(seen, body)| seen == path && body.contains(has)).count() as u64
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    async fn welcome(&self, stream: TcpStream) -> io::Result<()> {
        match &self.ends {
            Some(ends) => self.serve(ends.acceptor.accept(stream).await?).await,
            None => self.serve(stream).await,
        }
    }

    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        while let Some(request) = read(&mut stream).await? {
            if request.method == "POST" {
                let body = String::from_utf8_lossy(&request.body).into_owned();
                self.posts.lock().unwrap().push((request.path.clone(), body));
            }
            let lost = self.losing(&request.body);
            if lost.as_deref() == Some("request") {
                return Ok(());
            }
            let answer = self.pass_on(&request).await?;
            if lost.is_some() {
                return Ok(());
            }
            stream.get_mut().write_all(&answer).await?;
            stream.get_mut().flush().await?;
        }
        Ok(())
    }

    /// What is lost of this call: its request, its answer, or nothing.
    fn losing(&self, body: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(body);
        let mut lost = self.lost.lock().unwrap();
        for (rule, lost) in self.rules.iter().zip(&mut *lost) {
            let (Some(what), Some(has)) = (rule["lose"].as_str(), rule["body_has"].as_str()) else {
                continue;
            };
            if text.contains(has) && *lost < rule["times"].as_u64().unwrap_or(u64::MAX) {
                *lost += 1;
                return Some(what.to_owned());
            }
        }
        None
    }

    fn changed(&self, request: &Request) -> Vec<u8> {
        let mut body = request.body.clone();
        for rule in self.rules.iter().filter(|rule| rule["post"] == *request.path) {
            if let (Some(name), Ok(mut members)) = (rule["without"].as_str(), serde_json::from_slice(&body)) {
                let members: &mut Value = &mut members;
                if members.as_object_mut().is_some_and(|members| members.remove(name).is_some()) {
                    body = members.to_string().into_bytes();
                }
            }
        }
        body
    }

    async fn pass_on(&self, request: &Request) -> io::Result<Vec<u8>> {
        let server = TcpStream::connect(&self.server).await?;
        match &self.ends {
            Some(ends) => {
                let server = ends.connector.connect(ends.name.clone(), server).await?;
                self.ask(server, request).await
            }
            None => self.ask(server, request).await,
        }
    }

    /// The answer, bytes and all, with its length said so that the connection can go on.
    async fn ask(
        &self,
        server: impl AsyncRead + AsyncWrite + Unpin,
        request: &Request,
    ) -> io::Result<Vec<u8>> {
        let body = self.changed(request);
        let mut server = BufReader::new(server);
        let Request { method, path, key, .. } = request;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: front\r\nconnection: close\r\n{key}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        server.get_mut().write_all(head.as_bytes()).await?;
        server.get_mut().write_all(&body).await?;
        server.get_mut().flush().await?;
        let Head { first, length, .. } = head_of(&mut server).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut answer = Vec::new();
        match length {
            Some(length) => {
                answer.resize(length, 0);
                server.read_exact(&mut answer).await?;
            }
            None => drop(server.read_to_end(&mut answer).await?),
        }
        let head =
            format!("{first}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", answer.len());
        Ok([head.into_bytes(), answer].concat())
    }
}

/// The next request of a connection; `None` at its end.
async fn read(stream: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<Option<Request>> {
    let Some(Head { first, length, key }) = head_of(stream).await? else { return Ok(None) };
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    Ok(Some(Request { method, path, key, body }))
}

/// The head of a request or an answer, as far as it matters here.
#[derive(Default)]
struct Head {
    first: String,
    length: Option<usize>,
    /// The line that shows a key, if there is one.
    key: String,
}

/// `None` at the end of the connection.
async fn head_of(stream: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<Option<Head>> {
    let mut head = Head::default();
    if stream.read_line(&mut head.first).await? == 0 {
        return Ok(None);
    }
    head.first.truncate(head.first.trim_end().len());
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.trim_end();
        if line.is_empty() {
            return Ok(Some(head));
        }
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                head.length = value.trim().parse().ok();
            }
            Some((name, _)) if name.eq_ignore_ascii_case("authorization") => head.key = format!("{line}\r\n"),
            _ => {}
        }
    }
}
