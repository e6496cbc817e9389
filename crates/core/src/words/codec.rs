//! Little-endian bytes: how facts, messages and snapshots are written and read back.
//!
//! Reading never trusts a length: whatever does not fit is [`Malformed`], never a panic and never an allocation
//! larger than the bytes at hand.

use alloc::sync::Arc;
use alloc::vec::Vec;

/// Bytes that are not what they should be. The text names the part that was being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// The history contradicts itself; it cannot have been written by a shard.
pub(crate) const CONTRADICTION: Malformed = Malformed("fact that contradicts the state");
/// A newer version wrote it, or none did.
pub(crate) const UNKNOWN_KIND: Malformed = Malformed("fact of an unknown kind");

/// Appends numbers and texts to a buffer.
pub(crate) trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_bytes(&mut self, value: &[u8]);
    fn put_text(&mut self, value: &str);
    /// How many things follow.
    fn put_length(&mut self, length: usize);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_bytes(&mut self, value: &[u8]) {
        let length =
            u32::try_from(value.len()).expect("inputs are capped far below 4 GiB before they get here");
        self.put_u32(length);
        self.extend_from_slice(value);
    }

    fn put_text(&mut self, value: &str) {
        self.put_bytes(value.as_bytes());
    }

    fn put_length(&mut self, length: usize) {
        self.put_u32(u32::try_from(length).expect("every collection has a limit far below 4 Gi"));
    }
}

/// Reads numbers and texts off the front of a slice.
#[derive(Clone, Copy)]
pub(crate) struct Take<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Take<'a> {
    /// Reads from `bytes`; errors will name `what`.
    pub(crate) const fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    pub(crate) const fn malformed(&self) -> Malformed {
        Malformed(self.what)
    }

    pub(crate) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Ends the reading: anything left over is an error.
    pub(crate) const fn done(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.malformed()) }
    }

    pub(crate) fn raw(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(Malformed(self.what))?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed(self.what))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn identity(&mut self) -> Result<crate::words::id::Identity, Malformed> {
        self.array().map(crate::words::id::Identity)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()?;
        self.raw(length as usize)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.bytes()?;
        core::str::from_utf8(bytes).map_err(|_| Malformed(self.what))
    }

    pub(crate) fn shared(&mut self) -> Result<Arc<str>, Malformed> {
        self.text().map(Arc::from)
    }

    /// The first byte of a format.
    pub(crate) fn version(&mut self, expected: u8) -> Result<(), Malformed> {
        if self.u8()? == expected { Ok(()) } else { Err(self.malformed()) }
    }

    /// How many things follow, each at least `least` bytes long: a count that cannot be true is refused before
    /// anything is reserved for it.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let count = self.u32()? as usize;
        if count.checked_mul(least).is_none_or(|bytes| bytes > self.rest.len()) {
            return Err(self.malformed());
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lying_length_is_refused() {
        let mut bytes = Vec::new();
        bytes.put_u32(u32::MAX);
        bytes.extend_from_slice(b"abc");
        assert_eq!(Take::new(&bytes, "text").text(), Err(Malformed("text")));
        assert_eq!(Take::new(&bytes, "list").count(1), Err(Malformed("list")));
        assert_eq!(Take::new(&[0xff, 0xfe], "number").u32(), Err(Malformed("number")));
    }

    #[test]
    fn left_over_bytes_are_refused() {
        let mut take = Take::new(&[1, 2], "pair");
        assert_eq!(take.u8(), Ok(1));
        assert_eq!(take.done(), Err(Malformed("pair")));
    }
}
