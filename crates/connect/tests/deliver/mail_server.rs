//! A mail server of a test's own, polite and otherwise.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use driftq_tls::tokio_rustls::TlsAcceptor;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What a mail server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It takes every mail.
    Takes,
    /// It takes no mail for anyone called `nobody`.
    KnowsNobody,
    /// It refuses every text.
    RefusesText,
    /// It ends the connection when it has the whole text.
    BreaksAfterText,
    /// It never says what became of the text.
    HangsAfterText,
    /// It ends the connection instead of asking for the text.
    BreaksBeforeText,
}

/// When a mail server speaks TLS.
#[derive(Clone)]
pub(crate) enum Tls {
    Never,
    /// From the first byte.
    First(TlsAcceptor),
    /// As soon as it is asked for.
    Asked(TlsAcceptor),
}

/// What came over one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    pub(crate) commands: Vec<String>,
    /// The text of the mail, if it came whole.
    pub(crate) text: Option<String>,
}

pub(crate) struct MailServer {
    pub(crate) address: SocketAddr,
    sessions: Arc<Mutex<Vec<Session>>>,
    task: JoinHandle<()>,
}

impl Drop for MailServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MailServer {
    /// One on a free port.
    pub(crate) async fn start(manner: Manner, tls: Tls) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sessions: Arc<Mutex<Vec<Session>>> = Arc::default();
        let book = Arc::clone(&sessions);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let place = {
                    let mut book = book.lock().unwrap();
                    book.push(Session::default());
                    book.len() - 1
                };
                let (book, tls) = (Arc::clone(&book), tls.clone());
                tokio::spawn(async move {
                    let write = |change: &dyn Fn(&mut Session)| change(&mut book.lock().unwrap()[place]);
                    match tls {
                        Tls::Never => drop(serve(socket, manner, HELLO, write).await),
                        Tls::First(tls) => {
                            let Ok(stream) = tls.accept(socket).await else { return };
                            serve(stream, manner, HELLO, write).await;
                        }
                        Tls::Asked(tls) => {
                            let hello = format!("{HELLO}{STARTTLS}");
                            let Some(socket) = serve(socket, manner, &hello, write).await else { return };
                            let Ok(stream) = tls.accept(socket).await else { return };
                            serve(stream, manner, "", write).await;
                        }
                    }
                });
            }
        });
        Self { address, sessions, task }
    }

    pub(crate) fn sessions(&self) -> Vec<Session> {
        self.sessions.lock().unwrap().clone()
    }

    /// The texts of all mails that came whole.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.sessions().into_iter().filter_map(|session| session.text).collect()
    }
}

/// What it says first, and that it speaks TLS if it is asked to.
const HELLO: &str = "220 mail.example ESMTP\r\n";
const STARTTLS: &str = "STARTTLS";

/// Serves until the connection ends, or hands it back when TLS is asked for.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    manner: Manner,
    hello: &str,
    write: impl Fn(&dyn Fn(&mut Session)),
) -> Option<S> {
    let mut stream = BufReader::new(stream);
    let offers_tls = hello.ends_with(STARTTLS);
    stream.write_all(hello.trim_end_matches(STARTTLS).as_bytes()).await.ok()?;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return None;
        }
        let command = line.trim_end().to_owned();
        write(&|session| session.commands.push(command.clone()));
        let verb = command.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
        let reply = match &*verb {
            "EHLO" if offers_tls => "250-mail.example\r\n250 STARTTLS\r\n",
            STARTTLS if offers_tls => {
                stream.write_all(b"220 go on\r\n").await.ok()?;
                return Some(stream.into_inner());
            }
            "EHLO" => "250-mail.example\r\n250-8BITMIME\r\n250 AUTH PLAIN LOGIN\r\n",
            "AUTH" => "235 welcome\r\n",
            "RCPT" if manner == Manner::KnowsNobody && command.contains("nobody") => "550 no such user\r\n",
            "DATA" if manner == Manner::BreaksBeforeText => return None,
            "DATA" => {
                let _ = stream.write_all(b"354 go on\r\n").await;
                let text = read_text(&mut stream).await?;
                write(&|session| session.text = Some(text.clone()));
                match manner {
                    Manner::BreaksAfterText => return None,
                    Manner::HangsAfterText => {
                        let _ = stream.read_line(&mut line).await;
                        return None;
                    }
                    Manner::RefusesText => "554 not wanted\r\n",
                    _ => "250 queued as 4711\r\n",
                }
            }
            "QUIT" => "221 bye\r\n",
            _ => "250 fine\r\n",
        };
        stream.write_all(reply.as_bytes()).await.ok()?;
    }
}

async fn read_text(stream: &mut BufReader<impl AsyncRead + AsyncWrite + Unpin>) -> Option<String> {
    let mut text = String::new();
    loop {
        let from = text.len();
        if stream.read_line(&mut text).await.ok()? == 0 {
            return None;
        }
        if &text[from..] == ".\r\n" {
            text.truncate(from);
            return Some(text);
        }
    }
}
