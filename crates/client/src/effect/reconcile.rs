//! Finding out what came of an effect whose outcome is unknown.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use driftq_api::v2::{Effect, EffectResult, EffectStatus};
use serde::Serialize;

use super::failed;
use super::record::kept;
use crate::outcome::Failure;

/// What a reconciler found out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// It happened, and this is what it returned, as JSON. [`Found::succeeded`] makes it.
    Succeeded(Vec<u8>),
    /// It did not happen, and never will.
    Failed(String),
    /// It did not happen: it is carried out now.
    NotDone,
    /// The reconciler cannot tell either.
    Unknown,
}

impl Found {
    /// It happened, and this is what it returned.
    ///
    /// # Errors
    /// If the value has no JSON form.
    pub fn succeeded(value: &(impl Serialize + ?Sized)) -> Result<Self, Failure> {
        Ok(Self::Succeeded(serde_json::to_vec(value)?))
    }

    /// What is written down; `None` if nothing is.
    pub(super) fn result(&self) -> Option<EffectResult<'_>> {
        Some(match self {
            Self::Succeeded(body) => kept(body),
            Self::Failed(reason) => failed(EffectStatus::FailedFinal, reason),
            Self::NotDone => EffectResult::new(EffectStatus::FailedRetryable),
            Self::Unknown => return None,
        })
    }

    pub(super) const fn why(&self) -> &'static str {
        match self {
            Self::Succeeded(_) => "the worker's reconciler found that it happened",
            Self::Failed(_) => "the worker's reconciler found that it failed for good",
            Self::NotDone => "the worker's reconciler found that it did not happen",
            Self::Unknown => "the worker's reconciler could not find out",
        }
    }
}

pub(super) type Finding = Pin<Box<dyn Future<Output = Result<Found, Failure>> + Send>>;
pub(super) type Reconciler = Arc<dyn Fn(Effect<'static>) -> Finding + Send + Sync>;
