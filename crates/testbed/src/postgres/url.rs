//! The little that must be understood of a server's URL.

/// What stands in a URL of the form `postgresql://user:password@host:port/database?…`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// Everything up to `//`.
    scheme: &'a str,
    pub(crate) user: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// Begins with `?`, if there is one.
    query: &'a str,
    database: &'a str,
}

pub(crate) fn parts(url: &str) -> Option<Parts<'_>> {
    let (scheme, rest) = url.split_at(url.find("://")? + 3);
    let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (account, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = account.split_once(':').map_or((account, None), |(user, word)| (user, Some(word)));
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (place, 5432),
    };
    Some(Parts {
        scheme,
        user: Some(user).filter(|user| !user.is_empty()),
        password,
        host,
        port,
        query,
        database,
    })
}

fn account(parts: &Parts<'_>) -> String {
    let password = parts.password.map(|word| format!(":{word}")).unwrap_or_default();
    parts.user.map(|user| format!("{user}{password}@")).unwrap_or_default()
}

/// The same with another database. What is no URL stays what it is: the server's own error is clearer than ours.
pub(crate) fn with_database(url: &str, database: &str) -> String {
    parts(url).map_or_else(
        || url.to_owned(),
        |parts| {
            let Parts { scheme, host, port, query, .. } = &parts;
            format!("{scheme}{}{host}:{port}/{database}{query}", account(&parts))
        },
    )
}

/// The same at another host and port.
pub(crate) fn with_place(url: &str, place: &str) -> String {
    parts(url).map_or_else(
        || url.to_owned(),
        |parts| format!("{}{}{place}/{}{}", parts.scheme, account(&parts), parts.database, parts.query),
    )
}

#[cfg(test)]
mod tests {
    use super::{parts, with_database, with_place};

    #[test]
    fn databases_and_places_are_exchanged() {
        let url = "postgresql://me:secret@db.example:6000/one?sslmode=disable";
        assert_eq!(with_database(url, "two"), "postgresql://me:secret@db.example:6000/two?sslmode=disable");
        assert_eq!(with_place(url, "127.0.0.1:1"), "postgresql://me:secret@127.0.0.1:1/one?sslmode=disable");
        assert_eq!(with_database("postgres://localhost", "two"), "postgres://localhost:5432/two");
        assert_eq!(with_database("host=localhost", "two"), "host=localhost");
    }

    #[test]
    fn the_parts_are_found() {
        let found = parts("postgresql://me:secret@db.example:6000/one").expect("it is a URL");
        assert_eq!((found.user, found.password), (Some("me"), Some("secret")));
        assert_eq!((found.host, found.port), ("db.example", 6000));
        assert_eq!(parts("postgresql://db.example/one").map(|found| found.port), Some(5432));
        assert_eq!(parts("postgresql://db.example:many/one"), None);
    }
}
