//! The query of a call of `/v2`: every parameter known, given once, and within its bounds.

use std::borrow::Cow;

use super::labels::Labels;
use super::read::text::or_list;
use crate::fault::Fault;
use crate::moment::Moment;
use crate::query::Query;

/// What comes before the name of a label in a query.
const LABEL_PREFIX: &str = "label.";

/// The parameters of one request, taken out one by one; what is left at the end was not known.
pub(super) struct Parameters<'a> {
    left: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    known: Vec<&'static str>,
}

impl<'a> Parameters<'a> {
    pub(super) fn new(query: Query<'a>) -> Self {
        Self { left: query.into_pairs(), known: Vec::new() }
    }

    fn take(&mut self, name: &'static str) -> Result<Option<Cow<'a, str>>, Fault> {
        self.known.push(name);
        let mut found = None;
        while let Some(at) = self.left.iter().position(|(candidate, _)| candidate == name) {
            if found.replace(self.left.swap_remove(at).1).is_some() {
                return Err(Fault::invalid(format!("{name}: is given twice")));
            }
        }
        Ok(found)
    }

    /// A text with bounds in bytes.
    pub(super) fn text(
        &mut self,
        name: &'static str,
        min: usize,
        max: usize,
    ) -> Result<Option<Cow<'a, str>>, Fault> {
        let Some(text) = self.take(name)? else { return Ok(None) };
        if (min..=max).contains(&text.len()) {
            return Ok(Some(text));
        }
        Err(Fault::invalid(format!("{name}: must have {min} to {max} bytes, has {}", text.len())))
    }

    /// A whole number with bounds.
    pub(super) fn number<N: TryFrom<u64>>(
        &mut self,
        name: &'static str,
        min: u64,
        max: u64,
    ) -> Result<Option<N>, Fault> {
        let Some(text) = self.take(name)? else { return Ok(None) };
        // The standard parser takes a sign, which the contract does not mention.
        let number =
            text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
        let number =
            number.filter(|number| (min..=max).contains(number)).and_then(|number| N::try_from(number).ok());
        let refused = || Fault::invalid(format!("{name}: must be a whole number between {min} and {max}"));
        number.map(Some).ok_or_else(refused)
    }

    /// A point in time.
    pub(super) fn moment(&mut self, name: &'static str) -> Result<Option<Moment>, Fault> {
        let Some(text) = self.take(name)? else { return Ok(None) };
        let refused =
            || Fault::invalid(format!("{name}: must be an RFC 3339 time such as 2025-12-21T12:00:00Z"));
        Moment::parse(&text).map(Some).ok_or_else(refused)
    }

    /// One word out of several.
    pub(super) fn word<T: Copy>(
        &mut self,
        name: &'static str,
        words: &[(&'static str, T)],
    ) -> Result<Option<T>, Fault> {
        let Some(text) = self.take(name)? else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text);
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let refused = || Fault::invalid(format!("{name}: must be {}", or_list(&names)));
        found.map(|(_, value)| Some(*value)).ok_or_else(refused)
    }

    /// Everything that begins with `label.`.
    pub(super) fn labels(&mut self) -> Result<Labels<'a>, Fault> {
        self.known.push("label.*");
        let pairs = self.left.extract_if(.., |(name, _)| name.starts_with(LABEL_PREFIX));
        let pairs = pairs.map(|(name, value)| (without_prefix(name), value)).collect();
        Labels::new(pairs).map_err(|refusal| Fault::invalid(format!("label: {refusal}")))
    }

    /// Refuses parameters that the call does not know: a misspelt filter must not answer with everything.
    pub(super) fn finish(self) -> Result<(), Fault> {
        let Some((name, _)) = self.left.first() else { return Ok(()) };
        if self.known.is_empty() {
            return Err(Fault::invalid(format!("{name}: unknown parameter, expected none")));
        }
        Err(Fault::invalid(format!("{name}: unknown parameter, expected {}", or_list(&self.known))))
    }
}

fn without_prefix(name: Cow<'_, str>) -> Cow<'_, str> {
    match name {
        Cow::Borrowed(name) => Cow::Borrowed(&name[LABEL_PREFIX.len()..]),
        Cow::Owned(name) => Cow::Owned(name[LABEL_PREFIX.len()..].to_owned()),
    }
}
