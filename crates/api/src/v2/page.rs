//! Pages of lists: a limit, and a cursor that says where the page before ended.

use std::fmt::Write as _;

use super::limits::{CURSOR_BYTES_MAX, PLACE_BYTES_MAX};
use super::parameters::Parameters;
use crate::fault::Fault;
use crate::query::Query;

/// Items on a page whose size was not asked for.
pub const LIMIT_DEFAULT: usize = 100;
/// Most items on one page.
pub const LIMIT_MAX: usize = 1000;

/// What part of a list is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Most items.
    pub limit: usize,
    /// Only items after this name.
    pub after: Option<String>,
}

impl Page {
    /// From `limit` and `cursor` of a query. Names sort bytewise, and so do pages: what is created or deleted
    /// while a reader turns pages never makes another item appear twice or not at all.
    pub fn from_query(query: &Query<'_>) -> Result<Self, Fault> {
        let mut parameters = Parameters::new(query.clone());
        let Section { limit, after } = Section::take(&mut parameters, CURSOR_BYTES_MAX)?;
        parameters.finish()?;
        Ok(Self::of(Section { limit, after }))
    }

    /// The part of a list by name that a section asks for.
    pub(super) fn of(section: Section) -> Self {
        // A cursor that names nothing still names a place between names.
        let after = section.after.map(|name| String::from_utf8_lossy(&name).into_owned());
        Self { limit: section.limit, after }
    }

    /// The items of this page out of names in order, and the cursor of the next page if there is one.
    #[must_use]
    pub fn cut<T>(&self, items: Vec<T>, name: impl Fn(&T) -> &str) -> (Vec<T>, Option<String>) {
        let is_after = |item: &T| self.after.as_deref().is_none_or(|after| name(item) > after);
        let mut page: Vec<T> = items.into_iter().filter(is_after).take(self.limit + 1).collect();
        if page.len() <= self.limit {
            return (page, None);
        }
        page.truncate(self.limit);
        let cursor = page.last().map(|item| encode_cursor(name(item)));
        (page, cursor)
    }
}

/// What part of a list is asked for whose items have no names to sort by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Most items.
    pub limit: usize,
    /// Only items after this place. The server wrote it, in a form that only the list knows; a client may have
    /// made one up all the same.
    pub after: Option<Vec<u8>>,
}

impl Section {
    /// From `limit` and `cursor` of a query that has nothing else.
    pub fn from_query(query: Query<'_>) -> Result<Self, Fault> {
        let mut parameters = Parameters::new(query);
        let section = Self::take(&mut parameters, 2 * PLACE_BYTES_MAX)?;
        parameters.finish()?;
        Ok(section)
    }

    /// Takes `limit` and `cursor` out of a query.
    pub(super) fn take(parameters: &mut Parameters<'_>, cursor_bytes_max: usize) -> Result<Self, Fault> {
        let limit = parameters.number("limit", 1, LIMIT_MAX as u64)?.unwrap_or(LIMIT_DEFAULT);
        let cursor = parameters.text("cursor", 2, cursor_bytes_max)?;
        let after = cursor.map(|cursor| decode_cursor(&cursor).ok_or_else(foreign_cursor)).transpose()?;
        Ok(Self { limit, after })
    }
}

/// The refusal of a cursor that this server cannot have given.
fn foreign_cursor() -> Fault {
    Fault::invalid("cursor: must be the cursor of the page before, unchanged")
}

/// The cursor of the page after the one that ends with `name`. Opaque to clients, so that its content can change.
#[must_use]
pub fn encode_cursor(name: &str) -> String {
    encode_place(name.as_bytes())
}

/// The cursor of the page after the one that ends at `place`. Opaque to clients, so that its content can change.
#[must_use]
pub fn encode_place(place: &[u8]) -> String {
    let mut cursor = String::with_capacity(place.len() * 2);
    for byte in place {
        // Writing into a string cannot fail.
        let _ = write!(cursor, "{byte:02x}");
    }
    cursor
}

fn decode_cursor(cursor: &str) -> Option<Vec<u8>> {
    let digits = cursor.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(raw: &str) -> Result<Page, Fault> {
        Page::from_query(&Query::parse(raw).unwrap())
    }

    #[test]
    fn turning_pages_shows_everything_once() {
        let names = || ["a", "b", "dé", "e", "f"].map(str::to_owned).to_vec();
        let (mut seen, mut query) = (Vec::new(), "limit=2".to_owned());
        loop {
            let (items, cursor) = page(&query).unwrap().cut(names(), |name| name);
            assert!(items.len() <= 2);
            seen.extend(items);
            let Some(cursor) = cursor else { break };
            query = format!("limit=2&cursor={cursor}");
        }
        assert_eq!(seen, names());
        let (items, cursor) = page("limit=5").unwrap().cut(names(), |name| name);
        assert_eq!((items.len(), cursor), (5, None));
    }

    #[test]
    fn limits_and_cursors_are_checked() {
        assert_eq!(page("").unwrap(), Page { limit: LIMIT_DEFAULT, after: None });
        let (limit, cursor) = (
            "limit: must be a whole number between 1 and 1000",
            "cursor: must be the cursor of the page before, unchanged",
        );
        for (raw, message) in [
            ("limit=0", limit),
            ("limit=-1", limit),
            ("limit=1001", limit),
            ("limit=x", limit),
            ("limit=", limit),
            ("cursor=6", "cursor: must have 2 to 510 bytes, has 1"),
            ("cursor=666", cursor),
            ("cursor=zz", cursor),
            ("cursor=AA", cursor),
            ("cursor=é", cursor),
            ("limit=1&limit=2", "limit: is given twice"),
            ("after=1", "after: unknown parameter, expected limit or cursor"),
        ] {
            assert_eq!(page(raw).unwrap_err().message, message, "{raw}");
        }
        assert_eq!(page("cursor=ff").unwrap().after.as_deref(), Some("\u{fffd}"));
    }

    #[test]
    fn places_come_back_as_they_were() {
        let section = |raw: &str| Section::from_query(Query::parse(raw).unwrap());
        assert_eq!(section("").unwrap(), Section { limit: LIMIT_DEFAULT, after: None });
        let place = vec![0xff; PLACE_BYTES_MAX];
        let raw = format!("limit=1&cursor={}", encode_place(&place));
        assert_eq!(section(&raw).unwrap(), Section { limit: 1, after: Some(place) });
        assert_eq!(section("cursor=0g").unwrap_err(), foreign_cursor());
        assert!(section("state=x").is_err() && section(&format!("{raw}00")).is_err());
    }
}
