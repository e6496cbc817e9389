//! What the database said, in words and with the next step.

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Why a statement gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing was sent.
    Unreachable(String),
    /// The database refused: nothing happened.
    Refused(String, Option<SqlState>),
    /// The connection broke or the answer is late: whether it happened is not known.
    Unsure(String),
}

impl Trouble {
    /// No connection could be made.
    pub(super) fn of_connecting(error: &Error) -> Self {
        match error.as_db_error() {
            Some(said) => Self::Refused(said.message().to_owned(), Some(said.code().clone())),
            None => Self::Unreachable(whole(error)),
        }
    }

    /// A statement failed.
    pub(super) fn of_statement(error: &Error) -> Self {
        let Some(said) = error.as_db_error() else { return Self::Unsure(whole(error)) };
        let code = said.code();
        // A server that is going down may have committed before it said so; so may one that broke off.
        let unsure = ["08", "57", "XX"].iter().any(|class| code.code().starts_with(class));
        let text = said.message().to_owned();
        if unsure { Self::Unsure(text) } else { Self::Refused(text, Some(code.clone())) }
    }

    pub(super) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Refused(_, code) => code.as_ref(),
            Self::Unreachable(_) | Self::Unsure(_) => None,
        }
    }

    /// Whether trying again later can help.
    pub(super) fn passes(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Unsure(_) => true,
            Self::Refused(_, code) => code.as_ref().is_some_and(|code| {
                // Too many connections, a serialization failure, a server that starts or follows another one.
                let class = &code.code()[..2];
                matches!(class, "53" | "40" | "55" | "57") || *code == SqlState::READ_ONLY_SQL_TRANSACTION
            }),
        }
    }

    /// Whether the database has shown a certificate that is not trusted. The library has no other word for it.
    fn is_of_trust(&self) -> bool {
        matches!(self, Self::Unreachable(what) if what.contains("certificate"))
    }

    /// What a person can do about it.
    pub(super) fn help(&self, schema: &str) -> String {
        let code = self.code().map_or("", SqlState::code);
        match code {
            "28P01" | "28000" => {
                "check the user and the password in the URL of --log, and pg_hba.conf".into()
            }
            "3D000" => {
                "make the database (CREATE DATABASE …), or name another one in the URL of --log".into()
            }
            "42501" => format!(
                "let the user make the schema (GRANT CREATE ON DATABASE … TO …), or make it for them: CREATE SCHEMA \
                 {schema} AUTHORIZATION …"
            ),
            "53300" => "raise max_connections, or put a pooler in between: a server needs up to 6".into(),
            "" if self.is_of_trust() => "name the file of the authority that signed the database's certificate \
                (sslmode=verify-full&sslrootcert=FILE in the URL of --log), and the host as the certificate names it"
                .into(),
            "" => "check host and port in the URL of --log, and that the database takes connections".into(),
            _ => "see the log of the database".into(),
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(what) => write!(f, "the database cannot be reached: {what}"),
            Self::Refused(what, _) => write!(f, "the database refused: {what}"),
            Self::Unsure(what) => write!(f, "what the database did is not known: {what}"),
        }
    }
}

/// An error with its causes: the outermost alone says only that there was one.
fn whole(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
