//! Pages of lists: a limit, and a cursor that says where the page before ended.

use std::fmt::Write as _;

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
    /// while somebody turns pages never makes another item appear twice or not at all.
    pub fn from_query(query: &Query<'_>) -> Result<Self, Fault> {
        let limit = match query.integer("limit")? {
            None => LIMIT_DEFAULT,
            Some(limit) => usize::try_from(limit)
                .ok()
                .filter(|limit| (1..=LIMIT_MAX).contains(limit))
                .ok_or_else(|| Fault::invalid(format!("limit must be between 1 and {LIMIT_MAX}")))?,
        };
        let after = match query.get("cursor") {
            None => None,
            Some(cursor) => Some(decode_cursor(cursor).ok_or_else(|| {
                Fault::invalid("invalid cursor: pass back the cursor of the page before, unchanged")
            })?),
        };
        Ok(Self { limit, after })
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

/// The cursor of the page after the one that ends with `name`. Opaque to clients, so that its content can change.
#[must_use]
pub fn encode_cursor(name: &str) -> String {
    let mut cursor = String::with_capacity(name.len() * 2);
    for byte in name.bytes() {
        // Writing into a string cannot fail.
        let _ = write!(cursor, "{byte:02x}");
    }
    cursor
}

fn decode_cursor(cursor: &str) -> Option<String> {
    let digits = cursor.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let byte =
        |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    String::from_utf8(bytes?).ok()
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
        for raw in
            ["limit=0", "limit=-1", "limit=1001", "limit=x", "cursor=6", "cursor=zz", "cursor=ff", "cursor=é"]
        {
            assert!(page(raw).is_err(), "{raw}");
        }
    }
}
