//! `driftq reference`: what this binary knows about itself, as pages for the documentation.

mod api;
mod commands;
mod errors;
mod markdown;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::{
    Common,
    output::{self, Format},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Page {
    /// Every command and its options
    Cli,
    /// Every error of the server, and every exit code
    Errors,
    /// Every call of the native API
    Api,
}

#[derive(clap::Args)]
#[command(
    after_help = "Made from the same tables that the server and this command line work with, so it cannot be out of date. \
Prints Markdown, or with -o json the data: the commands, the catalogue of errors, the OpenAPI document.

Examples:
  driftq reference cli > cli.md
  driftq reference errors -o json | jq -r '.[] | select(.retryable) | .code'
  driftq reference api -o json > openapi.json"
)]
pub(crate) struct Args {
    /// The page
    page: Page,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<()> {
    match (args.page, common.output) {
        (Page::Cli, None | Some(Format::Table)) => output::write(&commands::page(&built())),
        (Page::Errors, None | Some(Format::Table)) => output::write(&errors::page()),
        (Page::Api, None | Some(Format::Table)) => output::write(&api::page(&openapi()?)),
        (Page::Cli, format) => output::print_many(format, &commands::list(&built()), String::new),
        (Page::Errors, format) => output::print_many(format, &errors::list(), String::new),
        // The document has one form, with its fields in the order that readers expect.
        (Page::Api, Some(Format::Json)) => output::write(&driftq_api::v2::openapi_json()),
        (Page::Api, format) => output::print_one(format, &openapi()?, String::new),
    }
}

/// The command line with everything that clap works out by itself.
fn built() -> clap::Command {
    let mut command = super::command();
    command.build();
    command
}

fn openapi() -> Result<serde_json::Value> {
    serde_json::from_str(&driftq_api::v2::openapi_json()).context("reading the OpenAPI document")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_every_code_and_every_call_has_its_place() {
        let page = commands::page(&built());
        for command in commands::list(&built()) {
            assert!(page.contains(&format!("## {}\n", command.name)), "{}", command.name);
        }
        assert!(page.contains("## driftq topic create\n") && !page.contains("driftq help"), "{page}");
        let page = errors::page();
        for code in driftq_api::Code::ALL {
            assert!(page.contains(&format!("| `{}` |", code.entry().code)), "{}", code.entry().code);
        }
        let document = openapi().unwrap();
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
        let page = api::page(&openapi().unwrap());
        let headings: Vec<String> =
            page.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_lowercase).collect();
        let links = page.split("](#").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        for link in links {
            assert!(headings.iter().any(|heading| heading == link), "{link}");
        }
    }
}
