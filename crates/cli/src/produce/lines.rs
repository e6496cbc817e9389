//! Lines of stdin or a file as messages.

use std::io::{self, Read};
use std::task::{Context as Waker, Poll};
use std::{fs::File, path::Path, pin::Pin};

use anyhow::{Context, Result};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, ReadBuf, Stdin};

use crate::{Exit, Fault};

/// A longer line is no message: the server would refuse it, and without a bound a file without line ends would fill
/// the memory.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Counted from 1, empty ones too, as editors do.
    pub(super) number: u64,
    /// The part before the separator, if there is one.
    pub(super) key: Option<String>,
    pub(super) value: String,
}

/// Where lines come from.
pub(super) enum Source {
    Stdin(Stdin),
    /// Read where it is needed: a file does not keep the other tasks waiting as a pipe would.
    File(File),
}

impl Source {
    pub(super) fn open(path: Option<&Path>) -> Result<BufReader<Self>, Fault> {
        let source =
            match path {
                None => Self::Stdin(tokio::io::stdin()),
                Some(path) => Self::File(File::open(path).map_err(|error| {
                    Fault::new(Exit::Usage, format!("--file {}: {error}", path.display()))
                })?),
            };
        Ok(BufReader::new(source))
    }
}

impl AsyncRead for Source {
    fn poll_read(self: Pin<&mut Self>, waker: &mut Waker<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Stdin(stdin) => Pin::new(stdin).poll_read(waker, out),
            Self::File(file) => {
                let read = file.read(out.initialize_unfilled())?;
                out.advance(read);
                Poll::Ready(Ok(()))
            }
        }
    }
}

/// Splits a reader into messages.
pub(super) struct Lines<R> {
    reader: R,
    separator: Option<String>,
    number: u64,
    /// Empty lines passed over.
    pub(super) skipped: u64,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) const fn new(reader: R, separator: Option<String>) -> Self {
        Self { reader, separator, number: 0, skipped: 0 }
    }

    /// The next message; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Line>> {
        loop {
            let mut bytes = Vec::new();
            let read = (&mut self.reader)
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut bytes)
                .await
                .context("reading lines")?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if bytes.last() == Some(&b'\n') {
                bytes.pop();
                bytes.pop_if(|byte| *byte == b'\r');
            } else if read as u64 == LINE_BYTES_MAX {
                return Err(self.refuse(&format!("longer than {LINE_BYTES_MAX} bytes")));
            }
            if bytes.is_empty() {
                self.skipped += 1;
                continue;
            }
            let text = String::from_utf8(bytes)
                .map_err(|_| self.refuse("not UTF-8; encode it with base64 and give --base64"))?;
            return self.split(text).map(Some);
        }
    }

    fn split(&self, text: String) -> Result<Line> {
        let Some(separator) = &self.separator else {
            return Ok(Line { number: self.number, key: None, value: text });
        };
        let (key, value) = text
            .split_once(separator)
            .ok_or_else(|| self.refuse(&format!("there is no `{separator}` after a key")))?;
        if value.is_empty() {
            return Err(self.refuse("there is nothing after the key"));
        }
        Ok(Line { number: self.number, key: Some(key.to_owned()), value: value.to_owned() })
    }

    fn refuse(&self, what: &str) -> anyhow::Error {
        Fault::new(Exit::Invalid, format!("line {}: {what}", self.number)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &[u8], separator: Option<&str>) -> Result<(Vec<Line>, u64)> {
        let mut lines = Lines::new(text, separator.map(str::to_owned));
        let mut all = Vec::new();
        while let Some(line) = lines.next().await? {
            all.push(line);
        }
        Ok((all, lines.skipped))
    }

    fn line(number: u64, key: Option<&str>, value: &str) -> Line {
        Line { number, key: key.map(str::to_owned), value: value.to_owned() }
    }

    #[tokio::test]
    async fn lines_keep_their_numbers_and_lose_their_ends() {
        let (lines, skipped) = read(b"a\r\n\n b \nlast", None).await.unwrap();
        assert_eq!(lines, [line(1, None, "a"), line(3, None, " b "), line(4, None, "last")]);
        assert_eq!(skipped, 1);
    }

    #[tokio::test]
    async fn keys_stand_before_the_first_separator() {
        let (lines, _) = read(b"user:1:charge\n:anonymous\n", Some(":")).await.unwrap();
        assert_eq!(lines, [line(1, Some("user"), "1:charge"), line(2, Some(""), "anonymous")]);
    }

    #[tokio::test]
    async fn bad_lines_are_named() {
        for (text, separator) in
            [(&b"ok\n\xff\xfe\n"[..], None), (b"a=1\nnone\n", Some("=")), (b"a=1\nb=\n", Some("="))]
        {
            let error = read(text, separator).await.unwrap_err().to_string();
            assert!(error.starts_with("line 2: "), "{error}");
        }
    }
}
