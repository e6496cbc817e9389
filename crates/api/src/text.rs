//! Texts in requests: borrowed from the body where they can be, and empty where the client sent `null`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A text that was given, or empty.
///
/// `null` counts as not given: clients with optional fields send it, and the first broker took it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'a> Text<'a> {
    /// The text without the white space around it.
    pub(crate) fn trimmed(self) -> Cow<'a, str> {
        trim(self.0)
    }
}

/// Takes the white space around a text away, without copying what is borrowed or already tidy.
pub(crate) fn trim(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
        Cow::Owned(text) if text.trim().len() == text.len() => Cow::Owned(text),
        Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_texts_are_borrowed_and_escaped_ones_owned() {
        let plain: Text<'_> = serde_json::from_str(r#""abc""#).unwrap();
        assert!(matches!(plain.0, Cow::Borrowed("abc")));
        let escaped: Text<'_> = serde_json::from_str(r#""a\nb""#).unwrap();
        assert_eq!(escaped.0, "a\nb");
        assert_eq!(serde_json::from_str::<Text<'_>>("null").unwrap(), Text::default());
        assert!(serde_json::from_str::<Text<'_>>("5").unwrap_err().to_string().contains("expected a string"));
    }

    #[test]
    fn trimming() {
        assert!(matches!(trim(Cow::Borrowed(" a ")), Cow::Borrowed("a")));
        assert_eq!(trim(Cow::Owned("\u{a0}a\t".to_owned())), "a");
    }
}
