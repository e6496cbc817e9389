//! The rooms of the core are layers: a file imports from its own room and from those below, never from above.

use std::path::Path;

use super::{finding::Finding, source::Source};

const CORE: &str = "crates/core/src";

/// From the bottom to the top. The folder alone says how high a file lies. The lowest one is no folder:
/// it is the crate of the rules.
const ROOMS: [&str; 18] = [
    "ledger",
    "words",
    "log",
    "state",
    "turn",
    "audit",
    "definition",
    "key",
    "entity",
    "output",
    "run",
    "delivery",
    "outbox",
    "effect",
    "commit",
    "view",
    "orders",
    "shard",
];

fn height(room: &str) -> Option<usize> {
    ROOMS.iter().position(|known| *known == room)
}

fn height_of_file(path: &Path) -> Option<usize> {
    let inside = path.strip_prefix(CORE).ok()?.with_extension("");
    height(inside.iter().next()?.to_str()?)
}

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let Some(own) = height_of_file(&source.path) else { return Vec::new() };
    let mut findings = Vec::new();
    for offset in source.words("crate::").filter(|offset| !source.in_test(*offset)) {
        let path = &source.code[offset + "crate::".len()..];
        let end = path.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(path.len());
        let room = &path[..end];
        let message = match height(room) {
            Some(above) if above > own => {
                format!("`{room}` lies above this file: move what is needed down, or this file up")
            }
            Some(_) => continue,
            None => "name the room after `crate::`, so that it can be seen how high it lies".to_owned(),
        };
        findings.push(Finding::error(&source.path, source.line(offset), "room", message));
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
    fn words_know_nothing_of_the_state() {
        assert_eq!(errors("words/effect.rs", "use crate::state::effect::record::Effect;\n"), 1);
        assert_eq!(errors("state/effect/record.rs", "use crate::words::effect::EffectReceipt;\n"), 0);
    }

    #[test]
    fn the_folder_alone_says_how_high_a_file_lies() {
        assert_eq!(errors("words/input.rs", "use crate::effect::words::BeginEffect;\n"), 1);
        assert_eq!(errors("effect/fact.rs", "use crate::effect::record::Effect;\n"), 0);
        assert_eq!(errors("log/effect.rs", "use crate::state::effect::record::Effect;\n"), 1);
        assert_eq!(errors("words/effect.rs", "use crate::ledger::Status;\n"), 0);
    }

    #[test]
    fn the_root_is_no_way_around() {
        assert_eq!(errors("words/effect.rs", "use crate::State;\n"), 1);
        assert_eq!(errors("words/effect.rs", "use crate::{state::State, words::id::Time};\n"), 1);
        assert_eq!(errors("words/effect.rs", "/// See [`crate::State`].\n"), 0);
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
