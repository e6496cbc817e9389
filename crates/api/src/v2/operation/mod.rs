//! Every call of `/v2` in one table. The server routes by it and the OpenAPI document is built from it, so that
//! what is documented and what is served cannot differ.

mod audited;
mod description;
mod needs;
mod table;

pub(super) use description::Description;
#[cfg(feature = "openapi")]
pub(super) use description::{Answer, Body, Content, Forms, Schemas, Shape, Words};

pub use needs::{Needs, Tenants as NeededTenants, Topics as NeededTopics};

/// One call of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `POST /v2/topics/{topic}/messages`
    Produce,
    /// `GET /v2/topics/{topic}/messages`
    Browse,
    /// `GET /v2/topics/{topic}/messages/{partition}/{offset}`
    GetMessage,
    /// `DELETE /v2/topics/{topic}/messages/{partition}/{offset}`
    CancelMessage,
    /// `POST /v2/topics/{topic}/messages/{partition}/{offset}/retry`
    RetryMessage,
    /// `POST /v2/topics/{topic}/groups/{group}/lease`
    Lease,
    /// `GET /v2/topics/{topic}/groups/{group}/stream`
    Stream,
    /// `POST /v2/leases/ack`
    Ack,
    /// `POST /v2/leases/nack`
    Nack,
    /// `POST /v2/leases/extend`
    Extend,
    /// `POST /v2/leases/release`
    Release,
    /// `GET /v2/topics`
    ListTopics,
    /// `GET /v2/topics/{topic}`
    GetTopic,
    /// `PUT /v2/topics/{topic}`
    PutTopic,
    /// `PATCH /v2/topics/{topic}`
    PatchTopic,
    /// `DELETE /v2/topics/{topic}`
    DeleteTopic,
    /// `POST /v2/topics/{topic}/pause`
    PauseTopic,
    /// `POST /v2/topics/{topic}/resume`
    ResumeTopic,
    /// `GET /v2/topics/{topic}/groups`
    ListGroups,
    /// `GET /v2/topics/{topic}/groups/{group}`
    GetGroup,
    /// `DELETE /v2/topics/{topic}/groups/{group}`
    DeleteGroup,
    /// `POST /v2/topics/{topic}/groups/{group}/seek`
    SeekGroup,
    /// `POST /v2/topics/{topic}/groups/{group}/pause`
    PauseGroup,
    /// `POST /v2/topics/{topic}/groups/{group}/resume`
    ResumeGroup,
    /// `GET /v2/dlq`
    ListDeadTopics,
    /// `GET /v2/dlq/{topic}`
    ListLetters,
    /// `GET /v2/dlq/{topic}/causes`
    ListCauses,
    /// `GET /v2/dlq/{topic}/{partition}/{offset}`
    GetLetter,
    /// `POST /v2/dlq/{topic}/redrive`
    Redrive,
    /// `POST /v2/dlq/{topic}/purge`
    Purge,
    /// `GET /v2/jobs`
    ListJobs,
    /// `GET /v2/jobs/{id}`
    GetJob,
    /// `DELETE /v2/jobs/{id}`
    CancelJob,
    /// `POST /v2/effects/begin`
    BeginEffect,
    /// `POST /v2/effects/finish`
    FinishEffect,
    /// `POST /v2/effects/renew`
    RenewEffect,
    /// `POST /v2/effects/release`
    ReleaseEffect,
    /// `POST /v2/effects/reacquire`
    ReacquireEffect,
    /// `POST /v2/effects/resolve`
    ResolveEffect,
    /// `POST /v2/effects/get`
    GetEffect,
    /// `GET /v2/effects`
    ListEffects,
    /// `POST /v2/commit`
    Commit,
    /// `GET /v2/commits/{key}`
    GetCommit,
    /// `GET /v2/outputs`
    ListDatasets,
    /// `GET /v2/outputs/{dataset}`
    GetDataset,
    /// `GET /v2/outputs/{dataset}/{version}`
    GetVersion,
    /// `GET /v2/outputs/{dataset}/{version}/{partition_key}`
    GetOutput,
    /// `POST /v2/outputs/{dataset}/cutover`
    CutOver,
    /// `POST /v2/outputs/{dataset}/rollback`
    RollBack,
    /// `POST /v2/outputs/{dataset}/seal`
    SealVersion,
    /// `DELETE /v2/outputs/{dataset}/{version}`
    DeleteVersion,
    /// `GET /v2/entities`
    ListEntities,
    /// `GET /v2/entities/{entity}`
    GetEntity,
    /// `DELETE /v2/entities/{entity}`
    RemoveEntity,
    /// `POST /v2/keys`
    CreateKey,
    /// `GET /v2/keys`
    ListKeys,
    /// `GET /v2/keys/{id}`
    GetKey,
    /// `POST /v2/keys/{id}/rotate`
    RotateKey,
    /// `DELETE /v2/keys/{id}`
    RevokeKey,
    /// `GET /v2/tenants`
    ListTenants,
    /// `GET /v2/tenants/{tenant}`
    GetTenant,
    /// `PUT /v2/tenants/{tenant}`
    LimitTenant,
    /// `GET /v2/audit`
    ListAudit,
    /// `POST /v2/deliveries`
    PostDelivery,
    /// `GET /v2/deliveries`
    ListDeliveries,
    /// `POST /v2/exports`
    PostExport,
    /// `GET /v2/exports`
    ListExports,
    /// `GET /v2/endpoints`
    ListEndpoints,
    /// `GET /v2/endpoints/{endpoint}`
    GetEndpoint,
    /// `PUT /v2/endpoints/{endpoint}`
    PutEndpoint,
    /// `DELETE /v2/endpoints/{endpoint}`
    DeleteEndpoint,
    /// `POST /v2/endpoints/{endpoint}/disable`
    DisableEndpoint,
    /// `POST /v2/endpoints/{endpoint}/enable`
    EnableEndpoint,
    /// `POST /v2/leases/credential`
    MintCredential,
    /// `POST /v2/introspect`
    Introspect,
    /// `GET /.well-known/openid-configuration`
    GetOpenIdConfiguration,
    /// `GET /.well-known/jwks.json`
    GetJsonWebKeys,
    /// `GET /v2/runs`
    ListRuns,
    /// `GET /v2/runs/{run_id}`
    GetRun,
    /// `GET /v2/router`
    GetRouter,
    /// `POST /v2/router/test`
    TestRouter,
    /// `GET /v2/events`
    StreamEvents,
    /// `POST /v2/session`
    SignIn,
    /// `GET /v2/session`
    GetSession,
    /// `DELETE /v2/session`
    SignOut,
    /// `GET /v2/cluster`
    GetCluster,
    /// `POST /v2/cluster/drain`
    DrainNode,
    /// `POST /v2/cluster/resume`
    ResumeNode,
    /// `GET /v2/report`
    GetReport,
    /// `GET /v2/status`
    GetStatus,
    /// `GET /v2/healthz`
    Healthz,
    /// `GET /v2/readyz`
    Readyz,
    /// `GET /v2/openapi.json`
    GetOpenApi,
}

