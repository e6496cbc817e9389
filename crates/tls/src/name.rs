//! The name that a certificate is known by.
//!
//! It is the first URI among the subject's alternative names, or else the first DNS name. What stands in the subject
//! itself is for people to read and does not count, nor do addresses of machines and of mailboxes. The bytes are those
//! of a stranger until an authority has vouched for them; they are read by the library that also verifies them.

use tokio_rustls::rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Longer texts are no names.
pub const NAME_BYTES_MAX: usize = 512;

/// The name of a certificate, if it has one. DNS names are in lower case, as they are the same in any.
#[must_use]
pub fn name_of(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let uri = certificate.valid_uri_names().find(|name| is_plain(name) && name.contains(':'));
    let dns = || certificate.valid_dns_names().find(|name| is_plain(name)).map(str::to_ascii_lowercase);
    uri.map(str::to_owned).or_else(dns)
}

/// A name goes into logs and answers as it is. A URI has a colon and a DNS name has none, so neither passes for the
/// other.
fn is_plain(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    fn certificate(names: Vec<SanType>) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "in-the-subject");
        params.subject_alt_names = names;
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().into()
    }

    fn dns(name: &str) -> SanType {
        SanType::DnsName(name.try_into().unwrap())
    }

    fn uri(name: &str) -> SanType {
        SanType::URI(name.try_into().unwrap())
    }

    #[test]
    fn the_first_uri_counts_or_else_the_first_dns_name() {
        let address = || SanType::IpAddress("192.0.2.7".parse().unwrap());
        let mailbox = || SanType::Rfc822Name("a@example.com".try_into().unwrap());
        let long = format!("urn:{}", "x".repeat(NAME_BYTES_MAX));
        for (names, expected) in [
            (vec![], None),
            (vec![address(), mailbox()], None),
            (vec![dns("Billing.Example.com"), dns("other.example.com")], Some("billing.example.com")),
            (vec![dns("a.example.com"), uri("spiffe://Shop/b"), uri("urn:c")], Some("spiffe://Shop/b")),
            (vec![address(), mailbox(), dns("a")], Some("a")),
            // A URI that reads like a DNS name is none, and neither is one that a log could not show.
            (vec![uri("root"), dns("a")], Some("a")),
            (vec![uri("urn:a b"), uri("urn:a\nb"), uri(&long), uri("")], None),
        ] {
            assert_eq!(name_of(&certificate(names.clone())).as_deref(), expected, "{names:?}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let whole = certificate(vec![uri("spiffe://shop/billing"), dns("billing.example.com")]);
        assert!(name_of(&whole).is_some());
        for length in 0..whole.len() {
            let _ = name_of(&whole[..length].to_vec().into());
        }
        for place in 0..whole.len() {
            for flipped in [0x01, 0x20, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.to_vec();
                bytes[place] ^= flipped;
                if let Some(name) = name_of(&bytes.into()) {
                    assert!(is_plain(&name), "{name:?}");
                }
            }
        }
    }
}
