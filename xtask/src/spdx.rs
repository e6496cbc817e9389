//! Decides whether a licence expression can be met with an allow-list.
//!
//! The grammar is the part of SPDX that crates use: identifiers, `WITH` exceptions, `AND`, `OR`, parentheses, and
//! the old `/` for `OR`. `AND` binds tighter than `OR`.

/// True when some choice among the alternatives uses allowed licences only. Malformed expressions are refused.
pub(crate) fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, at: 0, allowed };
    parser.either() == Some(true) && parser.at == words.len()
}

struct Parser<'a> {
    words: &'a [&'a str],
    at: usize,
    allowed: &'a [String],
}

impl Parser<'_> {
    fn take(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.at) == Some(&word);
        self.at += usize::from(is_next);
        is_next
    }

    fn either(&mut self) -> Option<bool> {
        let mut result = self.both()?;
        while self.take("OR") {
            result |= self.both()?;
        }
        Some(result)
    }

    fn both(&mut self) -> Option<bool> {
        let mut result = self.single()?;
        while self.take("AND") {
            result &= self.single()?;
        }
        Some(result)
    }

    fn single(&mut self) -> Option<bool> {
        if self.take("(") {
            let result = self.either()?;
            return self.take(")").then_some(result);
        }
        let mut licence = (*self.words.get(self.at)?).to_owned();
        if ["OR", "AND", "WITH", ")"].contains(&licence.as_str()) {
            return None;
        }
        self.at += 1;
        if self.take("WITH") {
            licence = format!("{licence} WITH {}", self.words.get(self.at)?);
            self.at += 1;
        }
        Some(self.allowed.contains(&licence))
    }
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn expressions_are_met_or_refused() {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("GPL-3.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND Apache-2.0", true),
            ("MIT OR GPL-3.0 AND LGPL-3.0", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0 WITH other-exception", false),
            ("MIT OR", false),
            ("(MIT", false),
            ("MIT Apache-2.0", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), expected, "for {expression:?}");
        }
    }
}
