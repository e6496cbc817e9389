//! The door: web pages of strangers stay outside.
//!
//! A browser on the same machine or network reaches this server for whatever page it shows. A page of another origin
//! says so in `Origin`. A page that has its own name resolve to this server's address (DNS rebinding) does not, but its
//! name is in `Host`. Programs that are no browsers send no `Origin`, and the name that they were given.

use std::net::{Ipv4Addr, Ipv6Addr};

use driftq_api::{Code, Fault};
use hyper::body::Incoming;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, HeaderMap, HeaderValue, ORIGIN, VARY,
};
use hyper::http::request::Parts;
use hyper::{Method, Uri};

use super::answer::{Answer, no_content};
use super::request::discard_body;

/// In `host_names`: every name is the server's.
pub(crate) const ANY: &str = "*";
/// What a page may send to ask.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
/// What a page may read of an answer beside its body.
const EXPOSED: &str = "retry-after, x-driftq-code, x-request-id";
/// A browser asks again whether it may ask after this long.
const PREFLIGHT_SECONDS: &str = "600";
/// Of a foreign name, the refusal repeats this much.
const SHOWN_CHARS_MAX: usize = 100;

/// By which scheme a browser reaches this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Schemes {
    #[default]
    Http,
    Https,
    /// A proxy decides.
    Either,
}

/// Which names are the server's, and which web pages may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Door {
    /// The host that the server listens on, which may be a name.
    pub(crate) listen_host: String,
    /// More names of the server, in lower case; [`ANY`] among them for all names.
    pub(crate) host_names: Vec<String>,
    /// Origins of other pages that may ask, as browsers write them.
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) schemes: Schemes,
}

/// What becomes of a request at the door.
pub(crate) enum Entrance {
    /// It is handled.
    Open(Incoming),
    /// A browser asked whether it may ask, and this is the answer.
    Preflight(Answer),
}

impl Door {
    /// Lets a request in, or refuses it.
    pub(crate) async fn admit(&self, head: &Parts, body: Incoming) -> Result<Entrance, Fault> {
        if let Err(fault) = self.check(&head.uri, &head.headers) {
            // A peer that is still sending when the connection closes may lose the refusal with it.
            discard_body(body).await;
            return Err(fault);
        }
        let asks_first =
            head.method == Method::OPTIONS && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        match self.granted(&head.headers) {
            Some(_) if asks_first => {
                discard_body(body).await;
                Ok(Entrance::Preflight(preflight(&head.headers)))
            }
            _ => Ok(Entrance::Open(body)),
        }
    }

    /// Has the browser show the answer to a page of an origin that was allowed.
    pub(crate) fn grant(&self, asked: &HeaderMap, answer: &mut HeaderMap) {
        if self.allowed_origins.is_empty() {
            return;
        }
        // What is cached for one origin is not for another.
        answer.insert(VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = self.granted(asked) {
            answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        }
    }

    fn granted<'a>(&self, asked: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let origin = asked.get(ORIGIN)?;
        let text = origin.to_str().ok()?;
        self.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(text)).then_some(origin)
    }

    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Fault> {
        // A target with a host is what counts, and then the header must not say anything else that matters.
        let target = uri.authority().map(|authority| authority.as_str().as_bytes());
        let named = headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
        let mut first = None;
        let mut hosts = target.into_iter().chain(named).inspect(|host| {
            first.get_or_insert(*host);
        });
        if let Some(foreign) = hosts.find(|host| !self.is_own(host)) {
            let name = shown(foreign);
            return Err(Fault::new(Code::ForeignHost, format!("`{name}` is no name of this server")));
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(()) };
        let is_same = first.is_some_and(|host| self.is_same_origin(origin.as_bytes(), host));
        if (is_same || self.granted(headers).is_some()) && origins.next().is_none() {
            return Ok(());
        }
        let name = shown(origin.as_bytes());
        Err(Fault::new(Code::ForeignOrigin, format!("pages of `{name}` may not ask this server")))
    }

    /// Whether a `Host` is this server. Nobody can make a browser take a name for an address: an address is what it
    /// says. Names without a dot are given by the machine or its network, as `localhost` and those of containers are;
    /// a stranger's name has the dot of a domain.
    fn is_own(&self, host: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(host) else { return false };
        let name = host_of(text);
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        is_address(&name)
            || !name.contains('.')
            || name.ends_with(".localhost")
            || name == self.listen_host.to_ascii_lowercase()
            || self.host_names.iter().any(|own| own == ANY || *own == name)
    }

    fn is_same_origin(&self, origin: &[u8], host: &[u8]) -> bool {
        let (Ok(origin), Ok(host)) = (std::str::from_utf8(origin), std::str::from_utf8(host)) else {
            return false;
        };
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        let default_port = match (scheme, self.schemes) {
            ("http", Schemes::Http | Schemes::Either) => ":80",
            ("https", Schemes::Https | Schemes::Either) => ":443",
            _ => return false,
        };
        let bare = |text: &str| text.strip_suffix(default_port).unwrap_or(text).to_ascii_lowercase();
        bare(authority) == bare(host)
    }
}

