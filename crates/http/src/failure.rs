//! How a call can fail without an answer.

use std::error::Error;
use std::io;
use std::time::Duration;

use hyper_util::client::legacy;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// No server took the connection; the request never left.
    #[error("{why}")]
    Unreachable {
        /// What the system said.
        why: String,
        /// The system's kind of error, if it had one for it.
        kind: Option<io::ErrorKind>,
    },
    /// The certificate of what answers is not trusted here; the request never left.
    #[error("{0}")]
    Untrusted(String),
    /// The connection broke before the answer was complete: the call may or may not have been carried out.
    #[error("{0}")]
    Broken(String),
    /// No whole answer came by then: the call may or may not have been carried out.
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// What answers does not speak HTTP, or not in this way.
    #[error("{0}")]
    Foreign(String),
    /// The answer is longer than this.
    #[error("more than {0} bytes")]
    TooLong(usize),
    /// No request can be made of what was given, or no client.
    #[error("{0}")]
    Invalid(String),
}

/// Said by the socket when TLS comes where HTTP was expected.
#[derive(Debug, thiserror::Error)]
#[error("TLS is spoken there; write the URL with https://")]
pub(crate) struct SpeaksTls;

impl Failure {
    /// A connection that could not be made. What the system said is the cause of what the connector says.
    pub(crate) fn of_connecting(error: &(dyn Error + 'static)) -> Self {
        let said = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>());
        match said {
            Some(said) => {
                let kind = said.raw_os_error().map(|_| said.kind());
                Self::Unreachable { why: said.to_string(), kind }
            }
            None => Self::Unreachable { why: with_causes(error), kind: None },
        }
    }

    /// A request that was not answered.
    pub(crate) fn of_sending(error: &legacy::Error) -> Self {
        match error.source() {
            Some(cause) if error.is_connect() => {
                cause.downcast_ref::<Self>().cloned().unwrap_or_else(|| Self::of_connecting(cause))
            }
            Some(cause) => Self::of_reading(cause),
            None => Self::Broken(error.to_string()),
        }
    }

    /// A connection that broke while an answer came.
    pub(crate) fn of_reading(error: &(dyn Error + 'static)) -> Self {
        let io = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()?.get_ref());
        if let Some(tls) = io.filter_map(|inner| inner.downcast_ref::<SpeaksTls>()).next() {
            return Self::Foreign(tls.to_string());
        }
        match error.downcast_ref::<hyper::Error>() {
            // Bytes that are not HTTP will not be HTTP the next time either.
            Some(error) if error.is_parse() => Self::Foreign(error.to_string()),
            _ => Self::Broken(with_causes(error)),
        }
    }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |cause: &&'a (dyn Error + 'static)| (**cause).source())
}

/// The error with the causes under it: the outermost alone often says nothing.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in causes(error).map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}
