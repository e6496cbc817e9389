//! Texts as Markdown has them.

/// A cell of a table: on one line, and without what would end it.
pub(crate) fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('|', "\\|").replace('<', "&lt;")
}

/// Links of the source code, `[name](path::Name)`, as links to the heading of that name.
pub(crate) fn links_here(text: &str) -> String {
    let mut parts = text.split("](");
    let mut page = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        page.push_str("](");
        match part.split_once(')').and_then(|(target, rest)| Some((target.rsplit_once("::")?.1, rest))) {
            Some((name, rest)) => page.push_str(&format!("#{}){rest}", name.to_lowercase())),
            None => page.push_str(part),
        }
    }
    page
}

/// A row of a table.
pub(crate) fn row<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let mut line = String::from("|");
    for cell in cells {
        line.push_str(&format!(" {cell} |"));
    }
    line + "\n"
}

/// The head of a table.
pub(crate) fn head(cells: &[&str]) -> String {
    row(cells.iter().copied()) + "|" + &"---|".repeat(cells.len()) + "\n"
}

/// Prose with indented lines in it, which become blocks of code.
pub(crate) fn prose(text: &str) -> String {
    let mut page = String::new();
    let (mut in_code, mut before) = (false, "");
    for line in text.lines() {
        let is_code = line.starts_with("  ");
        if is_code != in_code {
            // What follows other headings is a table, not something to paste.
            let is_shell = before.ends_with("Examples:") || before.ends_with("terminals:");
            page.push_str(match (is_code, is_shell) {
                (false, _) if line.is_empty() => "```\n",
                (false, _) => "```\n\n",
                (true, true) => "\n```sh\n",
                (true, false) => "\n```text\n",
            });
            in_code = is_code;
        }
        before = line;
        page.push_str(if is_code { line.strip_prefix("  ").unwrap_or(line) } else { line });
        page.push('\n');
    }
    if in_code {
        page.push_str("```\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_lines_are_code() {
        assert_eq!(prose("  x\n\ny"), "\n```text\nx\n```\n\ny\n");
        let text = "Words.\n\nExamples:\n  driftq a\n    more\nAfter.";
        let expected = "Words.\n\nExamples:\n\n```sh\ndriftq a\n  more\n```\n\nAfter.\n";
        assert_eq!(prose(text), expected);
        assert_eq!(prose("Codes:\n  x"), "Codes:\n\n```text\nx\n```\n");
    }

    #[test]
    fn links_of_the_code_lead_to_headings() {
        assert_eq!(links_here("a [`B`](super::b::B) c [d](e.md)"), "a [`B`](#b) c [d](e.md)");
        assert_eq!(links_here("no link"), "no link");
    }

    #[test]
    fn cells_stay_in_their_table() {
        assert_eq!(cell("a | b\n  <c>"), "a \\| b &lt;c>");
        assert_eq!(head(&["a", "b"]), "| a | b |\n|---|---|\n");
    }
}
