//! The parts of a commit as flags say them.

use std::borrow::Cow;

use driftq_api::v2::{
    Commit, CommitMessage, CommitOutput, DatasetVersion, EffectFinish, EffectResult, EffectStatus, Expected,
    Message, OutputMode,
};

use crate::{Choice, args::Tenant, effect::STATUSES, entity, parse};

#[derive(clap::Args)]
pub(super) struct Parts {
    /// A message whose work is done, by the token of its lease; can be given several times, as all of these
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    ack: Vec<String>,
    /// A message that must still be yours, and stays so
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    fence: Vec<String>,
    /// An effect that has ended, by its token: succeeded, failed-final or failed-retryable; TEXT is the result, or why
    /// it failed
    #[arg(long, value_name = "TOKEN:STATUS[=TEXT]", value_parser = finish, allow_hyphen_values = true)]
    finish: Vec<EffectFinish<'static>>,
    /// A message to store
    #[arg(long, value_name = "TOPIC=VALUE", value_parser = parse::pair)]
    produce: Vec<(String, String)>,
    /// Where a result lies; it takes the place of the one before
    #[arg(long, value_name = "DATASET/VERSION/PARTITION=LOCATION@DIGEST", value_parser = replaced)]
    replace_output: Vec<CommitOutput<'static>>,
    /// Where a result lies; it stands beside the others, once under its dedupe key
    #[arg(long, value_name = "DATASET/VERSION/PARTITION=LOCATION@DIGEST#DEDUPE", value_parser = appended)]
    append_output: Vec<CommitOutput<'static>>,
    /// A version of a dataset that the work has read
    #[arg(long, value_name = "DATASET/VERSION", value_parser = read)]
    read: Vec<DatasetVersion<'static>>,
    /// Only if the entity has this version; it is raised by one with the rest
    #[arg(long, value_name = "ENTITY=VERSION", value_parser = entity::expected)]
    expect: Vec<Expected<'static>>,
    #[command(flatten)]
    tenant: Tenant,
}

impl Parts {
    /// What the flags are called, for those that exclude them.
    pub(super) const NAMES: [&'static str; 8] =
        ["ack", "fence", "finish", "produce", "replace_output", "append_output", "read", "expect"];

    pub(super) const fn is_empty(&self) -> bool {
        self.ack.is_empty()
            && self.fence.is_empty()
            && self.finish.is_empty()
            && self.produce.is_empty()
            && self.replace_output.is_empty()
            && self.append_output.is_empty()
            && self.expect.is_empty()
    }

    /// As the server takes it.
    pub(super) fn commit(&self) -> Commit<'_> {
        let tokens = |tokens: &'_ [String]| tokens.iter().map(|token| Cow::Owned(token.clone())).collect();
        let message = |(topic, value): &'_ (String, String)| CommitMessage {
            topic: Cow::Owned(topic.clone()),
            message: Message { value: Cow::Owned(value.clone().into_bytes()), ..Message::default() },
        };
        Commit {
            ack: tokens(&self.ack),
            fence: tokens(&self.fence),
            effects: self.finish.clone(),
            produce: self.produce.iter().map(message).collect(),
            outputs: self.replace_output.iter().chain(&self.append_output).cloned().collect(),
            reads: self.read.clone(),
            expect: self.expect.clone(),
            tenant_id: Cow::Borrowed(&self.tenant.tenant),
            idempotency_key: None,
        }
    }
}

/// `TOKEN:STATUS` or `TOKEN:STATUS=TEXT`; the text is the result of a success, or why it failed.
fn finish(text: &str) -> Result<EffectFinish<'static>, String> {
    // Tokens and statuses hold no `=`; the text may hold anything.
    let (names, said) = text.split_once('=').map_or((text, None), |(names, said)| (names, Some(said)));
    let parts = names.rsplit_once(':').filter(|(token, _)| !token.is_empty());
    let (token, status) =
        parts.ok_or_else(|| format!("`{text}` is not TOKEN:STATUS or TOKEN:STATUS=TEXT"))?;
    let status = Choice(STATUSES)
        .find(status, false)
        .ok_or_else(|| format!("`{status}` is not one of succeeded, failed-final and failed-retryable"))?;
    let mut result = EffectResult::new(status);
    match (said, status) {
        (Some(body), EffectStatus::Succeeded) => result.body = Some(body.to_owned().into_bytes().into()),
        (Some(error), _) => result.error = error.to_owned().into(),
        (None, _) => {}
    }
    Ok(EffectFinish { token: token.to_owned().into(), result })
}

