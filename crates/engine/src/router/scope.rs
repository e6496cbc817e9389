//! Which topics a router is asked about.

use std::fmt;

/// Names of topics: one, or all that begin alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicPattern {
    /// This topic.
    Exact(String),
    /// Every topic whose name begins with this.
    Prefix(String),
}

impl TopicPattern {
    /// Reads `orders` (that topic), `orders.*` (all that begin with `orders.`) or `*` (all). A star anywhere else
    /// is refused, with a text that says so.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (start, is_prefix) = text.strip_suffix('*').map_or((text, false), |start| (start, true));
        if start.contains('*') {
            return Err(format!("`{text}`: a star may only stand at the end"));
        }
        match is_prefix {
            true => Ok(Self::Prefix(start.to_owned())),
            false if start.is_empty() => Err("the name of a topic is empty".to_owned()),
            false => Ok(Self::Exact(start.to_owned())),
        }
    }

    /// Whether it names this topic.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        match self {
            Self::Exact(name) => name == topic,
            Self::Prefix(start) => topic.starts_with(&**start),
        }
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => formatter.write_str(name),
            Self::Prefix(start) => write!(formatter, "{start}*"),
        }
    }
}

/// The topics that a router is asked about. Without any pattern: all.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Scope(Vec<TopicPattern>);

impl Scope {
    /// Reads patterns as [`TopicPattern::parse`] does.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        texts.into_iter().map(TopicPattern::parse).collect::<Result<_, _>>().map(Self)
    }

    /// Whether messages to this topic are routed.
    #[must_use]
    pub fn contains(&self, topic: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| pattern.matches(topic))
    }

    /// The patterns; none if all topics are routed.
    #[must_use]
    pub fn patterns(&self) -> &[TopicPattern] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_beginnings() {
        let scope = Scope::parse(["orders", "tasks.*"]).unwrap();
        for (topic, expected) in
            [("orders", true), ("orders.eu", false), ("tasks.a", true), ("tasks.", true), ("tasks", false)]
        {
            assert_eq!(scope.contains(topic), expected, "{topic}");
        }
        let shown: Vec<_> = scope.patterns().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["orders", "tasks.*"]);
        assert!(Scope::default().contains("anything"));
        assert!(Scope::parse(["*"]).unwrap().contains("anything"));
    }

    #[test]
    fn patterns_that_mean_nothing_are_refused() {
        for text in ["", "a*b", "*.a", "**"] {
            assert!(TopicPattern::parse(text).is_err(), "{text}");
        }
    }
}
