//! From raw texts to one configuration that knows where each value came from.

use std::{env, fmt, fs};

use super::{
    Config, Exposure, Profile,
    args::{FILE_ENV, KnobArgs},
    file,
    knob::{self, KNOBS, Knob},
    traces,
};
use crate::{http, router};

/// Variables with our prefix that are not knobs of the server.
const OTHER_VARIABLES: [&str; 15] = [
    "DRIFTQ_KEY",
    "DRIFTQ_KEY_FILE",
    "DRIFTQ_CA_FILE",
    FILE_ENV,
    "DRIFTQ_SERVER",
    "DRIFTQ_CONTEXT",
    "DRIFTQ_CONTEXTS",
    "DRIFTQ_OWNER",
    "DRIFTQ_LEDGER_STORE",
    "DRIFTQ_BIN",
    "DRIFTQ_CONNECT",
    "DRIFTQ_SECRETS_KEY",
    "DRIFTQ_SECRETS_KEY_FILE",
    "DRIFTQ_MIGRATE_FROM",
    "DRIFTQ_MIGRATE_TO",
];

/// Who said a value. Later ones win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Default,
    Profile,
    File,
    Env,
    Flag,
}

impl Origin {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Profile => "profile",
            Self::File => "file",
            Self::Env => "env",
            Self::Flag => "flag",
        }
    }
}

