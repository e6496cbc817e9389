//! Writes the pages of the documentation that are made from tables: the reference of commands, errors and calls, the
//! OpenAPI document, and man pages. `cargo xtask docs` calls it.

mod api;
mod commands;
mod errors;
mod man;
mod markdown;
mod metrics;

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail};
use clap::Parser;
use serde::Serialize;

/// Writes the pages of the documentation that are made from tables
#[derive(Parser)]
#[command(name = "driftq-pages")]
struct Args {
    /// The repository whose pages are written
    #[arg(long, default_value = ".", value_name = "DIR")]
    root: PathBuf,
    /// Write nothing; fail if a page is not what the tables say
    #[arg(long)]
    check: bool,
    /// Write man pages into this directory instead, one for each command
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    man: Option<PathBuf>,
}

/// A page, and where it lies in the repository.
struct Page {
    path: &'static str,
    text: String,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(directory) = args.man {
        return man::write(&directory);
    }
    let mut stale = Vec::new();
    for page in pages()? {
        let path = args.root.join(page.path);
        let committed = fs::read_to_string(&path).unwrap_or_default();
        if committed == page.text {
            continue;
        }
        if args.check {
            let first = page.text.lines().zip(committed.lines()).position(|(new, old)| new != old);
            stale.push(format!("{} from line {}", page.path, first.map_or(1, |line| line + 1)));
            continue;
        }
        fs::write(&path, &page.text).with_context(|| format!("writing {}", path.display()))?;
        println!("{} is new", page.path);
    }
    if !stale.is_empty() {
        bail!("not what the tables say: {}; write them anew with `cargo xtask docs`", stale.join(", "));
    }
    Ok(())
}

/// Every page.
fn pages() -> Result<Vec<Page>> {
    let openapi = driftq_api::v2::openapi_json();
    let document = serde_json::from_str(&openapi).context("reading the OpenAPI document")?;
    Ok(vec![
        Page { path: "docs/reference/cli.md", text: commands::page(&command()) },
        Page { path: "docs/reference/errors.md", text: errors::page() },
        Page { path: "docs/reference/api.md", text: api::page(&document) },
        Page { path: "docs/reference/metrics.md", text: metrics::page(&driftq::metric_families()) },
        Page { path: "docs/errors.json", text: json(&errors::list())? },
        Page { path: "docs/openapi.json", text: openapi },
    ])
}

/// The command line with everything that clap works out by itself.
fn command() -> clap::Command {
    let mut command = driftq::command();
    command.build();
    command
}

fn json(data: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(data)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_pages_are_what_the_tables_say() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for page in pages().unwrap() {
            let committed = fs::read_to_string(root.join(page.path)).unwrap_or_default();
            assert!(page.text == committed, "{} is stale: `cargo xtask docs` writes it", page.path);
        }
    }

    #[test]
    fn every_command_and_every_code_and_every_call_has_its_place() {
        let page = commands::page(&command());
        for command in commands::list(&command()) {
            assert!(page.contains(&format!("## {}\n", command.name)), "{}", command.name);
        }
        assert!(page.contains("## driftq topic create\n") && !page.contains("driftq help"), "{page}");
        let page = errors::page();
        for code in driftq_api::Code::ALL {
            assert!(page.contains(&format!("| `{}` |", code.entry().code)), "{}", code.entry().code);
        }
        let document: serde_json::Value = serde_json::from_str(&driftq_api::v2::openapi_json()).unwrap();
        let page = api::page(&document);
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys() {
                let heading = format!("### {} {path}\n", method.to_uppercase());
                assert!(page.contains(&heading), "{heading}");
            }
        }
        for name in document["components"]["schemas"].as_object().unwrap().keys() {
            assert!(page.contains(&format!("### {name}\n")), "{name}");
        }
    }

    /// A link that leads nowhere is worse than none.
    #[test]
    fn links_within_the_page_lead_to_headings() {
        let document = serde_json::from_str(&driftq_api::v2::openapi_json()).unwrap();
        let page = api::page(&document);
        let headings: Vec<String> =
            page.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_lowercase).collect();
        let links = page.split("](#").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        for link in links {
            assert!(headings.iter().any(|heading| heading == link), "{link}");
        }
    }
}
