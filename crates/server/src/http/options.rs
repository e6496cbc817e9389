//! The knobs of the HTTP edge, with every default in one place.

use std::path::PathBuf;
use std::time::Duration;

use super::door::Door;
use super::peer::CertificateKeys;
use crate::trace::TraceOptions;

/// Limits and times of the HTTP edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Serve only clients that show a key.
    pub(crate) keys_required: bool,
    /// The digest of the root key.
    pub(crate) root_key: Option<[u8; 32]>,
    /// Who signs credentials: the URL at which services find the keys.
    pub(crate) issuer: String,
    /// A proxy is the only way to this server, and says where requests come from.
    pub(crate) behind_proxy: bool,
    /// Which names are the server's, and which web pages may ask.
    pub(crate) door: Door,
    /// The file with the server's certificate; no TLS without it.
    pub(crate) tls_cert: Option<PathBuf>,
    /// The file with the certificate's private key.
    pub(crate) tls_key: Option<PathBuf>,
    /// The file with the authorities of clients' certificates; clients are not asked for one without it.
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// For which keys clients' certificates stand.
    pub(crate) tls_client: CertificateKeys,
    /// Open connections. Beyond it, new ones wait in the system's backlog until one closes.
    pub(crate) connections_max: usize,
    /// Bytes of a request line with all its headers; beyond it the connection gets a bare 431 and ends, or a 414 if the
    /// URL alone is that long.
    pub(crate) head_bytes_max: usize,
    /// Bytes of a URL; beyond it 414. Clients put whole payloads into the query, so it is generous.
    pub(crate) url_bytes_max: usize,
    /// Bytes of a request body; beyond it 413.
    pub(crate) body_bytes_max: usize,
    /// Bytes held for all peers together: bodies that are read or being handled, answers and lines that are not written
    /// yet. Beyond it, a request that needs more waits a moment and then gets 503.
    pub(crate) edge_bytes_max: usize,
    /// From the first byte of a request to the end of its headers; afterwards the connection is closed.
    pub(crate) head_timeout: Duration,
    /// From the end of the headers to the end of the body; afterwards 408.
    pub(crate) body_timeout: Duration,
    /// A connection that takes nothing of its answer for this long is closed.
    pub(crate) answer_timeout: Duration,
    /// A connection without a request is closed after this long, and so is one that takes nothing of its stream.
    pub(crate) idle_timeout: Duration,
    /// An idle stream carries a bare newline this often.
    pub(crate) heartbeat: Duration,
    /// Where traces go, and of what.
    pub(crate) traces: TraceOptions,
    /// How long a graceful stop waits for connections to finish what they began.
    pub(crate) drain_timeout: Duration,
}

impl Options {
    pub(crate) const CONNECTIONS_MAX_DEFAULT: usize = 8_192;
    pub(crate) const EDGE_BYTES_MAX_DEFAULT: usize = 256 << 20;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            keys_required: false,
            root_key: None,
            issuer: String::new(),
            behind_proxy: false,
            door: Door::default(),
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            tls_client: CertificateKeys::new(),
            connections_max: Self::CONNECTIONS_MAX_DEFAULT,
            head_bytes_max: 128 << 10,
            url_bytes_max: 60 << 10,
            body_bytes_max: 4 << 20,
            edge_bytes_max: Self::EDGE_BYTES_MAX_DEFAULT,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            answer_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(120),
            heartbeat: Duration::from_secs(15),
            traces: TraceOptions::default(),
            drain_timeout: Duration::from_secs(5),
        }
    }
}
