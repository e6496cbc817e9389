//! A body that has been read, in part or whole, and can be passed on.

use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::HeaderMap;
use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request or an answer that went through the layer: bytes that were read, then whatever was not.
#[cfg_attr(not(feature = "http"), allow(unreachable_pub, reason = "public by way of `http`"))]
pub struct Body {
    data: Bytes,
    rest: Rest,
    trailers: Option<HeaderMap>,
}

enum Rest {
    /// Everything was read.
    Nothing,
    /// Not read yet.
    Through(UnsyncBoxBody<Bytes, BoxError>),
    /// Reading it failed here.
    Failed(Option<BoxError>),
}

impl Body {
    /// Just bytes.
    pub(crate) const fn whole(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { data, rest: Rest::Nothing, trailers }
    }

    /// As it comes.
    #[cfg(feature = "http")]
    pub(crate) fn through<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let rest = Rest::Through(body.map_err(Into::into).boxed_unsync());
        Self { data: Bytes::new(), rest, trailers: None }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.data.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.data)))));
        }
        match &mut self.rest {
            Rest::Nothing => Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers)))),
            Rest::Through(body) => Pin::new(body).poll_frame(cx),
            Rest::Failed(error) => Poll::Ready(error.take().map(Err)),
        }
    }

    fn is_end_stream(&self) -> bool {
        let nothing_left = match &self.rest {
            Rest::Nothing => self.trailers.is_none(),
            Rest::Through(body) => body.is_end_stream(),
            Rest::Failed(error) => error.is_none(),
        };
        self.data.is_empty() && nothing_left
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.data.len() as u64;
        let rest = match &self.rest {
            Rest::Nothing => SizeHint::with_exact(0),
            Rest::Through(body) => body.size_hint(),
            Rest::Failed(_) => SizeHint::default(),
        };
        let mut hint = SizeHint::default();
        hint.set_lower(read.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper() {
            hint.set_upper(read.saturating_add(upper));
        }
        hint
    }
}

/// A body as far as it was read.
pub(crate) struct Taken {
    /// What was read.
    pub(crate) data: Bytes,
    /// What came after all of it.
    pub(crate) trailers: Option<HeaderMap>,
    rest: Rest,
}

impl Taken {
    /// Nothing is read.
    #[cfg(feature = "http")]
    pub(crate) fn untouched<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let body = Body::through(body);
        Self { data: body.data, trailers: body.trailers, rest: body.rest }
    }

    /// Whether that was all.
    pub(crate) const fn is_whole(&self) -> bool {
        matches!(self.rest, Rest::Nothing)
    }

    /// Whether reading it failed.
    pub(crate) const fn is_broken(&self) -> bool {
        matches!(self.rest, Rest::Failed(_))
    }

    /// How many bytes it has at least, as far as that is known.
    pub(crate) fn bytes_at_least(&self) -> u64 {
        let rest = match &self.rest {
            Rest::Through(body) => http_body::Body::size_hint(body).lower(),
            Rest::Nothing | Rest::Failed(_) => 0,
        };
        rest.saturating_add(self.data.len() as u64)
    }

    /// All of it, from the beginning.
    pub(crate) fn into_body(self) -> Body {
        Body { data: self.data, rest: self.rest, trailers: self.trailers }
    }
}

/// Reads a body up to a limit. Of one that is larger, no more than the piece that goes beyond the limit is read, and
/// nothing if it says beforehand that it is larger.
pub(crate) async fn take<B>(body: B, limit: usize) -> Taken
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut body = body.map_err(Into::into).boxed_unsync();
    let is_surely_larger = http_body::Body::size_hint(&body).lower() > limit as u64;
    let mut data = BytesMut::new();
    let mut trailers = None;
    let rest = loop {
        if is_surely_larger || data.len() > limit {
            break Rest::Through(body);
        }
        match body.frame().await {
            None => break Rest::Nothing,
            Some(Err(error)) => break Rest::Failed(Some(error)),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(piece) => data.extend_from_slice(&piece),
                Err(frame) => trailers = frame.into_trailers().ok(),
            },
        }
    };
    Taken { data: data.freeze(), trailers, rest }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use http_body::Body as _;

    use super::*;

    /// Frames one after the other, of a length that is not known in advance.
    struct Pieces(VecDeque<Result<Frame<Bytes>, BoxError>>);

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            Poll::Ready(self.0.pop_front())
        }
    }

    fn pieces(texts: &[&'static str]) -> Pieces {
        Pieces(texts.iter().map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))).collect())
    }

    #[tokio::test]
    async fn a_body_is_given_on_as_it_came_however_far_it_was_read() {
        for (limit, read) in [(0, "ab"), (1, "ab"), (2, "abcd"), (3, "abcd"), (4, "abcdef"), (5, "abcdef")] {
            let taken = take(pieces(&["ab", "cd", "", "ef"]), limit).await;
            assert_eq!((&taken.data[..], taken.is_whole()), (read.as_bytes(), false), "{limit}");
            assert_eq!(taken.bytes_at_least(), read.len() as u64);
            assert_eq!(taken.into_body().collect().await.unwrap().to_bytes(), "abcdef");
        }
        let taken = take(pieces(&["ab", "cd", "ef"]), 6).await;
        assert!(taken.is_whole());
        let body = taken.into_body();
        assert_eq!(body.size_hint().exact(), Some(6));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abcdef");
    }

    #[tokio::test]
    async fn what_says_that_it_is_larger_is_not_read() {
        let body = Body::whole(Bytes::from_static(b"123456"), None);
        let taken = take(body, 5).await;
        assert_eq!((taken.data.len(), taken.is_whole(), taken.bytes_at_least()), (0, false, 6));
        let body = taken.into_body();
        assert_eq!(body.size_hint().exact(), Some(6));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "123456");
    }

    #[tokio::test]
    async fn trailers_and_failures_come_after_the_bytes() {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        let mut body = pieces(&["ab"]);
        body.0.push_back(Ok(Frame::trailers(trailers.clone())));
        let taken = take(body, 10).await;
        assert_eq!(taken.trailers.as_ref(), Some(&trailers));
        let all = taken.into_body().collect().await.unwrap();
        assert_eq!(all.trailers(), Some(&trailers));

        let mut body = pieces(&["ab"]);
        body.0.push_back(Err("gone".into()));
        let taken = take(body, 10).await;
        assert!(taken.is_broken() && !taken.is_whole());
        let mut body = taken.into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "ab");
        assert!(!body.is_end_stream());
        assert_eq!(body.frame().await.unwrap().unwrap_err().to_string(), "gone");
        assert!(body.is_end_stream() && body.frame().await.is_none());
    }
}
