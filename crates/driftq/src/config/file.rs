//! The TOML file: flat, with the knobs' names, and nothing else in it.

use toml::de::{DeTable, DeValue};

use super::{
    knob,
    resolve::{Given, Origin, Problem},
};

/// Two names this close are taken for a slip of the fingers.
const TYPO_DISTANCE_MAX: usize = 3;

/// Reads the file's text. Problems name the line, so that the user can go there.
pub(crate) fn read(path: &str, text: &str) -> (Vec<Given>, Vec<Problem>) {
    let mut given = Vec::new();
    let mut problems = Vec::new();
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            problems.push(Problem::new(path_line(path, text, at), error.message().to_owned()));
            return (given, problems);
        }
    };
    for (key, value) in table.get_ref() {
        let name: &str = key.get_ref();
        let place = path_line(path, text, key.span().start);
        let Some(knob) = knob::find(name) else {
            problems.push(Problem::new(place, unknown(name)));
            continue;
        };
        match plain(value.get_ref()) {
            Some(text) => given.push(Given { knob, text, origin: Origin::File }),
            None => problems
                .push(Problem::new(place, format!("`{name}` must be a string, a whole number or a boolean"))),
        }
    }
    (given, problems)
}

fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn path_line(path: &str, text: &str, at: usize) -> String {
    let line = text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
    format!("{path}:{line}")
}

fn unknown(name: &str) -> String {
    let nearest = knob::KNOBS.iter().map(|knob| (distance(knob.name, name), knob.name)).min();
    match nearest {
        Some((distance, close)) if distance <= TYPO_DISTANCE_MAX => {
            format!("unknown key `{name}`; did you mean `{close}`?")
        }
        _ => format!("unknown key `{name}`; `driftq config check` lists all names"),
    }
}

/// Letters to change, add or drop to get from one name to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_plain_kind_are_taken() {
        let text = "listen = \"0.0.0.0:9\"\nin_flight_max = 1_000\nephemeral = true\n";
        let (given, problems) = read("f.toml", text);
        assert!(problems.is_empty(), "{problems:?}");
        let mut texts: Vec<_> =
            given.iter().map(|given| (knob::KNOBS[given.knob].name, &*given.text)).collect();
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
    fn broken_toml_names_its_line() {
        let (_, problems) = read("f.toml", "listen = \"a:1\"\ndata = \n");
        assert!(problems[0].to_string().starts_with("f.toml:2: "), "{}", problems[0]);
    }
}
