//! Dead letters: which of them a job is for, and how one becomes a message again.

use driftq_core::{
    Answer, Browse, DeadLetter, Identity, Input, KeyHash, Keyless, Message, NewMessage, OrderInput, Reason,
    Reject, Spotted, partition_of_key,
};

use crate::broker::{Broker, unexpected};
use crate::failure::Failure;
use crate::locks::read;
use crate::request::{JobCall, LetterFilter, Seen};

/// What the name of every dead-letter topic begins with.
pub(crate) const PREFIX: &str = "dlq.";

impl LetterFilter {
    /// Whether nothing is asked of a letter that its bytes would have to tell.
    pub(crate) fn takes_any(&self) -> bool {
        let Self { letters: _, group, key, run_id, tenant_id, labels, reason, cause, before, after } = self;
        let texts = [group, run_id, tenant_id, reason, cause].iter().all(|text| text.is_none());
        texts && key.is_none() && labels.is_empty() && before.is_none() && after.is_none()
    }

    /// Whether a letter is one of those that are wanted.
    #[must_use]
    pub fn matches(&self, message: &Message<'_>, letter: &DeadLetter<'_>) -> bool {
        let given = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        let envelope = message.envelope.as_deref();
        let text = |pick: fn(&driftq_core::Envelope<'_>) -> String| envelope.map(pick).unwrap_or_default();
        let labelled = |name: &str, value: &str| {
            let labels = envelope.map(|envelope| &envelope.labels);
            labels.is_some_and(|labels| labels.iter().any(|(n, v)| &**n == name && &**v == value))
        };
        given(&self.group, &letter.group)
            && given(&self.reason, &letter.reason)
            && self.cause.as_deref().is_none_or(|wanted| wanted == cause_of(letter))
            && given(&self.run_id, &text(|envelope| envelope.run_id.to_string()))
            && given(&self.tenant_id, &letter.tenant_id)
            && self.key.as_deref().is_none_or(|key| key == &*message.key)
            && self.before.is_none_or(|before| letter.at < before)
            && self.after.is_none_or(|after| letter.at >= after)
            && self.labels.iter().all(|(name, value)| labelled(name, value))
    }
}

/// The longest cause.
const CAUSE_CHARS_MAX: usize = 160;
/// From so many hexadecimal digits on they name something, and are no word.
const NAME_DIGITS_MIN: usize = 8;

/// What killed a message, as far as many died of the same: its last error without the numbers and names in it, or the
/// reason if there was no error.
#[must_use]
pub fn cause_of(letter: &DeadLetter<'_>) -> String {
    let error = if letter.last_error.is_empty() { &*letter.reason } else { &*letter.last_error };
    let mut cause = String::new();
    let mut rest = error;
    while let Some(first) = rest.chars().next() {
        let name = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        let number = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let length = if name >= NAME_DIGITS_MIN { name } else { number };
        if length > 0 {
            cause.push('#');
        } else {
            cause.push(first);
        }
        rest = &rest[length.max(first.len_utf8())..];
    }
    if let Some((end, _)) = cause.char_indices().nth(CAUSE_CHARS_MAX) {
        cause.truncate(end);
    }
    cause
}

/// Said of a letter whose bytes are not those that were stored.
const DAMAGED: &str =
    "the dead letter cannot be read: its bytes in the log are damaged or gone; it can only be purged";

/// Said of a letter that stands for a message whose bytes were damaged.
const VALUE_LOST: &str = "the message was damaged before it became a dead letter: there is no value to send again; it \
                          can only be purged";

/// What became of one letter.
pub(crate) enum Fate {
    /// It was dealt with.
    Done,
    /// It was gone already.
    Skipped,
    /// It is still there, and stays until an operator changes what is in its way.
    Refused(String),
    /// It is still there.
    Failed(Failure),
}

impl Broker {
    /// The name of the topic that takes a topic's dead letters.
    #[must_use]
    pub fn dead_letter_topic(topic: &str) -> String {
        format!("{PREFIX}{topic}")
    }

    /// The question that goes through all letters from a place on.
    pub(crate) fn letters_from(
        &self,
        letters: &str,
        place: (u32, u64),
        limit: u32,
    ) -> Result<Browse, Failure> {
        let (partition, from) = place;
        let topic = self.topic(letters)?;
        Ok(Browse { topic, partition, alone: false, from, limit, key: KeyHash::NONE })
    }

    pub(crate) async fn purge(&self, letters: &str, seen: &Seen) -> Fate {
        let Ok(topic) = self.topic(letters) else { return Fate::Skipped };
        let messages = vec![Spotted { topic, partition: seen.found.partition, offset: seen.found.offset }];
        match self
            .at(topic)
            .ask(0, true, |ticket| Input::Order(OrderInput::Remove { ticket, messages }))
            .await
        {
            Ok(Answer::Removed(0)) => Fate::Skipped,
            Ok(Answer::Removed(_)) => Fate::Done,
            Ok(other) => Fate::Failed(unexpected(&other)),
            Err(failure) => Fate::Failed(failure),
        }
    }

