//! Functions stay under seventy lines.
//!
//! Method: in the masked code (comments and literals blanked) every `fn name` opens a function. Its length is the
//! number of physical lines from the one with `fn` to the one with the brace that closes its body, both included;
//! doc comments and attributes above do not count. Closures and nested functions count into the function around
//! them, and nested functions also on their own. Test code is exempt, and so are tables: functions that are one `match`
//! with one line for each case. To take a step out of one of those would take away that no case can be forgotten.

use super::{
    finding::Finding,
    mask::is_word,
    source::{Source, body_start, matching},
};

const FUNCTION_LINES_HARD: usize = 70;

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let functions = source.words("fn").filter(|&offset| !source.in_test(offset));
    let measured = functions.filter_map(|offset| measure(source, offset));
    let too_long = measured.filter(|function| function.lines > FUNCTION_LINES_HARD);
    let report = |function: Function| {
        let Function { name, line, lines } = function;
        let message =
            format!("`{name}` has {lines} lines, the limit is {FUNCTION_LINES_HARD}: take a step out of it");
        Finding::error(&source.path, line, "function-size", message)
    };
    too_long.map(report).collect()
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// Measures the function whose `fn` stands at `offset`; none for pointer types, macros and bodiless declarations.
fn measure(source: &Source, offset: usize) -> Option<Function> {
    let rest = source.code[offset + 2..].trim_start();
    let length = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
    if length == 0 {
        return None;
    }
    let start = body_start(&source.code, offset)?;
    let end = matching(&source.code, start);
    if is_table(&source.code[start..end]) {
        return None;
    }
    let line = source.line(offset);
    Some(Function { name: rest[..length].to_owned(), line, lines: source.line(end - 1) + 1 - line })
}

/// Whether a body, with its braces, is one `match` with a line for each case.
fn is_table(body: &str) -> bool {
    let inside = body.trim_start_matches('{').trim_end_matches('}').trim();
    let Some((_, cases)) = inside.strip_prefix("match ").and_then(|rest| rest.split_once("{\n")) else {
        return false;
    };
    let cases = cases.trim_end().trim_end_matches('}');
    let is_pattern = |line: &str| line.bytes().all(|byte| is_word(byte) || b":| ()".contains(&byte));
    let is_case = |line: &str| line.contains("=>") && line.ends_with(',') && !line.contains('{');
    cases.lines().map(str::trim).all(|line| is_pattern(line) || is_case(line))
}

#[cfg(test)]
mod tests {
    use super::{Source, check};

    fn function(lines: usize) -> String {
        format!(
            "/// Doc.\nfn long<const N: usize>(x: [u8; 4]) -> u8 {{\n{}}}\n",
            "    a(\"}\");\n".repeat(lines - 2)
        )
    }

    #[test]
    fn a_function_of_seventy_lines_passes_and_one_more_fails() {
        assert!(check(&Source::new("a.rs", function(70))).is_empty());
        let findings = check(&Source::new("a.rs", function(71)));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
        assert!(findings[0].message.contains("`long` has 71 lines"), "{}", findings[0].message);
    }

    #[test]
    fn a_table_may_be_longer_and_what_only_begins_like_one_may_not() {
        let table =
            |case: &str| format!("fn long(x: X) -> u8 {{\n    match x {{\n{}    }}\n}}\n", case.repeat(90));
        for case in ["        X::A => 1,\n", "        X::A\n        | X::B(_) => a(x, 2).await,\n"] {
            assert!(check(&Source::new("a.rs", table(case))).is_empty(), "{case}");
        }
        for case in [
            "        X::A => {\n            1\n        }\n",
            "        X::A => a(\n            1,\n        ),\n",
        ] {
            assert_eq!(check(&Source::new("a.rs", table(case))).len(), 1, "{case}");
        }
        let more = table("        X::A => 1,\n").replace("    match", "    let a = 1;\n    match");
        assert_eq!(check(&Source::new("a.rs", more)).len(), 1);
    }

    #[test]
    fn tests_declarations_and_pointers_are_not_measured() {
        let in_tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(90));
        assert!(check(&Source::new("a.rs", in_tests)).is_empty());
        let pointers =
            format!("trait T {{ fn f(&self); }}\ntype F = fn(u8);\n{}", "const A: u8 = 1;\n".repeat(90));
        assert!(check(&Source::new("a.rs", pointers)).is_empty());
    }
}
