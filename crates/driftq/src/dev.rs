//! `driftq dev`: the broker for the desk. The same server as `driftq serve`, which finds a free port and says what to
//! do next.

use std::{
    cell::Cell,
    env,
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Instant,
};

use anyhow::{Context, Result};
use clap::{ArgMatches, Command, Error, FromArgMatches};
use driftq_api::shown::{grouped, word};
use driftq_api::when::length;
use driftq_engine::{Counters, Recovery};
use tokio::net::TcpListener;

use super::{
    config_check::refuse,
    dev_nodes::{self, NODES_MAX, PASSED_ON},
    serve::{Manner, host, refuse_address},
    startup,
};
use driftq_cli::{colour::Paint, output};
use driftq_server::config::{Config, Exposure, KNOBS, KnobArgs, Origin, Resolved, resolve};

/// What is looked at when the port that was meant is taken, before the system chooses.
const NEXT_PORTS: u16 = 20;
/// Where commands look for a server when no address is given.
const USUAL: &str = "127.0.0.1:8080";
/// The flags that a first start may need. All others of `driftq serve` are taken as well.
const SHOWN: [&str; 4] = ["listen", "data", "ephemeral", "log_level"];

#[derive(clap::Args)]
#[command(
    after_help = "The same server as `driftq serve`, for a desk: if port 8080 is taken it finds a free one and says so \
(an address given with --listen is taken as it is), it logs only warnings, and it says what to do next. Data stays in \
--data between starts. Every flag, variable and file of `driftq serve` is taken, see `driftq serve --help`.

Examples:
  driftq dev
  driftq dev --ephemeral                   # in memory: everything is gone at the end
  driftq dev --data /tmp/try --log-level info
  driftq dev --nodes 3 --log postgres://me@localhost/queue    # see docs/cluster.md"
)]
pub(crate) struct Args {
    /// Start so many servers that share the log of --log, to see one take over from another
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=i64::from(NODES_MAX)))]
    nodes: Option<u8>,
    #[command(flatten)]
    knobs: Knobs,
}

/// The knobs of the server, most of them out of sight.
struct Knobs(KnobArgs);

