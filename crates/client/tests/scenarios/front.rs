//! Stands between a worker and the server, and does to calls what networks and busy servers do.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Passes calls on as the rules of a scenario say.
pub(crate) struct Front {
    pub(crate) url: String,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

struct Seen {
    server: String,
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
    body: Vec<u8>,
}

impl Front {
    pub(crate) async fn before(url: &str, rules: &Value) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let rules = rules.as_array().cloned().unwrap_or_default();
        let seen = Arc::new(Seen {
            server: url.trim_start_matches("http://").to_owned(),
            lost: Mutex::new(vec![0; rules.len()]),
            rules,
            posts: Mutex::default(),
        });
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&shared);
                // A connection that breaks is what this is here for.
                tokio::spawn(async move { drop(seen.serve(stream).await) });
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
    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
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

    /// The answer, bytes and all, with its length said so that the connection can go on.
    async fn pass_on(&self, request: &Request) -> io::Result<Vec<u8>> {
        let body = self.changed(request);
        let mut server = BufReader::new(TcpStream::connect(&self.server).await?);
        let Request { method, path, .. } = request;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: front\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        server.get_mut().write_all(head.as_bytes()).await?;
        server.get_mut().write_all(&body).await?;
        let (first, length) = head_of(&mut server).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
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
async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let Some((first, length)) = head_of(stream).await? else { return Ok(None) };
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    Ok(Some(Request { method, path, body }))
}

/// The first line of a head, and the length that it names; `None` at the end of the connection.
async fn head_of(stream: &mut BufReader<TcpStream>) -> io::Result<Option<(String, Option<usize>)>> {
    let (mut first, mut length) = (String::new(), None);
    if stream.read_line(&mut first).await? == 0 {
        return Ok(None);
    }
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.trim_end();
        if line.is_empty() {
            return Ok(Some((first.trim_end().to_owned(), length)));
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
}
