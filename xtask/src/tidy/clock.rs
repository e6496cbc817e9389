//! Clocks, sleeps and randomness stay out of the crates that must replay from a seed.

use super::{finding::Finding, source::Source};

const PURE_FOLDERS: [&str; 4] = ["crates/core/src", "crates/rules/src", "crates/sim/src", "crates/wal/src"];

const NAMES: [&str; 7] =
    ["Instant::now", "SystemTime", "thread::sleep", "rand::", "thread_rng", "getrandom", "fastrand"];

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    if !PURE_FOLDERS.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let report = |(name, offset)| {
        let message = format!(
            "`{name}` in a crate that must replay from a seed: take time and randomness as arguments"
        );
        Finding::error(&source.path, source.line(offset), "clock", message)
    };
    NAMES.iter().flat_map(|name| source.words(name).map(move |offset| (name, offset))).map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::{NAMES, Source, check};

    #[test]
    fn each_name_fails_in_pure_crates_only() {
        for name in NAMES {
            let text = format!("//! x\nfn a() {{ {name}(); }}\n");
            for folder in ["core", "rules", "sim", "wal"] {
                let findings = check(&Source::new(format!("crates/{folder}/src/a.rs"), text.clone()));
                assert_eq!(findings.len(), 1, "{name} in {folder}");
                assert_eq!(findings[0].line, 2);
            }
            assert!(check(&Source::new("crates/engine/src/a.rs", text)).is_empty());
        }
    }

    #[test]
    fn prose_about_clocks_is_welcome() {
        assert!(check(&Source::new("crates/core/src/a.rs", "// never call Instant::now here\n")).is_empty());
    }
}
