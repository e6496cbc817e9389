//! Paths of calls, put together so that no name can break out of its place.

use driftq_api::v2::Labels;
use driftq_http::escape;

/// The path of a call, and its query.
#[derive(Clone, Debug)]
pub struct Path {
    text: String,
    has_query: bool,
}

impl Path {
    /// `/v2/topics/{topic}`.
    pub fn topic(topic: &str) -> Self {
        Self::of("/v2/topics").part(topic)
    }

    /// `/v2/topics/{topic}/groups/{group}`.
    pub fn group(topic: &str, group: &str) -> Self {
        Self::topic(topic).word("groups").part(group)
    }

    /// `/v2/topics/{topic}/messages/{partition}/{offset}`.
    pub fn message(topic: &str, partition: u32, offset: u64) -> Self {
        Self::topic(topic).word("messages").part(&partition.to_string()).part(&offset.to_string())
    }

    /// A path that is known to be one.
    pub fn of(path: &'static str) -> Self {
        Self { text: path.to_owned(), has_query: false }
    }

    /// One more segment that needs no escaping.
    #[must_use]
    pub fn word(mut self, word: &'static str) -> Self {
        self.text.push('/');
        self.text.push_str(word);
        self
    }

    /// One more segment, whatever is in it.
    #[must_use]
    pub fn part(mut self, name: &str) -> Self {
        self.text.push('/');
        self.text.push_str(&escape(name));
        self
    }

    /// One more parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let mark = if std::mem::replace(&mut self.has_query, true) { '&' } else { '?' };
        self.text.push_str(&format!("{mark}{}={}", escape(name), escape(value)));
        self
    }

    /// One more parameter, if there is a value for it.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// One more parameter, if there is a number for it.
    #[must_use]
    pub fn with_number(self, name: &str, value: Option<u64>) -> Self {
        self.with_some(name, value.map(|value| value.to_string()).as_deref())
    }

    /// One parameter per label.
    #[must_use]
    pub fn with_labels(self, labels: &Labels<'_>) -> Self {
        labels.pairs().iter().fold(self, |path, (name, value)| path.with(&format!("label.{name}"), value))
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl AsRef<str> for Path {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_places() {
        let path = Path::group("a/b", "c?d").word("lease");
        assert_eq!(path.as_str(), "/v2/topics/a%2Fb/groups/c%3Fd/lease");
        let labels = Labels::new(vec![("k&".into(), "v=".into())]).unwrap();
        let path = Path::topic("t").word("messages").with_some("key", Some("a b")).with_some("run_id", None);
        let path = path.with_number("limit", Some(7)).with_labels(&labels);
        assert_eq!(path.as_str(), "/v2/topics/t/messages?key=a%20b&limit=7&label.k%26=v%3D");
    }
}
