//! HTTP by hand, blocking, so that the test shares no client code with what it tests.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer that takes longer is none.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection for calls.
pub(crate) struct Wire {
    socket: BufReader<TcpStream>,
}

impl Wire {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { socket: BufReader::new(socket) })
    }

    /// Status and body of a call; an error means that nobody knows whether it happened.
    pub(crate) fn post(&mut self, path: &str, body: &serde_json::Value) -> io::Result<(u16, String)> {
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n", body.len());
        self.socket.get_mut().write_all((head + &body).as_bytes())?;
        self.answer()
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<(u16, String)> {
        self.socket.get_mut().write_all(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes())?;
        self.answer()
    }

    fn answer(&mut self) -> io::Result<(u16, String)> {
        let (status, length) = self.head()?;
        let mut body = vec![0; length.unwrap_or(0)];
        self.socket.read_exact(&mut body)?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    fn head(&mut self) -> io::Result<(u16, Option<usize>)> {
        let status = self.line()?;
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.ok_or_else(|| io::Error::other(format!("no status in `{status}`")))?;
        let mut length = None;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok((code, length));
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok();
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.socket.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// A consume stream.
pub(crate) struct Lines {
    wire: Wire,
    text: Vec<u8>,
    /// Bytes of a chunk's size line, or of a chunk, that have arrived so far.
    raw: Vec<u8>,
}

impl Lines {
    /// Opens it; `patience` bounds how long [`Lines::next`] waits.
    pub(crate) fn open(address: SocketAddr, path: &str, patience: Duration) -> io::Result<Self> {
        let mut wire = Wire::connect(address)?;
        wire.socket.get_mut().write_all(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes())?;
        let (status, _) = wire.head()?;
        if status != 200 {
            return Err(io::Error::other(format!("the stream was answered with {status}")));
        }
        wire.socket.get_ref().set_read_timeout(Some(patience))?;
        Ok(Self { wire, text: Vec::new(), raw: Vec::new() })
    }

    /// The next line with content. `Ok(None)`: none yet. An error: the stream is over.
    pub(crate) fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                if line.len() > 1 {
                    return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
                }
                continue;
            }
            if self.unchunk()? {
                continue;
            }
            let mut buffer = [0; 4096];
            match self.wire.socket.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.raw.extend_from_slice(&buffer[..count]),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Moves one whole chunk from the raw bytes to the text; false if none is whole yet.
    fn unchunk(&mut self) -> io::Result<bool> {
        let Some(end) = self.raw.windows(2).position(|pair| pair == b"\r\n") else { return Ok(false) };
        let size =
            std::str::from_utf8(&self.raw[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let size = size.ok_or_else(|| io::Error::other("a chunk without a size"))?;
        if size == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let whole = end + 2 + size + 2;
        if self.raw.len() < whole {
            return Ok(false);
        }
        self.text.extend_from_slice(&self.raw[end + 2..whole - 2]);
        self.raw.drain(..whole);
        Ok(true)
    }
}
