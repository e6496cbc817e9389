//! Follows `mod` lines from the crate roots: a source file that none of them reaches is dead.
//!
//! The same walk learns which files exist for tests only, because the `#[cfg(test)]` stands at the `mod` line and
//! not in the file.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use super::{
    finding::Finding,
    mask::is_word,
    source::{Source, body_start, matching},
};

/// A file named by a `mod` line, under the names that Rust would accept for it.
struct Child {
    candidates: Vec<PathBuf>,
    is_test: bool,
}

/// Marks files that only tests reach, and reports files that nothing reaches.
pub(crate) fn check(sources: &mut [Source], extra_roots: &BTreeSet<PathBuf>) -> Vec<Finding> {
    let reached = reach(sources, extra_roots);
    let mut findings = Vec::new();
    for source in sources {
        match reached.get(&source.path) {
            Some(&only_tests) => source.is_test |= only_tests,
            None => {
                let message = "no `mod` line reaches this file: add one or delete the file";
                findings.push(Finding::error(&source.path, 1, "dead-file", message));
            }
        }
    }
    findings
}

/// Every reachable file, with whether tests alone reach it.
fn reach(sources: &[Source], extra_roots: &BTreeSet<PathBuf>) -> BTreeMap<PathBuf, bool> {
    let by_path: BTreeMap<&Path, &Source> =
        sources.iter().map(|source| (source.path.as_path(), source)).collect();
    let roots = by_path.keys().filter(|path| is_root(path) || extra_roots.contains(**path));
    let mut open: Vec<(PathBuf, bool)> = roots.map(|path| (path.to_path_buf(), false)).collect();
    let mut reached = BTreeMap::new();
    while let Some((path, only_tests)) = open.pop() {
        let improves = reached.get(&path).is_none_or(|&before| before && !only_tests);
        let Some(source) = by_path.get(path.as_path()).filter(|_| improves) else { continue };
        reached.insert(path.clone(), only_tests);
        let is_root = is_root(&path) || extra_roots.contains(&path);
        for child in children(source, is_root) {
            let found =
                child.candidates.into_iter().filter(|candidate| by_path.contains_key(candidate.as_path()));
            open.extend(found.map(|candidate| (candidate, only_tests || child.is_test)));
        }
    }
    reached
}

/// The files that cargo compiles by itself.
fn is_root(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    match parts.as_slice() {
        [.., "src", "lib.rs" | "main.rs"] | [.., "build.rs"] => true,
        [.., "src", "bin", _] | [.., "src", "bin", _, "main.rs"] => true,
        [.., "tests" | "benches" | "examples" | "fuzz_targets", _] => !parts.contains(&"src"),
        [.., "tests" | "benches" | "examples", _, "main.rs"] => !parts.contains(&"src"),
        _ => false,
    }
}

fn children(source: &Source, is_root: bool) -> Vec<Child> {
    let here = source.path.parent().unwrap_or_else(|| Path::new("")).to_owned();
    let is_folder_owner = is_root || source.path.file_name().is_some_and(|name| name == "mod.rs");
    let base = if is_folder_owner { here.clone() } else { source.path.with_extension("") };
    let mut found = Vec::new();
    collect(source, 0..source.code.len(), &here, &base, &mut found);
    for (offset, _) in source.code.match_indices("include!(") {
        if let Some(name) = literal_after(&source.text, offset) {
            found.push(Child { candidates: vec![normal(&here.join(name))], is_test: source.in_test(offset) });
        }
    }
    found
}

fn collect(source: &Source, range: std::ops::Range<usize>, here: &Path, base: &Path, found: &mut Vec<Child>) {
    let mut skip_until = range.start;
    let offsets: Vec<usize> = source.words("mod").filter(|offset| range.contains(offset)).collect();
    for offset in offsets {
        let rest = source.code[offset + 3..].trim_start();
        let length = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
        let name = &rest[..length];
        if offset < skip_until || name.is_empty() {
            continue;
        }
        if let Some(open) = body_start(&source.code, offset) {
            skip_until = matching(&source.code, open);
            collect(source, open..skip_until, &base.join(name), &base.join(name), found);
            continue;
        }
        let candidates = match path_attribute(source, offset) {
            Some(path) => vec![normal(&here.join(path))],
            None => vec![base.join(format!("{name}.rs")), base.join(name).join("mod.rs")],
        };
        found.push(Child { candidates, is_test: source.in_test(offset) });
    }
}

/// The value of a `#[path = "..."]` among the attributes above a `mod` line.
fn path_attribute(source: &Source, offset: usize) -> Option<String> {
    let start = source.code[..offset].rfind([';', '}', '{']).map_or(0, |found| found + 1);
    let found = source.code[start..offset].find("path =")?;
    literal_after(&source.text, start + found)
}

fn literal_after(text: &str, offset: usize) -> Option<String> {
    text[offset..].split('"').nth(1).map(str::to_owned)
}

fn normal(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.iter() {
        match part.to_str() {
            Some("..") => drop(clean.pop()),
            Some(".") => {}
            _ => clean.push(part),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::PathBuf};

    use super::{Source, check};

    fn dead(files: &[(&str, &str)]) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let mut sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(*path, *text)).collect();
        let findings = check(&mut sources, &BTreeSet::new());
        let tests = sources.into_iter().filter(|source| source.is_test).map(|source| source.path);
        (findings.into_iter().map(|finding| finding.path).collect(), tests.collect())
    }

    #[test]
    fn a_file_without_a_mod_line_is_dead() {
        let (dead, _) = dead(&[
            ("a/src/lib.rs", "mod b;\n// mod e;\nmod inline { mod f; }\n#[path = \"odd/name.rs\"]\nmod g;\n"),
            ("a/src/b.rs", "mod c;\n"),
            ("a/src/b/c.rs", ""),
            ("a/src/inline/f.rs", ""),
            ("a/src/odd/name.rs", ""),
            ("a/src/e.rs", ""),
            ("a/src/c.rs", ""),
            ("a/src/bin/tool.rs", ""),
            ("a/tests/t.rs", "mod common;\n"),
            ("a/tests/common/mod.rs", "mod deep;\n"),
            ("a/tests/common/deep.rs", ""),
            ("a/tests/common/lost.rs", ""),
        ]);
        assert_eq!(dead, ["a/src/e.rs", "a/src/c.rs", "a/tests/common/lost.rs"].map(PathBuf::from));
    }

    #[test]
    fn files_behind_cfg_test_are_test_code() {
        let (dead, tests) = dead(&[
            ("a/src/main.rs", "mod b;\n#[cfg(test)]\nmod c;\n"),
            ("a/src/b.rs", ""),
            ("a/src/c.rs", "mod d;\n"),
            ("a/src/c/d.rs", ""),
        ]);
        assert!(dead.is_empty(), "{dead:?}");
        assert_eq!(tests, ["a/src/c.rs", "a/src/c/d.rs"].map(PathBuf::from));
    }
}
