//! The HTTP client under the command line, the ledger's store on a server, the router's brain and the Rust SDK.
//!
//! It speaks HTTP/1.1, over TLS if the feature `tls` is on, and keeps connections for the next call. It knows where a
//! server is ([`Address`]) or several of a cluster are ([`Servers`]), how one call goes ([`Client`]), how one can fail
//! ([`Failure`]), how a DriftQ server says no ([`Refusal`]) and how long to try again ([`Patience`]). What a failure
//! means, and in which words it is told, is the user's business.

mod address;
mod client;
mod connect;
mod failure;
mod key;
mod patience;
mod refusal;
mod servers;
#[cfg(feature = "tls")]
mod tls;

pub use hyper::{HeaderMap, Method, StatusCode, header};

pub use address::{Address, AddressError, escape};
pub use client::{
    Answer, Begun, Body, CONNECT_TIMEOUT, Call, Client, HEAD_BYTES_MAX, KEPT_FOR, KEPT_MAX, Options,
};
pub use failure::Failure;
pub use key::Key;
pub use patience::Patience;
pub use refusal::Refusal;
pub use servers::{SERVERS_MAX, Servers};
