//! Credentials of AWS for a credential of an attempt: STS's `AssumeRoleWithWebIdentity`.
//!
//! One try: what may pass is told by the error, and the message's own retries follow.

mod answer;
mod role;

use std::fmt;
use std::time::Duration;

use driftq_api::Moment;
use driftq_api::v2::CredentialRequest;
use driftq_http::{Address, Call, Failure, Method, Options};

use role::Question;
pub use role::{AwsRole, STS_AUDIENCE};

use crate::context::Context;
use crate::error::Error;

/// Largest answer that is read; STS's own have a few KiB.
pub const STS_ANSWER_BYTES_MAX: usize = 64 << 10;
/// An answer of STS's that takes longer than this will not come.
pub const STS_TIMEOUT: Duration = Duration::from_secs(10);
/// STS reads the credential at once: one that leaks on the way is of no use a minute later.
const CREDENTIAL_TTL_MS: u64 = 60_000;

/// Credentials of AWS for a role. They end at `expiration` and not with the lease.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AwsCredentials {
    /// Which key it is; not a secret.
    pub access_key_id: String,
    /// The secret of the key.
    pub secret_access_key: String,
    /// What goes with every request.
    pub session_token: String,
    /// When they end.
    pub expiration: Moment,
}

impl fmt::Debug for AwsCredentials {
    /// Without the secret and the token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AwsCredentials")
            .field("access_key_id", &self.access_key_id)
            .field("expiration", &self.expiration)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// Credentials of AWS for a role that trusts the server as its identity provider. They are good until their own
    /// `expiration`, for 15 minutes at least, also if the lease ends before.
    ///
    /// # Errors
    /// [`Error::StsRefused`], [`Error::StsUnanswered`]; [`Error::Invalid`] if the role cannot be asked for; as
    /// [`Context::credential`].
    pub async fn aws_credentials(&self, role: &AwsRole) -> Result<AwsCredentials, Error> {
        let place = (self.topic(), self.partition(), self.offset(), self.attempt());
        let question = role.question(place, |name| std::env::var(name).ok())?;
        let (token, audience) = (self.token().into(), question.audience.as_str().into());
        let asked = CredentialRequest { token, audience, ttl_ms: Some(CREDENTIAL_TTL_MS) };
        let credential = self.client().credential(&asked).await?;
        assume(&question, &credential.credential, STS_TIMEOUT).await
    }
}

async fn assume(question: &Question, credential: &str, limit: Duration) -> Result<AwsCredentials, Error> {
    let url = question.url.as_str();
    // The URL is not repeated: what is in front of an @ may be a password.
    let address = Address::parse_with_path(url)
        .map_err(|why| Error::Invalid(format!("the endpoint of STS cannot be used: {why}")))?;
    let call = Call::new(Method::POST, address.path()).form(question.form(credential));
    let http = driftq_http::Client::new(address, &Options::new(STS_ANSWER_BYTES_MAX));
    let http = http.map_err(|failure| Error::Invalid(failure.to_string()))?;
    match http.call(&call, Some(limit)).await {
        Ok(answer) => answer::read(url, answer.status.as_u16(), &answer.body, credential),
        Err(failure) => Err(unanswered(url, &failure)),
    }
}

fn unanswered(url: &str, failure: &Failure) -> Error {
    let (why, is_transient) = match failure {
        Failure::TooLong(_) | Failure::Foreign(_) => {
            (format!("what answers at {url} does not speak STS: {failure}; check the endpoint"), false)
        }
        Failure::Untrusted(_) => {
            (format!("the certificate of {url} is not trusted ({failure}); nothing was sent"), false)
        }
        _ => (format!("no answer of STS at {url} ({failure}); it is safe to ask again"), true),
    };
    Error::StsUnanswered { why, is_transient }
}
