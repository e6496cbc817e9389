//! Names for effects that are given none: from what is asked for, and for whom. As the SDKs do it, so that a step may
//! change its language.

use anyhow::Result;
use driftq_client::{canonical, sha256_hex};
use serde_json::{Value, json};

use crate::{Exit, Fault};

/// In what the effect is carried out: what `driftq work` tells its commands.
#[derive(Clone, Debug, Default)]
pub(super) struct Home {
    pub(super) run_id: Option<String>,
    pub(super) step_id: Option<String>,
    /// Where the message was born: topic, incarnation of the topic, partition and offset.
    pub(super) topic: Option<String>,
    pub(super) incarnation: u32,
    pub(super) partition: Option<u32>,
    pub(super) offset: Option<u64>,
    pub(super) idempotency_key: Option<String>,
}

impl Home {
    fn anchor(&self) -> Option<Value> {
        if let Some(run_id) = &self.run_id {
            return Some(json!(["run", run_id, self.step_id.as_deref().unwrap_or_default()]));
        }
        let (topic, incarnation) = (self.topic.as_ref()?, self.incarnation);
        match (&self.idempotency_key, self.partition, self.offset) {
            (Some(key), ..) => Some(json!(["message", topic, incarnation, key])),
            (None, Some(partition), Some(offset)) => {
                Some(json!(["message", topic, incarnation, partition, offset]))
            }
            _ => None,
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    document: Value,
    canonical: String,
}

impl Asked {
    pub(super) fn read(text: &str) -> Result<Self> {
        let wrong = |why: String| Fault::new(Exit::Usage, format!("--args: {why}"));
        let document: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let canonical = canonical(&document).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { document, canonical })
    }

    pub(super) fn hash(&self) -> String {
        format!("sha256:{}", sha256_hex(&self.canonical))
    }

    pub(super) fn key(&self, home: &Home) -> Result<String> {
        let Some(anchor) = home.anchor() else {
            let fault = Fault::new(Exit::Usage, "--args alone name an effect only within a message or a run");
            return Err(fault.help("give --key, or --run-id; `driftq work` tells its commands both").into());
        };
        let name = canonical(&json!([anchor, self.document]))?;
        Ok(format!("auto-{}", sha256_hex(&name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same examples that the SDKs must meet.
    const DIGESTS: &str = include_str!("../../../../../tests/scenarios/digests.json");

    #[test]
    fn keys_are_those_of_the_sdks() {
        let digests: Value = serde_json::from_str(DIGESTS).unwrap();
        let keys = digests["keys"].as_array().unwrap();
        assert!(!keys.is_empty());
        for example in keys {
            let anchor = example["anchor"].as_array().unwrap();
            let text = |place: usize| anchor.get(place).and_then(Value::as_str).map(str::to_owned);
            let number = |place: usize| anchor.get(place).and_then(Value::as_u64);
            let home = if anchor[0] == "run" {
                Home { run_id: text(1), step_id: text(2), ..Home::default() }
            } else {
                let small = |place: usize| number(place).map(|number| u32::try_from(number).unwrap());
                Home {
                    topic: text(1),
                    incarnation: small(2).unwrap(),
                    idempotency_key: text(3),
                    partition: small(3),
                    offset: number(4),
                    ..Home::default()
                }
            };
            let asked = Asked::read(&example["arguments"].to_string()).unwrap();
            assert_eq!(asked.key(&home).unwrap(), example["key"].as_str().unwrap());
        }
    }

    #[test]
    fn without_a_home_there_is_no_key() {
        let asked = Asked::read("{}").unwrap();
        assert!(asked.key(&Home::default()).is_err());
        assert!(asked.hash().starts_with("sha256:"));
        assert!(Asked::read("{").is_err());
    }
}
