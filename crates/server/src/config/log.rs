//! The knobs of a log that is in a database, or in a stream.

use super::knob::Knob;
use super::table::SERVER;

/// Longest name that PostgreSQL keeps whole.
const NAME_BYTES_MAX: usize = 63;

/// How the URL of a log in a stream begins.
pub(super) const NATS: &str = "nats://";

pub(super) const LOG: Knob = Knob {
    name: "log",
    flag: "log",
    env: "DRIFTQ_LOG",
    heading: SERVER,
    help: "PostgreSQL database or NATS stream that holds the log instead of --data; see docs/cluster.md",
    value: "URL",
    get: |config| without_password(&config.log.url),
    set: |config, text| {
        let known = ["postgres://", "postgresql://", NATS];
        if !text.is_empty() && !known.iter().any(|scheme| text.starts_with(scheme)) {
            let forms = "postgres://user@host/database or nats://host:port/stream";
            return Err(format!("must read {forms}; for a directory use data"));
        }
        text.clone_into(&mut config.log.url);
        Ok(())
    },
};

pub(super) const LOG_SCHEMA: Knob = Knob {
    name: "log_schema",
    flag: "log-schema",
    env: "DRIFTQ_LOG_SCHEMA",
    heading: SERVER,
    help: "Schema of a database; made if it is not there, and nothing else may be in it",
    value: "NAME",
    get: |config| config.log.schema.clone(),
    set: |config, text| {
        config.log.schema = name(text)?;
        Ok(())
    },
};

pub(super) const LOG_CLUSTER: Knob = Knob {
    name: "log_cluster",
    flag: "log-cluster",
    env: "DRIFTQ_LOG_CLUSTER",
    heading: SERVER,
    help: "Name of the servers that share this log; a log that was begun under another name is refused",
    value: "NAME",
    get: |config| config.log.cluster.clone(),
    set: |config, text| {
        config.log.cluster = name(text)?;
        Ok(())
    },
};

pub(super) const NODE_URL: Knob = Knob {
    name: "node_url",
    flag: "node-url",
    env: "DRIFTQ_NODE_URL",
    heading: SERVER,
    help: "Where other servers with the same --log reach this one: one of them serves, the others pass requests on",
    value: "URL",
    get: |config| config.node_url.clone(),
    set: |config, text| {
        let text = text.trim_end_matches('/');
        if !text.is_empty() {
            driftq_http::Address::parse(text)
                .map_err(|error| format!("must read http://host:port: {error}"))?;
        }
        text.clone_into(&mut config.node_url);
        Ok(())
    },
};

/// A name that PostgreSQL keeps whole and nobody has to quote.
fn name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.chars().all(plain) {
        return Err(format!("`{text}` is not a name of 1 to {NAME_BYTES_MAX} of a-z, 0-9 and _"));
    }
    Ok(text.to_owned())
}

/// A URL as it may be shown.
fn without_password(url: &str) -> String {
    let (start, query) = url.split_once('?').unwrap_or((url, ""));
    let shown =
        match start.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
            Some((scheme, (user, host))) => {
                let user = match user.split_once(':') {
                    Some((name, _)) => format!("{name}:***"),
                    // A token and no name.
                    None if scheme == "nats" => "***".to_owned(),
                    None => user.to_owned(),
                };
                format!("{scheme}://{user}@{host}")
            }
            None => start.to_owned(),
        };
    let kept: Vec<_> =
        query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("password=")).collect();
    if kept.is_empty() { shown } else { format!("{shown}?{}", kept.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn a_password_is_not_shown() {
        for (url, shown) in [
            ("postgres://db/q", "postgres://db/q"),
            ("postgres://me@db/q", "postgres://me@db/q"),
            ("postgres://me:s3cr@t@db:1/q?sslmode=require", "postgres://me:***@db:1/q?sslmode=require"),
            ("postgres://me@db/q?password=s3cret", "postgres://me@db/q"),
            ("nats://me:s3cret@a:1,b:2/q?sync=trusted", "nats://me:***@a:1,b:2/q?sync=trusted"),
            ("nats://s3cret@a:1/q", "nats://***@a:1/q"),
            ("", ""),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
