//! A payment API with axum and PostgreSQL, and a client that does its worst to it.
//!
//! `cargo run -p driftq-ledger --example payments` starts a throwaway PostgreSQL and the server, torments it, and says
//! what came of it. The server alone: `… --example payments -- serve --database URL`.

mod client;
mod provider;
mod server;
mod tally;
mod torment;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

const USAGE: &str = "\
A payment API on an idempotency ledger, and a client that torments it.

Usage: payments [torment] [--database URL] [--keys N] [--racers N] [--kills N] [--seed N]
       payments serve --database URL [--listen ADDRESS] [--provider FILE]

  torment   starts the server, submits twice, races, changes payloads under a key, kills the server (kill -9) and starts
            it again, finds out what nobody knew, and counts. Ends with 0 only if every key has exactly one charge.
              --database  a PostgreSQL to work in, in a schema of its own; without it, one is started and thrown away
              --keys      keys per endpoint and phase (10)
              --racers    clients that send the same request at the same time (8)
              --kills     how often the server is killed (3)
              --seed      of everything that is left to chance (1)
  serve     only the server
              --listen    where (127.0.0.1:3000)
              --provider  the file that stands for a provider outside (provider.log)

  POST /charges   a row in the database: outcome and row are written in one transaction (finish_tx), exactly once
  POST /payouts   something outside the database: held if nobody knows whether it happened
  Both are guarded by the HTTP layer.
  Both take a JSON body {\"account\":…,\"amount\":…}, `authorization: Bearer NAME` and `idempotency-key: \"…\"`.
";

/// What the words of the command line come to.
enum Task {
    Serve(server::Settings),
    Torment(torment::Settings),
    Help,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = parsed(&words).and_then(|task| match task {
        Task::Help => {
            print!("{USAGE}");
            Ok(true)
        }
        Task::Serve(settings) => running(server::serve(settings)).map(|()| true),
        Task::Torment(settings) => torment(settings),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn running<T>(task: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Runtime::new().context("starting the runtime")?.block_on(task)
}

fn torment(mut settings: torment::Settings) -> Result<bool> {
    // Lives until the end of this function, and is gone then with everything in it.
    let postgres = match &settings.database {
        Some(_) => None,
        None => {
            println!("starting a throwaway PostgreSQL");
            Some(driftq_testbed::Postgres::shared()?)
        }
    };
    if let Some(postgres) = &postgres {
        settings.database = Some(postgres.url().to_owned());
    }
    running(torment::torment(settings))
}

fn parsed(words: &[String]) -> Result<Task> {
    let (command, mut rest) = match words.first().map(String::as_str) {
        Some("serve") => ("serve", words[1..].iter()),
        Some("torment") => ("torment", words[1..].iter()),
        Some("help" | "--help" | "-h") => return Ok(Task::Help),
        _ => ("torment", words.iter()),
    };
    let mut serve = server::Settings {
        database: String::new(),
        listen: SocketAddr::from(([127, 0, 0, 1], 3000)),
        provider: PathBuf::from("provider.log"),
        ends_with_input: false,
    };
    let mut torment = torment::Settings::default();
    while let Some(word) = rest.next() {
        if word == "--help" || word == "-h" {
            return Ok(Task::Help);
        }
        if (command, word.as_str()) == ("serve", "--ends-with-input") {
            serve.ends_with_input = true;
            continue;
        }
        let value = rest.next().with_context(|| format!("{word} needs a value; see --help"))?;
        let number = || value.parse::<u64>().with_context(|| format!("{word} {value}: not a number"));
        match (command, word.as_str()) {
            ("serve", "--database") => serve.database.clone_from(value),
            ("serve", "--listen") => {
                serve.listen = value.parse().context("--listen is an address and a port")?
            }
            ("serve", "--provider") => serve.provider = PathBuf::from(value),
            ("torment", "--database") => torment.database = Some(value.clone()),
            ("torment", "--keys") => torment.keys = number()?,
            ("torment", "--racers") => torment.racers = number()?,
            ("torment", "--kills") => torment.kills = number()?,
            ("torment", "--seed") => torment.seed = number()?,
            _ => bail!("{command} does not know {word}; see --help"),
        }
    }
    match command {
        "serve" if serve.database.is_empty() => bail!("serve needs --database; see --help"),
        "serve" => Ok(Task::Serve(serve)),
        _ => Ok(Task::Torment(torment)),
    }
}
