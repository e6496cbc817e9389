//! `driftq endpoint …`: where deliveries go.

use std::time::Duration;

use anyhow::Result;
use driftq_api::units;
use driftq_api::v2::{
    Deliveries, DeliveryRecord, DeliveryTaken, Endpoint, EndpointKind, EndpointSpec, EndpointState,
    EndpointSwitch, Endpoints, Headers, OnUnknown, Secret, SendState,
};
use serde_json::json;
use tokio::time::Instant;

use crate::client::fresh_id;
use crate::delivery::{self, state_in_words};
use crate::{Amount, Columns, Common, Exit, Fault, Path, printable};

/// How long a test waits for what comes of it.
const TEST_PATIENCE: Duration = Duration::from_secs(30);
/// How soon it looks again.
const TEST_PAUSE: Duration = Duration::from_millis(200);

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List endpoints, and whether deliveries go out to them
    #[command(after_help = "Examples:
  driftq endpoint list
  driftq endpoint list -o ndjson | jq -r 'select(.state == \"disabled\") | .name'")]
    List {
        #[command(flatten)]
        amount: Amount,
    },
    /// Show one endpoint
    #[command(after_help = "Examples:
  driftq endpoint show shop
  driftq endpoint show shop -o json | jq .disabled")]
    Show(Name),
    /// Make or change an endpoint
    Put(Box<Put>),
    /// Remove an endpoint; what was not delivered stays in its topic
    #[command(after_help = "Examples:
  driftq endpoint delete shop")]
    Delete(Name),
    /// Hold the deliveries of an endpoint
    #[command(after_help = "Examples:
  driftq endpoint disable shop --reason 'the receiver moves'")]
    Disable(Switch),
    /// Let the deliveries of an endpoint go out again
    #[command(after_help = "Examples:
  driftq endpoint enable shop --reason 'it is back'")]
    Enable(Switch),
    /// Send something to an endpoint, and see what comes of it
    #[command(
        after_help = "Needs a connector: `driftq connect run`, or a server that runs one. The body is \
{\"type\":\"driftq.test\"}.

Examples:
  driftq endpoint test shop"
    )]
    Test(Name),
}

#[derive(clap::Args)]
pub(crate) struct Name {
    /// Its name
    endpoint: String,
}

impl Name {
    fn path(&self) -> Path {
        Path::of("/v2/endpoints").part(&self.endpoint)
    }
}

#[derive(clap::Args)]
pub(crate) struct Switch {
    #[command(flatten)]
    name: Name,
    /// Why, for those who look later
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    reason: String,
    /// Who says so
    #[arg(long, env = "DRIFTQ_OWNER", hide_env_values = true, default_value = "cli", value_name = "NAME")]
    by: String,
}

#[derive(clap::Args)]
#[command(
    group(clap::ArgGroup::new("what").required(true).args(["webhook", "http", "file"])),
    after_help = "In the place of what it was. The server never sees a secret: it is told where a connector \
finds it (an environment variable or a file of the connector), or gets it sealed (`driftq connect seal`). Give the \
newest secret first: while two are given, both sign, so that the receiver can change over at any time.

E-mails have more to say: give them as JSON with --file.

