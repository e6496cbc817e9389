//! Texts that must fit.

use driftq_api::v2::ERROR_BYTES_MAX;

/// As much of a reason as the server keeps.
pub(crate) fn cut(text: &str) -> &str {
    let mut end = text.len().min(ERROR_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reasons_are_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = format!("x{}", "ü".repeat(ERROR_BYTES_MAX));
        assert_eq!(cut(&long).len(), ERROR_BYTES_MAX - 1);
    }
}
