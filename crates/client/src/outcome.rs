//! What a handler or the function of an effect can say instead of a result.
//!
//! All of these are ordinary errors, so that `?` takes them from anywhere. They are found again at the end, also under
//! errors that name them as their source.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::error::Error;

/// What went wrong in a handler: any error, or one of [`Retry`], [`Dead`], [`Snooze`].
///
/// Every error turns into it by `?`. It does not implement `Error` itself, as no type that does that can.
///
/// ```
/// use driftq_client::{Dead, Failure};
///
/// fn parse(text: &str) -> Result<u32, Failure> {
///     if text.is_empty() {
///         return Err(Dead::new("nothing to charge").into());
///     }
///     Ok(text.parse()?)
/// }
/// # assert!(parse("").is_err() && parse("x").is_err() && parse("7").is_ok());
/// ```
pub struct Failure(Box<dyn StdError + Send + Sync>);

impl Failure {
    /// From anything that is an error, or the text of one.
    pub fn new(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(error.into())
    }

    /// The first error of this type, from the outermost to its sources.
    #[must_use]
    pub fn find<T: StdError + 'static>(&self) -> Option<&T> {
        let mut next: Option<&(dyn StdError + 'static)> = Some(&*self.0);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            next = error.source();
        }
        None
    }

    /// The SDK's own error, if that is the cause.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        self.find()
    }

    /// As a plain boxed error.
    #[must_use]
    pub fn into_inner(self) -> Box<dyn StdError + Send + Sync> {
        self.0
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl From<Failure> for Box<dyn StdError + Send + Sync> {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

impl From<Failure> for Box<dyn StdError> {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// The message comes again. From the function of an effect: it did not happen, and may be tried again.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Retry {
    /// When; as the retry policy says if not given.
    pub after: Option<Duration>,
    /// Why.
    pub reason: String,
}

impl Retry {
    /// As the retry policy says.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { after: None, reason: reason.into() }
    }

    /// After this much time.
    pub fn after(after: Duration, reason: impl Into<String>) -> Self {
        Self { after: Some(after), reason: reason.into() }
    }
}

/// The message becomes a dead letter. From the function of an effect: it did not happen and never will.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Dead {
    /// Why.
    pub reason: String,
}

impl Dead {
    /// For this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// The message comes again after this time, and the attempt does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Snooze {
    /// How long.
    pub lasting: Duration,
}

impl Snooze {
    /// For this long.
    #[must_use]
    pub const fn lasting(lasting: Duration) -> Self {
        Self { lasting }
    }
}

/// From the function of an effect: it did not happen, and may be tried again. The handler fails with it as with any
/// error.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NotDone {
    /// Why.
    pub reason: String,
}

impl NotDone {
    /// For this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// From the function of an effect: it failed before anything was sent. The effect is given up, the attempt does not
/// count, and the next caller carries it out at once. The handler fails with it as with any error.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NotSent {
    /// Why.
    pub reason: String,
}

impl NotSent {
    /// For this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// From the function of an effect: it did not happen, and never will. The handler gets [`Error::EffectFailed`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Final {
    /// Why.
    pub reason: String,
}

impl Final {
    /// For this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

macro_rules! reasoned {
    ($($outcome:ident),*) => {$(
        impl fmt::Display for $outcome {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.reason)
            }
        }

        impl StdError for $outcome {}
    )*};
}

reasoned!(Retry, Dead, NotDone, NotSent, Final);

impl fmt::Display for Snooze {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "put off for {} ms", self.lasting.as_millis())
    }
}

impl StdError for Snooze {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("charging failed")]
    struct Charging(#[source] Dead);

    #[test]
    fn outcomes_are_found_under_other_errors() {
        let failure = Failure::from(Charging(Dead::new("no such card")));
        assert_eq!(failure.find::<Dead>().unwrap().reason, "no such card");
        assert!(failure.find::<Retry>().is_none());
        assert_eq!(format!("{failure} / {failure:?}"), "charging failed / charging failed: no such card");
    }

    #[test]
    fn texts_and_boxed_errors_turn_into_failures() {
        assert_eq!(Failure::new("no").to_string(), "no");
        let boxed: Box<dyn StdError + Send + Sync> = Box::new(Retry::new("later"));
        assert!(Failure::new(boxed).find::<Retry>().is_some());
    }
}
