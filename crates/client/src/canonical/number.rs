//! Numbers as ECMAScript writes them.

/// Numbers from here on are written with an exponent.
const POINT_MAX: i32 = 21;

/// Appends a number that is neither infinite nor not a number.
pub(super) fn write_float(float: f64, out: &mut String) {
    if float == 0.0 {
        out.push('0');
        return;
    }
    if float < 0.0 {
        out.push('-');
    }
    // The shortest digits that read back as the same number, and the power of ten of the first one.
    let text = format!("{:e}", float.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = mantissa.replace('.', "");
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    match point {
        _ if count <= point && point <= POINT_MAX => {
            out.push_str(&digits);
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
        }
    }
}
