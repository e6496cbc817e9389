//! The knobs of the router, and a router made from them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use driftq_engine::router::{
    BreakerConfig, HookConfig, OnError, Router, RouterHook, RulesError, RulesRouter, Scope, TopicPattern,
};

use super::http::HttpRouter;

/// Largest file of rules.
const RULES_FILE_BYTES_MAX: u64 = 1 << 20;

/// What the router is built from. Nothing is routed unless `url` or `rules` is given.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// A brain behind HTTP.
    pub url: Option<String>,
    /// A file of rules.
    pub rules: Option<PathBuf>,
    /// Longest time that a producer waits for the router.
    pub timeout: Duration,
    /// Questions under way at once.
    pub concurrency_max: usize,
    /// Messages in one question at most, if the brain takes more than one.
    pub batch_max: usize,
    /// Decisions that are remembered; 0 for none.
    pub cache_entries_max: usize,
    /// Topics that are routed, as names or beginnings with a star; none means all.
    pub topics: Vec<String>,
    /// What happens to messages that the router fails on.
    pub on_error: OnError,
    /// When the router is left alone.
    pub breaker: BreakerConfig,
}

impl Default for RouterConfig {
    fn default() -> Self {
        let hook = HookConfig::default();
        Self {
            url: None,
            rules: None,
            timeout: hook.timeout,
            concurrency_max: hook.concurrency_max,
            batch_max: 256,
            cache_entries_max: hook.cache_entries_max,
            topics: Vec::new(),
            on_error: hook.on_error,
            breaker: hook.breaker,
        }
    }
}

/// Why there is no router.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Two routers.
    #[error("a router has a url or rules, not both")]
    Both,
    /// The URL is not one that can be asked.
    #[error("{url}: {why}")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file of rules could not be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file of rules makes no sense.
    #[error("{}: {error}", path.display())]
    Rules {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: RulesError,
    },
    /// A topic that no topic can match.
    #[error("{0}")]
    Topics(String),
}

impl BuildError {
    /// The knob that would have to change.
    pub const fn knob(&self) -> &'static str {
        match self {
            Self::Both | Self::Url { .. } => "router_url",
            Self::Unreadable { .. } | Self::Rules { .. } => "router_rules",
            Self::Topics(_) => "router_topics",
        }
    }
}

/// The router of this configuration, or none if it names none.
pub fn build(config: &RouterConfig) -> Result<Option<Arc<RouterHook>>, BuildError> {
    let scope = Scope::parse(config.topics.iter().map(|topic| &**topic)).map_err(BuildError::Topics)?;
    let router: Arc<dyn Router> = match (&config.url, &config.rules) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err(BuildError::Both),
        (Some(url), None) => {
            let router = HttpRouter::new(url, config.batch_max, config.concurrency_max);
            Arc::new(router.map_err(|why| BuildError::Url { url: url.clone(), why })?)
        }
        (None, Some(path)) => Arc::new(rules(path)?),
    };
    let hook = HookConfig {
        timeout: config.timeout,
        concurrency_max: config.concurrency_max,
        breaker: config.breaker,
        scope,
        cache_entries_max: config.cache_entries_max,
        on_error: config.on_error,
    };
    Ok(Some(Arc::new(RouterHook::new(router, hook))))
}

fn rules(path: &Path) -> Result<RulesRouter, BuildError> {
    let unreadable = |error| BuildError::Unreadable { path: path.to_owned(), error };
    let file = File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(RULES_FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > RULES_FILE_BYTES_MAX {
        return Err(unreadable(io::Error::other("it is larger than 1 MiB")));
    }
    RulesRouter::parse(&text).map_err(|error| BuildError::Rules { path: path.to_owned(), error })
}

/// A URL that can be asked.
pub fn check_url(text: &str) -> Result<String, String> {
    HttpRouter::new(text, 1, 1).map(|_| text.to_owned()).map_err(|why| format!("`{text}`: {why}"))
}

/// Reads topics as a knob has them: separated by commas, `all` for all.
pub fn parse_topics(text: &str) -> Result<Vec<String>, String> {
    if text == ALL {
        return Ok(Vec::new());
    }
    let topics: Vec<String> = text.split(',').map(|topic| topic.trim().to_owned()).collect();
    topics.iter().try_for_each(|topic| TopicPattern::parse(topic).map(drop))?;
    Ok(topics)
}

/// Topics as [`parse_topics`] reads them.
pub fn show_topics(topics: &[String]) -> String {
    if topics.is_empty() { ALL.to_owned() } else { topics.join(",") }
}

/// What all topics are called in a knob.
const ALL: &str = "all";

/// Reads `pass` or `reject`.
pub fn parse_on_error(text: &str) -> Result<OnError, String> {
    match text {
        "pass" => Ok(OnError::Pass),
        "reject" => Ok(OnError::Reject),
        _ => Err(format!("`{text}` is neither pass nor reject")),
    }
}

/// The policy as [`parse_on_error`] reads it.
pub const fn show_on_error(policy: OnError) -> &'static str {
    match policy {
        OnError::Pass => "pass",
        OnError::Reject => "reject",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(config: &RouterConfig) -> String {
        build(config).map(|_| ()).expect_err("the configuration is bad").to_string()
    }

    #[test]
    fn nothing_is_routed_unless_somebody_says_by_whom() {
        assert!(build(&RouterConfig::default()).is_ok_and(|router| router.is_none()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let url = |url: &str| RouterConfig { url: Some(url.to_owned()), ..RouterConfig::default() };
        assert!(error(&url("ftp://brain")).contains("ftp://brain: it must begin with http://"));
        let both = RouterConfig { rules: Some("r.toml".into()), ..url("http://brain") };
        assert!(error(&both).contains("not both"));
        let topics = RouterConfig { topics: vec!["a*b".to_owned()], ..url("http://brain") };
        assert!(error(&topics).contains("star"));
        let missing = RouterConfig { rules: Some("no/such.toml".into()), ..RouterConfig::default() };
        assert!(error(&missing).contains("no/such.toml"));
    }

    #[test]
    fn rules_come_from_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let config = RouterConfig { rules: Some(file.path().to_owned()), ..RouterConfig::default() };
        assert!(error(&config).contains("no rule"));
        std::fs::write(file.path(), "[[rule]]\nthen.label = 'x'\n").unwrap();
        assert!(build(&config).is_ok_and(|router| router.is_some()));
        std::fs::write(file.path(), "#".repeat(1 << 20 | 1)).unwrap();
        assert!(error(&config).contains("larger"));
    }
}
