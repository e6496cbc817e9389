//! The house rules that the compiler does not know: `cargo xtask tidy`.
//!
//! Each rule is a small file with a `check` function and a test that shows it failing on a bad sample. To add one,
//! write such a file and call it from [`check_sources`] or [`run`].

mod arrow;
mod attribute;
mod clock;
mod finding;
mod function;
mod header;
mod leftover;
mod link;
mod mask;
mod module;
mod room;
mod size;
mod source;
mod text;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use finding::Finding;
use source::Source;

/// Folders that hold nothing of ours, or what a fuzzer begins from, which has no style.
const SKIPPED_FOLDERS: [&str; 9] = [
    "target",
    ".git",
    "node_modules",
    "dist",
    "__pycache__",
    ".pytest_cache",
    ".venv",
    "driftq-data",
    "corpus",
];

/// Files whose text comes from other authors.
const SKIPPED_FILES: [&str; 2] = ["Cargo.lock", "LICENSE"];

/// Applies every rule to the workspace at `root`; prints the findings and fails when one is an error.
pub(crate) fn run(root: &Path) -> Result<()> {
    let findings = check(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    let warnings = findings.iter().filter(|finding| finding.is_warning).count();
    let errors = findings.len() - warnings;
    println!("tidy: {errors} errors, {warnings} warnings");
    if errors > 0 {
        bail!("tidy found {errors} errors; each line above says where and what to do");
    }
    Ok(())
}

fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut paths = Vec::new();
    walk(root, Path::new(""), &mut paths)?;
    let (mut sources, mut findings, mut extra_roots) = (Vec::new(), Vec::new(), BTreeSet::new());
    for path in paths {
        let bytes = fs::read(root.join(&path)).with_context(|| format!("reading {}", path.display()))?;
        // Golden files and images are not text and have no house style.
        let Some(text) = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')) else { continue };
        findings.extend(text::check(&path, &text));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => sources.push(Source::new(path, text)),
            Some("md") => findings.extend(link::check(root, &path, &text)),
            Some("toml") if is_member_manifest(&path) => {
                findings.extend(arrow::check_manifest(&path, &text)?);
                extra_roots.extend(declared_targets(&path, &text));
            }
            _ => {}
        }
    }
    findings.extend(module::check(&mut sources, &extra_roots));
    findings.extend(check_sources(&sources));
    findings.sort();
    Ok(findings)
}

fn check_sources(sources: &[Source]) -> Vec<Finding> {
    let rules = [
        arrow::check_pure,
        attribute::check,
        clock::check,
        function::check,
        header::check,
        leftover::check,
        room::check,
        size::check,
    ];
    sources.iter().flat_map(|source| rules.iter().flat_map(move |rule| rule(source))).collect()
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(root.join(folder)).with_context(|| format!("listing {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("listing {}", folder.display()))?;
        let name = entry.file_name();
        let path = folder.join(&name);
        let kind = entry.file_type().with_context(|| format!("looking at {}", path.display()))?;
        if kind.is_dir() && !SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped) {
            walk(root, &path, found)?;
        } else if kind.is_file() && !SKIPPED_FILES.iter().any(|skipped| name == *skipped) {
            found.push(path);
        }
    }
    Ok(())
}

/// The workspace's own Cargo.toml has no package and therefore no arrows.
fn is_member_manifest(path: &Path) -> bool {
    path.ends_with("Cargo.toml") && path != Path::new("Cargo.toml")
}

/// Roots that a manifest names by `path = "..."` in `[lib]`, `[[bin]]`, `[[test]]` and so on.
fn declared_targets(manifest: &Path, text: &str) -> Vec<PathBuf> {
    let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
    let folder = manifest.parent().unwrap_or_else(|| Path::new(""));
    let kinds = ["lib", "bin", "test", "bench", "example"].into_iter().filter_map(|kind| table.get(kind));
    let targets = kinds.flat_map(|value| value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]));
    let paths = targets.filter_map(|target| Some(folder.join(target.get("path")?.as_str()?)));
    paths.collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{check, run};

    fn workspace(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("the folder is new");
            fs::write(path, text).expect("the folder takes a file");
        }
        root
    }

    #[test]
    fn a_clean_workspace_passes_and_skips_what_is_not_ours() {
        let root = workspace(&[
            ("Cargo.toml", "[workspace]\n"),
            ("crates/core/Cargo.toml", "[package]\nname = \"driftq-core\"\n[lib]\npath = \"src/odd.rs\"\n"),
            ("crates/core/src/odd.rs", "//! Why.\n"),
            ("target/debug/x.rs", "dbg!() \n"),
            ("golden.bin", "\0 \n"),
        ]);
        assert_eq!(check(root.path()).expect("it can be read"), []);
        assert!(run(root.path()).is_ok());
    }

    #[test]
    fn every_kind_of_file_is_looked_at() {
        let root = workspace(&[
            ("crates/wal/Cargo.toml", "[package]\nname = \"driftq-wal\"\n[dependencies]\ntokio = \"1\"\n"),
            ("crates/wal/src/lib.rs", "fn a() { SystemTime; b().unwrap() }\n"),
            ("crates/wal/src/dead.rs", "//! Why.\n"),
            ("README.md", "[x](gone.md) \n"),
        ]);
        let findings = check(root.path()).expect("it can be read");
        let mut rules: Vec<_> = findings.iter().map(|finding| finding.rule).collect();
        rules.sort_unstable();
        assert_eq!(rules, ["arrow", "clock", "dead-file", "header", "leftover", "link", "whitespace"]);
        assert!(run(root.path()).is_err());
        assert!(findings.iter().any(|finding| finding.path == Path::new("README.md")));
    }
}
