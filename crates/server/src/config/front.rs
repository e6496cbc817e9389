//! The knobs of the front: by which names and to which pages the server answers, by which certificate, and who
//! stands before it.

use super::{
    exposure,
    knob::{Knob, LIST, PAIRS, SWITCH},
    shapes::NONE,
};
use crate::http::door::{parse_host_name, parse_origin};
use crate::http::peer::{CertificateKeys, parse_client};
use driftq_engine::key_text::written_id;

const FRONT: &str = "Front: names, web pages and TLS";

pub(super) const HOST_NAMES: Knob = Knob {
    name: "host_names",
    flag: "host-names",
    env: "DRIFTQ_HOST_NAMES",
    heading: FRONT,
    help: "Host names of this server, separated by commas; * for any. IP addresses, localhost and names without a dot always are",
    value: LIST,
    get: |config| show(&config.http.door.host_names),
    set: |config, text| {
        config.http.door.host_names = items(text, parse_host_name)?;
        Ok(())
    },
};

pub(super) const ALLOWED_ORIGINS: Knob = Knob {
    name: "allowed_origins",
    flag: "allowed-origins",
    env: "DRIFTQ_ALLOWED_ORIGINS",
    heading: FRONT,
    help: "Origins of web pages that may ask this server from a browser, such as https://app.example.com, separated by commas",
    value: LIST,
    get: |config| show(&config.http.door.allowed_origins),
    set: |config, text| {
        config.http.door.allowed_origins = items(text, parse_origin)?;
        Ok(())
    },
};

pub(super) const ISSUER: Knob = Knob {
    name: "issuer",
    flag: "issuer",
    env: "DRIFTQ_ISSUER",
    heading: FRONT,
    help: "URL under which services find the keys of credentials, such as https://driftq.example.com; the listen address if not given",
    value: "URL",
    get: |config| config.http.issuer.clone(),
    set: |config, text| {
        let is_url = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
        if !text.is_empty() && (!is_url || text.ends_with('/') || text.contains(char::is_whitespace)) {
            return Err(format!(
                "`{text}` is not a URL without a slash at its end, such as https://driftq.example.com"
            ));
        }
        text.clone_into(&mut config.http.issuer);
        Ok(())
    },
};

pub(super) const TLS_CERT: Knob = Knob {
    name: "tls_cert",
    flag: "tls-cert",
    env: "DRIFTQ_TLS_CERT",
    heading: FRONT,
    help: "Speak TLS with the certificate in this PEM file, followed by those that lead to its authority; read again when it changes",
    value: "FILE",
    get: |config| show_path(config.http.tls_cert.as_ref()),
    set: |config, text| {
        config.http.tls_cert = path(text)?;
        Ok(())
    },
};

pub(super) const TLS_KEY: Knob = Knob {
    name: "tls_key",
    flag: "tls-key",
    env: "DRIFTQ_TLS_KEY",
    heading: FRONT,
    help: "The private key of that certificate, in a PEM file",
    value: "FILE",
    get: |config| show_path(config.http.tls_key.as_ref()),
    set: |config, text| {
        config.http.tls_key = path(text)?;
        Ok(())
    },
};

pub(super) const TLS_CLIENT_CA: Knob = Knob {
    name: "tls_client_ca",
    flag: "tls-client-ca",
    env: "DRIFTQ_TLS_CLIENT_CA",
    heading: FRONT,
    help: "Ask clients for a certificate that an authority in this PEM file has signed; they may also show a key instead. Read again when it changes",
    value: "FILE",
    get: |config| show_path(config.http.tls_client_ca.as_ref()),
    set: |config, text| {
        config.http.tls_client_ca = path(text)?;
        Ok(())
    },
};

pub(super) const TLS_CLIENT: Knob = Knob {
    name: "tls_client",
    flag: "tls-client",
    env: "DRIFTQ_TLS_CLIENT",
    heading: FRONT,
    help: "Requests on a connection with the certificate of this name act as the key with this id, unless they show another; may be repeated, or separated by commas",
    value: PAIRS,
    get: |config| {
        let pairs = &config.http.tls_client;
        show(&pairs.iter().map(|(name, id)| format!("{name}={}", written_id(*id))).collect::<Vec<_>>())
    },
    set: |config, text| {
        let mut keys = CertificateKeys::new();
        for (name, key) in items(text, parse_client)? {
            if keys.insert(name.clone(), key).is_some_and(|other| other != key) {
                return Err(format!("`{name}` is mapped to two keys; a certificate stands for one"));
            }
        }
        config.http.tls_client = keys;
        Ok(())
    },
};

pub(super) const BEHIND_PROXY: Knob = Knob {
    name: "behind_proxy",
    flag: "behind-proxy",
    env: "DRIFTQ_BEHIND_PROXY",
    heading: FRONT,
    help: "Only a proxy that speaks TLS with the world reaches this address, so that it may be without TLS here",
    value: SWITCH,
    get: |config| config.behind_proxy.to_string(),
    set: |config, text| {
        config.behind_proxy = exposure::switch(text)?;
        Ok(())
    },
};

fn show(items: &[String]) -> String {
    if items.is_empty() { NONE.to_owned() } else { items.join(",") }
}

fn items<T>(text: &str, parse: fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    if text == NONE || text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(|item| parse(item.trim())).collect()
}

fn show_path(path: Option<&std::path::PathBuf>) -> String {
    path.map_or_else(|| NONE.to_owned(), |path| path.display().to_string())
}

fn path(text: &str) -> Result<Option<std::path::PathBuf>, String> {
    if text.is_empty() {
        return Err("the path is empty".to_owned());
    }
    Ok((text != NONE).then(|| text.into()))
}
