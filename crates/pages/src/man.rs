//! Pages for `man`, one for each command.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use clap_mangen::Man;

pub(crate) fn write(directory: &Path) -> Result<()> {
    let refused = |path: &Path| format!("writing {}", path.display());
    fs::create_dir_all(directory).with_context(|| refused(directory))?;
    let pages = pages()?;
    for page in &pages {
        let path = directory.join(format!("{}.1", page.name));
        fs::write(&path, &page.text).with_context(|| refused(&path))?;
    }
    let first = directory.join("driftq.1");
    println!("{} pages are in {}; try `man -l {}`", pages.len(), directory.display(), first.display());
    Ok(())
}

/// The page of one command.
struct Page {
    /// `driftq-topic-create`.
    name: String,
    text: String,
}

fn pages() -> Result<Vec<Page>> {
    let mut root = driftq::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    collect(&root, "driftq", &mut pages)?;
    Ok(pages)
}

fn collect(command: &clap::Command, name: &str, pages: &mut Vec<Page>) -> Result<()> {
    let mut bytes = Vec::new();
    let source = format!("driftq {}", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).title(name.to_owned()).manual("DriftQ").source(source).render(&mut bytes)?;
    pages.push(Page { name: name.to_owned(), text: finished(&String::from_utf8(bytes)?) });
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        collect(inner, &format!("{name}-{}", inner.get_name()), pages)?;
    }
    Ok(())
}

/// The page with its notes as they were written: indented lines are examples and tables, which are not to be filled,
/// and letters beyond ASCII have names that every troff knows.
fn finished(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let (mut in_notes, mut in_block) = (false, false);
    for line in page.lines() {
        if line.starts_with(".SH") {
            in_notes = line == ".SH EXTRA";
        }
        let is_block = in_notes && line.starts_with("  ");
        if is_block != in_block {
            text.push_str(if is_block { ".nf\n" } else { ".fi\n" });
            in_block = is_block;
        }
        let line = if line == ".SH EXTRA" { ".SH NOTES" } else { line };
        // Many alternatives are longer than a line, and have no blank to break it at.
        let line = line.replace(r"\fR|\fB", r"\fR|\:\fB");
        for letter in line.chars() {
            match letter {
                _ if letter.is_ascii() => text.push(letter),
                _ => text.push_str(&format!("\\[u{:04X}]", u32::from(letter))),
            }
        }
        text.push('\n');
    }
    text + if in_block { ".fi\n" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_that_renders() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path()).unwrap();
        let files: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let commands = crate::commands::list(&crate::command());
        assert!(files.len() == commands.len() && files.len() > 60, "{} of {}", files.len(), commands.len());
        for command in &commands {
            let path = directory.path().join(format!("{}.1", command.name.replace(' ', "-")));
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{}", path.display());
        }
        let Ok(output) =
            std::process::Command::new("groff").args(["-man", "-Tutf8", "-ww"]).args(&files).output()
        else {
            eprintln!("skipped: there is no groff to render with");
            return;
        };
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && complaints.is_empty(), "{complaints}");
    }

    #[test]
    fn examples_keep_their_lines() {
        let page = ".SH NAME\n  x\n.SH EXTRA\nWords…\n  driftq a\n  driftq b\nMore.\n  c\n.SH VERSION\n1\n";
        let expected = ".SH NAME\n  x\n.SH NOTES\nWords\\[u2026]\n.nf\n  driftq a\n  driftq b\n.fi\nMore.\n.nf\n  c\n\
                        .fi\n.SH VERSION\n1\n";
        assert_eq!(finished(page), expected);
    }
}
