//! What the log keeps about an effect and the state does not: its identity, and how it ended.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{Identity, Position};
use crate::words::message::{Text, put_pairs, take_pairs};

/// First byte of everything written here.
const VERSION: u8 = 1;

/// Bytes in the log that belong to an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Blob {
    /// Where they lie.
    pub position: Position,
    /// How many they are.
    pub length: u32,
    /// Their checksum, made and checked by the shell.
    pub check: u32,
}

/// Bytes that are to be kept in the log.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NewBlob {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Their checksum.
    pub check: u32,
}

/// The identity of an effect. Empty texts mean "not given".
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct About<'a> {
    /// Whose it is.
    pub tenant: Text<'a>,
    /// Within what its key is unique.
    pub scope: Text<'a>,
    /// Its key.
    pub key: Text<'a>,
    /// What was asked for, as the first asker named it.
    pub request: Text<'a>,
    /// The workflow run.
    pub run: Text<'a>,
    /// The step within the run.
    pub step: Text<'a>,
}

impl<'a> About<'a> {
    /// The bytes in which it is stored.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let texts = [&self.tenant, &self.scope, &self.key, &self.request, &self.run, &self.step];
        let mut out = Vec::with_capacity(1 + texts.iter().map(|text| 4 + text.len()).sum::<usize>());
        out.put_u8(VERSION);
        for text in texts {
            out.put_text(text);
        }
        out
    }

    /// Reads it back.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "effect");
        take.version(VERSION)?;
        let about = Self {
            tenant: take.text()?.into(),
            scope: take.text()?.into(),
            key: take.text()?.into(),
            request: take.text()?.into(),
            run: take.text()?.into(),
            step: take.text()?.into(),
        };
        take.done()?;
        Ok(about)
    }
}

/// How an effect ended, as the worker or the resolver tells it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Ending<'a> {
    /// A number that means something to the caller: an HTTP status, a gRPC code.
    pub code: Option<i32>,
    /// Names and values, sorted by name.
    pub headers: Vec<(Text<'a>, Text<'a>)>,
    /// The result proper; `None` is not the same as empty.
    pub body: Option<Cow<'a, [u8]>>,
    /// Why it failed.
    pub error: Text<'a>,
    /// Who found out how it ended, if it was not the worker that told.
    pub by: Text<'a>,
    /// How that was found out.
    pub why: Text<'a>,
}

impl<'a> Ending<'a> {
    /// The bytes in which it is stored.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let body = self.body.as_deref().unwrap_or_default();
        let mut out = Vec::with_capacity(64 + body.len());
        out.put_u8(VERSION);
        out.put_u8(u8::from(self.code.is_some()) | u8::from(self.body.is_some()) << 1);
        out.put_u32(self.code.unwrap_or_default().cast_unsigned());
        put_pairs(&mut out, &self.headers);
        for text in [&self.error, &self.by, &self.why] {
            out.put_text(text);
        }
        out.put_bytes(body);
        out
    }

    /// Reads it back.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "outcome of an effect");
        take.version(VERSION)?;
        let given = take.u8()?;
        let code = take.u32()?.cast_signed();
        let headers = take_pairs(&mut take)?;
        let (error, by, why) = (take.text()?.into(), take.text()?.into(), take.text()?.into());
        let body = take.bytes()?;
        take.done()?;
        let body = (given & 2 != 0).then_some(Cow::Borrowed(body));
        Ok(Self { code: (given & 1 != 0).then_some(code), headers, body, error, by, why })
    }

    /// What tells this ending from any other, given the bytes that it is stored in.
    #[must_use]
    pub fn digest(bytes: &[u8]) -> u64 {
        let Identity(digest) = Identity::of_parts(&[bytes]);
        let mut head = [0; 8];
        head.copy_from_slice(&digest[..8]);
        u64::from_le_bytes(head)
    }
}
