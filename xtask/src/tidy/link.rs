//! Relative links in Markdown files lead somewhere: the file exists, and so does the heading.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use super::finding::Finding;

/// `path` is relative to `root`, which is where the linked files are looked for.
pub(crate) fn check(root: &Path, path: &Path, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in links(text) {
        let is_external = target.contains("://") || target.starts_with("mailto:");
        if is_external {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let destination = if file.is_empty() { path.to_owned() } else { resolve(path, file) };
        let mut error = |message: String| findings.push(Finding::error(path, line, "link", message));
        if !root.join(&destination).exists() {
            error(format!("`{target}` leads to {}, which is not there", destination.display()));
        } else if !anchor.is_empty() && !has_heading(root, path, text, &destination, anchor) {
            error(format!("`{target}`: {} has no heading for #{anchor}", destination.display()));
        }
    }
    findings
}

fn has_heading(root: &Path, path: &Path, text: &str, destination: &Path, anchor: &str) -> bool {
    if destination.extension().is_none_or(|extension| extension != "md") {
        return true;
    }
    let other = if destination == path { text.to_owned() } else { read(&root.join(destination)) };
    prose(&other).any(|(_, line)| line.starts_with('#') && slug(line) == anchor)
}

/// An unreadable file has no headings; that it exists was checked before.
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The anchor that renderers give to a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let letters = text.chars().filter(|letter| letter.is_alphanumeric() || "-_ ".contains(*letter));
    letters.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn resolve(path: &Path, link: &str) -> PathBuf {
    let start =
        if link.starts_with('/') { Path::new("") } else { path.parent().unwrap_or_else(|| Path::new("")) };
    let mut resolved = PathBuf::new();
    for part in start.join(link.trim_start_matches('/')).components() {
        match part {
            Component::ParentDir if resolved.pop() => {}
            other => resolved.push(other),
        }
    }
    resolved
}

/// `[text](target)` and `[name]: target`, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        for (offset, _) in line.match_indices("](") {
            let rest = &line[offset + 2..];
            let target = rest[..rest.find(')').unwrap_or(rest.len())].split_whitespace().next();
            found.extend(target.map(|target| (number, target.trim_matches(['<', '>']).to_owned())));
        }
        let definition = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        let target = definition.and_then(|(_, target)| target.split_whitespace().next());
        found.extend(target.map(|target| (number, target.to_owned())));
    }
    found
}

/// Lines outside fenced code blocks, with their 1-based number.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_fence = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_fence ^= is_fence;
        (!in_fence && !is_fence).then_some((index + 1, line))
    })
}

/// Drops `inline code`, where brackets mean something else.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::check;

    #[test]
    fn links_to_missing_files_and_headings_fail() {
        let root = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(root.path().join("docs")).expect("an empty folder takes a folder");
        fs::write(root.path().join("docs/a.md"), "# One\n## Two words, here\n")
            .expect("a folder takes a file");
        let cases = [
            ("[x](a.md)", 0),
            ("[x](../docs/a.md#two-words-here)", 0),
            ("[x](a.md#three)", 1),
            ("[x](b.md)", 1),
            ("[x](../a.md \"title\")", 1),
            ("[x]: b.md", 1),
            ("[x](#here)\n# Here", 0),
            ("[x](#there)\n# Here", 1),
            ("[x](https://example.org/b.md)", 0),
            ("`[x](b.md)`", 0),
            ("```\n[x](b.md)\n```", 0),
        ];
        for (text, expected) in cases {
            fs::write(root.path().join("docs/page.md"), text).expect("a folder takes a file");
            let findings = check(root.path(), Path::new("docs/page.md"), text);
            assert_eq!(findings.len(), expected, "for {text:?}: {findings:?}");
        }
    }
}
