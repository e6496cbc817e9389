//! Which call a request makes.

use driftq_api::v2::{Allow, Lookup, Operation, PATH_NAMES_MAX};
use hyper::Method;

/// One call of the API, as metrics and logs name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Healthz,
    Version,
    Topics,
    Produce,
    Consume,
    Ack,
    Nack,
    /// Under `/v1`, but nothing that exists.
    UnknownV1,
    /// Under `/v2`, but nothing that exists, or not with this method.
    UnknownV2,
    Metrics,
    /// A file of the dashboard.
    Ui,
    /// Neither `/v1` nor `/v2` nor `/metrics` nor `/ui`.
    Unversioned,
    /// A call of `/v2`.
    V2(Operation),
}

/// In which words errors are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    V1,
    V2,
}

/// The methods that a path takes, as the `Allow` header lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    V1(&'static str),
    V2(Allow),
}

/// A call and the names in its path, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) endpoint: Endpoint,
    pub(crate) names: [&'a str; PATH_NAMES_MAX],
    /// Set if the path exists and the method does not.
    pub(crate) allowed: Option<Allowed>,
}

/// Endpoints besides the operations of `/v2`.
const PLAIN: [Endpoint; 12] = [
    Endpoint::Healthz,
    Endpoint::Version,
    Endpoint::Topics,
    Endpoint::Produce,
    Endpoint::Consume,
    Endpoint::Ack,
    Endpoint::Nack,
    Endpoint::UnknownV1,
    Endpoint::UnknownV2,
    Endpoint::Metrics,
    Endpoint::Ui,
    Endpoint::Unversioned,
];

impl Endpoint {
    /// How many there are.
    pub(crate) const COUNT: usize = PLAIN.len() + Operation::COUNT;

    /// All of them, each at the place of its number.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let mut operations: Vec<Operation> = Operation::all().collect();
        operations.sort_by_key(|operation| *operation as usize);
        PLAIN.into_iter().chain(operations.into_iter().map(Self::V2))
    }

    /// Its number.
    pub(crate) fn place(self) -> usize {
        match self {
            Self::V2(operation) => PLAIN.len() + operation as usize,
            plain => PLAIN.iter().position(|candidate| *candidate == plain).unwrap_or(PLAIN.len() - 1),
        }
    }

    /// Its path, as metrics name it, with the method where one path has several calls of `/v2`. Never the path of a
    /// request: a client can make up as many of those as it likes.
    pub(crate) fn route(self) -> String {
        let route = match self {
            Self::Healthz => "/v1/healthz",
            Self::Version => "/v1/version",
            Self::Topics => "/v1/topics",
            Self::Produce => "/v1/produce",
            Self::Consume => "/v1/consume",
            Self::Ack => "/v1/ack",
            Self::Nack => "/v1/nack",
            Self::UnknownV1 => "/v1/*",
            Self::UnknownV2 => "/v2/*",
            Self::Metrics => "/metrics",
            Self::Ui => "/ui/*",
            Self::Unversioned => "*",
            Self::V2(operation) => return format!("{} {}", operation.method().name(), operation.path()),
        };
        route.to_owned()
    }

    /// The methods that a call outside `/v2` takes; `None` if there is nothing to call.
    const fn allow(self) -> Option<&'static str> {
        match self {
            Self::Topics => Some("GET, POST"),
            Self::Produce | Self::Ack | Self::Nack => Some("POST"),
            Self::UnknownV1 | Self::UnknownV2 | Self::Unversioned | Self::V2(_) => None,
            _ => Some("GET"),
        }
    }

    /// Whether it is about this server alone, and not about what the servers of a cluster share.
    pub(crate) const fn is_own(self) -> bool {
        matches!(
            self,
            Self::Healthz
                | Self::Version
                | Self::Metrics
                | Self::Ui
                | Self::Unversioned
                | Self::V2(Operation::Healthz | Operation::Readyz)
        )
    }

    /// Whether messages come with it that may begin a trace.
    pub(crate) const fn produces(self) -> bool {
        matches!(self, Self::V2(Operation::Produce))
    }

    pub(crate) const fn dialect(self) -> Dialect {
        match self {
            Self::V2(_) | Self::UnknownV2 => Dialect::V2,
            _ => Dialect::V1,
        }
    }
}

