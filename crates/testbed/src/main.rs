//! `driftq-testbed run -- COMMAND`: a PostgreSQL server for as long as a command runs. And servers that break on demand.

use std::{
    env,
    ffi::OsString,
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};
use driftq_testbed::{Nats, Postgres, SHARED_VARIABLE};

const USAGE: &str = "\
Usage: driftq-testbed run -- COMMAND [ARGUMENT]...
       driftq-testbed serve [--durable]
       driftq-testbed break postgres|nats

  run    starts a PostgreSQL server, runs the command with its URL in DRIFTQ_TEST_POSTGRES, stops the server, and ends
         with the command's exit code
  serve  starts a PostgreSQL server, prints its URL, and stops it when the standard input ends; `--durable`: one of its
         own, with PostgreSQL's own settings, which writes through to the disk
  break  starts a PostgreSQL server with a synchronous standby, or three of NATS, prints a URL for `driftq serve --log`,
         and does what the lines of the standard input say, each answered by `done`:
           down       the server crashes; of NATS the one that leads the stream
           up         it is started again
           fail-over  PostgreSQL is gone for good (kill -9), and its standby takes over

The server runs as an account without privileges, on a free port of the loopback, in a temporary folder. It is gone
afterwards, also if this process is killed. If DRIFTQ_TEST_POSTGRES is set already, that server is used and left alone.
";

/// The stream of a log in NATS.
const STREAM: &str = "driftq";

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    match dispatch(&words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(words: &[OsString]) -> Result<ExitCode> {
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    match words.as_slice() {
        ["run", "--", program, arguments @ ..] => run(program, arguments),
        ["serve"] => serve(&Postgres::shared()?),
        ["serve", "--durable"] => serve(&Postgres::start()?),
        ["break", "postgres"] => {
            let primary = Postgres::start()?;
            let standby = primary.synchronous_standby()?;
            let url = primary.url_with(&standby);
            obey(&url, &mut Pair { primary, standby: Some(standby) })
        }
        ["break", "nats"] => {
            let nats = Nats::cluster()?;
            let url = nats.url(STREAM);
            obey(&url, &mut Leader { nats, down: None })
        }
        ["--help" | "-h"] => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("{USAGE}"),
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<ExitCode> {
    let postgres = Postgres::shared()?;
    // Whoever ends this process ends the command with it. The first thread starts it, so it is the process that counts.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--", program]).args(arguments).env(SHARED_VARIABLE, postgres.url());
    let status = command.status().with_context(|| format!("starting `{program}`"))?;
    // As a shell says it.
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

fn serve(postgres: &Postgres) -> Result<ExitCode> {
    let mut out = io::stdout();
    writeln!(out, "{}", postgres.url()).and_then(|()| out.flush()).context("printing the URL")?;
    io::copy(&mut io::stdin(), &mut io::sink()).context("waiting for the input to end")?;
    Ok(ExitCode::SUCCESS)
}

/// Servers that break on demand.
trait Fragile {
    /// Does what it is told.
    fn obey(&mut self, order: &str) -> Result<()>;
}

struct Pair {
    primary: Postgres,
    /// None once it has taken over.
    standby: Option<Postgres>,
}

impl Fragile for Pair {
    fn obey(&mut self, order: &str) -> Result<()> {
        match order {
            "down" => self.primary.crash(),
            "up" => self.primary.restart(),
            "fail-over" => {
                let standby = self.standby.take().context("there is no standby any more")?;
                self.primary.kill()?;
                standby.promote()?;
                self.primary = standby;
                Ok(())
            }
            other => bail!("`{other}` is neither of down, up and fail-over"),
        }
    }
}

struct Leader {
    nats: Nats,
    down: Option<usize>,
}

impl Fragile for Leader {
    fn obey(&mut self, order: &str) -> Result<()> {
        match order {
            "down" => {
                let leader = self.nats.leader(STREAM)?;
                self.nats.kill(leader)?;
                self.down = Some(leader);
                Ok(())
            }
            "up" => self.nats.restart(self.down.take().context("all of them run")?),
            other => bail!("`{other}` is neither of down and up"),
        }
    }
}

fn obey(url: &str, servers: &mut impl Fragile) -> Result<ExitCode> {
    let mut out = io::stdout();
    let mut say = |text: &str| writeln!(out, "{text}").and_then(|()| out.flush()).context("answering");
    say(url)?;
    for line in io::stdin().lines() {
        servers.obey(line.context("reading an order")?.trim())?;
        say("done")?;
    }
    Ok(ExitCode::SUCCESS)
}
