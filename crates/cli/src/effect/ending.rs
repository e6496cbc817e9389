//! What came of an effect, as flags say it.

use std::borrow::Cow;

use anyhow::Result;
use clap::ValueEnum;
use driftq_api::v2::{EffectResult, EffectStatus, Headers};

use crate::{
    exit::{Exit, Fault},
    file, parse,
};

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Status {
    /// It happened, and is never carried out again
    Succeeded,
    /// It did not happen and never will
    #[value(alias = "failed_final")]
    FailedFinal,
    /// It did not happen, and may be tried again
    #[value(alias = "failed_retryable")]
    FailedRetryable,
}

impl From<Status> for EffectStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Succeeded => Self::Succeeded,
            Status::FailedFinal => Self::FailedFinal,
            Status::FailedRetryable => Self::FailedRetryable,
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct Ending {
    /// How it ended
    #[arg(long, value_enum, ignore_case = true)]
    status: Status,
    /// A number of your own, such as an HTTP status or an exit code
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    code: Option<i32>,
    /// A small fact beside the body; can be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::pair)]
    header: Vec<(String, String)>,
    /// The result, as text
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    body: Option<String>,
    /// The result, as the bytes of a file; `-` is stdin
    #[arg(long, value_name = "PATH")]
    body_file: Option<String>,
    /// Why it failed
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    error: String,
}

impl Ending {
    /// As the server takes it.
    pub(crate) fn read(&self) -> Result<EffectResult<'_>> {
        let pairs = self.header.iter().map(|(name, value)| (Cow::Borrowed(&**name), Cow::Borrowed(&**value)));
        let headers = Headers::new(pairs.collect())
            .map_err(|why| Fault::new(Exit::Usage, format!("--header: {why}")))?;
        let body = match (&self.body, &self.body_file) {
            (Some(text), _) => Some(Cow::Borrowed(text.as_bytes())),
            (None, Some(path)) => Some(Cow::Owned(file::read("--body-file", path)?)),
            (None, None) => None,
        };
        let status = self.status.into();
        Ok(EffectResult { status, code: self.code, headers, body, error: Cow::Borrowed(&self.error) })
    }
}