    /// Makes a letter a message again.
    pub(crate) async fn redrive(&self, letters: &str, seen: &Seen, call: &JobCall) -> Fate {
        // Said once, and not tried again: the letter can only be purged.
        let Some(bytes) = &seen.payload else {
            return Fate::Failed(Failure::Reject(Reject::Invalid(DAMAGED)));
        };
        let prepared = self.revived(letters, seen, bytes, call);
        let (letter, message, group) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return Fate::Failed(failure),
        };
        let bytes = message.payload.bytes.len();
        let given_up_by = group.clone().unwrap_or_default();
        match self
            .at(letter.topic)
            .ask(bytes, true, |ticket| Input::Order(OrderInput::Redrive { ticket, letter, message, group }))
            .await
        {
            Ok(Answer::Produced(_)) => Fate::Done,
            Ok(other) => Fate::Failed(unexpected(&other)),
            Err(Failure::Reject(Reject::MessageUnknown)) => Fate::Skipped,
            Err(Failure::Reject(Reject::GroupUnknown)) => Fate::Refused(gone(&given_up_by)),
            Err(failure) => Fate::Failed(failure),
        }
    }

    /// The message that a letter was, for the group that gave it up.
    fn revived(
        &self,
        letters: &str,
        seen: &Seen,
        bytes: &[u8],
        call: &JobCall,
    ) -> Result<(Spotted, NewMessage, Option<String>), Failure> {
        let unreadable = |_| Failure::Reject(Reject::Invalid(DAMAGED));
        let message = Message::decode(bytes).map_err(unreadable)?;
        let revived = message.from_dead_letter();
        let (mut message, letter) =
            revived.ok_or(Failure::Reject(Reject::Invalid("the message is not a dead letter")))?;
        if letter.reason == Reason::PayloadDamaged.name() {
            return Err(Failure::Reject(Reject::Invalid(VALUE_LOST)));
        }
        let target = call.target_topic.as_deref().unwrap_or(&letter.topic);
        // Elsewhere a group of the same name is another one: all groups get what an operator sends there.
        let goes_home = *target == *letter.topic;
        let (info, letters) = {
            let catalog = read(&self.house().catalog);
            let info = catalog.find(target).cloned().ok_or(Failure::Reject(Reject::TopicUnknown))?;
            let number = |name: &str| catalog.find(name).map(|topic| topic.id);
            message.origin.get_or_insert_with(|| letter.source(number(&letter.topic).unwrap_or_default()));
            (info, number(letters))
        };
        let envelope = message.envelope.as_deref();
        let key = envelope.map_or("", |envelope| &envelope.idempotency_key);
        let own = envelope.map_or("", |envelope| &envelope.tenant_id);
        let tenant = if own.is_empty() { info.tenant.as_deref().unwrap_or("") } else { own };
        let partition = if letter.partition < info.partitions && call.target_topic.is_none() {
            letter.partition
        } else if message.key.is_empty() {
            // By its place among the letters: asked for again, it goes where it went.
            Keyless::Spread.partition(seen.found.offset, info.partitions)
        } else {
            partition_of_key(&message.key, info.partitions)
        };
        let spotted = Spotted {
            topic: letters.ok_or(Failure::Reject(Reject::TopicUnknown))?,
            partition: seen.found.partition,
            offset: seen.found.offset,
        };
        let new = NewMessage {
            // A redrive is asked for over `/v2`. The deadline is not taken along: an operator who redrives it wants it
            // tried.
            native: true,
            identity: (!key.is_empty()).then(|| Identity::in_topic(tenant, target, info.incarnation(), key)),
            priority: seen.found.priority,
            ..self.new_message(&info, partition, &message)?
        };
        Ok((spotted, new, goes_home.then(|| letter.group.into_owned())))
    }
}

/// Why a letter is not tried again.
fn gone(group: &str) -> String {
    format!(
        "GROUP_UNKNOWN: the topic has no group {group:?} any more, which gave the message up, and the others are done \
         with it: lease once as {group:?} to make the group anew, or name a target_topic; the letter stays"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_an_error_without_what_differs() {
        let letter = |error: &'static str| DeadLetter {
            last_error: error.into(),
            reason: "deadline_passed".into(),
            ..DeadLetter::default()
        };
        for (error, cause) in [
            ("card 4711 was declined", "card # was declined"),
            ("no 550e8400e29b here", "no # here"),
            ("a bad decade", "a bad decade"),
            ("ümlaut 1", "ümlaut #"),
            ("", "deadline_passed"),
        ] {
            assert_eq!(cause_of(&letter(error)), cause);
        }
        let long: &'static str = "é".repeat(500).leak();
        assert_eq!(cause_of(&letter(long)).chars().count(), CAUSE_CHARS_MAX);
    }
}
