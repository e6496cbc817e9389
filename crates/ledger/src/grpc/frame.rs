//! Messages as gRPC puts them into a body: one byte that says whether it is compressed, four of length, the message.

use bytes::{BufMut as _, Bytes, BytesMut};

/// Bytes before a message.
pub(crate) const HEAD_BYTES: usize = 5;

/// A message without its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) compressed: bool,
    pub(crate) bytes: Bytes,
}

/// What a body holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Framed {
    /// No message.
    Nothing,
    /// One message and nothing else.
    One(Message),
    /// More than one message, or not a whole one.
    Other,
}

pub(crate) fn framed(body: &Bytes) -> Framed {
    if body.is_empty() {
        return Framed::Nothing;
    }
    let Some((&[flag, length @ ..], rest)) = body.split_first_chunk::<HEAD_BYTES>() else {
        return Framed::Other;
    };
    let is_whole = usize::try_from(u32::from_be_bytes(length)).is_ok_and(|length| length == rest.len());
    match flag {
        0 | 1 if is_whole => Framed::One(Message { compressed: flag == 1, bytes: body.slice(HEAD_BYTES..) }),
        _ => Framed::Other,
    }
}

/// A message that is not compressed, with its head; `None` if it has more bytes than a head can express.
pub(crate) fn frame(message: &Bytes) -> Option<Bytes> {
    let length = u32::try_from(message.len()).ok()?;
    let mut body = BytesMut::with_capacity(HEAD_BYTES + message.len());
    body.put_u8(0);
    body.put_u32(length);
    body.put_slice(message);
    Some(body.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_is_one_message() {
        for text in ["", "a", "five!"] {
            let bytes = Bytes::from_static(text.as_bytes());
            let body = frame(&bytes).unwrap();
            assert_eq!(framed(&body), Framed::One(Message { compressed: false, bytes: bytes.clone() }));
            let mut compressed = body.to_vec();
            compressed[0] = 1;
            assert_eq!(framed(&compressed.into()), Framed::One(Message { compressed: true, bytes }));
            assert_eq!(framed(&[&body[..], &body[..]].concat().into()), Framed::Other);
            assert_eq!(framed(&body.slice(..body.len() - 1)), Framed::Other);
        }
        assert_eq!(framed(&Bytes::new()), Framed::Nothing);
        assert_eq!(framed(&Bytes::from_static(b"\x02\0\0\0\0")), Framed::Other);
        assert_eq!(framed(&Bytes::from_static(b"\0\xff\xff\xff\xffx")), Framed::Other);
    }
}
