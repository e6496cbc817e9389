//! The rooms of the core are layers: a file imports from its own room and from those below, never from above.

use std::path::Path;

use super::{finding::Finding, source::Source};

const CORE: &str = "crates/core/src";

/// From the bottom to the top.
const ROOMS: [&str; 13] = [
    "words", "log", "state", "turn", "entity", "output", "run", "delivery", "effect", "commit", "view",
    "orders", "shard",
];

/// Files of a capability's room that lie lower than the room itself: what is said of it, what it writes, what it keeps.
const LOWER: [(&str, &str); 8] = [
    ("words", "words"),
    ("rules", "words"),
    ("blob", "words"),
    ("fact", "log"),
    ("record", "state"),
    ("packed", "state"),
    ("fold", "state"),
    ("snapshot", "state"),
];
const CAPABILITIES: [&str; 5] = ["entity", "output", "run", "effect", "commit"];

/// How high a module lies, by the first two parts of its path.
fn height(room: &str, file: Option<&str>) -> Option<usize> {
    let lower = LOWER.iter().find(|(name, _)| CAPABILITIES.contains(&room) && Some(*name) == file);
    let room = lower.map_or(room, |(_, room)| room);
    ROOMS.iter().position(|known| *known == room)
}

fn height_of_file(path: &Path) -> Option<usize> {
    let inside = path.strip_prefix(CORE).ok()?.with_extension("");
    let mut parts = inside.iter().filter_map(|part| part.to_str());
    height(parts.next()?, parts.next())
}

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let Some(own) = height_of_file(&source.path) else { return Vec::new() };
    let mut findings = Vec::new();
    for offset in source.words("crate::").filter(|offset| !source.in_test(*offset)) {
        let path = &source.code[offset + "crate::".len()..];
        let end =
            path.find(|c: char| !(c.is_ascii_lowercase() || c == '_' || c == ':')).unwrap_or(path.len());
        let mut parts = path[..end].split("::").filter(|part| !part.is_empty());
        let Some(room) = parts.next() else { continue };
        if height(room, parts.next()).is_some_and(|above| above > own) {
            let message = format!("`{room}` lies above this file: move what is needed down, or this file up");
            findings.push(Finding::error(&source.path, source.line(offset), "room", message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(file: &str, text: &str) -> usize {
        check(&Source::new(format!("{CORE}/{file}"), text)).len()
    }

    #[test]
    fn imports_go_down() {
        assert_eq!(errors("delivery/settle.rs", "use crate::state::group::Group;\n"), 0);
        assert_eq!(errors("state/group.rs", "use crate::delivery::retry::wait_ms;\n"), 1);
        assert_eq!(errors("delivery/settle.rs", "use crate::effect::desk::EffectDesk;\n"), 1);
        assert_eq!(errors("words/input.rs", "use crate::shard::Shard;\n"), 1);
    }

    #[test]
    fn the_words_of_a_capability_are_words() {
        assert_eq!(errors("words/input.rs", "use crate::effect::words::BeginEffect;\n"), 0);
        assert_eq!(errors("words/input.rs", "use crate::effect::begin::Tie;\n"), 1);
        assert_eq!(errors("log/fact.rs", "use crate::commit::fact::CommitFact;\n"), 0);
        assert_eq!(errors("effect/fact.rs", "use crate::effect::record::Effect;\n"), 1);
    }

    #[test]
    fn tests_and_other_crates_are_free() {
        assert_eq!(
            errors("state/group.rs", "#[cfg(test)]\nmod tests {\n    use crate::shard::Shard;\n}\n"),
            0
        );
        assert!(check(&Source::new("crates/wal/src/words/a.rs", "use crate::shard::X;\n")).is_empty());
    }
}
