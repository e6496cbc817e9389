//! Who may start how: what reaches this address must be kept out by a key, and must not be read on the way.

use std::net::IpAddr;

use super::Config;
use crate::http::door::host_of;

/// What a configuration says about who reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    /// Only this machine reaches the address.
    is_loopback: bool,
    keys_required: bool,
    speaks_tls: bool,
    behind_proxy: bool,
}

/// Whether a server may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// There is nothing to say about it.
    Closed,
    /// It may, and whoever starts it should know this.
    Open(&'static str),
    /// It may not, for this reason, and this is what to do.
    Refused(&'static str),
}

const FREE_FOR_ALL: &str =
    "open: every program on this machine may do everything; --keys required asks for keys";
const PROXY_DECIDES: &str =
    "open: whoever the proxy lets through may do everything; --keys required asks for keys";
const PROXY_IN_FRONT: &str =
    "keys, without TLS: the proxy before it must speak TLS, and be the only way to this address";
const NEITHER: &str = "other machines reach this address, and without keys they may do everything: listen on \
                       127.0.0.1, or start with --keys required and with --tls-cert and --tls-key, or with --keys \
                       required and --behind-proxy if a proxy before it speaks TLS";
const NO_KEYS: &str = "other machines reach this address, and without keys they may do everything: start with --keys \
                       required, or listen on 127.0.0.1";
const NO_TLS: &str = "other machines reach this address, and without TLS keys can be read on the way: start with \
                      --tls-cert and --tls-key, with --behind-proxy if a proxy before it speaks TLS, or listen on \
                      127.0.0.1";

const fn judge(facts: Facts) -> Exposure {
    let Facts { is_loopback, keys_required, speaks_tls, behind_proxy } = facts;
    let is_private = speaks_tls || behind_proxy;
    match (is_loopback, keys_required) {
        (true, true) => Exposure::Closed,
        (true, false) if behind_proxy => Exposure::Open(PROXY_DECIDES),
        (true, false) => Exposure::Open(FREE_FOR_ALL),
        (false, true) if speaks_tls => Exposure::Closed,
        (false, true) if behind_proxy => Exposure::Open(PROXY_IN_FRONT),
        (false, true) => Exposure::Refused(NO_TLS),
        (false, false) if is_private => Exposure::Refused(NO_KEYS),
        (false, false) => Exposure::Refused(NEITHER),
    }
}

/// Whether only this machine reaches an address to listen on. A name that is not known to be this machine may be any.
fn is_loopback(listen: &str) -> bool {
    let host = host_of(listen);
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    match inner.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => inner.eq_ignore_ascii_case("localhost"),
    }
}

impl Config {
    /// Whether a server with this configuration may start.
    pub fn exposure(&self) -> Exposure {
        judge(Facts {
            is_loopback: is_loopback(&self.listen),
            keys_required: self.http.keys_required,
            speaks_tls: self.speaks_tls(),
            behind_proxy: self.behind_proxy,
        })
    }
}

/// Reads a value that is on or off.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_has_its_verdict() {
        for (is_loopback, keys_required, speaks_tls, behind_proxy, expected) in [
            (true, false, false, false, Exposure::Open(FREE_FOR_ALL)),
            (true, false, true, false, Exposure::Open(FREE_FOR_ALL)),
            (true, false, false, true, Exposure::Open(PROXY_DECIDES)),
            (true, false, true, true, Exposure::Open(PROXY_DECIDES)),
            (true, true, false, false, Exposure::Closed),
            (true, true, true, false, Exposure::Closed),
            (true, true, false, true, Exposure::Closed),
            (true, true, true, true, Exposure::Closed),
            (false, false, false, false, Exposure::Refused(NEITHER)),
            (false, false, true, false, Exposure::Refused(NO_KEYS)),
            (false, false, false, true, Exposure::Refused(NO_KEYS)),
            (false, false, true, true, Exposure::Refused(NO_KEYS)),
            (false, true, false, false, Exposure::Refused(NO_TLS)),
            (false, true, true, false, Exposure::Closed),
            (false, true, false, true, Exposure::Open(PROXY_IN_FRONT)),
            (false, true, true, true, Exposure::Closed),
        ] {
            let facts = Facts { is_loopback, keys_required, speaks_tls, behind_proxy };
            assert_eq!(judge(facts), expected, "{facts:?}");
        }
    }

    #[test]
    fn only_this_machine_reaches_loopback() {
        for (listen, expected) in [
            ("127.0.0.1:8080", true),
            ("127.9.9.9:0", true),
            ("[::1]:8080", true),
            ("[::ffff:127.0.0.1]:80", true),
            ("localhost:8080", true),
            ("0.0.0.0:8080", false),
            ("[::]:8080", false),
            ("192.0.2.7:80", false),
            ("broker:8080", false),
            ("127.0.0.1.evil.example:80", false),
        ] {
            assert_eq!(is_loopback(listen), expected, "{listen}");
        }
    }
}
