//! Which call a request makes.

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
    V2Topics,
    V2Topic,
    V2Groups,
    V2Group,
    V2Status,
    V2Healthz,
    V2Readyz,
    /// Under `/v2`, but nothing that exists.
    UnknownV2,
    Metrics,
    /// Neither `/v1` nor `/v2` nor `/metrics`.
    Unversioned,
}

/// In which words errors are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    V1,
    V2,
}

/// A call and the names in its path, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) endpoint: Endpoint,
    pub(crate) names: [&'a str; 2],
}

impl Endpoint {
    /// All of them; each stands at the place of its number.
    pub(crate) const ALL: [Self; 18] = [
        Self::Healthz,
        Self::Version,
        Self::Topics,
        Self::Produce,
        Self::Consume,
        Self::Ack,
        Self::Nack,
        Self::UnknownV1,
        Self::V2Topics,
        Self::V2Topic,
        Self::V2Groups,
        Self::V2Group,
        Self::V2Status,
        Self::V2Healthz,
        Self::V2Readyz,
        Self::UnknownV2,
        Self::Metrics,
        Self::Unversioned,
    ];

    /// Its path, as metrics name it. Never the path of a request: anybody can make up as many of those as they like.
    pub(crate) const fn route(self) -> &'static str {
        match self {
            Self::Healthz => "/v1/healthz",
            Self::Version => "/v1/version",
            Self::Topics => "/v1/topics",
            Self::Produce => "/v1/produce",
            Self::Consume => "/v1/consume",
            Self::Ack => "/v1/ack",
            Self::Nack => "/v1/nack",
            Self::UnknownV1 => "/v1/*",
            Self::V2Topics => "/v2/topics",
            Self::V2Topic => "/v2/topics/{topic}",
            Self::V2Groups => "/v2/topics/{topic}/groups",
            Self::V2Group => "/v2/topics/{topic}/groups/{group}",
            Self::V2Status => "/v2/status",
            Self::V2Healthz => "/v2/healthz",
            Self::V2Readyz => "/v2/readyz",
            Self::UnknownV2 => "/v2/*",
            Self::Metrics => "/metrics",
            Self::Unversioned => "*",
        }
    }

    /// The methods it takes, as the `Allow` header lists them; `None` if there is nothing to call.
    const fn allow(self) -> Option<&'static str> {
        match self {
            Self::Topics => Some("GET, POST"),
            Self::Produce | Self::Ack | Self::Nack => Some("POST"),
            Self::UnknownV1 | Self::UnknownV2 | Self::Unversioned => None,
            _ => Some("GET"),
        }
    }

    /// Refuses a method that it does not take, with the ones that it does.
    pub(crate) fn check(self, method: &Method) -> Result<(), &'static str> {
        match self.allow() {
            Some(allow) if !allow.split(", ").any(|allowed| method == allowed) => Err(allow),
            _ => Ok(()),
        }
    }

    pub(crate) const fn dialect(self) -> Dialect {
        match self {
            Self::V2Topics
            | Self::V2Topic
            | Self::V2Groups
            | Self::V2Group
            | Self::V2Status
            | Self::V2Healthz
            | Self::V2Readyz
            | Self::UnknownV2 => Dialect::V2,
            _ => Dialect::V1,
        }
    }
}

impl<'a> Target<'a> {
    /// The call that a path names.
    pub(crate) fn find(path: &'a str) -> Self {
        let plain = |endpoint| Self { endpoint, names: [""; 2] };
        if let Some(rest) = path.strip_prefix("/v1/") {
            return plain(match rest {
                "healthz" => Endpoint::Healthz,
                "version" => Endpoint::Version,
                "topics" => Endpoint::Topics,
                "produce" => Endpoint::Produce,
                "consume" => Endpoint::Consume,
                "ack" => Endpoint::Ack,
                "nack" => Endpoint::Nack,
                _ => Endpoint::UnknownV1,
            });
        }
        if let Some(rest) = path.strip_prefix("/v2/") {
            return Self::find_v2(rest);
        }
        plain(match path {
            "/metrics" => Endpoint::Metrics,
            "/v1" => Endpoint::UnknownV1,
            "/v2" => Endpoint::UnknownV2,
            _ => Endpoint::Unversioned,
        })
    }

    fn find_v2(rest: &'a str) -> Self {
        let mut segments = rest.split('/');
        let parts = [(); 5].map(|()| segments.next());
        let (endpoint, names) = match parts {
            [Some("status"), None, ..] => (Endpoint::V2Status, [""; 2]),
            [Some("healthz"), None, ..] => (Endpoint::V2Healthz, [""; 2]),
            [Some("readyz"), None, ..] => (Endpoint::V2Readyz, [""; 2]),
            [Some("topics"), None, ..] => (Endpoint::V2Topics, [""; 2]),
            [Some("topics"), Some(topic), None, ..] if !topic.is_empty() => (Endpoint::V2Topic, [topic, ""]),
            [Some("topics"), Some(topic), Some("groups"), None, ..] => (Endpoint::V2Groups, [topic, ""]),
            [Some("topics"), Some(topic), Some("groups"), Some(group), None] if !group.is_empty() => {
                (Endpoint::V2Group, [topic, group])
            }
            _ => (Endpoint::UnknownV2, [""; 2]),
        };
        Self { endpoint, names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_stands_at_the_place_of_its_number() {
        for (place, endpoint) in Endpoint::ALL.into_iter().enumerate() {
            assert_eq!(endpoint as usize, place, "{endpoint:?}");
        }
    }

    #[test]
    fn paths() {
        for (path, endpoint, names) in [
            ("/v1/healthz", Endpoint::Healthz, ["", ""]),
            ("/v1/topics", Endpoint::Topics, ["", ""]),
            ("/v1/topics/", Endpoint::UnknownV1, ["", ""]),
            ("/v1/", Endpoint::UnknownV1, ["", ""]),
            ("/v1", Endpoint::UnknownV1, ["", ""]),
            ("/v10/topics", Endpoint::Unversioned, ["", ""]),
            ("/topics", Endpoint::Unversioned, ["", ""]),
            ("/", Endpoint::Unversioned, ["", ""]),
            ("*", Endpoint::Unversioned, ["", ""]),
            ("/metrics", Endpoint::Metrics, ["", ""]),
            ("/v2/topics", Endpoint::V2Topics, ["", ""]),
            ("/v2/topics/", Endpoint::UnknownV2, ["", ""]),
            ("/v2/topics/a%2Fb", Endpoint::V2Topic, ["a%2Fb", ""]),
            ("/v2/topics/a/groups", Endpoint::V2Groups, ["a", ""]),
            ("/v2/topics/a/groups/g", Endpoint::V2Group, ["a", "g"]),
            ("/v2/topics/a/groups/g/x", Endpoint::UnknownV2, ["", ""]),
            ("/v2/topics/a/messages", Endpoint::UnknownV2, ["", ""]),
            ("/v2/status", Endpoint::V2Status, ["", ""]),
        ] {
            assert_eq!(Target::find(path), Target { endpoint, names }, "{path}");
        }
    }

    #[test]
    fn methods() {
        assert_eq!(Endpoint::Topics.check(&Method::POST), Ok(()));
        assert_eq!(Endpoint::Topics.check(&Method::HEAD), Err("GET, POST"));
        assert_eq!(Endpoint::Produce.check(&Method::GET), Err("POST"));
        assert_eq!(Endpoint::Consume.check(&Method::POST), Err("GET"));
        assert_eq!(Endpoint::Unversioned.check(&Method::PATCH), Ok(()), "what does not exist is not found");
    }
}