/// A text for a knob, not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Index into [`KNOBS`].
    pub(crate) knob: usize,
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// Something that keeps the configuration from being used.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// File and line, variable or flag.
    pub(crate) place: String,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) const fn new(place: String, message: String) -> Self {
        Self { place, message }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// The outcome: usable if there are no problems.
pub struct Resolved {
    pub config: Config,
    /// One per knob, in the order of [`KNOBS`].
    pub origins: Vec<Origin>,
    pub problems: Vec<Problem>,
    /// Oddities that do not keep the server from starting.
    pub warnings: Vec<String>,
}

/// Reads file, environment and flags.
pub fn resolve(args: &KnobArgs) -> Resolved {
    let mut given = Vec::new();
    let mut problems = Vec::new();
    if let Some(path) = &args.file {
        match fs::read_to_string(path) {
            Ok(text) => (given, problems) = file::read(path, &text),
            Err(error) => problems.push(Problem::new(path.clone(), format!("cannot be read: {error}"))),
        }
    }
    given.extend(standard_endpoint(env::var(traces::STANDARD_VARIABLE).ok()));
    given.extend(args.given.iter().cloned());
    let mut resolved = merge(given, args.file.as_deref());
    resolved.problems.splice(0..0, problems);
    build_router(&mut resolved, args.file.as_deref());
    examine_front(&mut resolved, args.file.as_deref());
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    resolved.warnings.extend(names.filter_map(|name| stray_variable(&name)));
    resolved
}

/// What the variable that all programs share says about the collector; our own counts more. A build that sends no traces
/// does not mind it.
fn standard_endpoint(text: Option<String>) -> Option<Given> {
    let text = text.filter(|text| cfg!(feature = "otlp") && !text.is_empty())?;
    Some(Given { knob: knob::find("otlp_endpoint")?, text, origin: Origin::Env })
}

/// Puts the texts over each other, the strongest last.
fn merge(mut given: Vec<Given>, path: Option<&str>) -> Resolved {
    given.sort_by_key(|entry| entry.origin);
    let chosen = given.iter().rev().find(|entry| KNOBS[entry.knob].name == "profile");
    // A profile that cannot be read is reported below, with all the others.
    let profile = chosen.and_then(|entry| knob::profile(&entry.text).ok()).unwrap_or(Profile::Default);
    let mut config = Config::of_profile(profile);
    let plain = Config::default();
    let mut origins: Vec<Origin> = KNOBS
        .iter()
        .map(|knob| if (knob.get)(&config) == (knob.get)(&plain) { Origin::Default } else { Origin::Profile })
        .collect();
    let mut problems = Vec::new();
    for entry in given {
        let knob = &KNOBS[entry.knob];
        origins[entry.knob] = entry.origin;
        if let Err(message) = (knob.set)(&mut config, &entry.text) {
            problems.push(Problem::new(place(knob, entry.origin, path), message));
        }
    }
    Resolved { config, origins, problems, warnings: Vec::new() }
}

/// Where a user finds the value of a knob.
fn place(knob: &Knob, origin: Origin, path: Option<&str>) -> String {
    match origin {
        Origin::Env => knob.env.to_owned(),
        Origin::Flag => format!("--{}", knob.flag),
        _ => format!("{}: {}", path.unwrap_or("file"), knob.name),
    }
}

/// Builds the router, so that a mistake in its rules is found before anything starts.
fn build_router(resolved: &mut Resolved, path: Option<&str>) {
    match router::build(&resolved.config.router) {
        Ok(router) => resolved.config.engine.router = router,
        Err(error) => {
            let place = knob::find(error.knob())
                .map_or_else(String::new, |knob| place(&KNOBS[knob], resolved.origins[knob], path));
            resolved.problems.push(Problem::new(place, error.to_string()));
        }
    }
}

/// Finds what is wrong with the certificate, and with who would reach the server, before anything starts.
fn examine_front(resolved: &mut Resolved, path: Option<&str>) {
    let root_key = resolved.config.load_root_key();
    let mut complain = |name: &str, message: String| {
        let place = knob::find(name).map_or_else(String::new, |knob| match resolved.origins[knob] {
            Origin::Default | Origin::Profile => KNOBS[knob].name.to_owned(),
            origin => place(&KNOBS[knob], origin, path),
        });
        resolved.problems.push(Problem::new(place, message));
    };
    match http::examine_tls(&resolved.config.http) {
        Ok(warning) => resolved.warnings.extend(warning),
        Err((name, message)) => complain(name, message),
    }
    if let Err(why) = root_key {
        complain("keys", why);
    }
    if !resolved.config.node_url.is_empty() && !resolved.config.is_in_database() {
        let why = "several servers share a log only in a database or a stream: name it with --log postgres://user@host/database \
                   or nats://host:port/stream";
        complain("node_url", why.to_owned());
    }
    if resolved.config.is_in_stream() && resolved.config.log.schema != Config::default().log.schema {
        let why = "there is no schema in NATS: the stream is named at the end of the URL of --log";
        complain("log_schema", why.to_owned());
    }
    if let Exposure::Refused(why) = resolved.config.exposure() {
        complain("listen", why.to_owned());
    }
}

/// A variable that looks like ours and is not: most often a typing error that would silently do nothing.
fn stray_variable(name: &str) -> Option<String> {
    let known = KNOBS.iter().any(|knob| knob.env == name) || OTHER_VARIABLES.contains(&name);
    (name.starts_with("DRIFTQ_") && !known)
        .then(|| format!("the variable {name} is set but nothing reads it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &str, text: &str, origin: Origin) -> Given {
        Given { knob: knob::find(name).unwrap(), text: text.to_owned(), origin }
    }

    fn origin(resolved: &Resolved, name: &str) -> Origin {
        resolved.origins[knob::find(name).unwrap()]
    }

    #[test]
    fn the_strongest_word_wins_whatever_the_order() {
        let resolved = merge(
            vec![
                given("in_flight_max", "7", Origin::Flag),
                given("in_flight_max", "5", Origin::File),
                given("in_flight_max", "6", Origin::Env),
                given("listen", "0.0.0.0:1", Origin::File),
                given("data", "/srv/a", Origin::Env),
                given("data", "/srv/b", Origin::File),
            ],
            Some("f.toml"),
        );
        assert!(resolved.problems.is_empty());
        assert_eq!(resolved.config.engine.settings.in_flight_max, 7);
        assert_eq!(resolved.config.listen, "0.0.0.0:1");
        assert_eq!(resolved.config.data, std::path::Path::new("/srv/a"));
        assert_eq!(origin(&resolved, "in_flight_max"), Origin::Flag);
        assert_eq!(origin(&resolved, "data"), Origin::Env);
        assert_eq!(origin(&resolved, "topics_max"), Origin::Default);
    }

    #[test]
    fn a_profile_moves_the_ground_and_not_what_stands_on_it() {
        let resolved = merge(
            vec![
                given("profile", "v1-dev", Origin::Flag),
                given("partition_bytes_max", "1MiB", Origin::File),
            ],
            None,
        );
        assert_eq!(resolved.config.engine.settings.partition_messages_max, 2);
        assert_eq!(resolved.config.engine.settings.partition_bytes_max, 1 << 20);
        assert_eq!(origin(&resolved, "partition_messages_max"), Origin::Profile);
        assert_eq!(origin(&resolved, "partition_bytes_max"), Origin::File);
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let resolved = merge(
            vec![
                given("profile", "fast", Origin::Env),
                given("in_flight_max", "0", Origin::Flag),
                given("retention_ms", "soon", Origin::File),
            ],
            Some("f.toml"),
        );
        let places: Vec<_> = resolved.problems.iter().map(|problem| &*problem.place).collect();
        assert_eq!(places, ["f.toml: retention_ms", "DRIFTQ_PROFILE", "--in-flight-max"]);
    }

    #[test]
    fn variables_that_nothing_reads_are_noticed() {
        assert_eq!(stray_variable("DRIFTQ_LISTEN"), None);
        assert_eq!(stray_variable("DRIFTQ_SERVER"), None);
        assert_eq!(stray_variable("PATH"), None);
        assert!(stray_variable("DRIFTQ_LISTENS").is_some());
    }
}
