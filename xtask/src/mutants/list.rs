//! The list of mutants: parsing it, and checking that every entry still applies.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use toml::{Table, Value};

use crate::command::Scene;

/// Where the list lies in the workspace.
pub(crate) const FILE: &str = "crates/sim/mutants.toml";

#[derive(Debug, Clone)]
pub(crate) struct Mutant {
    pub(crate) name: String,
    /// Relative to the workspace root.
    pub(crate) file: String,
    pub(crate) find: String,
    pub(crate) replace: String,
    /// One sentence: the invariant that no longer holds.
    pub(crate) breaks: String,
    /// Whether it belongs to the short list, which `test` runs.
    pub(crate) is_short: bool,
    /// A seed that noticed it when the entry was written, for mutants that few seeds notice. It is tried first.
    pub(crate) seed: Option<u64>,
    /// Where it is noticed: `nodes` and `shards` of the entry.
    pub(crate) scene: Scene,
}

impl Mutant {
    /// The mutated text. The place must be unambiguous, or the mutant would break something other than it says.
    pub(crate) fn apply(&self, text: &str) -> Result<String> {
        match text.matches(&self.find).count() {
            1 => Ok(text.replacen(&self.find, &self.replace, 1)),
            count => bail!(
                "mutant `{}` is stale: its `find` occurs {count} times in {} and must occur once; update {FILE}",
                self.name,
                self.file
            ),
        }
    }
}

pub(crate) fn read(root: &Path) -> Result<Vec<Mutant>> {
    let text = fs::read_to_string(root.join(FILE)).with_context(|| format!("reading {FILE}"))?;
    parse(&text)
}

/// One line for every mutant that does not apply to the workspace as it is.
pub(crate) fn stale(root: &Path, mutants: &[Mutant]) -> Vec<String> {
    let check = |mutant: &Mutant| {
        let read = fs::read_to_string(root.join(&mutant.file));
        let text =
            read.with_context(|| format!("mutant `{}` is stale: reading {}", mutant.name, mutant.file))?;
        mutant.apply(&text)
    };
    mutants.iter().filter_map(|mutant| check(mutant).err()).map(|error| format!("{error:#}")).collect()
}

/// The files of the list in which no mutant of the short list lies. A developer who changes one of them must hear from
/// `test`.
pub(crate) fn files_not_in_short(mutants: &[Mutant]) -> BTreeSet<&str> {
    let files = |is_short: bool| {
        let those = mutants.iter().filter(move |mutant| mutant.is_short == is_short);
        those.map(|mutant| mutant.file.as_str()).collect::<BTreeSet<_>>()
    };
    files(false).difference(&files(true)).copied().collect()
}

fn parse(text: &str) -> Result<Vec<Mutant>> {
    let table: Table = text.parse().with_context(|| format!("{FILE} is not valid TOML"))?;
    let entries = table.get("mutant").and_then(Value::as_array);
    let entries = entries.with_context(|| format!("{FILE} has no [[mutant]]"))?;
    let mutants: Vec<Mutant> = entries.iter().map(parse_one).collect::<Result<_>>()?;
    let names: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
    ensure!(names.len() == mutants.len(), "two mutants in {FILE} have the same name");
    Ok(mutants)
}

fn parse_one(entry: &Value) -> Result<Mutant> {
    let name = entry.get("name").and_then(Value::as_str).unwrap_or("without a name");
    let field = |key: &str| {
        let value = entry.get(key).and_then(Value::as_str);
        value.map(str::to_owned).with_context(|| format!("mutant `{name}` in {FILE} has no text `{key}`"))
    };
    let is_short = match entry.get("short") {
        None => false,
        Some(value) => {
            value.as_bool().with_context(|| format!("mutant `{name}`: `short` is true or false"))?
        }
    };
    let number = |key: &str| {
        let number = |value: &Value| value.as_integer().and_then(|number| u64::try_from(number).ok());
        let wrong = || format!("mutant `{name}`: `{key}` is a number");
        entry.get(key).map(|value| number(value).with_context(wrong)).transpose()
    };
    let mutant = Mutant {
        is_short,
        seed: number("seed")?,
        scene: Scene { nodes: number("nodes")?, shards: number("shards")? },
        name: field("name")?,
        file: field("file")?,
        find: field("find")?,
        replace: field("replace")?,
        breaks: field("breaks")?,
    };
    ensure!(
        !mutant.find.is_empty() && !mutant.breaks.is_empty(),
        "mutant `{name}`: `find` and `breaks` say something"
    );
    ensure!(mutant.find != mutant.replace, "mutant `{name}` changes nothing");
    Ok(mutant)
}

#[cfg(test)]
mod tests {
    use super::{Mutant, Scene, files_not_in_short, parse};

    fn mutant(find: &str) -> Mutant {
        let word = |text: &str| text.to_owned();
        Mutant {
            name: word("m"),
            file: word("f"),
            find: word(find),
            replace: word("-"),
            breaks: word("all"),
            is_short: true,
            seed: None,
            scene: Scene::default(),
        }
    }

    #[test]
    fn a_mutant_applies_to_exactly_one_place() {
        assert_eq!(mutant("b").apply("abc").expect("it is there once"), "a-c");
        assert!(mutant("b").apply("abcb").is_err());
        assert!(mutant("d").apply("abc").is_err());
    }

    #[test]
    fn every_file_has_a_mutant_in_the_short_list() {
        let (one, mut other) = (mutant("a"), mutant("b"));
        other.is_short = false;
        let both = [one.clone(), other.clone()];
        assert!(files_not_in_short(&both).is_empty());
        other.file = "g".to_owned();
        assert_eq!(files_not_in_short(&[one, other]).into_iter().collect::<Vec<_>>(), ["g"]);
    }

    #[test]
    fn incomplete_and_double_entries_are_refused() {
        let entry = |name: &str, rest: &str| {
            format!("[[mutant]]\nname = \"{name}\"\nfile = \"f\"\nfind = \"x\"\nbreaks = \"all\"\n{rest}\n")
        };
        let good = entry("a", "replace = \"\"");
        assert_eq!(parse(&good).expect("it is complete").len(), 1);
        assert!(!parse(&good).expect("it is complete")[0].is_short);
        assert!(parse(&entry("a", "replace = \"\"\nshort = true")).expect("it is complete")[0].is_short);
        assert!(parse(&entry("a", "replace = \"\"\nshort = 1")).is_err());
        let seeded = parse(&entry("a", "replace = \"\"\nseed = 7")).expect("it is complete");
        assert_eq!(seeded[0].seed, Some(7));
        assert!(parse(&entry("a", "replace = \"\"\nseed = -7")).is_err());
        assert!(parse(&entry("a", "")).is_err());
        assert!(parse(&entry("a", "replace = \"x\"")).is_err());
        assert!(parse(&format!("{good}{good}")).is_err());
        assert!(parse("").is_err());
    }
}
