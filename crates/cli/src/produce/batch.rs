//! Many messages in one call, and what became of each.

use std::collections::VecDeque;

use anyhow::{Error, Result};
use driftq_api::v2::{Message, Outcome, Refusal as Word};
use driftq_http::{Patience, Refusal};

use crate::{CallError, Path, Session, Subject, suggest};

/// Key and value bytes of a call, so that no server with usual limits finds it too large.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// A message that is ready to be sent.
pub(super) struct Ready {
    /// Where it comes from.
    pub(super) number: u64,
    /// The message as JSON, on one line.
    pub(super) json: Vec<u8>,
}

/// Counts of what was done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) produced: u64,
    pub(super) duplicates: u64,
    pub(super) retries: u64,
}

/// Cuts lines into calls.
pub(super) fn cut(ready: Vec<Ready>) -> VecDeque<Vec<Ready>> {
    let mut calls = VecDeque::<Vec<Ready>>::new();
    let mut bytes = 0;
    for one in ready {
        bytes += one.json.len() + 1;
        match calls.back_mut() {
            Some(call) if bytes <= BATCH_BYTES_MAX => call.push(one),
            _ => {
                bytes = one.json.len() + 1;
                calls.push_back(vec![one]);
            }
        }
    }
    calls
}

/// Sends all messages, again and again where that may help. At the first one that cannot be stored it ends; what was
/// stored before is in the tally.
pub(super) async fn deliver(
    session: &mut Session,
    topic: &str,
    mut calls: VecDeque<Vec<Ready>>,
    retry: &Patience,
    tally: &mut Tally,
) -> Result<()> {
    let path = Path::topic(topic).word("messages");
    while let Some(mut call) = calls.pop_front() {
        let mut retry = retry.again();
        loop {
            let body: Vec<u8> = call.iter().flat_map(|one| one.json.iter().copied().chain([b'\n'])).collect();
            let error = match session.post_lines::<Outcome<'static>>(&path, body.into()).await {
                Ok(outcomes) => match settle(&mut call, outcomes, tally)? {
                    None => break,
                    Some(error) => error,
                },
                Err(error) if error.code() == "BODY_TOO_LARGE" && call.len() > 1 => {
                    calls.push_front(call.split_off(call.len() / 2));
                    continue;
                }
                Err(error) => error,
            };
            match error.wait(&mut retry) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(explained(session, topic, &call, error).await),
            }
            tally.retries += 1;
        }
    }
    Ok(())
}

/// Counts what is stored, and leaves in the call what was refused for now. Says why, if there is such a message.
fn settle(
    call: &mut Vec<Ready>,
    outcomes: Vec<Outcome<'static>>,
    tally: &mut Tally,
) -> Result<Option<CallError>> {
    if outcomes.len() != call.len() {
        let what = format!("{} results for {} messages", outcomes.len(), call.len());
        return Err(CallError::Strange(what).into_error());
    }
    let (mut left, mut first, mut last) = (Vec::new(), None, None);
    for (one, outcome) in call.drain(..).zip(outcomes) {
        match outcome {
            Outcome::Stored(stored) => {
                tally.produced += 1;
                tally.duplicates += u64::from(stored.duplicate);
            }
            Outcome::Refused(refused) if refused.error.retryable => {
                first.get_or_insert_with(|| refusal(refused.error));
                left.push(one);
            }
            Outcome::Refused(refused) => {
                last.get_or_insert_with(|| (one.number, refusal(refused.error)));
            }
        }
    }
    *call = left;
    match last {
        Some((number, error)) => Err(error.into_error().context(format!("line {number}"))),
        None => Ok(first),
    }
}

/// A refusal of one message, as if it had been a call of its own.
fn refusal(word: Word<'_>) -> CallError {
    let refusal = Refusal::from(word);
    // A newer server's code has no status here; whose fault it is, is not known.
    let status = if refusal.code.is_some() { refusal.status } else { 500 };
    CallError::Refused(Box::new(Refusal { status, ..refusal }))
}

/// The error with the number of its line. One bad message refuses the whole call, and the server counts from the
/// beginning of the call: the line is found by reading the messages as the server does.
async fn explained(session: &mut Session, topic: &str, call: &[Ready], error: CallError) -> Error {
    let fault = suggest::explained(session, Subject::Topic(topic), error).await;
    let is_bad = |one: &&Ready| Message::from_json(&one.json).is_err();
    let lines = match (call, call.iter().find(is_bad)) {
        (_, Some(bad)) => format!("line {}", bad.number),
        ([one], _) => format!("line {}", one.number),
        ([first, .., last], _) => format!("lines {} to {}", first.number, last.number),
        ([], _) => return fault.into(),
    };
    Error::from(fault).context(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(number: u64, bytes: usize) -> Ready {
        Ready { number, json: vec![b'x'; bytes] }
    }

    #[test]
    fn calls_are_cut_by_their_bytes() {
        let sizes = [10, BATCH_BYTES_MAX, 10, 10, BATCH_BYTES_MAX / 2, BATCH_BYTES_MAX / 2];
        let calls = cut(sizes.into_iter().zip(1..).map(|(bytes, number)| ready(number, bytes)).collect());
        let numbers: Vec<Vec<u64>> =
            calls.iter().map(|call| call.iter().map(|one| one.number).collect()).collect();
        assert_eq!(numbers, [vec![1], vec![2], vec![3, 4, 5], vec![6]]);
    }

    #[test]
    fn refused_messages_stay_for_the_next_try() {
        let results = br#"[{"topic":"t","partition":0,"offset":1,"duplicate":true},
            {"error":{"code":"OVERLOADED","detail":"full","retryable":true,"retry_after_ms":9}},
            {"topic":"t","partition":0,"offset":2,"duplicate":false}]"#;
        let mut call = vec![ready(1, 1), ready(2, 1), ready(3, 1)];
        let mut tally = Tally::default();
        let outcomes = serde_json::from_slice(results).unwrap();
        let error = settle(&mut call, outcomes, &mut tally).unwrap().unwrap();
        let mut patience = Patience::endless();
        assert_eq!(error.wait(&mut patience), Some(std::time::Duration::from_millis(9)));
        assert_eq!((tally.produced, tally.duplicates), (2, 1));
        assert_eq!(call.iter().map(|one| one.number).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_final_refusal_names_its_line() {
        let results = br#"[{"error":{"code":"KEY_REUSED","detail":"other hash","retryable":false}}]"#;
        let outcomes = serde_json::from_slice(results).unwrap();
        let error = settle(&mut vec![ready(7, 1)], outcomes, &mut Tally::default()).unwrap_err();
        assert_eq!(format!("{error:#}"), "line 7: other hash (HTTP 422 KEY_REUSED)");
    }
}
