//! Where an endpoint's URL leads: one strict reading of it, one resolution, and only addresses that were judged.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use super::address::Allowed;

/// Longest URL.
pub const URL_BYTES_MAX: usize = 2048;
/// Most addresses of one host that are looked at.
const ADDRESSES_MAX: usize = 64;
/// Longest host name, and longest part of one between two dots.
const HOST_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// Why a URL is not one that deliveries go to. What is in front of an `@` is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// It is too long.
    #[error("the URL has more than {URL_BYTES_MAX} bytes")]
    TooLong,
    /// It has bytes that no URL has.
    #[error(
        "the URL has blanks, control characters, backslashes or letters beyond ASCII; escape them (a host name in its `xn--` form)"
    )]
    Characters,
    /// It begins with something else.
    #[error("the URL must begin with {0}")]
    Scheme(&'static str),
    /// It names a user where none may be.
    #[error("the URL names a user; give what the receiver asks for as the endpoint's credential")]
    User,
    /// It has a fragment, which is never sent.
    #[error("the URL has a fragment (#…), which is never sent; leave it out")]
    Fragment,
    /// There is no host, or one that is written in a way that programs read differently.
    #[error(
        "the host of the URL is not a plain name or address; write a name as in DNS without a dot at its end, IPv4 as four decimal numbers, IPv6 in brackets"
    )]
    Host,
    /// The port is none.
    #[error("the port of the URL must be between 1 and 65535")]
    Port,
}

/// Why nothing was connected to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The name has no address.
    #[error("the host {host} cannot be resolved: {error}")]
    Unresolved {
        /// Which host.
        host: String,
        /// What the system said.
        error: io::Error,
    },
    /// One of its addresses is none that deliveries go to.
    #[error(
        "{host} has the address {address}, which is not on the public Internet; the operator of the connector can \
         allow the network or the host"
    )]
    Denied {
        /// Which host.
        host: String,
        /// The first address that is not permitted.
        address: IpAddr,
    },
}

/// What a URL begins with, and the port that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP in the clear.
    Http,
    /// HTTP over TLS.
    Https,
    /// Mail, over TLS as soon as the server was asked for it.
    Smtp,
    /// Mail over TLS from the first byte.
    Smtps,
}

impl Scheme {
    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Smtp => 587,
            Self::Smtps => 465,
        }
    }

    /// Whether TLS comes first.
    #[must_use]
    pub const fn is_tls(self) -> bool {
        matches!(self, Self::Https | Self::Smtps)
    }
}

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What it begins with.
    pub scheme: Scheme,
    /// The host, as `Host` and certificates have it; an address of IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query.
    pub path: String,
    /// The user of a mail server.
    pub user: Option<String>,
    address: Option<IpAddr>,
}

impl Target {
    /// Reads the URL of a webhook or of an HTTP call.
    ///
    /// # Errors
    /// If it is none, or could be read in two ways.
    pub fn http(url: &str) -> Result<Self, TargetError> {
        let (scheme, rest) = scheme(url, [("http://", Scheme::Http), ("https://", Scheme::Https)])
            .ok_or_else(|| flaw(url, "http:// or https://"))?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(TargetError::User);
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Self::of(scheme, authority, path, None)
    }

    /// Reads the URL of a mail server: `smtp://[user@]host[:port]`.
    ///
    /// # Errors
    /// If it is none.
    pub fn smtp(url: &str) -> Result<Self, TargetError> {
        let (scheme, rest) = scheme(url, [("smtp://", Scheme::Smtp), ("smtps://", Scheme::Smtps)])
            .ok_or_else(|| flaw(url, "smtp:// or smtps://"))?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (user, authority) = match authority.rsplit_once('@') {
            // A password belongs into the credential.
            Some((user, _)) if user.is_empty() || user.contains([':', '/']) => return Err(TargetError::User),
            Some((user, authority)) => (Some(unescape(user).ok_or(TargetError::User)?), authority),
            None => (None, authority),
        };
        Self::of(scheme, authority, String::new(), user)
    }

