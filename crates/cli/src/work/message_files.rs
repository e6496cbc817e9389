//! What a command hands in besides its exit code: files that it may write.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::{fs::File, time::Duration};

use driftq_api::{units, v2::EffectGet};
use driftq_client::wire::{CommitMessage, CommitOutput, Due, Envelope, Message};
use driftq_client::{Context, EffectName, Outgoing, raw};

/// No commit takes more than the server's `body_bytes_max`, and this is its default.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Where `driftq effect run` writes which effect it found busy or uncertain.
pub(crate) const AWAITS: (&str, &str) = ("DRIFTQ_AWAITS", "awaits");
const DELAY: (&str, &str) = ("DRIFTQ_DELAY", "delay");
const FOLLOW_UPS: (&str, &str) = ("DRIFTQ_FOLLOW_UPS", "follow-ups");
const OUTPUTS: (&str, &str) = ("DRIFTQ_OUTPUTS", "outputs");

/// Files of one message; they are gone when it is settled.
pub(super) struct MessageFiles {
    directory: tempfile::TempDir,
}

impl MessageFiles {
    /// In the worker's own directory.
    pub(super) fn new(place: &Path) -> io::Result<Self> {
        Ok(Self { directory: tempfile::Builder::new().prefix("message-").tempdir_in(place)? })
    }

    fn path(&self, (_, name): (&str, &str)) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        [AWAITS, DELAY, FOLLOW_UPS, OUTPUTS].map(|file| (file.0, self.path(file))).into()
    }

    /// When the message is to come again, if the command says so in a way that is understood.
    pub(super) fn delay(&self) -> Option<Duration> {
        let text = self.read(DELAY).ok()?;
        match units::duration(text.trim()) {
            Ok(millis) => Some(Duration::from_millis(millis)),
            Err(_) if text.trim().is_empty() => None,
            Err(why) => {
                eprintln!("warning: {}: {why}", DELAY.0);
                None
            }
        }
    }

    /// The effect that the message is to wait for, if the command found one that it has to wait for.
    pub(super) fn awaits(&self) -> Option<EffectName> {
        let text = self.read(AWAITS).ok()?;
        let effect: EffectGet<'_> = serde_json::from_str(text.trim()).ok()?;
        Some(EffectName {
            tenant_id: effect.tenant_id.into_owned(),
            scope: effect.scope.into_owned(),
            key: effect.key.into_owned(),
        })
    }

    /// Puts what was written where it goes out with the ack. Says what is wrong with it otherwise.
    pub(super) fn hand_in(&self, context: &Context) -> Result<(), String> {
        for (place, line) in lines(&self.read(FOLLOW_UPS)?) {
            let wrong = |why: String| format!("{}, line {place}: {why}", FOLLOW_UPS.0);
            let follow_up: CommitMessage<'_> =
                serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            let message = outgoing(&follow_up.message).map_err(wrong)?;
            context.send(&*follow_up.topic, message).map_err(|error| wrong(error.to_string()))?;
        }
        for (place, line) in lines(&self.read(OUTPUTS)?) {
            let wrong = |why: String| format!("{}, line {place}: {why}", OUTPUTS.0);
            let output: CommitOutput<'_> =
                serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            context.output(owned(output)).map_err(|error| wrong(error.to_string()))?;
        }
        Ok(())
    }

    /// The whole file; a file that was not written is empty.
    fn read(&self, file: (&str, &str)) -> Result<String, String> {
        let wrong = |why: String| format!("{}: {why}", file.0);
        let open = match File::open(self.path(file)) {
            Ok(open) => open,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let mut text = String::new();
        open.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(wrong(format!(
                "more than {FILE_BYTES_MAX} bytes; let a step of its own send the rest"
            )));
        }
        Ok(text)
    }
}

/// Lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty())
}

/// In the words of the SDK, which adds what the message inherits.
fn outgoing(message: &Message<'_>) -> Result<Outgoing, String> {
    let mut sent = raw(message.value.to_vec()).key_bytes(&*message.key).priority(message.priority);
    sent = match message.due {
        Some(Due::At(moment)) => sent.deliver_at(moment),
        Some(Due::AfterMs(millis)) => sent.delay(Duration::from_millis(millis)),
        None => sent,
    };
    match &message.envelope {
        Some(envelope) => enveloped(sent, envelope),
        None => Ok(sent),
    }
}

fn enveloped(mut sent: Outgoing, envelope: &Envelope<'_>) -> Result<Outgoing, String> {
    type Set = fn(Outgoing, String) -> Outgoing;
    if !envelope.target_topic.is_empty() {
        return Err("message.envelope.target_topic: the line itself names the topic".to_owned());
    }
    let texts: [(&str, Set); 6] = [
        (&envelope.run_id, |sent, text| sent.run_id(text)),
        (&envelope.step_id, |sent, text| sent.step_id(text)),
        (&envelope.parent_step_id, |sent, text| sent.parent_step_id(text)),
        (&envelope.tenant_id, |sent, text| sent.tenant_id(text)),
        (&envelope.idempotency_key, |sent, text| sent.idempotency_key(text)),
        (&envelope.request_hash, |sent, text| sent.request_hash(text)),
    ];
    for (text, set) in texts.into_iter().filter(|(text, _)| !text.is_empty()) {
        sent = set(sent, text.to_owned());
    }
    for (name, value) in envelope.labels.pairs() {
        sent = sent.label(&**name, &**value);
    }
    if let Some(partition) = envelope.partition_override {
        sent = sent.partition(partition);
    }
    if let Some(deadline) = envelope.deadline {
        sent = sent.deadline(deadline);
    }
    Ok(match envelope.retry_policy {
        Some(policy) => sent.retry_policy(policy),
        None => sent,
    })
}

fn owned(output: CommitOutput<'_>) -> CommitOutput<'static> {
    CommitOutput {
        dataset: output.dataset.into_owned().into(),
        version: output.version.into_owned().into(),
        partition_key: output.partition_key.into_owned().into(),
        mode: output.mode,
        dedupe_key: output.dedupe_key.map(|key| key.into_owned().into()),
        location: output.location.into_owned().into(),
        digest: output.digest.into_owned().into(),
    }
}
