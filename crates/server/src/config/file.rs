//! The TOML file: flat, with the knobs' names, and nothing else in it. A few names that begin alike may stand in a
//! table of that beginning.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{
    knob::{self, KNOBS, Knob},
    resolve::{Given, Origin, Problem},
};

/// Two names this close are taken for a slip of the fingers.
const TYPO_DISTANCE_MAX: usize = 3;
/// Beginnings of names that may be tables: `url` in `[router]` is `router_url`.
const SECTIONS: [&str; 2] = ["router", "router_breaker"];

/// Reads the file's text. Problems name the line, so that the user can go there.
pub(crate) fn read(path: &str, text: &str) -> (Vec<Given>, Vec<Problem>) {
    let mut reader = Reader { path, text, given: Vec::new(), problems: Vec::new() };
    match DeTable::parse(text) {
        Ok(table) => reader.table("", table.get_ref()),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            reader.problem(at, error.message().to_owned());
        }
    }
    (reader.given, reader.problems)
}

struct Reader<'a> {
    path: &'a str,
    text: &'a str,
    given: Vec<Given>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    /// Reads a table whose names all begin with `section`.
    fn table(&mut self, section: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let own: &str = key.get_ref();
            let name = if section.is_empty() { own.to_owned() } else { format!("{section}_{own}") };
            match (value.get_ref(), knob::find(&name)) {
                (DeValue::Table(inner), None) if SECTIONS.contains(&&*name) => self.table(&name, inner),
                (_, None) => self.problem(key.span().start, unknown(section, own)),
                (value, Some(knob)) => self.value(knob, own, key.span().start, value),
            }
        }
    }

    fn value(&mut self, knob: usize, own: &str, at: usize, value: &DeValue<'_>) {
        if self.given.iter().any(|given| given.knob == knob) {
            // TOML refuses the same name twice; here two names mean the same.
            return self.problem(at, format!("`{}` is given twice", KNOBS[knob].name));
        }
        match plain(&KNOBS[knob], value) {
            Some(text) => self.given.push(Given { knob, text, origin: Origin::File }),
            None if KNOBS[knob].is_list() => {
                self.problem(at, format!("`{own}` must be a string or a list of strings"));
            }
            None => self.problem(at, format!("`{own}` must be a string, a whole number or a boolean")),
        }
    }

    fn problem(&mut self, at: usize, message: String) {
        let line = self.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
        self.problems.push(Problem::new(format!("{}:{line}", self.path), message));
    }
}

fn plain(knob: &Knob, value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Array(items) if knob.is_list() => {
            let texts: Option<Vec<&str>> = items.iter().map(Spanned::get_ref).map(DeValue::as_str).collect();
            texts.map(|texts| texts.join(","))
        }
        _ => None,
    }
}

/// What to say about a name in a section that is none; in a section, names are told without their beginning.
fn unknown(section: &str, own: &str) -> String {
    let start = if section.is_empty() { String::new() } else { format!("{section}_") };
    let known = KNOBS.iter().filter_map(|knob| knob.name.strip_prefix(&*start));
    let nearest = known.map(|name| (strsim::osa_distance(name, own), name)).min();
    let within =
        if section.is_empty() { String::new() } else { format!(" in [{}]", section.replace('_', ".")) };
    match nearest {
        Some((distance, close)) if distance <= TYPO_DISTANCE_MAX => {
            format!("unknown key `{own}`{within}; did you mean `{close}`?")
        }
        _ => format!("unknown key `{own}`{within}; `driftq config check` lists all names"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_plain_kind_are_taken() {
        let text = "listen = \"0.0.0.0:9\"\nin_flight_max = 1_000\nephemeral = true\n";
        let (given, problems) = read("f.toml", text);
        assert!(problems.is_empty(), "{problems:?}");
        let mut texts: Vec<_> = given.iter().map(|given| (KNOBS[given.knob].name, &*given.text)).collect();
        texts.sort_unstable();
        let count = texts[1].1.replace('_', "");
        assert_eq!((texts[0], &*count, texts[2]), (("ephemeral", "true"), "1000", ("listen", "0.0.0.0:9")));
    }

    #[test]
    fn unknown_keys_are_refused_with_their_line() {
        let (given, problems) = read("f.toml", "listen = \"a:1\"\n\nin_fligth_max = 3\n[http]\nx = 1\n");
        assert_eq!(given.len(), 1);
        let mut texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
        texts.sort_unstable();
        assert_eq!(texts[0], "f.toml:3: unknown key `in_fligth_max`; did you mean `in_flight_max`?");
        assert!(texts[1].starts_with("f.toml:4: unknown key `http`"), "{}", texts[1]);
    }

    #[test]
    fn the_router_may_have_its_own_table() {
        let text = "listen = \"a:1\"\n[router]\nurl = \"http://b/\"\ntopics = [\"a\", \"b.*\"]\nbreaker_window_ms = 5\n\
                    [router.breaker]\nfailures_max = 7\n";
        let (given, problems) = read("f.toml", text);
        assert!(problems.is_empty(), "{problems:?}");
        let mut texts: Vec<_> = given.iter().map(|given| (KNOBS[given.knob].name, &*given.text)).collect();
        texts.sort_unstable();
        assert_eq!(
            texts,
            [
                ("listen", "a:1"),
                ("router_breaker_failures_max", "7"),
                ("router_breaker_window_ms", "5"),
                ("router_topics", "a,b.*"),
                ("router_url", "http://b/"),
            ]
        );
    }

    #[test]
    fn mistakes_in_a_table_are_told_in_its_own_names() {
        let text = "router_url = \"http://a/\"\n[router]\nurl = \"http://b/\"\ntime_out_ms = 5\ntopics = [1]\n\
                    rules = [\"a\"]\n[router.nonsense]\nx = 1\n[router.breaker]\nfailure_max = 1\n";
        let (_, problems) = read("f.toml", text);
        let mut texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
        texts.sort_unstable();
        let expected = [
            "f.toml:10: unknown key `failure_max` in [router.breaker]; did you mean `failures_max`?",
            "f.toml:1: `router_url` is given twice",
            "f.toml:4: unknown key `time_out_ms` in [router]; did you mean `timeout_ms`?",
            "f.toml:5: `topics` must be a string or a list of strings",
            "f.toml:6: `rules` must be a string, a whole number or a boolean",
            "f.toml:7: unknown key `nonsense` in [router]; `driftq config check` lists all names",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn broken_toml_names_its_line() {
        let (_, problems) = read("f.toml", "listen = \"a:1\"\ndata = \n");
        assert!(problems[0].to_string().starts_with("f.toml:2: "), "{}", problems[0]);
    }
}
