//! How results are written down, and read again.

use std::borrow::Cow;

use driftq_api::v2::{EffectOutcome, EffectResult, EffectStatus, Headers};
use serde::de::DeserializeOwned;

use crate::error::{EffectName, Error};

/// The code of a result that an SDK stored.
const CODE: i32 = 200;
const CONTENT_TYPE: (&str, &str) = ("content-type", "application/json");
/// Says that the result was too large to be kept.
const OMITTED: (&str, &str) = ("x-driftq-result", "omitted");

/// It happened, and this is its result, as JSON.
pub(super) fn kept(body: &[u8]) -> EffectResult<'_> {
    EffectResult {
        code: Some(CODE),
        headers: headers([CONTENT_TYPE]),
        body: Some(Cow::Borrowed(body)),
        ..EffectResult::new(EffectStatus::Succeeded)
    }
}

/// It happened, and its result is not kept.
pub(super) fn omitted() -> EffectResult<'static> {
    EffectResult {
        code: Some(CODE),
        headers: headers([OMITTED]),
        ..EffectResult::new(EffectStatus::Succeeded)
    }
}

fn headers<const N: usize>(pairs: [(&'static str, &'static str); N]) -> Headers<'static> {
    Headers::stored(pairs.map(|(name, value)| (name.into(), value.into())).to_vec())
}

/// What a replay gives back.
pub(super) fn replay<T: DeserializeOwned>(
    outcome: &EffectOutcome<'_>,
    name: &EffectName,
) -> Result<T, Error> {
    if outcome.status != EffectStatus::Succeeded {
        return Err(Error::EffectFailed { effect: name.clone(), reason: outcome.error.clone().into_owned() });
    }
    let is_omitted = outcome.headers.pairs().iter().any(|(name, value)| (&**name, &**value) == OMITTED);
    // An operator who resolved it by hand may not have known what it returned. A caller that needs no value gets none.
    let nothing =
        || serde_json::from_slice(b"null").map_err(|_| Error::ResultNotKept { effect: name.clone() });
    match outcome.bytes() {
        _ if is_omitted => Err(Error::ResultNotKept { effect: name.clone() }),
        None => nothing(),
        Some(body) if body.is_empty() => nothing(),
        Some(body) => serde_json::from_slice(&body)
            .map_err(|error| Error::ResultUnreadable { effect: name.clone(), why: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use driftq_api::Moment;

    use super::*;

    fn outcome(result: EffectResult<'static>) -> EffectOutcome<'static> {
        EffectOutcome {
            payload_hidden: false,
            status: result.status,
            code: result.code,
            headers: result.headers,
            body: result.body.map(|body| String::from_utf8(body.into_owned()).unwrap().into()),
            body_b64: None,
            error: result.error,
            finished_at: Moment::saturating_from_epoch_ms(0),
            epoch: 1,
            attempt: 1,
            resolved_by: None,
            resolved_why: None,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let name = EffectName { scope: "s".to_owned(), key: "k".to_owned(), ..EffectName::default() };
        let stored = outcome(kept(b"{\"id\":\"ch_1\"}"));
        let value: serde_json::Value = replay(&stored, &name).unwrap();
        assert_eq!(value["id"], "ch_1");
        assert!(matches!(replay::<u32>(&stored, &name), Err(Error::ResultUnreadable { .. })));
        assert!(matches!(replay::<()>(&outcome(omitted()), &name), Err(Error::ResultNotKept { .. })));
        let by_hand = outcome(EffectResult::new(EffectStatus::Succeeded));
        assert!(replay::<()>(&by_hand, &name).is_ok());
        assert!(matches!(replay::<u32>(&by_hand, &name), Err(Error::ResultNotKept { .. })));
        let failed = outcome(super::super::failed(EffectStatus::FailedFinal, "no such card"));
        let error = replay::<()>(&failed, &name).unwrap_err().to_string();
        assert!(error.contains("s/k") && error.contains("no such card"), "{error}");
    }
}