Examples:
  driftq endpoint put shop --webhook https://shop.example/hooks --secret-env SHOP_SECRET
  driftq endpoint put shop --webhook https://shop.example/hooks --secret-env NEW --secret-env OLD
  driftq endpoint put crm --http https://crm.example/leads --credential-env CRM_TOKEN --honours-key
  driftq endpoint put invoices --file invoices.json"
)]
pub(crate) struct Put {
    #[command(flatten)]
    name: Name,
    /// A receiver of Standard Webhooks
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// A receiver of HTTP calls
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    /// The endpoint as JSON; - reads stdin
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// Environment variable of the connector with a signing secret; newest first
    #[arg(long, value_name = "NAME", conflicts_with_all = ["http", "file"])]
    secret_env: Vec<String>,
    /// File on the connector's machine with a signing secret; newest first
    #[arg(long, value_name = "PATH", conflicts_with_all = ["http", "file"])]
    secret_file: Vec<String>,
    /// A sealed signing secret; newest first
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["http", "file"])]
    secret_sealed: Vec<String>,
    /// Environment variable of the connector with the Authorization header
    #[arg(long, value_name = "NAME", conflicts_with_all = ["webhook", "file"])]
    credential_env: Option<String>,
    /// Deliver the messages of this topic, too; may be given several times
    #[arg(long, value_name = "TOPIC", conflicts_with = "file")]
    topic: Vec<String>,
    /// What to do when it is not known whether a delivery arrived
    #[arg(long, value_name = "WHAT", value_parser = ["resend", "hold"], conflicts_with = "file")]
    on_unknown: Option<String>,
    /// The receiver does nothing twice under one Idempotency-Key
    #[arg(long, conflicts_with_all = ["webhook", "file"])]
    honours_key: bool,
    /// One delivery at a time, in order
    #[arg(long, conflicts_with = "file")]
    ordered: bool,
    /// Sends at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), conflicts_with = "file")]
    concurrency: Option<u32>,
    /// How long the receiver has
    #[arg(long, value_name = "DURATION", value_parser = units::duration, conflicts_with = "file")]
    timeout: Option<u64>,
    /// What it is for
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT", conflicts_with = "file")]
    description: String,
}

impl Put {
    fn spec(&self) -> Result<EndpointSpec> {
        if let Some(file) = &self.file {
            let text = crate::file::read("--file", file)?;
            let read = EndpointSpec::from_json(&text);
            return read
                .and_then(|spec| spec.check().map(|()| spec))
                .map_err(|fault| Fault::new(Exit::Usage, fault.message.into_owned()).into());
        }
        let (kind, url) = match (&self.webhook, &self.http) {
            (Some(url), _) => (EndpointKind::Webhook, url),
            (None, url) => (EndpointKind::Http, url.as_ref().expect("one of three is given")),
        };
        let env = |name: &String| Secret { env: Some(name.clone()), ..Secret::default() };
        let file = |path: &String| Secret { file: Some(path.clone()), ..Secret::default() };
        let sealed = |text: &String| Secret { sealed: Some(text.clone()), ..Secret::default() };
        let secrets = self.secret_env.iter().map(env);
        let secrets = secrets.chain(self.secret_file.iter().map(file));
        Ok(EndpointSpec {
            kind,
            url: url.clone(),
            method: None,
            headers: Headers::default(),
            secrets: secrets.chain(self.secret_sealed.iter().map(sealed)).collect(),
            credential: self.credential_env.as_ref().map(env),
            from: None,
            to: Vec::new(),
            subject: None,
            topics: self.topic.clone(),
            on_unknown: self.on_unknown.as_deref().map(|word| match word {
                "resend" => OnUnknown::Resend,
                _ => OnUnknown::Hold,
            }),
            honours_key: self.honours_key,
            ordered: self.ordered,
            concurrency: self.concurrency,
            timeout_ms: self.timeout,
            retry_schedule_ms: None,
            disable_after_ms: None,
            description: self.description.clone(),
            expect_version: None,
        })
    }
}

const COLUMNS: Columns<Endpoint> = &[
    ("ENDPOINT", |endpoint, _| printable(&endpoint.name)),
    ("KIND", |endpoint, _| endpoint.spec.kind.name().to_owned()),
    ("URL", |endpoint, _| printable(&endpoint.spec.url)),
    ("STATE", |endpoint, _| state(endpoint).to_owned()),
    ("CHANGED", |endpoint, now| now.tell(endpoint.updated_at)),
];

