//! A few calls at a time, and a call that cannot bring others down.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Futures that run side by side within one task. Meant for few: every wake-up looks at all of them.
pub(super) struct Flock<F> {
    flying: Vec<Pin<Box<F>>>,
}

impl<F: Future> Flock<F> {
    pub(super) const fn new() -> Self {
        Self { flying: Vec::new() }
    }

    pub(super) const fn len(&self) -> usize {
        self.flying.len()
    }

    pub(super) fn add(&mut self, future: F) {
        self.flying.push(Box::pin(future));
    }

    /// What the first one to end returns; none if there is nobody to wait for.
    pub(super) async fn next(&mut self) -> Option<F::Output> {
        if self.flying.is_empty() {
            return None;
        }
        poll_fn(|context| {
            let ended = self.flying.iter_mut().enumerate().find_map(|(place, future)| {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => Some((place, output)),
                    Poll::Pending => None,
                }
            });
            match ended {
                None => Poll::Pending,
                Some((place, output)) => {
                    // In order, so that those who came first also wait for their places first.
                    drop(self.flying.remove(place));
                    Poll::Ready(Some(output))
                }
            }
        })
        .await
    }
}

/// A panic came out of a future.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Panicked;

/// Runs a future and turns its panic into an error: a router is code that others wrote.
pub(super) struct Contained<F>(Pin<Box<F>>);

impl<F: Future> Contained<F> {
    pub(super) fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for Contained<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // After a panic the future is dropped by its owner and never polled again, so nobody sees it half done.
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    }
}
