//! Bodies of answers: in one piece, or a stream of lines.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::events::Events;
use super::lines::Lines;
use super::standby::Relayed;

/// What follows the headers of an answer.
pub(crate) enum AnswerBody {
    /// Everything at once: it leaves in the same write as the headers.
    Whole(Bytes),
    /// One line after the other, until either side has enough.
    Stream(Box<Lines>),
    /// One event after the other, for a page that watches.
    Events(Box<Events>),
    /// What another server answers.
    Relayed(Box<Relayed>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match &mut *self {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(lines) => lines.poll_line(cx).map(|line| line.map(|bytes| bytes.map(Frame::data))),
            Self::Events(events) => {
                events.poll_event(cx).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Relayed(relayed) => relayed.poll(cx).map(|piece| piece.map(|bytes| bytes.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(_) | Self::Events(_) => SizeHint::default(),
            Self::Relayed(relayed) => relayed.length().map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