fn state(endpoint: &Endpoint) -> &'static str {
    match endpoint.state {
        EndpointState::Enabled => "enabled",
        EndpointState::Disabled => "disabled",
    }
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    let mut caller = common.caller()?;
    match command {
        Command::List { amount } => {
            let part = |page: Endpoints| (page.endpoints, page.cursor);
            let first = Path::of("/v2/endpoints");
            let nothing = "no endpoints; `driftq endpoint put` makes one";
            caller.list(common, (first, amount), (COLUMNS, nothing), part).await
        }
        Command::Show(name) => common.show(&caller.get(name.path()).await?, show),
        Command::Put(put) => {
            let endpoint: Endpoint = caller.put(put.name.path(), &put.spec()?).await?;
            common.show(&endpoint, show)
        }
        Command::Delete(name) => common.show(&caller.delete::<Endpoint>(name.path()).await?, show),
        Command::Disable(switch) => common.show(&switched(&mut caller, switch, "disable").await?, show),
        Command::Enable(switch) => common.show(&switched(&mut caller, switch, "enable").await?, show),
        Command::Test(name) => test(common, &mut caller, name).await,
    }
}

async fn switched(
    caller: &mut crate::caller::Caller<'_>,
    switch: &Switch,
    word: &'static str,
) -> Result<Endpoint> {
    let body = EndpointSwitch { reason: switch.reason.clone(), by: switch.by.clone(), expect_version: None };
    caller.post(switch.name.path().word(word), &body).await
}

/// Sends something and waits for what comes of it.
async fn test(common: &Common, caller: &mut crate::caller::Caller<'_>, name: &Name) -> Result<()> {
    let id = format!("test-{}", fresh_id());
    let body = json!({"delivery_id": id, "endpoint": name.endpoint, "body": {"type": "driftq.test"}});
    let _: DeliveryTaken<'static> = caller.post("/v2/deliveries", &body).await?;
    let path = delivery::by_id(&name.endpoint, &id);
    let deadline = Instant::now() + TEST_PATIENCE;
    loop {
        let page: Deliveries<'static> = caller.get(&path).await?;
        let record = page.deliveries.into_iter().next();
        let is_told = |record: &DeliveryRecord<'_>| !record.attempts.is_empty() || record.payload_hidden;
        let is_early = |state| matches!(state, SendState::Pending | SendState::Sending);
        match record {
            Some(record) if is_told(&record) && !is_early(record.state) => {
                common.show(&record, delivery::show)?;
                return match record.state {
                    SendState::Delivered => Ok(()),
                    state => {
                        let said = format!("the test was not delivered: {}", state_in_words(state));
                        Err(Fault::new(Exit::Failure, said).into())
                    }
                };
            }
            _ if Instant::now() >= deadline => {
                let said = format!("nothing came of the test within {} s", TEST_PATIENCE.as_secs());
                let help = "deliveries are sent by a connector: start one with `driftq connect run`";
                return Err(Fault::new(Exit::Failure, said).help(help).into());
            }
            _ => tokio::time::sleep(TEST_PAUSE).await,
        }
    }
}

fn show(endpoint: &Endpoint) -> String {
    let spec = &endpoint.spec;
    let mut facts = vec![
        ("endpoint", printable(&endpoint.name)),
        ("kind", spec.kind.name().to_owned()),
        ("url", printable(&spec.url)),
        ("state", state(endpoint).to_owned()),
    ];
    if let Some(disabled) = &endpoint.disabled {
        let why = format!("{} (by {}, {})", disabled.reason, disabled.by, disabled.at);
        facts.push(("disabled", printable(&why)));
    }
    facts.push(("secrets", spec.secrets.len().to_string()));
    if !spec.topics.is_empty() {
        facts.push(("topics", printable(&spec.topics.join(", "))));
    }
    let unknown = match spec.fate_of_unknown() {
        OnUnknown::Resend => "sent again",
        OnUnknown::Hold => "held for a person",
    };
    facts.push(("unknown", unknown.to_owned()));
    facts.push(("ordered", if spec.ordered { "yes" } else { "no" }.to_owned()));
    facts.push(("version", endpoint.version.to_string()));
    facts.iter().map(|(name, value)| format!("{name:<10}{value}\n")).collect()
}