/// The methods that `/v2` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Look.
    Get,
    /// Make it so.
    Put,
    /// Do it.
    Post,
    /// Change parts of it.
    Patch,
    /// Take it away.
    Delete,
}

/// Where the first word after the version begins: there nearly all paths differ. No name begins before.
const WORD_AT: usize = 4;

/// Most names that a path has.
pub const PATH_NAMES_MAX: usize = 3;

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// A call, with the names in its path as they came, still percent-encoded; empty where the path has fewer.
    Operation {
        /// The call.
        operation: Operation,
        /// The names, in order.
        names: [&'a str; PATH_NAMES_MAX],
    },
    /// Something, but not with this method.
    MethodNotAllowed(Allow),
    /// Nothing.
    Unknown,
}

/// The methods of a path; prints as the `Allow` header lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Allow(u8);

impl Method {
    const ALL: [Self; 5] = [Self::Get, Self::Put, Self::Post, Self::Patch, Self::Delete];

    /// Its name in a request.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

impl std::fmt::Display for Allow {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut separator = "";
        for method in Method::ALL.iter().filter(|method| self.0 & (1 << **method as u8) != 0) {
            write!(formatter, "{separator}{}", method.name())?;
            separator = ", ";
        }
        Ok(())
    }
}

impl Operation {
    /// How many there are.
    pub const COUNT: usize = Self::GetOpenApi as usize + 1;

    /// What a request with this method and this path asks for.
    ///
    /// No path fits two templates of one method, so the first that fits with the method is the one; the busiest calls
    /// stand first.
    #[must_use]
    pub fn find<'a>(method: &str, path: &'a str) -> Lookup<'a> {
        let mut allow = Allow::default();
        let word = path.as_bytes().get(WORD_AT);
        let alike = |description: &&Description| description.path.as_bytes().get(WORD_AT) == word;
        for description in table::all().filter(alike) {
            let Some(names) = fit(description.path, path) else { continue };
            if description.method.name() == method {
                return Lookup::Operation { operation: description.operation, names };
            }
            allow.0 |= 1 << description.method as u8;
        }
        if allow == Allow::default() { Lookup::Unknown } else { Lookup::MethodNotAllowed(allow) }
    }

    /// Every call, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        table::all().map(|description| description.operation)
    }

    /// Its name in the document, and a good label for metrics.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.describe().id
    }

    /// Its method.
    #[must_use]
    pub fn method(self) -> Method {
        self.describe().method
    }

    /// Its path, with the names of its names in braces.
    #[must_use]
    pub fn path(self) -> &'static str {
        self.describe().path
    }

    pub(super) fn describe(self) -> &'static Description {
        table::all()
            .find(|description| description.operation == self)
            .expect("every operation has its line in the table, which a test checks")
    }
}

