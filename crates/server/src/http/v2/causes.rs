//! Dead letters by what killed them.

use std::collections::HashMap;

use driftq_api::v2::{Cause, Causes, LetterFilter};
use driftq_engine::core::{Browse, KeyHash, Time, TopicId};
use driftq_engine::{Broker, cause_of};
use hyper::StatusCode;

use super::Request;
use super::filled::Filled;
use super::letters::{taken, unknown};
use super::words::{looked, moment};
use crate::http::answer::json;
use crate::http::v1::Handled;

/// Letters that one question takes from the broker.
const STRETCH: u32 = 200;
/// Letters that one call reads.
const LETTERS_READ_MAX: usize = 10_000;
/// Causes that are told apart, and those that are listed.
const CAUSES_MAX: usize = 1_000;
const CAUSES_SHOWN_MAX: usize = 100;

/// How many died of something, and when the first and the last did.
struct Count {
    letters: u64,
    first: Time,
    last: Time,
}

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let letters = Broker::dead_letter_topic(&request.name(0, "topic")?);
    let asked = LetterFilter::from_query(request.query()?)?;
    let key = asked.key.as_ref().map_or(KeyHash::NONE, |key| KeyHash::of(key.as_bytes()));
    let (filter, broker) = (taken(&asked), &request.app.broker);
    let (mut counts, mut is_crowded) = (HashMap::<String, Count>::new(), false);
    let (mut place, mut scanned, mut read) = (Some((0, 0)), 0, 0);
    // Nothing is kept of what is read: one letter at a time is charged.
    let mut filled = Filled::new(1, &request.app.budget);
    while let Some((partition, from)) = place.filter(|_| read < LETTERS_READ_MAX) {
        let browse = Browse { topic: TopicId::default(), partition, alone: false, from, limit: STRETCH, key };
        let glance = broker.glance(&letters, browse).await.map_err(|failure| unknown(&failure))?;
        scanned += glance.scanned;
        read += glance.found.len();
        place = glance.next;
        for found in glance.found {
            let seen = filled.see(broker, glance.topic, found).await?;
            for (_, message) in looked(std::slice::from_ref(&seen)) {
                let letter = message.envelope.as_deref().and_then(|envelope| envelope.dead_letter.as_ref());
                let Some(letter) = letter.filter(|letter| filter.matches(&message, letter)) else { continue };
                let cause = cause_of(letter);
                if counts.len() >= CAUSES_MAX && !counts.contains_key(&cause) {
                    is_crowded = true;
                    continue;
                }
                let count =
                    counts.entry(cause).or_insert(Count { letters: 0, first: letter.at, last: letter.at });
                count.letters += 1;
                count.first = count.first.min(letter.at);
                count.last = count.last.max(letter.at);
            }
        }
    }
    Ok(json(StatusCode::OK, &shown(counts, scanned, place.is_some() || is_crowded)))
}

fn shown(counts: HashMap<String, Count>, scanned: u64, more: bool) -> Causes<'static> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|(cause, count), (other, others)| {
        others.letters.cmp(&count.letters).then_with(|| cause.cmp(other))
    });
    let more = more || counts.len() > CAUSES_SHOWN_MAX;
    let causes = counts.into_iter().take(CAUSES_SHOWN_MAX).map(|(cause, count)| Cause {
        cause: cause.into(),
        letters: count.letters,
        first_at: moment(count.first),
        last_at: moment(count.last),
    });
    Causes { causes: causes.collect(), scanned, more }
}
