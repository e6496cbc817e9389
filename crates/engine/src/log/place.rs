//! Where a log is that others can reach. Known in every build, so that one without its adapter can say what it lacks.

use std::fmt;

/// Which database, and what in it.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresPlace {
    /// `postgres://user:password@host/database`.
    pub url: String,
    /// The schema that holds the log and nothing else.
    pub schema: String,
    /// The name of the cluster. A log of another name is not touched.
    pub cluster: String,
}

/// Without the URL: there may be a password in it.
impl fmt::Debug for PostgresPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schema, cluster, .. } = self;
        f.debug_struct("PostgresPlace").field("schema", schema).field("cluster", cluster).finish()
    }
}

/// Which servers of NATS, and what in them.
#[derive(Clone, PartialEq, Eq)]
pub struct NatsPlace {
    /// `nats://user:password@host:port,host:port/stream`.
    pub url: String,
    /// The name of the cluster. A log of another name is not touched.
    pub cluster: String,
}

/// Without the URL: there may be a password in it.
impl fmt::Debug for NatsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsPlace").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}