impl<'a> Target<'a> {
    /// The call that a method and a path name.
    pub(crate) fn find(method: &Method, path: &'a str) -> Self {
        let endpoint = match path.strip_prefix("/v1/") {
            Some("healthz") => Endpoint::Healthz,
            Some("version") => Endpoint::Version,
            Some("topics") => Endpoint::Topics,
            Some("produce") => Endpoint::Produce,
            Some("consume") => Endpoint::Consume,
            Some("ack") => Endpoint::Ack,
            Some("nack") => Endpoint::Nack,
            Some(_) => Endpoint::UnknownV1,
            None => match path {
                "/metrics" => Endpoint::Metrics,
                "/v1" => Endpoint::UnknownV1,
                path if path == "/ui" || path.starts_with("/ui/") => Endpoint::Ui,
                path if path == "/v2" || path.starts_with("/v2/") => return Self::find_v2(method, path),
                // Where standards look for things.
                path if path.starts_with("/.well-known/") => return Self::find_v2(method, path),
                _ => Endpoint::Unversioned,
            },
        };
        let allow = endpoint.allow();
        let refused = allow.filter(|allow| !allow.split(", ").any(|allowed| method == allowed));
        Self { endpoint, names: [""; PATH_NAMES_MAX], allowed: refused.map(Allowed::V1) }
    }

    fn find_v2(method: &Method, path: &'a str) -> Self {
        let none = Self { endpoint: Endpoint::UnknownV2, names: [""; PATH_NAMES_MAX], allowed: None };
        match Operation::find(method.as_str(), path) {
            Lookup::Operation { operation, names } => {
                Self { endpoint: Endpoint::V2(operation), names, ..none }
            }
            Lookup::MethodNotAllowed(allow) => Self { allowed: Some(Allowed::V2(allow)), ..none },
            Lookup::Unknown => none,
        }
    }
}

impl std::fmt::Display for Allowed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::V1(allow) => formatter.write_str(allow),
            Self::V2(allow) => allow.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: &str, path: &str) -> (Endpoint, Option<String>) {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let target = Target::find(&method, path);
        (target.endpoint, target.allowed.map(|allowed| allowed.to_string()))
    }

    #[test]
    fn paths_lead_to_calls() {
        let allowed = |allow: &str| Some(allow.to_owned());
        for (method, path, expected) in [
            ("POST", "/v1/produce", (Endpoint::Produce, None)),
            ("GET", "/v1/produce", (Endpoint::Produce, allowed("POST"))),
            ("DELETE", "/v1/topics", (Endpoint::Topics, allowed("GET, POST"))),
            ("GET", "/v1", (Endpoint::UnknownV1, None)),
            ("GET", "/v1/", (Endpoint::UnknownV1, None)),
            ("GET", "/v2", (Endpoint::UnknownV2, None)),
            ("GET", "/v2/topics", (Endpoint::V2(Operation::ListTopics), None)),
            ("PUT", "/v2/topics/a%2Fb", (Endpoint::V2(Operation::PutTopic), None)),
            ("GET", "/v2/topics/", (Endpoint::UnknownV2, None)),
            ("POST", "/v2/topics", (Endpoint::UnknownV2, allowed("GET"))),
            ("GET", "/v22/topics", (Endpoint::Unversioned, None)),
            ("POST", "/metrics", (Endpoint::Metrics, allowed("GET"))),
            ("GET", "/ui", (Endpoint::Ui, None)),
            ("GET", "/ui/assets/app.js", (Endpoint::Ui, None)),
            ("POST", "/ui/", (Endpoint::Ui, allowed("GET"))),
            ("GET", "/uix", (Endpoint::Unversioned, None)),
            ("GET", "/", (Endpoint::Unversioned, None)),
        ] {
            assert_eq!(found(method, path), expected, "{method} {path}");
        }
        let target = Target::find(&Method::GET, "/v2/topics/t/messages/3/12");
        assert_eq!(target.names, ["t", "3", "12"]);
    }

    #[test]
    fn every_endpoint_stands_at_its_place_and_no_two_have_one_name() {
        let all: Vec<Endpoint> = Endpoint::all().collect();
        assert_eq!(all.len(), Endpoint::COUNT);
        for (place, endpoint) in all.iter().enumerate() {
            assert_eq!(endpoint.place(), place);
        }
        let routes: std::collections::BTreeSet<String> =
            all.iter().map(|endpoint| endpoint.route()).collect();
        assert_eq!(routes.len(), all.len());
    }
}
