//! What a URL says: `nats://user:password@host:port,host:port/stream?monitor=http://host:8222`.

/// What to write instead of what cannot be obeyed.
pub(super) const FORM: &str = "write --log nats://host:4222/NAME?monitor=http://host:8222, with several servers \
    separated by commas, and user:password@ before the first one";
/// Longest name of a stream.
const NAME_BYTES_MAX: usize = 63;

/// Where the servers are, who we are to them, and which stream holds the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// `nats://host:port`, each.
    pub(super) servers: Vec<String>,
    pub(super) login: Login,
    pub(super) stream: String,
    /// Where the servers tell of their settings, each `host:port`.
    pub(super) monitors: Vec<String>,
    /// The operator vouches that the servers sync before they answer.
    pub(super) sync_trusted: bool,
    pub(super) tls: bool,
    /// The file of the authority that signed the servers' certificates.
    pub(super) authority: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Login {
    Nobody,
    Token(String),
    User(String, String),
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("nats://").ok_or("the URL of NATS does not begin with nats://")?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (who, place) = place.rsplit_once('@').map_or((None, place), |(who, place)| (Some(who), place));
        let (hosts, stream) = place.split_once('/').unwrap_or((place, ""));
        let servers: Vec<String> = hosts.split(',').map(|host| format!("nats://{host}")).collect();
        if hosts.split(',').any(|host| host.is_empty() || host.contains(char::is_whitespace)) {
            return Err("the URL of NATS names no host, or an empty one".into());
        }
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if stream.is_empty() || stream.len() > NAME_BYTES_MAX || !stream.chars().all(plain) {
            let rule = format!("1 to {NAME_BYTES_MAX} of a-z, 0-9 and _");
            return Err(format!(
                "the URL of NATS must end with the name of a stream ({rule}), not with /{stream}"
            ));
        }
        let login = match who.map(|who| who.split_once(':').ok_or(who)) {
            None => Login::Nobody,
            Some(Err(token)) => Login::Token(decoded(token)?),
            Some(Ok((user, password))) => Login::User(decoded(user)?, decoded(password)?),
        };
        let (monitors, authority) = (Vec::new(), None);
        let stream = stream.to_owned();
        let mut address =
            Self { servers, login, stream, monitors, sync_trusted: false, tls: false, authority };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            address.take(pair)?;
        }
        Ok(address)
    }

    fn take(&mut self, pair: &str) -> Result<(), String> {
        match pair.split_once('=') {
            Some(("monitor", urls)) => {
                for url in urls.split(',') {
                    let host = url.strip_prefix("http://").map(|host| host.trim_end_matches('/'));
                    let host = host.filter(|host| host.contains(':') && !host.contains('/'));
                    let host = host.ok_or_else(|| format!("monitor={url} does not read http://host:port"))?;
                    self.monitors.push(host.to_owned());
                }
            }
            Some(("sync", "trusted")) => self.sync_trusted = true,
            Some(("tls", "required")) => self.tls = true,
            Some(("ca", file)) if !file.is_empty() => {
                (self.tls, self.authority) = (true, Some(decoded(file)?));
            }
            _ => {
                let known = "monitor=http://host:port, sync=trusted, tls=required and ca=FILE";
                return Err(format!("the URL of NATS has `{pair}`; what may stand there is {known}"));
            }
        }
        Ok(())
    }
}

/// A name or password, in which what has a meaning in a URL is written as %XX.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(byte.ok_or("a % in the URL of NATS must be followed by two hexadecimal digits")?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| "a name in the URL of NATS is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::{Address, Login};

    #[test]
    fn a_url_says_where_who_and_what() {
        let url = "nats://me:p%40ss@a:1,b:2/queue?monitor=http://a:8222,http://b:8222/&ca=/etc/ca.pem";
        let address = Address::parse(url).unwrap();
        assert_eq!(address.servers, ["nats://a:1", "nats://b:2"]);
        assert_eq!(address.login, Login::User("me".into(), "p@ss".into()));
        assert_eq!((address.stream.as_str(), address.tls, address.sync_trusted), ("queue", true, false));
        assert_eq!(address.monitors, ["a:8222", "b:8222"]);
        let address = Address::parse("nats://secret@a/queue?sync=trusted").unwrap();
        assert_eq!((address.login, address.sync_trusted), (Login::Token("secret".into()), true));
    }

    #[test]
    fn what_cannot_be_obeyed_is_named() {
        for (url, words) in [
            ("nats://a:1", "name of a stream"),
            ("nats://a:1/Q", "not with /Q"),
            ("nats://a,,b/q", "names no host"),
            ("nats://a/q?monitor=a:1", "http://host:port"),
            ("nats://a/q?sync=yes", "sync=trusted"),
            ("nats://a%4@b/q", "hexadecimal"),
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(error.contains(words), "{url}: {error}");
        }
    }
}
