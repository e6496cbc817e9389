//! One mail by SMTP, and what is certain about it afterwards.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, SinglePart};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use lettre::transport::smtp::response::Response;
use lettre::{Address, Message};
use tokio::time::{Instant, timeout, timeout_at};

use super::address::is_public;
use super::attempt::Ending;
use super::connect::{ConnectError, Connection, Connections};
use super::endpoint::Endpoint;
use super::request::{Keys, Parcel};
use super::send::{ANSWER_BYTES_KEPT, Sent, cut, text};
use super::target::Target;
use super::watched::Trace;

/// How long a good-bye may take: it changes nothing any more.
const QUIT_WITHIN: Duration = Duration::from_secs(1);
/// The label of a message with a subject of its own.
const SUBJECT: &str = "subject";

/// Why no mail can be made.
#[derive(Debug, thiserror::Error)]
pub enum MailError {
    /// The endpoint has no sender.
    #[error("the endpoint has no `from`; set it")]
    NoSender,
    /// The endpoint has no receivers.
    #[error("the endpoint has no `to`; set it")]
    NoReceiver,
    /// An address is none.
    #[error("{0:?} is no mail address; correct the endpoint")]
    Address(String),
    /// The type of the body is none.
    #[error("the label content-type of the message, {0:?}, is none")]
    ContentType(String),
    /// Anything else.
    #[error("no mail can be made: {0}")]
    Other(#[from] lettre::error::Error),
}

impl MailError {
    /// Whether it is the message's own fault, so that trying again changes nothing.
    #[must_use]
    pub const fn is_of_message(&self) -> bool {
        matches!(self, Self::ContentType(_))
    }
}

/// Why it was not accepted.
#[derive(Debug, thiserror::Error)]
enum SmtpFailure {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the mail server: {0}")]
    Smtp(#[from] SmtpError),
    #[error("the mail server offers no TLS, and is on the public Internet or wants a password; use smtps://")]
    NoTls,
    #[error("the mail server does not take what is not ASCII ({0})")]
    Ascii(&'static str),
    #[error("the authorities that are trusted: {0}")]
    Authorities(String),
    #[error("there was no answer within {} ms", .0.as_millis())]
    TooLate(Duration),
}

impl AsyncTokioStream for Connection {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.peer()
    }
}

/// The mail of a delivery. It has the same `Message-ID` in every attempt, so that mail programs show it once.
///
/// # Errors
/// If the endpoint or the message has something in it that mails do not have.
pub fn mail(endpoint: &Endpoint, parcel: &Parcel) -> Result<Message, MailError> {
    let mailbox = |text: &str| text.parse::<Mailbox>().map_err(|_| MailError::Address(text.to_owned()));
    let from = mailbox(endpoint.from.as_deref().ok_or(MailError::NoSender)?)?;
    if endpoint.to.is_empty() {
        return Err(MailError::NoReceiver);
    }
    let content_type = parcel.content_type().unwrap_or("text/plain; charset=utf-8");
    let content_type =
        ContentType::parse(content_type).map_err(|_| MailError::ContentType(content_type.to_owned()))?;
    let id = format!("<{}@{}>", parcel.key(&endpoint.name), from.email.domain());
    let subject = parcel.header(SUBJECT).or(endpoint.subject.as_deref()).unwrap_or_default();
    let mut builder = Message::builder().from(from).message_id(Some(id)).subject(one_line(subject));
    for to in &endpoint.to {
        builder = builder.to(mailbox(to)?);
    }
    let part = SinglePart::builder().header(content_type);
    Ok(builder.singlepart(match std::str::from_utf8(&parcel.body) {
        Ok(body) => part.body(body.to_owned()),
        Err(_) => part.body(parcel.body.to_vec()),
    })?)
}

/// A line break would begin another header.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Hands the mail to its server once. Before its text was begun, nothing has happened; after that, only an answer is
/// certain.
pub async fn send(
    connections: &Connections,
    target: &Target,
    mail: &Message,
    keys: &Keys,
    limit: Duration,
) -> Sent {
    let trace = Trace::default();
    let until = Instant::now() + limit;
    let outcome = match timeout_at(until, hand_over(connections, target, mail, keys, &trace)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(SmtpFailure::TooLate(limit)),
    };
    match outcome {
        Ok(response) => Sent {
            status: Some(u16::from(response.code())),
            body: answer(&response),
            ..Sent::without_answer(Ending::Delivered, "")
        },
        Err(failure) => {
            let status = match &failure {
                SmtpFailure::Smtp(error) => error.status().map(u16::from),
                _ => None,
            };
            // An answer says that it was not taken. Without one it may have been.
            let is_unknown = trace.is_set() && status.is_none();
            let ending = if is_unknown { Ending::Unknown } else { Ending::Failed };
            Sent { status, ..Sent::without_answer(ending, text(&failure)) }
        }
    }
}

fn answer(response: &Response) -> String {
    let text = response.message().collect::<Vec<_>>().join("\n");
    cut(&text, ANSWER_BYTES_KEPT)
}

async fn hand_over(
    connections: &Connections,
    target: &Target,
    mail: &Message,
    keys: &Keys,
    trace: &Trace,
) -> Result<Response, SmtpFailure> {
    let mut server = greet(connections, target, keys).await?;
    let content = mail.formatted();
    let mut options = Vec::new();
    let supports = |extension| server.server_info().supports_feature(extension);
    let addresses = || mail.envelope().to().iter().chain(mail.envelope().from());
    if addresses().any(|address: &Address| !AsRef::<str>::as_ref(address).is_ascii()) {
        if !supports(Extension::SmtpUtfEight) {
            return Err(SmtpFailure::Ascii("an address"));
        }
        options.push(MailParameter::SmtpUtfEight);
    }
    if !content.is_ascii() {
        if !supports(Extension::EightBitMime) {
            return Err(SmtpFailure::Ascii("the text"));
        }
        options.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    server.command(Mail::new(mail.envelope().from().cloned(), options)).await?;
    // One receiver that is refused refuses the mail: a part of it would be neither sent nor not.
    for to in mail.envelope().to() {
        server.command(Rcpt::new(to.clone(), Vec::new())).await?;
    }
    server.command(Data).await?;
    trace.set();
    let response = server.message(&content).await?;
    let _ = timeout(QUIT_WITHIN, server.quit()).await;
    Ok(response)
}

/// Connects, begins TLS, and says who asks.
async fn greet(
    connections: &Connections,
    target: &Target,
    keys: &Keys,
) -> Result<AsyncSmtpConnection, SmtpFailure> {
    let connection = connections.open(target).await?;
    let is_far = connection.peer().map_or(true, |peer| is_public(peer.ip()));
    let hello = ClientId::default();
    let mut server = AsyncSmtpConnection::connect_with_transport(Box::new(connection), &hello).await?;
    if !target.scheme.is_tls() {
        if server.can_starttls() {
            let parameters = tls(target.host.clone(), connections.ca_file()).await?;
            server.starttls(parameters, &hello).await?;
        } else if is_far || keys.credential.is_some() {
            return Err(SmtpFailure::NoTls);
        }
    }
    if let Some(password) = &keys.credential {
        let user = target.user.clone().unwrap_or_default();
        let credentials = Credentials::new(user, password.expose().to_owned());
        server.auth(&[Mechanism::Plain, Mechanism::Login], &credentials).await?;
    }
    Ok(server)
}

/// Whom to trust. Reading the authorities of the system takes a moment, which other deliveries do not wait for.
async fn tls(host: String, ca_file: Option<&Path>) -> Result<TlsParameters, SmtpFailure> {
    let ca_file = ca_file.map(Path::to_owned);
    let build = move || {
        let mut builder = TlsParameters::builder(host);
        if let Some(file) = ca_file {
            let broken = |why| SmtpFailure::Authorities(format!("{}: {why}", file.display()));
            let pem = std::fs::read(&file).map_err(|error| broken(error.to_string()))?;
            builder = builder.add_root_certificate(Certificate::from_pem(&pem)?);
        }
        Ok(builder.build_rustls()?)
    };
    let built = tokio::task::spawn_blocking(build).await;
    built.map_err(|error| SmtpFailure::Authorities(error.to_string()))?
}
