//! `driftq-testbed run -- COMMAND`: a PostgreSQL server for as long as a command runs.

use std::{
    env,
    ffi::OsString,
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};
use driftq_testbed::{Postgres, SHARED_VARIABLE};

const USAGE: &str = "\
Usage: driftq-testbed run -- COMMAND [ARGUMENT]...
       driftq-testbed serve [--durable]

  run    starts a PostgreSQL server, runs the command with its URL in DRIFTQ_TEST_POSTGRES, stops the server, and ends
         with the command's exit code
  serve  starts a PostgreSQL server, prints its URL, and stops it when the standard input ends; `--durable`: one of its
         own, with PostgreSQL's own settings, which writes through to the disk

The server runs as an account without privileges, on a free port of the loopback, in a temporary folder. It is gone
afterwards, also if this process is killed. If DRIFTQ_TEST_POSTGRES is set already, that server is used and left alone.
";

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