    fn of(scheme: Scheme, authority: &str, path: String, user: Option<String>) -> Result<Self, TargetError> {
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or(TargetError::Host)?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|port| *port > 0).ok_or(TargetError::Port)?
            }
            None if port.is_empty() => scheme.port(),
            _ => return Err(TargetError::Port),
        };
        let address = if authority.starts_with('[') {
            // A zone (`%eth0`) does not parse, and has no meaning for anyone else.
            Some(IpAddr::V6(host.parse::<Ipv6Addr>().map_err(|_| TargetError::Host)?))
        } else {
            plain_host(host)?.map(IpAddr::V4)
        };
        Ok(Self { scheme, host: host.to_ascii_lowercase(), port, path, user, address })
    }

    /// The value of the header `Host`.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = match self.address {
            Some(IpAddr::V6(_)) => format!("[{}]", self.host),
            _ => self.host.clone(),
        };
        if self.port == self.scheme.port() { host } else { format!("{host}:{}", self.port) }
    }

    /// Resolves it once and judges every address of the answer: one that is not permitted refuses them all, because a
    /// name that leads to both has no good reason to. Only what is returned here may be connected to.
    ///
    /// # Errors
    /// If there is no address, or one that is not permitted.
    pub async fn resolve(
        &self,
        resolver: &Resolver,
        allowed: &Allowed,
    ) -> Result<Vec<SocketAddr>, ResolveError> {
        let unresolved = |error| ResolveError::Unresolved { host: self.host.clone(), error };
        let addresses = match self.address {
            Some(address) => vec![address],
            None => resolver.resolve(&self.host).await.map_err(unresolved)?,
        };
        if addresses.is_empty() {
            return Err(unresolved(io::Error::new(io::ErrorKind::NotFound, "it has no address")));
        }
        if addresses.len() > ADDRESSES_MAX {
            return Err(unresolved(io::Error::other(format!("it has more than {ADDRESSES_MAX} addresses"))));
        }
        match addresses.iter().find(|address| !allowed.permits(&self.host, **address)) {
            Some(address) => Err(ResolveError::Denied { host: self.host.clone(), address: *address }),
            None => Ok(addresses.into_iter().map(|address| SocketAddr::new(address, self.port)).collect()),
        }
    }
}

/// The scheme of a URL that has only bytes that may be in one.
fn scheme<'a, const N: usize>(url: &'a str, known: [(&str, Scheme); N]) -> Option<(Scheme, &'a str)> {
    if url.len() > URL_BYTES_MAX || !url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
        return None;
    }
    if url.contains('#') {
        return None;
    }
    known.into_iter().find_map(|(prefix, scheme)| {
        let head = url.get(..prefix.len()).filter(|head| head.eq_ignore_ascii_case(prefix));
        head.map(|head| (scheme, &url[head.len()..]))
    })
}

/// What is wrong with a URL that has no known scheme, or bytes that may not be in one.
fn flaw(url: &str, schemes: &'static str) -> TargetError {
    if url.len() > URL_BYTES_MAX {
        TargetError::TooLong
    } else if !url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
        TargetError::Characters
    } else if url.contains('#') {
        TargetError::Fragment
    } else {
        TargetError::Scheme(schemes)
    }
}

/// A name as DNS has it, or an address of IPv4 as four decimal numbers. Whatever ends in a number but is no such
/// address (`127.1`, `0x7f.1`, `2130706433`) is read as one by some programs and as a name by others: it is refused.
fn plain_host(host: &str) -> Result<Option<Ipv4Addr>, TargetError> {
    if host.is_empty() || host.len() > HOST_BYTES_MAX {
        return Err(TargetError::Host);
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| {
        let is_sized = (1..=LABEL_BYTES_MAX).contains(&label.len());
        is_sized && label.bytes().all(is_plain) && !label.starts_with('-') && !label.ends_with('-')
    };
    if !host.split('.').all(is_label) {
        return Err(TargetError::Host);
    }
    let last = host.rsplit('.').next().unwrap_or(host);
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if is_number { host.parse().map(Some).map_err(|_| TargetError::Host) } else { Ok(None) }
}

/// Undoes percent-encoding; `None` if it is broken or hides what does not belong into a name.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = tail;
            continue;
        }
        let (digits, tail) = tail.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

/// What a resolver promises: the addresses of a host.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Finds the addresses of a host.
pub trait Resolve: Send + Sync {
    /// All addresses of the host, by one question.
    fn resolve<'a>(&'a self, host: &'a str) -> Resolving<'a>;
}

/// Which resolver is asked.
#[derive(Clone, Default)]
pub enum Resolver {
    /// That of the system.
    #[default]
    System,
    /// One that was given.
    Given(Arc<dyn Resolve>),
}

impl Resolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        match self {
            Self::System => Ok(tokio::net::lookup_host((host, 0)).await?.map(|found| found.ip()).collect()),
            Self::Given(resolver) => resolver.resolve(host).await,
        }
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::System => "System",
            Self::Given(_) => "Given(…)",
        })
    }
}
