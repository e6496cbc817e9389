//! Lines become messages: what flags say for all of them, and what each says itself.

use std::borrow::Cow;

use driftq_api::v2::{Due, Envelope, Message};
use serde_json::json;

use super::lines::Line;
use crate::{Exit, Fault};

/// What the value of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueForm {
    /// The payload.
    Text,
    /// The payload in base64.
    Base64,
    /// A whole message in JSON.
    Message,
}

/// What all messages have in common.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) form: ValueForm,
    pub(super) key: String,
    pub(super) priority: u8,
    pub(super) due: Option<Due>,
    pub(super) envelope: Envelope<'static>,
}

impl Template {
    /// The message of a line as JSON. `numbered` makes the idempotency key one of its line.
    pub(super) fn json(&self, line: &Line, numbered: bool) -> Result<Vec<u8>, Fault> {
        let refused = |what: String| Fault::new(Exit::Invalid, format!("line {}: {what}", line.number));
        let broken = |error: serde_json::Error| refused(error.to_string());
        let text = match self.form {
            ValueForm::Base64 => json!({"value_b64": line.value}).to_string().into_bytes(),
            ValueForm::Message => line.value.clone().into_bytes(),
            ValueForm::Text => {
                let value = Cow::Borrowed(line.value.as_bytes());
                let message = self.completed(Message { value, ..Message::default() }, line, numbered);
                return serde_json::to_vec(&message).map_err(broken);
            }
        };
        let message = Message::from_json(&text).map_err(|fault| refused(fault.message.to_string()))?;
        serde_json::to_vec(&self.completed(message, line, numbered)).map_err(broken)
    }

    /// Adds what the message does not say itself.
    fn completed<'a>(&'a self, mut message: Message<'a>, line: &'a Line, numbered: bool) -> Message<'a> {
        if message.key.is_empty() {
            message.key = Cow::Borrowed(line.key.as_deref().unwrap_or(&self.key).as_bytes());
        }
        if message.priority == 0 {
            message.priority = self.priority;
        }
        message.due = message.due.or(self.due);
        let own = message.envelope.take().map(|envelope| *envelope).unwrap_or_default();
        let envelope = self.joined(own, line, numbered);
        message.envelope = (envelope != Envelope::default()).then(|| Box::new(envelope));
        message
    }

    fn joined<'a>(&'a self, own: Envelope<'a>, line: &Line, numbered: bool) -> Envelope<'a> {
        let common = &self.envelope;
        let text =
            |own: Cow<'a, str>, common: &'a str| if own.is_empty() { Cow::Borrowed(common) } else { own };
        let idempotency_key = match &*common.idempotency_key {
            _ if !own.idempotency_key.is_empty() => own.idempotency_key,
            "" => Cow::Borrowed(""),
            key if numbered => Cow::Owned(format!("{key}:{}", line.number)),
            key => Cow::Borrowed(key),
        };
        Envelope {
            run_id: text(own.run_id, &common.run_id),
            step_id: text(own.step_id, &common.step_id),
            parent_step_id: text(own.parent_step_id, &common.parent_step_id),
            tenant_id: text(own.tenant_id, &common.tenant_id),
            labels: if own.labels.is_empty() { common.labels.clone() } else { own.labels },
            idempotency_key,
            request_hash: text(own.request_hash, &common.request_hash),
            target_topic: text(own.target_topic, &common.target_topic),
            partition_override: own.partition_override.or(common.partition_override),
            deadline: own.deadline.or(common.deadline),
            retry_policy: own.retry_policy.or(common.retry_policy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(form: ValueForm) -> Template {
        Template {
            form,
            key: "k".to_owned(),
            priority: 5,
            due: Some(Due::AfterMs(7)),
            envelope: Envelope { idempotency_key: "job".into(), run_id: "r".into(), ..Envelope::default() },
        }
    }

    fn json(form: ValueForm, value: &str, numbered: bool) -> Result<String, String> {
        let line = Line { number: 3, key: None, value: value.to_owned() };
        let bytes = template(form).json(&line, numbered).map_err(|fault| fault.message)?;
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn flags_are_for_all_lines() {
        assert_eq!(
            json(ValueForm::Text, "v", true).unwrap(),
            r#"{"key":"k","value":"v","priority":5,"delay_ms":7,"envelope":{"run_id":"r","idempotency_key":"job:3"}}"#
        );
        let alone = json(ValueForm::Base64, "/w==", false).unwrap();
        assert!(
            alone.contains(r#""value_b64":"/w==""#) && alone.contains(r#""idempotency_key":"job""#),
            "{alone}"
        );
    }

    #[test]
    fn a_line_s_own_word_comes_first() {
        let own = r#"{"value":"v","priority":9,"delay_ms":1,"envelope":{"run_id":"mine"}}"#;
        assert_eq!(
            json(ValueForm::Message, own, true).unwrap(),
            r#"{"key":"k","value":"v","priority":9,"delay_ms":1,"envelope":{"run_id":"mine","idempotency_key":"job:3"}}"#
        );
    }

    #[test]
    fn bad_lines_are_named() {
        for (form, value, text) in [
            (ValueForm::Base64, "not base64", "line 3: value_b64: must be base64"),
            (ValueForm::Message, r#"{"value":"v","colour":1}"#, "line 3: colour: unknown field"),
            (ValueForm::Message, "plain", "line 3: "),
        ] {
            let message = json(form, value, true).unwrap_err();
            assert!(message.starts_with(text), "{message}");
        }
    }
}
