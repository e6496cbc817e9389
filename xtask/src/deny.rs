//! Licences, banned crates and sources: `cargo xtask deny`.
//!
//! cargo-deny does this best and is used when it is installed. Building it takes minutes, which is too long for
//! every run of the tests on a fresh machine, so the same lists of deny.toml are otherwise applied here to what
//! `cargo metadata` says. Left to cargo-deny: licence texts, duplicate versions, and rules that deny.toml does not use.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use toml::Table;

use crate::{command, spdx};

/// How the lock file spells the end of the default registry's address.
const DEFAULT_REGISTRY: &str = "/crates.io-index";

pub(crate) fn run(root: &Path) -> Result<()> {
    if command::has_cargo_tool(root, "deny") {
        println!("cargo-deny is installed and does the check");
        return command::expect_success(&mut command::cargo_deny(root));
    }
    println!("cargo-deny is not installed: xtask applies the lists of deny.toml itself");
    let text = fs::read_to_string(root.join("deny.toml")).context("reading deny.toml")?;
    let lists = Lists::parse(&text)?;
    let mut arguments = vec!["--all-features"];
    for target in &lists.targets {
        arguments.extend(["--filter-platform", target]);
    }
    let metadata = command::metadata(root, &arguments)?;
    let (count, complaints) = check(&metadata, &lists)?;
    for complaint in &complaints {
        println!("{complaint}");
    }
    if !complaints.is_empty() {
        bail!("{} of {count} crates do not pass deny.toml", complaints.len());
    }
    println!("{count} crates: licences, bans and sources are fine");
    Ok(())
}

struct Lists {
    targets: Vec<String>,
    licences: Vec<String>,
    /// Crate name and the licences that it alone may have on top.
    exceptions: Vec<(String, Vec<String>)>,
    /// Crate name and why it is banned.
    banned: Vec<(String, String)>,
}

impl Lists {
    fn parse(text: &str) -> Result<Self> {
        let table: Table = text.parse().context("deny.toml is not valid TOML")?;
        let entry =
            |section: &str, key: &str| table.get(section).and_then(|section| section.get(key)).cloned();
        let tables = |section: &str, key: &str| {
            let array = entry(section, key).and_then(|value| value.as_array().cloned()).unwrap_or_default();
            array.into_iter().filter_map(|value| value.as_table().cloned()).collect::<Vec<_>>()
        };
        let licences = strings(entry("licenses", "allow").as_ref());
        if licences.is_empty() {
            bail!("deny.toml allows no licence; [licenses] allow must list some");
        }
        let exceptions = tables("licenses", "exceptions").into_iter();
        let banned = tables("bans", "deny").into_iter();
        Ok(Self {
            targets: strings(entry("graph", "targets").as_ref()),
            licences,
            exceptions: exceptions.map(|table| (name_of(&table), strings(table.get("allow")))).collect(),
            banned: banned.map(|table| (name_of(&table), word(&table, "reason"))).collect(),
        })
    }
}

fn strings(value: Option<&toml::Value>) -> Vec<String> {
    let items = value.and_then(|value| value.as_array()).into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn word(table: &Table, key: &str) -> String {
    table.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}

/// cargo-deny takes `crate = "name"`, with an optional `@version` that this check does not tell apart.
fn name_of(table: &Table) -> String {
    let spec = if table.contains_key("crate") { word(table, "crate") } else { word(table, "name") };
    spec.split('@').next().unwrap_or_default().to_owned()
}

/// The number of crates looked at, and one line per crate that breaks a rule.
fn check(metadata: &Value, lists: &Lists) -> Result<(usize, Vec<String>)> {
    let nodes =
        metadata.pointer("/resolve/nodes").and_then(Value::as_array).context("cargo metadata resolves")?;
    let used: BTreeSet<&str> = nodes.iter().filter_map(|node| node.get("id")?.as_str()).collect();
    let packages =
        metadata.get("packages").and_then(Value::as_array).context("cargo metadata lists packages")?;
    let is_used = |package: &&Value| text_of(package, "id").is_some_and(|id| used.contains(id));
    let packages: Vec<&Value> = packages.iter().filter(is_used).collect();
    let members: Vec<&Value> =
        metadata.get("workspace_members").and_then(Value::as_array).into_iter().flatten().collect();
    let is_member = |package: &Value| package.get("id").is_some_and(|id| members.contains(&id));
    let complaints =
        packages.iter().filter_map(|package| complaint(package, is_member(package), lists)).collect();
    Ok((packages.len(), complaints))
}

fn text_of<'a>(package: &'a Value, key: &str) -> Option<&'a str> {
    package.get(key).and_then(Value::as_str)
}

fn complaint(package: &Value, is_member: bool, lists: &Lists) -> Option<String> {
    let name = text_of(package, "name").unwrap_or_default();
    let version = text_of(package, "version").unwrap_or_default();
    if let Some((_, reason)) = lists.banned.iter().find(|(banned, _)| banned == name) {
        return Some(format!("{name} {version} is banned: {reason}"));
    }
    let source = text_of(package, "source").unwrap_or("a path outside the workspace");
    if !is_member && !source.ends_with(DEFAULT_REGISTRY) {
        return Some(format!("{name} {version} comes from {source}; only the default registry is allowed"));
    }
    let expression = text_of(package, "license").unwrap_or_default();
    let own = lists.exceptions.iter().filter(|(exempt, _)| exempt == name).flat_map(|(_, allow)| allow);
    let allowed: Vec<String> = lists.licences.iter().chain(own).cloned().collect();
    (!spdx::is_allowed(expression, &allowed)).then(|| {
        let shown = if expression.is_empty() { "no licence expression" } else { expression };
        format!("{name} {version} has {shown}, which [licenses] in deny.toml does not allow")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Lists, check};

    const LISTS: &str = r#"
        [graph]
        targets = ["x"]
        [licenses]
        allow = ["MIT"]
        exceptions = [{ crate = "odd", allow = ["Odd-1.0"] }]
        [bans]
        deny = [{ crate = "bad@1", reason = "it is bad" }]
    "#;

    fn complaints(name: &str, licence: Option<&str>, source: impl Into<Option<&'static str>>) -> Vec<String> {
        let lists = Lists::parse(LISTS).expect("the sample is valid");
        let source = source.into();
        let metadata = json!({
            "workspace_members": ["0"],
            "packages": [
                {"id": "1", "name": name, "version": "1.0.0", "license": licence, "source": source},
                {"id": "2", "name": "unused", "version": "1.0.0", "license": "GPL-3.0"},
            ],
            "resolve": {"nodes": [{"id": "1"}]},
        });
        check(&metadata, &lists).expect("the sample is complete").1
    }

    #[test]
    fn each_rule_can_fail() {
        let registry = "registry+somewhere/crates.io-index";
        assert!(complaints("fine", Some("MIT"), registry).is_empty());
        assert!(complaints("odd", Some("Odd-1.0"), registry).is_empty());
        assert!(complaints("other", Some("Odd-1.0"), registry)[0].contains("does not allow"));
        assert!(complaints("other", None, registry)[0].contains("no licence expression"));
        assert!(complaints("bad", Some("MIT"), registry)[0].contains("it is bad"));
        assert!(complaints("fine", Some("MIT"), "git+somewhere")[0].contains("only the default registry"));
        assert!(complaints("fine", Some("MIT"), None)[0].contains("a path outside the workspace"));
    }

    #[test]
    fn an_empty_allow_list_is_a_mistake() {
        assert!(Lists::parse("[licenses]\n").is_err());
    }
}