fn read(text: &str) -> Result<DatasetVersion<'static>, String> {
    let parts = text.split_once('/').filter(|(dataset, version)| !dataset.is_empty() && !version.is_empty());
    let (dataset, version) = parts.ok_or_else(|| format!("`{text}` is not DATASET/VERSION"))?;
    Ok(DatasetVersion { dataset: dataset.to_owned().into(), version: version.to_owned().into() })
}

fn replaced(text: &str) -> Result<CommitOutput<'static>, String> {
    let refused = || format!("`{text}` is not DATASET/VERSION/PARTITION=LOCATION@DIGEST");
    output(text, None).ok_or_else(refused)
}

fn appended(text: &str) -> Result<CommitOutput<'static>, String> {
    let parsed = text.rsplit_once('#').and_then(|(rest, key)| output(rest, Some(key)));
    parsed.ok_or_else(|| format!("`{text}` is not DATASET/VERSION/PARTITION=LOCATION@DIGEST#DEDUPE"))
}

/// The names end at the first `=`, the digest begins after the last `@`: a location may hold both.
fn output(text: &str, dedupe_key: Option<&str>) -> Option<CommitOutput<'static>> {
    let (names, rest) = text.split_once('=')?;
    let (location, digest) = rest.rsplit_once('@')?;
    let mut names = names.splitn(3, '/');
    let own = |text: &str| (!text.is_empty()).then(|| text.to_owned().into());
    Some(CommitOutput {
        dataset: own(names.next()?)?,
        version: own(names.next()?)?,
        partition_key: own(names.next()?)?,
        mode: if dedupe_key.is_some() { OutputMode::Append } else { OutputMode::Replace },
        dedupe_key: match dedupe_key {
            Some(key) => Some(own(key)?),
            None => None,
        },
        location: own(location)?,
        digest: own(digest)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_named_by_token_and_status() {
        let finish = |text| finish(text).map(|finish| (finish.token.into_owned(), finish.result.status));
        assert_eq!(finish("-a_b:succeeded"), Ok(("-a_b".to_owned(), EffectStatus::Succeeded)));
        assert_eq!(finish("t:failed_final"), Ok(("t".to_owned(), EffectStatus::FailedFinal)));
        assert!(finish("t").unwrap_err().contains("TOKEN:STATUS"));
        assert!(finish(":succeeded").is_err());
        assert!(finish("t:fine").unwrap_err().contains("failed-retryable"));
    }

    #[test]
    fn a_text_is_the_result_or_the_reason() {
        let of = |text: &str| finish(text).unwrap().result;
        let done = of("t:succeeded={\"a\": \"b=c\"}");
        assert_eq!((done.body.as_deref(), &*done.error), (Some(&b"{\"a\": \"b=c\"}"[..]), ""));
        let failed = of("t:failed-final=no: account");
        assert_eq!((failed.body, &*failed.error), (None, "no: account"));
        assert_eq!(of("t:succeeded=").body.as_deref(), Some(&b""[..]), "given and empty");
        assert_eq!(of("t:succeeded").body, None);
    }

    #[test]
    fn outputs_are_taken_apart_at_the_outer_marks() {
        let output = replaced("sales/v2/2030/01=s3://me@lake/a=b@sha256:9f").unwrap();
        assert_eq!((&*output.dataset, &*output.version, &*output.partition_key), ("sales", "v2", "2030/01"));
        assert_eq!((&*output.location, &*output.digest), ("s3://me@lake/a=b", "sha256:9f"));
        assert_eq!(output.mode, OutputMode::Replace);
        let output = appended("sales/v2/log=file:///a#b@md5:1#batch-7").unwrap();
        assert_eq!((&*output.location, output.dedupe_key.as_deref()), ("file:///a#b", Some("batch-7")));
        assert_eq!(output.mode, OutputMode::Append);
        for text in ["sales/v2=x@y", "sales/v2/p=x", "sales/v2/p=@y", "/v2/p=x@y", "x"] {
            assert!(replaced(text).unwrap_err().contains("LOCATION@DIGEST"), "{text}");
        }
        assert!(appended("sales/v2/p=x@y").unwrap_err().contains("#DEDUPE"));
        assert!(appended("sales/v2/p=x@y#").is_err());
    }
}
