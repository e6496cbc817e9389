//! What a server of a cluster says of a request that it passes on to another: where it came from, and whose certificate
//! its sender has shown.
//!
//! It is signed with what only the servers of the cluster know, for this one request: nobody else is believed. Where
//! clients show certificates the servers speak TLS with each other, too, so that nobody else sees what was signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftq_engine::cluster::Seat;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;

use super::peer::{Certificate, CertificateKeys, Peer};
use super::request_id::X_REQUEST_ID;

/// Says that a request was passed on: whoever is asked then does not pass it on again.
pub(super) const RELAYED: HeaderName = HeaderName::from_static("driftq-relayed");

/// In place of a certificate, if none was shown.
const NONE: &str = "-";
/// Stands before the name of a certificate, which may have none.
const NAMED: char = ':';

/// What the server that passes a request on says of its sender.
pub(super) fn vouch(seat: &Seat, peer: &Peer, head: &Parts, id: &HeaderValue) -> HeaderValue {
    let said = said_of(peer);
    let signature = seat.sign(&signed(&said, head, id));
    HeaderValue::try_from(format!("{said} {signature}")).unwrap_or_else(|_| HeaderValue::from_static(NONE))
}

/// Who has sent a request that another server of the cluster has passed on; `None` if none has.
pub(super) fn vouched(seat: &Seat, keys: &CertificateKeys, head: &Parts) -> Option<Peer> {
    let text = head.headers.get(RELAYED)?.to_str().ok()?;
    let (said, signature) = text.rsplit_once(' ')?;
    let id = head.headers.get(X_REQUEST_ID)?;
    if !seat.is_signed(&signed(said, head, id), signature) {
        return None;
    }
    peer_of(said, keys)
}

/// What is signed: the request, and what is said of its sender.
fn signed(said: &str, head: &Parts, id: &HeaderValue) -> String {
    let (method, uri, id) = (&head.method, &head.uri, String::from_utf8_lossy(id.as_bytes()));
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    format!("{method}\n{path}\n{id}\n{said}")
}

fn said_of(Peer { address, certificate }: &Peer) -> String {
    match certificate {
        None => format!("{address} {NONE}"),
        Some(certificate) => {
            let name = STANDARD.encode(certificate.name().unwrap_or_default());
            format!("{address} {NAMED}{name}")
        }
    }
}

fn peer_of(said: &str, keys: &CertificateKeys) -> Option<Peer> {
    let (address, certificate) = said.split_once(' ')?;
    let certificate = match certificate.strip_prefix(NAMED) {
        None => None,
        Some(name) => {
            let name = String::from_utf8(STANDARD.decode(name).ok()?).ok()?;
            Some(Certificate::new(Some(name).filter(|name| !name.is_empty()), keys))
        }
    };
    Some(Peer { address: address.parse().ok()?, certificate })
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftq_engine::core::KeyId;

    #[test]
    fn what_is_said_of_a_sender_is_understood() {
        let keys = CertificateKeys::from([("spiffe://shop/a b".to_owned(), KeyId(7))]);
        let shown = |name: &str| Some(Certificate::new(Some(name.to_owned()), &keys));
        for certificate in [None, Some(Certificate::new(None, &keys)), shown("spiffe://shop/a b"), shown("ü")]
        {
            let peer = Peer { address: "[::1]:8080".parse().unwrap(), certificate };
            let heard = peer_of(&said_of(&peer), &keys).unwrap();
            assert_eq!((heard.address, heard.certificate), (peer.address, peer.certificate));
        }
        for wrong in ["", "127.0.0.1:1", "127.0.0.1 -", "127.0.0.1:1 :!", "nobody -"] {
            assert!(peer_of(wrong, &keys).is_none(), "{wrong}");
        }
    }
}