impl FromArgMatches for Knobs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        KnobArgs::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl clap::Args for Knobs {
    fn augment_args(command: Command) -> Command {
        let command = KnobArgs::augment_args(command);
        let hidden = KNOBS.iter().map(|knob| knob.name).filter(|name| !SHOWN.contains(name));
        hidden.fold(command, |command, name| command.mut_arg(name, |arg| arg.hide(true)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    let mut resolved = resolve(&args.knobs.0);
    if is_default(&resolved, "log_level") {
        "warn".clone_into(&mut resolved.config.log_level);
    }
    if let Some(count) = args.nodes {
        refuse(&resolved.problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let given = |name| matches!(origin(&resolved, name), Some(Origin::Flag | Origin::File));
        let ignored = KNOBS.iter().filter(|knob| given(knob.name) && !PASSED_ON.contains(&knob.name));
        let ignored: Vec<String> = ignored.map(|knob| format!("--{}", knob.name.replace('_', "-"))).collect();
        return dev_nodes::run(&resolved.config, count, &ignored);
    }
    let desk = Desk {
        moves: is_default(&resolved, "listen"),
        moved: Cell::new(false),
        begun: Instant::now(),
        paint: Paint::of(&io::stdout()),
    };
    host(resolved, &desk)
}

/// Whether nothing has set this knob, so that its default holds.
fn is_default(resolved: &Resolved, name: &str) -> bool {
    origin(resolved, name) == Some(Origin::Default)
}

/// What has set a knob.
fn origin(resolved: &Resolved, name: &str) -> Option<Origin> {
    KNOBS.iter().zip(&resolved.origins).find(|(knob, _)| knob.name == name).map(|(_, origin)| *origin)
}

/// Friendly, for people.
struct Desk {
    /// Another port will do.
    moves: bool,
    /// Another port had to do.
    moved: Cell<bool>,
    begun: Instant,
    paint: Paint,
}

impl Manner for Desk {
    async fn bind(&self, config: &Config) -> Result<TcpListener> {
        let taken = match TcpListener::bind(&config.listen).await {
            Err(error) if self.moves && error.kind() == ErrorKind::AddrInUse => error,
            bound => return bound.map_err(|error| refuse_address(config, &error).into()),
        };
        let address: SocketAddr = config.listen.parse().context("the usual address")?;
        // Neighbours are easy to remember; port 0, at the end, is whatever is free.
        let neighbours = (1..=NEXT_PORTS).map(|step| address.port().saturating_add(step));
        for port in neighbours.chain([0]) {
            if let Ok(listener) = TcpListener::bind(SocketAddr::new(address.ip(), port)).await {
                self.moved.set(true);
                return Ok(listener);
            }
        }
        Err(refuse_address(config, &taken).into())
    }

    fn announce(&self, config: &Config, recovery: &Recovery, address: SocketAddr) -> Result<()> {
        let address = reachable(address);
        let took = length(self.begun.elapsed().as_millis());
        let name = format!("DriftQ {}", driftq_server::http::VERSION);
        let mut text =
            format!("\n  {}  {}\n\n", self.paint.bold(&name), self.paint.green(&format!("ready in {took}")));
        for (name, value) in self.facts(config, recovery, address) {
            text.push_str(&format!("  {}{value}\n", self.paint.dim(&format!("{name:<12}"))));
        }
        text.push_str("\n  Next, in another terminal:\n\n");
        for line in next_steps(startup::scheme(config), address) {
            text.push_str(&format!("    {}\n", self.paint.cyan(&line)));
        }
        text.push_str(&format!("\n  {}\n\n", self.paint.dim("Ctrl-C stops it.")));
        output::write(&text)
    }

    fn part(&self, config: &Config, counters: &Counters) -> Result<()> {
        let took = length(self.begun.elapsed().as_millis());
        let stays = if config.ephemeral {
            "Nothing was kept.".to_owned()
        } else {
            format!("Data stays in {}.", config.data.display())
        };
        output::write(&format!("\n  stopped after {took}: {}\n  {stays}\n", summary(counters)))
    }
}

impl Desk {
    fn facts(
        &self,
        config: &Config,
        recovery: &Recovery,
        address: SocketAddr,
    ) -> Vec<(&'static str, String)> {
        let url = |path: &str| format!("{}://{address}{path}", startup::scheme(config));
        let data = if config.ephemeral {
            "in memory".to_owned()
        } else {
            format!("{} (kept between starts; --ephemeral keeps nothing)", config.data.display())
        };
        let mut facts = Vec::new();
        if self.moved.get() {
            let note = format!("{} is taken, so this is another one", config.listen);
            facts.push(("Port", self.paint.yellow(&note)));
        }
        facts.extend([
            ("API", url("/v2")),
            ("OpenAPI", url("/v2/openapi.json")),
            ("Metrics", url("/metrics")),
            ("Health", url("/v2/healthz")),
            ("Data", data),
            ("Durability", startup::durability(config).to_owned()),
            ("Recovered", startup::recovered(recovery)),
        ]);
        if let Exposure::Open(why) = config.exposure() {
            facts.push(("Access", why.to_owned()));
        }
        if let Some(torn) = &recovery.truncated {
            facts.push(("Torn tail", format!("cut off: {torn}. Nothing that was acknowledged is lost")));
        }
        facts
    }
}

/// An address that can be put into a browser: "any" is where to listen, not where to go.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Lines to paste, in this order.
fn next_steps(scheme: &str, address: SocketAddr) -> Vec<String> {
    let driftq = program();
    let mut lines = Vec::new();
    if scheme != "http" || address.to_string() != USUAL {
        lines.push(format!("export DRIFTQ_SERVER={scheme}://{address}"));
    }
    lines.extend([
        format!("{driftq} topic create hello"),
        format!("{driftq} produce hello 'Hello, world'"),
        format!("{driftq} work hello --group tour --exec 'cat; echo' --until-idle"),
    ]);
    lines
}

/// This program as it was called: a path stays a path, because then it may not be found by its name.
pub(super) fn program() -> String {
    let called = env::args().next().filter(|name| name.contains('/'));
    called.map_or_else(|| "driftq".to_owned(), |path| word(&path))
}

/// What happened, in a sentence.
fn summary(counters: &Counters) -> String {
    let mut parts = vec![
        format!("{} stored", count(counters.produced, "message")),
        format!("{} ({} again)", count(counters.delivered, "delivery"), grouped(counters.redelivered)),
        format!("{} acked", grouped(counters.acked)),
    ];
    let more = [
        (counters.nacked, "nacked"),
        (counters.buried, "given up as dead letters"),
        (counters.effects_executed, "effects run"),
        (counters.effects_replayed, "replayed"),
        (counters.commits, "commits"),
    ];
    parts.extend(more.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", grouped(*n))));
    parts.join(", ")
}

fn count(number: u64, what: &str) -> String {
    let many = what.strip_suffix('y').map_or_else(|| format!("{what}s"), |stem| format!("{stem}ies"));
    format!("{} {}", grouped(number), if number == 1 { what } else { &many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_one_to_go_to() {
        for (listens, reached) in
            [("0.0.0.0:80", "127.0.0.1:80"), ("[::]:80", "[::1]:80"), ("192.0.2.7:80", "192.0.2.7:80")]
        {
            assert_eq!(reachable(listens.parse().unwrap()).to_string(), reached);
        }
    }

    #[test]
    fn the_server_is_named_where_it_is_not_the_usual_one() {
        let usual = next_steps("http", USUAL.parse().unwrap());
        assert!(!usual.iter().any(|line| line.contains("DRIFTQ_SERVER")), "{usual:?}");
        let other = next_steps("http", "127.0.0.1:8081".parse().unwrap());
        assert_eq!(other[0], "export DRIFTQ_SERVER=http://127.0.0.1:8081");
    }

    #[test]
    fn the_end_tells_what_happened() {
        let counters =
            Counters { produced: 1, delivered: 2, redelivered: 1, acked: 1, ..Counters::default() };
        assert_eq!(summary(&counters), "1 message stored, 2 deliveries (1 again), 1 acked");
    }
}