#[cfg(any(test, feature = "openapi"))]
pub(super) fn descriptions() -> impl Iterator<Item = &'static Description> {
    table::all()
}

/// The names in `path` if it fits `template`. A name cannot be empty.
fn fit<'a>(template: &str, path: &'a str) -> Option<[&'a str; PATH_NAMES_MAX]> {
    let (mut names, mut count) = ([""; PATH_NAMES_MAX], 0);
    let (mut template, mut rest) = (template.as_bytes(), path.as_bytes());
    // Byte by byte: nearly all templates differ from a path in their first few.
    while let Some((&byte, others)) = template.split_first() {
        if byte != b'{' {
            let (first, behind) = rest.split_first()?;
            if *first != byte {
                return None;
            }
            (template, rest) = (others, behind);
            continue;
        }
        let from = path.len() - rest.len();
        let length = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        if length == 0 {
            return None;
        }
        names[count] = &path[from..from + length];
        count += 1;
        rest = &rest[length..];
        let brace = others.iter().position(|byte| *byte == b'}');
        template = brace.map_or(&[], |brace| &others[brace + 1..]);
    }
    rest.is_empty().then_some(names)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The path of a template with the names filled in.
    fn filled(template: &str) -> String {
        template.replace(['{', '}'], "")
    }

    #[test]
    fn every_operation_is_found_where_it_is_documented() {
        let mut seen = BTreeSet::new();
        for description in descriptions() {
            let path = filled(description.path);
            let Lookup::Operation { operation, names } = Operation::find(description.method.name(), &path)
            else {
                panic!("{path} is not found");
            };
            assert_eq!(operation, description.operation);
            let expected: Vec<&str> = description.path.split(['{', '}']).skip(1).step_by(2).collect();
            assert_eq!(&names[..expected.len()], expected);
            assert!(names[expected.len()..].iter().all(|name| name.is_empty()));
            assert_eq!(operation.describe().path, description.path, "twice in the table");
            assert!(seen.insert(operation.id()), "{} is the name of two", operation.id());
        }
        assert_eq!(seen.len(), Operation::GetOpenApi as usize + 1, "every operation has its line");
    }

    #[test]
    fn no_path_fits_two_templates_of_one_method() {
        for one in descriptions() {
            let others = descriptions().filter(|other| other.method == one.method && other.path != one.path);
            for other in others {
                assert_eq!(fit(other.path, &filled(one.path)), None, "{} fits {}", one.path, other.path);
            }
        }
    }

    #[test]
    fn what_is_not_there() {
        for (method, path, expected) in [
            ("GET", "/v2", None),
            ("GET", "/v2/topics/", None),
            ("GET", "/v2/topics//messages", None),
            ("GET", "/v2/topics/t/messages/", None),
            ("GET", "/v2/topics/t/messages/0", None),
            ("GET", "/v2/topics/t/messages/0/1/2", None),
            ("GET", "/v2/topicsx", None),
            ("POST", "/v2/topics", Some("GET")),
            ("get", "/v2/topics", Some("GET")),
            ("POST", "/v2/topics/t", Some("GET, PUT, PATCH, DELETE")),
            ("PUT", "/v2/topics/t/messages", Some("GET, POST")),
            ("GET", "/v2/leases/ack", Some("POST")),
            ("PUT", "/v2/effects", Some("GET")),
            ("GET", "/v2/effects/get", Some("POST")),
            ("PUT", "/v2/outputs/d/v", Some("GET, DELETE")),
            ("PUT", "/v2/outputs/d/cutover", Some("GET, POST, DELETE")),
        ] {
            let found = match Operation::find(method, path) {
                Lookup::Operation { operation, .. } => panic!("{method} {path} is {operation:?}"),
                Lookup::MethodNotAllowed(allow) => Some(allow.to_string()),
                Lookup::Unknown => None,
            };
            assert_eq!(found.as_deref(), expected, "{method} {path}");
        }
        let found = Operation::find("GET", "/v2/topics/a%2Fb/groups/g+h");
        assert_eq!(found, Lookup::Operation { operation: Operation::GetGroup, names: ["a%2Fb", "g+h", ""] });
        // A word in the path is a version where only versions are.
        let found = Operation::find("GET", "/v2/outputs/d/cutover");
        assert_eq!(
            found,
            Lookup::Operation { operation: Operation::GetVersion, names: ["d", "cutover", ""] }
        );
    }
}
