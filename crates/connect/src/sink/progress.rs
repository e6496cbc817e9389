//! Which messages have become rows: ranges of offsets, kept beside the rows and committed with them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::message::{Message, Place};

/// Offsets of one topic, in order, each once.
pub(super) type Offsets = Vec<i64>;

/// Ranges of offsets, in order: the first, and the one after the last.
pub(super) type Ranges = Vec<(i64, i64)>;

/// The offsets of messages, by the topics in which they were born: in the order in which these are locked.
pub(super) fn by_place<'a>(messages: impl IntoIterator<Item = &'a Message>) -> BTreeMap<Place, Offsets> {
    let mut places: BTreeMap<Place, Offsets> = BTreeMap::new();
    for message in messages {
        match places.get_mut(&message.place) {
            Some(offsets) => offsets.push(message.offset),
            None => drop(places.insert(Place::clone(&message.place), vec![message.offset])),
        }
    }
    for offsets in places.values_mut() {
        offsets.sort_unstable();
        offsets.dedup();
    }
    places
}

/// Offsets as PostgreSQL writes an `int8multirange`. Those that follow each other are one range.
pub(super) fn multirange(offsets: &[i64]) -> String {
    let mut text = String::from("{");
    let mut run: Option<(i64, i64)> = None;
    let mut close = |(first, last): (i64, i64)| {
        if text.len() > 1 {
            text.push(',');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "[{first},{last}]");
    };
    for offset in offsets {
        match &mut run {
            Some((_, last)) if last.checked_add(1) == Some(*offset) => *last = *offset,
            _ => {
                if let Some(run) = run.replace((*offset, *offset)) {
                    close(run);
                }
            }
        }
    }
    if let Some(run) = run {
        close(run);
    }
    text.push('}');
    text
}

/// Ranges as PostgreSQL writes them: the first offset, and the one after the last. None if it is written otherwise.
pub(super) fn ranges(text: &str) -> Option<Ranges> {
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    if inside.is_empty() {
        return Some(Vec::new());
    }
    inside
        .strip_prefix('[')?
        .strip_suffix(')')?
        .split("),[")
        .map(|range| {
            let (first, end) = range.split_once(',')?;
            Some((first.parse().ok()?, end.parse().ok()?))
        })
        .collect()
}

/// Whether an offset is in one of the ranges, which are in order.
pub(super) fn contains(ranges: &[(i64, i64)], offset: i64) -> bool {
    let place = ranges.partition_point(|(_, end)| *end <= offset);
    ranges.get(place).is_some_and(|(first, _)| *first <= offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_become_as_few_ranges_as_there_are_gaps() {
        for (offsets, text) in [
            (vec![], "{}"),
            (vec![7], "{[7,7]}"),
            (vec![1, 2, 3], "{[1,3]}"),
            (vec![0, 1, 5, 7, 8, 9], "{[0,1],[5,5],[7,9]}"),
        ] {
            assert_eq!(multirange(&offsets), text);
        }
    }

    #[test]
    fn ranges_are_read_as_they_are_written() {
        assert_eq!(ranges("{}"), Some(vec![]));
        let found = ranges("{[1,4),[7,8)}").unwrap();
        assert_eq!(found, [(1, 4), (7, 8)]);
        let inside: Vec<i64> = (-1..10).filter(|offset| contains(&found, *offset)).collect();
        assert_eq!(inside, [1, 2, 3, 7]);
        for text in ["", "{", "{[1,)}", "{(,3)}", "[1,2)"] {
            assert_eq!(ranges(text), None, "{text}");
        }
    }
}
