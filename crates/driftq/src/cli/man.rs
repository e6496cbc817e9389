//! `driftq man`: pages for `man`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap_mangen::Man;
use serde::Serialize;

use super::{
    Common,
    exit::{Exit, Fault},
    output, suggest,
};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  driftq man --dir ~/.local/share/man/man1    # one page per command; then `man driftq-topic-create`
  driftq man topic create | man -l -          # one page, without a file")]
pub(crate) struct Args {
    /// Print the page of this command; of `driftq` itself if none is named
    #[arg(conflicts_with = "dir")]
    command: Vec<String>,
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// What was written.
#[derive(Serialize)]
struct Written {
    directory: String,
    pages: Vec<String>,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<()> {
    let pages = pages()?;
    let Some(directory) = &args.dir else {
        let wanted =
            std::iter::once("driftq").chain(args.command.iter().map(String::as_str)).collect::<Vec<_>>();
        let wanted = wanted.join("-");
        let page = pages.iter().find(|page| page.name == wanted).ok_or_else(|| unknown(&wanted, &pages))?;
        return output::write(&page.text);
    };
    let refused = |path: &std::path::Path| format!("writing {}", path.display());
    std::fs::create_dir_all(directory).with_context(|| refused(directory))?;
    let mut written = Written { directory: directory.display().to_string(), pages: Vec::new() };
    for page in &pages {
        let file = format!("{}.1", page.name);
        let path = directory.join(&file);
        std::fs::write(&path, &page.text).with_context(|| refused(&path))?;
        written.pages.push(file);
    }
    output::print_one(common.output, &written, || {
        let first = directory.join("driftq.1");
        format!(
            "{} pages are in {}; try `man -l {}`\n",
            written.pages.len(),
            written.directory,
            first.display()
        )
    })
}

fn unknown(wanted: &str, pages: &[Page]) -> Fault {
    let words = |name: &str| name.replacen('-', " ", 2);
    let fault = Fault::new(Exit::Usage, format!("there is no command `{}`", words(wanted)));
    match suggest::nearest(wanted, pages.iter().map(|page| &*page.name)) {
        Some(near) => fault.help(format!("did you mean `{}`?", words(near))),
        None => fault.help("`driftq --help` lists them"),
    }
}

/// The page of one command.
struct Page {
    /// `driftq-topic-create`.
    name: String,
    text: String,
}

fn pages() -> Result<Vec<Page>> {
    let mut root = super::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    collect(&root, "driftq", &mut pages)?;
    Ok(pages)
}

fn collect(command: &clap::Command, name: &str, pages: &mut Vec<Page>) -> Result<()> {
    let mut bytes = Vec::new();
    let source = format!("driftq {}", crate::http::VERSION);
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
    fn examples_keep_their_lines() {
        let page = ".SH NAME\n  x\n.SH EXTRA\nWords…\n  driftq a\n  driftq b\nMore.\n  c\n.SH VERSION\n1\n";
        let expected = ".SH NAME\n  x\n.SH NOTES\nWords\\[u2026]\n.nf\n  driftq a\n  driftq b\n.fi\nMore.\n.nf\n  c\n\
                        .fi\n.SH VERSION\n1\n";
        assert_eq!(finished(page), expected);
    }
}
