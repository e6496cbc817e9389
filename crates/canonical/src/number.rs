//! Numbers as ECMAScript writes them, by their digits: no number is ever read as a float.

/// Numbers from here on are written with an exponent.
const POINT_MAX: i64 = 21;

/// Appends a number that is neither infinite nor not a number.
pub(super) fn write_float(float: f64, out: &mut String) {
    // The shortest digits that read back as the same number.
    write_number(&format!("{float:e}"), out);
}

/// Appends a number as JSON has it. An integer keeps its digits, however many; anything else keeps its exact value,
/// however it is spelled.
pub(super) fn write_number(literal: &str, out: &mut String) {
    let (sign, number) = literal.strip_prefix('-').map_or(("", literal), |number| ("-", number));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    // The place of the point, counted from the first digit that is not zero.
    let point = whole.len() as i64 - (digits.len() - significant.len()) as i64;
    let significant = significant.trim_end_matches('0');
    let is_integer = number.bytes().all(|byte| byte.is_ascii_digit());
    match exponent.parse::<i32>() {
        _ if significant.is_empty() => out.push('0'),
        Ok(exponent) if !is_integer => {
            out.push_str(sign);
            lay_out(significant, point + i64::from(exponent), out);
        }
        // What has an exponent beyond all measure has only the form that it came in.
        _ => out.push_str(literal),
    }
}

/// The digits with the point after so many of them.
fn lay_out(digits: &str, point: i64, out: &mut String) {
    let count = digits.len() as i64;
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    match point {
        _ if count <= point && point <= POINT_MAX => {
            out.push_str(digits);
            out.push_str(&zeros(point - count));
        }
        1..=POINT_MAX => {
            let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
            out.push_str(&format!("{whole}.{fraction}"));
        }
        -5..=0 => out.push_str(&format!("0.{}{digits}", zeros(-point))),
        _ => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            out.push_str(&format!("{first}{dot}{rest}e{:+}", point - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(literal: &str) -> String {
        let mut out = String::new();
        write_number(literal, &mut out);
        out
    }

    #[test]
    fn the_borders_of_every_form() {
        for (float, text) in [
            (-0.0, "0"),
            (-1.5, "-1.5"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (123_456_789.125, "123456789.125"),
            (1e-6, "0.000001"),
            (1.25e-6, "0.00000125"),
            (1e-7, "1e-7"),
            (-1.25e-7, "-1.25e-7"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (9_007_199_254_740_993.0, "9007199254740992"),
        ] {
            let mut out = String::new();
            write_float(float, &mut out);
            assert_eq!(out, text);
            assert_eq!(out.parse::<f64>().unwrap().to_bits() & !(1 << 63), float.to_bits() & !(1 << 63));
            assert_eq!(number(text), text, "its own form");
        }
    }

    #[test]
    fn every_spelling_of_a_value_has_one_form() {
        for (spellings, form) in [
            (&["1", "1.0", "1e0", "1E0", "10e-1", "0.1e+1", "1.000E-00"][..], "1"),
            (&["0", "-0", "0.00", "-0e99999999999"], "0"),
            (&["0.1", "0.10", "1e-1", "100.0E-3"], "0.1"),
            (&["-2.50", "-25e-1"], "-2.5"),
            (&["1e21", "1000000000000000000000.0"], "1e+21"),
        ] {
            for spelling in spellings {
                assert_eq!(number(spelling), form, "{spelling}");
            }
        }
    }

    #[test]
    fn values_that_differ_anywhere_differ() {
        for literal in [
            "9007199254740993",
            "1000000000000000000000",
            "123456789012345678901234567890",
            "0.1000000000000000055511151231257827",
            "1e+400",
            "1e+401",
            "1e-400",
            "1e99999999999",
            "1E99999999999",
        ] {
            assert_eq!(number(literal), literal);
        }
    }
}
