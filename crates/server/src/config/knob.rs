//! What a knob is: its names, its help, and how its text is read and shown.

pub use super::table::KNOBS;
use super::{Config, Profile};

/// One thing that can be configured.
pub struct Knob {
    /// Its name in the file.
    pub name: &'static str,
    /// Its name on the command line, without the dashes in front.
    pub(crate) flag: &'static str,
    /// Its name in the environment.
    pub(crate) env: &'static str,
    /// The heading it stands under in `--help`.
    pub(crate) heading: &'static str,
    /// What it does.
    pub(crate) help: &'static str,
    /// What its value looks like, for `--help`.
    pub(crate) value: &'static str,
    /// Its value in a configuration, as text that [`Knob::set`] reads back.
    pub get: fn(&Config) -> String,
    /// Reads a text into a configuration, or says what is wrong with it.
    pub(crate) set: fn(&mut Config, &str) -> Result<(), String>,
}

impl Knob {
    /// A switch needs no value on the command line: naming it turns it on.
    pub(crate) fn is_switch(&self) -> bool {
        self.value == SWITCH
    }

    /// Several names: separated by commas, or a list in a file.
    pub(crate) fn is_list(&self) -> bool {
        self.value == LIST || self.adds_up()
    }

    /// Each time that it is given on the command line counts, and not only the last.
    pub(crate) fn adds_up(&self) -> bool {
        self.value == PAIRS
    }
}

/// Value name of knobs that are on or off.
pub(super) const SWITCH: &str = "BOOL";
/// Value name of knobs that take several names, in a file also as a list.
pub(super) const LIST: &str = "NAMES";
/// Value name of knobs that map names to keys, as lists do; they are long, so that each may have a flag of its own.
pub(super) const PAIRS: &str = "NAME=KEY_ID";

/// The knob of this name.
pub(crate) fn find(name: &str) -> Option<usize> {
    KNOBS.iter().position(|knob| knob.name == name)
}

pub(crate) fn profile(text: &str) -> Result<Profile, String> {
    match text {
        "default" => Ok(Profile::Default),
        "v1-dev" => Ok(Profile::V1Dev),
        _ => Err(format!("`{text}` is neither default nor v1-dev")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_names_of_a_knob_are_one_name() {
        for knob in KNOBS {
            assert_eq!(knob.flag, knob.name.replace('_', "-"));
            assert_eq!(knob.env, format!("DRIFTQ_{}", knob.name.to_uppercase()));
        }
    }

    #[test]
    fn every_default_reads_back_as_itself() {
        for profile in [Profile::Default, Profile::V1Dev] {
            let config = Config::of_profile(profile);
            for knob in KNOBS {
                let text = (knob.get)(&config);
                let mut other = Config::default();
                (knob.set)(&mut other, &text).unwrap_or_else(|error| panic!("{}: {error}", knob.name));
                assert_eq!((knob.get)(&other), text, "{}", knob.name);
            }
        }
    }

    #[test]
    fn nonsense_is_refused_by_every_knob_that_has_a_shape() {
        // A path can be anything, and so can the name of a topic.
        let shapeless = [
            "data",
            "root_key_file",
            "router_rules",
            "router_topics",
            "tls_cert",
            "tls_key",
            "tls_client_ca",
        ];
        for knob in KNOBS.iter().filter(|knob| !shapeless.contains(&knob.name)) {
            assert!((knob.set)(&mut Config::default(), "///=").is_err(), "{}", knob.name);
        }
    }

    #[test]
    fn zero_is_no_limit_that_anyone_can_mean() {
        let refusing = KNOBS.iter().filter(|knob| (knob.set)(&mut Config::default(), "0").is_err());
        assert!(refusing.count() >= 15);
    }
}
