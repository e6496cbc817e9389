//! The knobs as command-line flags with environment variables behind them.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, parser::ValueSource};

use super::{
    knob::{KNOBS, Knob},
    resolve::{Given, Origin},
};

/// Heading of the flag that names the file.
const FILE: &str = "config";
/// The environment variable behind it.
pub(crate) const FILE_ENV: &str = "DRIFTQ_CONFIG";

/// What flags and environment said, not yet read.
#[derive(Clone, Debug, Default)]
pub struct KnobArgs {
    /// The file that holds more.
    pub(crate) file: Option<String>,
    /// One entry per knob that was given.
    pub(crate) given: Vec<Given>,
}

impl FromArgMatches for KnobArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut args = Self { file: matches.get_one::<String>(FILE).cloned(), given: Vec::new() };
        for (knob, entry) in KNOBS.iter().enumerate() {
            let Some(texts) = matches.get_many::<String>(entry.name) else { continue };
            let text = texts.map(String::as_str).collect::<Vec<_>>().join(",");
            let origin = match matches.value_source(entry.name) {
                Some(ValueSource::EnvVariable) => Origin::Env,
                _ => Origin::Flag,
            };
            args.given.push(Given { knob, text, origin });
        }
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for KnobArgs {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FILE)
            .long(FILE)
            .env(FILE_ENV)
            .hide_env_values(true)
            .value_name("FILE")
            .help_heading("Server")
            .help("TOML file with the same names as the flags, in snake_case; environment and flags win over it");
        KNOBS.iter().fold(command.arg(file), |command, knob| command.arg(arg(knob)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn arg(knob: &'static Knob) -> Arg {
    let default = (knob.get)(&super::Config::default());
    let arg = Arg::new(knob.name)
        .long(knob.flag)
        .env(knob.env)
        .hide_env_values(true)
        .value_name(knob.value)
        .help_heading(knob.heading);
    if knob.adds_up() {
        return arg.action(ArgAction::Append).help(format!("{} [default: {default}]", knob.help));
    }
    // The last one wins, so that a script can add to flags that it was given.
    let arg = arg.overrides_with(knob.name);
    if knob.is_switch() {
        // `--ephemeral` alone means yes; `--ephemeral=false` takes back what a file said.
        return arg.num_args(0..=1).require_equals(true).default_missing_value("true").help(knob.help);
    }
    arg.help(format!("{} [default: {default}]", knob.help))
}
