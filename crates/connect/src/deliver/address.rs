//! Which addresses a delivery may go to. Whoever creates an endpoint chooses the URL, and must not reach by it what
//! only this machine can reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks of IPv4 that are no place on the public Internet.
const DENIED_V4: [(Ipv4Addr, u8); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // With the addresses by which clouds hand out credentials.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    // With the broadcast address.
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    // The other address by which a cloud hands out credentials, among public ones.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// The one network of IPv6 from which public addresses are given out. What embeds an address of IPv4 by mapping
/// (`::ffff:0:0/96`), compatibility (`::/96`) or translation (`64:ff9b::/96`, `64:ff9b:1::/48`) lies outside of it, and
/// so do loopback, private, link-local and multicast addresses.
const PUBLIC_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// What is not public within it.
const DENIED_V6: [(Ipv6Addr, u8); 4] = [
    // Protocol assignments, with Teredo, which embeds an address of IPv4.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4, which embeds an address of IPv4.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// A range of addresses, such as `10.1.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// Why a text names no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network; write one as 10.1.0.0/16 or fd00::/8, or a single address")]
pub struct NotNetwork(String);

impl Network {
    /// Reads `address/prefix`, or a single address.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(text: &str) -> Result<Self, NotNetwork> {
        let wrong = || NotNetwork(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(bits), str::parse).map_err(|_| wrong())?;
        if prefix > bits {
            return Err(wrong());
        }
        Ok(Self { address, prefix })
    }

    /// Whether the address lies in it. One of IPv4 that is embedded in one of IPv6 is an address of IPv6.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => is_within_v4(address, (network, self.prefix)),
            (IpAddr::V6(network), IpAddr::V6(address)) => is_within_v6(address, (network, self.prefix)),
            _ => false,
        }
    }
}

fn is_within_v4(address: Ipv4Addr, (network, prefix): (Ipv4Addr, u8)) -> bool {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    address.to_bits() & mask == network.to_bits() & mask
}

fn is_within_v6(address: Ipv6Addr, (network, prefix): (Ipv6Addr, u8)) -> bool {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
    address.to_bits() & mask == network.to_bits() & mask
}

/// Whether it is a place on the public Internet, as far as the address tells.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !DENIED_V4.iter().any(|network| is_within_v4(address, *network)),
        IpAddr::V6(address) => {
            let is_denied = DENIED_V6.iter().any(|network| is_within_v6(address, *network));
            is_within_v6(address, PUBLIC_V6) && !is_denied
        }
    }
}

/// What the operator of the connector permits beyond the public Internet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Every address in these.
    pub networks: Vec<Network>,
    /// These host names, whatever their addresses are; `*.example` stands for all names that end in `.example`.
    pub hosts: Vec<String>,
}

impl Allowed {
    /// Whether a delivery to this host may go to this address.
    #[must_use]
    pub fn permits(&self, host: &str, address: IpAddr) -> bool {
        is_public(address)
            || self.networks.iter().any(|network| network.contains(address))
            || self.hosts.iter().any(|allowed| is_named(host, allowed))
    }
}

fn is_named(host: &str, allowed: &str) -> bool {
    match allowed.strip_prefix('*').filter(|suffix| suffix.starts_with('.')) {
        Some(suffix) => {
            let (host, suffix) = (host.as_bytes(), suffix.as_bytes());
            let tail = host.len().checked_sub(suffix.len()).filter(|start| *start > 0);
            tail.is_some_and(|start| host[start..].eq_ignore_ascii_case(suffix))
        }
        None => host.eq_ignore_ascii_case(allowed),
    }
}
