//! The TOML of rules, and everything that can be wrong with it.

use std::collections::BTreeMap;

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;

use super::condition::{Condition, JsonTest};
use super::template::{Outcome, Template, check_pointer};
use super::{RULES_MAX, Rule, RulesError};
use crate::router::check::{META_NAME_BYTES_MAX, META_PAIRS_MAX};
use crate::router::scope::TopicPattern;

/// Memory that one compiled expression may take, and again while it matches.
const REGEX_BYTES_MAX: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    /// Not yet read, so that a mistake can be told with the name of its rule.
    #[serde(default)]
    rule: Vec<toml::Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    #[serde(rename = "name")]
    _name: Option<String>,
    #[serde(default)]
    when: RawWhen,
    then: RawThen,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawWhen {
    topic: Option<String>,
    key: Option<String>,
    key_prefix: Option<String>,
    key_regex: Option<String>,
    tenant: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    value_regex: Option<String>,
    #[serde(default)]
    json: Vec<RawJson>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawJson {
    pointer: String,
    exists: Option<bool>,
    equals: Option<Value>,
    regex: Option<String>,
    above: Option<f64>,
    below: Option<f64>,
    at_least: Option<f64>,
    at_most: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawThen {
    #[serde(default)]
    pass: bool,
    label: Option<String>,
    target_topic: Option<String>,
    partition: Option<u32>,
    #[serde(default)]
    meta: BTreeMap<String, String>,
}

/// A field and what is wrong with it.
type Wrong = (&'static str, String);

pub(super) fn read(text: &str) -> Result<Vec<Rule>, RulesError> {
    let file: RawFile =
        toml::from_str(text).map_err(|error| RulesError(error.to_string().trim_end().to_owned()))?;
    if file.rule.is_empty() {
        return Err(RulesError("there is no rule: write at least one [[rule]]".to_owned()));
    }
    if file.rule.len() > RULES_MAX {
        return Err(RulesError(format!("{} rules are more than {RULES_MAX}", file.rule.len())));
    }
    file.rule.into_iter().enumerate().map(|(place, table)| rule(place, table)).collect()
}

fn rule(place: usize, table: toml::Table) -> Result<Rule, RulesError> {
    let name = match table.get("name").and_then(toml::Value::as_str) {
        Some(name) => format!("rule {} `{name}`", place + 1),
        None => format!("rule {}", place + 1),
    };
    let raw: RawRule = table.try_into().map_err(|error: toml::de::Error| {
        RulesError(format!("{name}: {}", error.to_string().trim_end().replace('\n', " ")))
    })?;
    let wrong = |(field, why): Wrong| RulesError(format!("{name}: {field}: {why}"));
    Ok(Rule { when: raw.when.read().map_err(wrong)?, then: raw.then.read().map_err(wrong)? })
}

impl RawWhen {
    /// Cheap conditions first: what needs the value is looked at only if everything else holds.
    fn read(self) -> Result<Vec<Condition>, Wrong> {
        let mut conditions = Vec::new();
        if let Some(topic) = self.topic {
            let pattern = TopicPattern::parse(&topic).map_err(|why| ("when.topic", why))?;
            conditions.push(Condition::Topic(pattern));
        }
        conditions.extend(self.tenant.map(Condition::Tenant));
        conditions.extend(self.key.map(Condition::Key));
        conditions.extend(self.key_prefix.map(Condition::KeyPrefix));
        conditions.extend(self.labels.into_iter().map(|(name, value)| Condition::Label { name, value }));
        if let Some(regex) = self.key_regex {
            conditions.push(Condition::KeyRegex(compile(&regex).map_err(|why| ("when.key_regex", why))?));
        }
        for raw in self.json {
            raw.read(&mut conditions)?;
        }
        if let Some(regex) = self.value_regex {
            conditions.push(Condition::ValueRegex(compile(&regex).map_err(|why| ("when.value_regex", why))?));
        }
        Ok(conditions)
    }
}

impl RawJson {
    fn read(self, conditions: &mut Vec<Condition>) -> Result<(), Wrong> {
        check_pointer(&self.pointer).map_err(|why| ("when.json.pointer", why))?;
        let before = conditions.len();
        let regex =
            self.regex.map(|regex| compile(&regex).map_err(|why| ("when.json.regex", why))).transpose()?;
        let tests = [
            self.exists.map(JsonTest::Exists),
            self.equals.map(JsonTest::Equals),
            regex.map(JsonTest::Regex),
            self.above.map(JsonTest::Above),
            self.below.map(JsonTest::Below),
            self.at_least.map(JsonTest::AtLeast),
            self.at_most.map(JsonTest::AtMost),
        ];
        let condition = |test| Condition::Json { pointer: self.pointer.clone(), test };
        conditions.extend(tests.into_iter().flatten().map(condition));
        if conditions.len() == before {
            let why = "say what must hold there: exists, equals, regex, above, below, at_least or at_most";
            return Err(("when.json", why.to_owned()));
        }
        Ok(())
    }
}

impl RawThen {
    fn read(self) -> Result<Outcome, Wrong> {
        let says_more = self.label.is_some()
            || self.target_topic.is_some()
            || self.partition.is_some()
            || !self.meta.is_empty();
        match (self.pass, says_more) {
            (true, false) => return Ok(Outcome::Pass),
            (true, true) => return Err(("then.pass", "nothing else may be said with it".to_owned())),
            (false, _) => {}
        }
        let Some(label) = self.label else {
            return Err(("then.label", "is missing; for no opinion, write then.pass = true".to_owned()));
        };
        if self.meta.len() > META_PAIRS_MAX {
            return Err(("then.meta", format!("has more than {META_PAIRS_MAX} pairs")));
        }
        let template = |field, text: &str| Template::parse(text).map_err(|why| (field, why));
        let mut meta = Vec::with_capacity(self.meta.len());
        for (name, value) in self.meta {
            if name.is_empty() || name.len() > META_NAME_BYTES_MAX {
                return Err((
                    "then.meta",
                    format!("`{name}` does not have 1 to {META_NAME_BYTES_MAX} bytes"),
                ));
            }
            meta.push((name, template("then.meta", &value)?));
        }
        let target_topic = match self.target_topic.as_deref() {
            Some("") => return Err(("then.target_topic", "is empty".to_owned())),
            target => target.map(|target| template("then.target_topic", target)).transpose()?,
        };
        Ok(Outcome::Route {
            label: template("then.label", &label)?,
            target_topic,
            partition: self.partition,
            meta,
        })
    }
}

fn compile(text: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|error| error.to_string())
}
