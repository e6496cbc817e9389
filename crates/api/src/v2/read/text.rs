//! Texts with bounds, borrowed from the body where they can be.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A text that must be given.
pub(in crate::v2) fn required<'de, D, const MIN: usize, const MAX: usize>(
    from: D,
) -> Result<Cow<'de, str>, D::Error>
where
    D: Deserializer<'de>,
{
    from.deserialize_str(TextVisitor::<MIN, MAX>)
}

/// A text that may be left out or `null`.
pub(in crate::v2) fn optional<'de, D, const MIN: usize, const MAX: usize>(
    from: D,
) -> Result<Option<Cow<'de, str>>, D::Error>
where
    D: Deserializer<'de>,
{
    from.deserialize_option(OptionVisitor::<MIN, MAX>)
}

/// A text of its own that may be left out or `null`.
pub(in crate::v2) fn optional_owned<'de, D, const MIN: usize, const MAX: usize>(
    from: D,
) -> Result<Option<String>, D::Error>
where
    D: Deserializer<'de>,
{
    Ok(optional::<D, MIN, MAX>(from)?.map(Cow::into_owned))
}

/// A text of its own that must be given.
pub(in crate::v2) fn owned<'de, D, const MIN: usize, const MAX: usize>(from: D) -> Result<String, D::Error>
where
    D: Deserializer<'de>,
{
    required::<D, MIN, MAX>(from).map(Cow::into_owned)
}

/// A text of its own that is empty when it is left out or `null`, and may be empty when it is given.
pub(in crate::v2) fn any_owned<'de, D, const MAX: usize>(from: D) -> Result<String, D::Error>
where
    D: Deserializer<'de>,
{
    any::<D, MAX>(from).map(Cow::into_owned)
}

/// Up to `COUNT` texts of their own, none if they are left out or `null`.
pub(in crate::v2) fn list_owned<'de, D, const MIN: usize, const MAX: usize, const COUNT: usize>(
    from: D,
) -> Result<Vec<String>, D::Error>
where
    D: Deserializer<'de>,
{
    Ok(list::<D, MIN, MAX, COUNT>(from)?.into_iter().map(Cow::into_owned).collect())
}

/// A text that is empty when it is left out or `null`, and cannot be empty when it is given.
pub(in crate::v2) fn or_empty<'de, D, const MAX: usize>(from: D) -> Result<Cow<'de, str>, D::Error>
where
    D: Deserializer<'de>,
{
    optional::<D, 1, MAX>(from).map(Option::unwrap_or_default)
}

/// A text that is empty when it is left out or `null`, and may be empty when it is given.
pub(in crate::v2) fn any<'de, D, const MAX: usize>(from: D) -> Result<Cow<'de, str>, D::Error>
where
    D: Deserializer<'de>,
{
    optional::<D, 0, MAX>(from).map(Option::unwrap_or_default)
}

/// Up to `COUNT` texts, none if they are left out or `null`.
pub(in crate::v2) fn list<'de, D, const MIN: usize, const MAX: usize, const COUNT: usize>(
    from: D,
) -> Result<Vec<Cow<'de, str>>, D::Error>
where
    D: Deserializer<'de>,
{
    let pieces = super::structure::values::<D, Piece<'de, MIN, MAX>, COUNT>(from)?;
    Ok(pieces.into_iter().map(|Piece(text)| text).collect())
}

struct Piece<'a, const MIN: usize, const MAX: usize>(Cow<'a, str>);

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Piece<'de, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        required::<D, MIN, MAX>(from).map(Self)
    }
}

/// One word out of a few.
pub(in crate::v2) fn word<'de, D, T, const N: usize>(
    from: D,
    words: &[(&'static str, T); N],
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Copy,
{
    let text = from.deserialize_str(TextVisitor::<0, { usize::MAX }>)?;
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        D::Error::custom(format_args!("must be {}", or_list(&names)))
    })
}

/// `a, b or c`.
pub(in crate::v2) fn or_list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [head @ .., last] => format!("{} or {last}", head.join(", ")),
    }
}

struct TextVisitor<const MIN: usize, const MAX: usize>;

impl<const MIN: usize, const MAX: usize> TextVisitor<MIN, MAX> {
    fn check<E: Error>(text: &str) -> Result<(), E> {
        if (MIN..=MAX).contains(&text.len()) {
            return Ok(());
        }
        Err(E::custom(format_args!("must have {}, has {}", Bytes(MIN, MAX), text.len())))
    }
}

/// What a text may be long, in words.
struct Bytes(usize, usize);

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self(0, usize::MAX) => formatter.write_str("any length"),
            Self(min, usize::MAX) => write!(formatter, "at least {min} byte"),
            Self(0, max) => write!(formatter, "at most {max} bytes"),
            Self(min, max) => write!(formatter, "{min} to {max} bytes"),
        }
    }
}

impl<'de, const MIN: usize, const MAX: usize> Visitor<'de> for TextVisitor<MIN, MAX> {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a text of {}", Bytes(MIN, MAX))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Self::check(text).map(|()| Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Self::check(text).map(|()| Cow::Owned(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        Self::check(&text).map(|()| Cow::Owned(text))
    }
}

struct OptionVisitor<const MIN: usize, const MAX: usize>;

impl<'de, const MIN: usize, const MAX: usize> Visitor<'de> for OptionVisitor<MIN, MAX> {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a text of {}", Bytes(MIN, MAX))
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        required::<D, MIN, MAX>(from).map(Some)
    }
}
