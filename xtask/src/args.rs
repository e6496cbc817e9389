//! A few flags do not need a library: `--name`, `--name value` and `--name=value`.

use std::str::FromStr;

use anyhow::{Context, Result, bail};

pub(crate) struct Args {
    left: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: &[String]) -> Self {
        let split = |word: &String| match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => vec![name.to_owned(), value.to_owned()],
            _ => vec![word.clone()],
        };
        Self { left: words.iter().flat_map(split).collect() }
    }

    /// Takes `--name` out; true when it was there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.left.len();
        self.left.retain(|word| word != name);
        self.left.len() < before
    }

    /// Takes `--name value` out.
    pub(crate) fn value<T>(&mut self, name: &str) -> Result<Option<T>>
    where
        T: FromStr,
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let Some(position) = self.left.iter().position(|word| word == name) else { return Ok(None) };
        if position + 1 >= self.left.len() {
            bail!("{name} needs a value");
        }
        let value = self.left.remove(position + 1);
        self.left.remove(position);
        value.parse().map(Some).with_context(|| format!("{name} does not take `{value}`"))
    }

    /// Nothing may be left over: a mistyped flag must not be ignored silently.
    pub(crate) fn finish(self) -> Result<()> {
        match self.left.first() {
            Some(word) => bail!("unknown argument `{word}`; add --help to see what there is"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Args;

    fn args(line: &str) -> Args {
        Args::new(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn flags_and_values_are_taken_out() {
        let mut args = args("--seeds 7 --quick --only=name");
        assert!(args.flag("--quick"));
        assert_eq!(args.value::<u64>("--seeds").expect("it is a number"), Some(7));
        assert_eq!(args.value::<String>("--only").expect("it is a word"), Some("name".to_owned()));
        assert_eq!(args.value::<u64>("--cycles").expect("it is absent"), None);
        args.finish().expect("nothing is left");
    }

    #[test]
    fn mistakes_are_refused() {
        assert!(args("--sedes 7").finish().is_err());
        assert!(args("--seeds").value::<u64>("--seeds").is_err());
        assert!(args("--seeds many").value::<u64>("--seeds").is_err());
    }
}
