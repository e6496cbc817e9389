//! Who is at the other end of a connection, as far as the connection itself tells.
//!
//! A client may show a certificate when TLS begins. The certificate has a name, and whoever starts the server says for
//! which key a name stands. From then on requests that show no key are those of this key.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use driftq_api::{Code, Fault};
use driftq_engine::core::KeyId;
use driftq_engine::key_text;
use hyper::http::HeaderMap;

/// How a browser says for whose page it asks.
const FETCH_SITE: &str = "sec-fetch-site";
/// Its words for the server's own pages, and for what a person typed.
const OWN_SITES: [&str; 2] = ["same-origin", "none"];
/// Longest name of a certificate that can be mapped.
const NAME_BYTES_MAX: usize = 512;

/// The keys that certificates stand for, by the names of the certificates.
pub(crate) type CertificateKeys = BTreeMap<String, KeyId>;

/// The other end of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// What it has shown, if an authority that counts here has vouched for it.
    pub(crate) certificate: Option<Certificate>,
}

/// A certificate that was verified.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    name: Option<String>,
    key: Option<KeyId>,
}

impl Certificate {
    pub(crate) fn new(name: Option<String>, keys: &CertificateKeys) -> Self {
        let key = name.as_ref().and_then(|name| keys.get(name)).copied();
        Self { name, key }
    }

    /// What it goes by, if anything.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The key that a request without a key is made with.
    pub(crate) fn key(&self, headers: &HeaderMap) -> Result<KeyId, Fault> {
        check_site(headers, "certificate")?;
        self.key.ok_or_else(|| Fault::new(Code::Unauthenticated, self.stands_for_nothing()))
    }

    fn stands_for_nothing(&self) -> String {
        match &self.name {
            Some(name) => format!(
                "the request shows no key, and its certificate `{name}` stands for none; whoever runs the server maps \
                 it with --tls-client {name}=KEY_ID"
            ),
            None => "the request shows no key, and its certificate has no name to map with --tls-client: it needs a URI \
                     or a DNS name among its subject alternative names"
                .to_owned(),
        }
    }

    /// Said if the key that it stands for opens nothing.
    pub(crate) fn ended(&self) -> Fault {
        let name = self.name.as_deref().unwrap_or_default();
        let text = format!("the key for which the certificate `{name}` stands is not known, or has ended");
        Fault::new(Code::Unauthenticated, text)
    }
}

/// Refuses what a page of others asks for. A browser shows a certificate or a session whatever page has it ask; a key
/// would have to be known to the page.
pub(crate) fn check_site(headers: &HeaderMap, shown: &str) -> Result<(), Fault> {
    let is_foreign = |site: &[u8]| !OWN_SITES.iter().any(|own| own.as_bytes() == site);
    if headers.get_all(FETCH_SITE).iter().any(|site| is_foreign(site.as_bytes())) {
        return Err(Fault::new(Code::ForeignOrigin, format!("pages of others may not ask with a {shown}")));
    }
    Ok(())
}

/// Reads an item of `tls_client`. The key comes last: a name may have an equals sign in it, and an id has none.
pub(crate) fn parse_client(text: &str) -> Result<(String, KeyId), String> {
    let Some((name, id)) = text.rsplit_once('=') else {
        return Err(format!(
            "`{text}` maps nothing; write NAME=KEY_ID, such as billing.example.com=5f0c2a91b3d4e687"
        ));
    };
    let is_name =
        (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_name {
        return Err(format!(
            "`{name}` is no name of a certificate; write its URI or DNS name, such as spiffe://shop/billing"
        ));
    }
    let Some(key) = key_text::parsed_id(id) else {
        // Somebody may have put the whole key there.
        return Err(format!(
            "what `{name}` is mapped to is no id of a key: 16 hexadecimal digits, as `driftq key list` shows them, \
             without the secret"
        ));
    };
    let name = if name.contains(':') { name.to_owned() } else { name.to_ascii_lowercase() };
    Ok((name, key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    const ID: &str = "5f0c2a91b3d4e687";
    const KEY: KeyId = KeyId(0x5f0c_2a91_b3d4_e687);

    #[test]
    fn names_are_mapped_to_ids() {
        for (name, kept) in [
            ("billing", "billing"),
            ("Billing.Example.COM", "billing.example.com"),
            ("spiffe://Shop/a=b", "spiffe://Shop/a=b"),
        ] {
            assert_eq!(parse_client(&format!("{name}={ID}")), Ok((kept.to_owned(), KEY)));
        }
        let secret = format!("dq_{ID}_{}", "a".repeat(64));
        for wrong in ["billing", "billing=", "=5f0c2a91b3d4e687", "a b=5f0c2a91b3d4e687", "billing=root"] {
            assert!(parse_client(wrong).is_err(), "{wrong}");
        }
        let refused = parse_client(&format!("billing={secret}")).unwrap_err();
        assert!(!refused.contains("aaaa") && refused.contains("driftq key list"), "{refused}");
    }

    #[test]
    fn a_certificate_stands_for_its_key_and_not_for_a_page_of_others() {
        let keys = CertificateKeys::from([("billing".to_owned(), KEY)]);
        let shown = |name: &str| Certificate::new(Some(name.to_owned()), &keys);
        let mut headers = HeaderMap::new();
        assert_eq!(shown("billing").key(&headers).unwrap(), KEY);
        let refused = shown("mail").key(&headers).unwrap_err();
        assert_eq!(refused.code, Code::Unauthenticated);
        assert!(refused.message.contains("--tls-client mail=KEY_ID"), "{}", refused.message);
        let nameless = Certificate::new(None, &keys).key(&headers).unwrap_err();
        assert!(nameless.message.contains("no name"), "{}", nameless.message);
        for (site, is_let_in) in
            [("none", true), ("same-origin", true), ("same-site", false), ("cross-site", false), ("", false)]
        {
            headers.insert(FETCH_SITE, HeaderValue::from_static(site));
            assert_eq!(shown("billing").key(&headers).is_ok(), is_let_in, "{site}");
        }
    }
}