/// The host of `host:port`.
pub(crate) fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        // What is behind the last colon of a bare IPv6 address is no port.
        Some((host, port)) if !port.contains(']') && (host.ends_with(']') || !host.contains(':')) => host,
        _ => authority,
    }
}

/// Whether a host is an address, and no name that somebody has to look up.
fn is_address(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok() || host.parse::<Ipv6Addr>().is_ok(),
    }
}

fn preflight(asked: &HeaderMap) -> Answer {
    let mut answer = no_content();
    let headers = answer.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECONDS));
    // Whoever runs the server trusts the page, and a page may send any header of the API.
    if let Some(wanted) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    answer
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS_MAX).collect()
}

/// Reads an item of `host_names`.
pub(crate) fn parse_host_name(text: &str) -> Result<String, String> {
    let name = text.to_ascii_lowercase();
    let is_name = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && !name.starts_with('.');
    if is_name || name == ANY {
        return Ok(name);
    }
    Err(format!("`{text}` is no host name; write broker.example.com, without a scheme and a port"))
}

/// Reads an item of `allowed_origins`.
pub(crate) fn parse_origin(text: &str) -> Result<String, String> {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_origin = authority.is_some_and(|authority| {
        !authority.is_empty() && authority.chars().all(|c| c.is_ascii_graphic() && !"/?#@*,".contains(c))
    });
    if is_origin {
        return Ok(text.to_ascii_lowercase());
    }
    Err(format!(
        "`{text}` is no origin; write https://app.example.com, without a path, and every one by its name"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> Door {
        Door {
            listen_host: "box.lan".to_owned(),
            host_names: vec!["broker.example.com".to_owned()],
            allowed_origins: vec!["https://app.example.com".to_owned()],
            schemes: Schemes::Http,
        }
    }

    fn told(door: &Door, uri: &str, headers: &[(&'static str, &str)]) -> Option<Code> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        door.check(&uri.parse().unwrap(), &map).err().map(|fault| fault.code)
    }

    #[test]
    fn names_that_are_ours_and_names_that_are_not() {
        for (host, is_own) in [
            ("127.0.0.1:8080", true),
            ("127.0.0.1", true),
            ("192.0.2.7:80", true),
            ("[::1]:8080", true),
            ("[::1]", true),
            ("localhost:8080", true),
            ("LOCALHOST", true),
            ("a.localhost:1", true),
            ("localhost.", true),
            ("driftq:8080", true),
            ("box.lan:8080", true),
            ("Broker.Example.Com:443", true),
            ("broker.example.com.", true),
            ("evil.example", false),
            ("evil.example:8080", false),
            ("evil.example.", false),
            ("x.broker.example.com", false),
            ("broker.example.com.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("evil.example:127.0.0.1", false),
            ("[::1].evil.example", false),
            ("evil.example@127.0.0.1", false),
        ] {
            let told = told(&door(), "/v1/healthz", &[("host", host)]);
            assert_eq!(told, (!is_own).then_some(Code::ForeignHost), "{host}");
        }
        assert_eq!(told(&door(), "/v1/healthz", &[]), None, "HTTP/1.0 names no host");
        let any = Door { host_names: vec![ANY.to_owned()], ..door() };
        assert_eq!(told(&any, "/", &[("host", "evil.example")]), None);
    }

    #[test]
    fn a_second_host_hides_nothing() {
        let foreign = Some(Code::ForeignHost);
        assert_eq!(told(&door(), "/", &[("host", "localhost"), ("host", "evil.example")]), foreign);
        assert_eq!(told(&door(), "http://evil.example/v1/topics", &[("host", "localhost")]), foreign);
        assert_eq!(told(&door(), "http://localhost/v1/topics", &[("host", "evil.example")]), foreign);
    }

    #[test]
    fn origins_that_are_ours_and_origins_that_are_not() {
        for (schemes, host, origin, is_own) in [
            (Schemes::Http, "127.0.0.1:8080", "http://127.0.0.1:8080", true),
            (Schemes::Http, "127.0.0.1", "http://127.0.0.1:80", true),
            (Schemes::Http, "localhost:80", "http://LOCALHOST", true),
            (Schemes::Http, "127.0.0.1:8080", "https://127.0.0.1:8080", false),
            (Schemes::Https, "127.0.0.1:8080", "https://127.0.0.1:8080", true),
            (Schemes::Https, "127.0.0.1:8080", "http://127.0.0.1:8080", false),
            (Schemes::Either, "broker.example.com", "https://broker.example.com", true),
            (Schemes::Http, "127.0.0.1:8080", "http://127.0.0.1:3000", false),
            (Schemes::Http, "127.0.0.1:8080", "http://localhost:8080", false),
            (Schemes::Http, "127.0.0.1:8080", "https://evil.example", false),
            (Schemes::Http, "127.0.0.1:8080", "null", false),
            (Schemes::Http, "127.0.0.1:8080", "", false),
            (Schemes::Http, "127.0.0.1:8080", "https://app.example.com", true),
            (Schemes::Http, "127.0.0.1:8080", "http://app.example.com", false),
            (Schemes::Http, "127.0.0.1:8080", "https://app.example.com.evil.example", false),
        ] {
            let door = Door { schemes, ..door() };
            let told = told(&door, "/v2/topics", &[("host", host), ("origin", origin)]);
            assert_eq!(told, (!is_own).then_some(Code::ForeignOrigin), "{origin} at {host}");
        }
        let two = [("host", "h"), ("origin", "http://h"), ("origin", "https://evil.example")];
        assert_eq!(told(&door(), "/", &two), Some(Code::ForeignOrigin));
        assert_eq!(
            told(&door(), "/", &[("origin", "http://h")]),
            Some(Code::ForeignOrigin),
            "of which host?"
        );
    }

    #[test]
    fn items_of_the_lists_have_a_shape() {
        assert_eq!(parse_host_name("Broker.example.com"), Ok("broker.example.com".to_owned()));
        assert_eq!(parse_host_name(ANY), Ok(ANY.to_owned()));
        for wrong in ["", "http://a.example", "a.example:80", "a example", "*.example.com"] {
            assert!(parse_host_name(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            parse_origin("https://App.example.com:8443"),
            Ok("https://app.example.com:8443".to_owned())
        );
        for wrong in ["", "*", "app.example.com", "https://a.example/", "https://*", "null", "ftp://a"] {
            assert!(parse_origin(wrong).is_err(), "{wrong}");
        }
    }
}
