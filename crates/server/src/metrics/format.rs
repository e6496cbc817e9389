//! In which of two texts a scraper gets its numbers.

use hyper::header::{ACCEPT, HeaderMap};

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The text format 0.0.4, which every scraper reads.
    Text,
    /// OpenMetrics 1.0, for scrapers that ask for it.
    OpenMetrics,
}

const OPEN_METRICS: &str = "application/openmetrics-text";
const TEXT: &str = "text/plain";

impl Format {
    /// What the headers of a request ask for: OpenMetrics if they name it, and like nothing that is written here
    /// better.
    pub(crate) fn wanted(headers: &HeaderMap) -> Self {
        let named = |media: &str| {
            let lines = headers.get_all(ACCEPT).into_iter().filter_map(|line| line.to_str().ok());
            lines.flat_map(|line| line.split(',')).filter_map(|range| weight(range, media)).max()
        };
        match named(OPEN_METRICS) {
            Some(weight) if weight > 0 && named(TEXT).is_none_or(|text| text <= weight) => Self::OpenMetrics,
            _ => Self::Text,
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The weight of a media range in thousandths, if it names exactly that type.
fn weight(range: &str, media: &str) -> Option<u32> {
    let mut parts = range.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(media) {
        return None;
    }
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let Some(weight) = weight else { return Some(1000) };
    let weight: f64 = weight.trim().parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped just here")]
    Some((weight.clamp(0.0, 1.0) * 1000.0) as u32)
}

/// The same numbers in the text format 0.0.4: there a counter is declared under the name that its samples have, and
/// the end is not marked.
pub(super) fn as_text(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len() + open_metrics.len() / 16);
    // The help of a family comes before its type, which decides the name.
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (total, kind) = match kind {
                "counter" => ("_total", kind),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            if let Some((_, help)) = help.take() {
                out.extend(["# HELP ", name, total, " ", help, "\n"]);
            }
            out.extend(["# TYPE ", name, total, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            out.extend([line, "\n"]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn wanted(accept: Option<&'static str>) -> Format {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
        }
        Format::wanted(&headers)
    }

    #[test]
    fn open_metrics_is_for_those_who_ask_for_it() {
        for accept in [
            None,
            Some("*/*"),
            Some("text/plain"),
            Some("text/html, */*;q=0.1"),
            Some("application/openmetrics-text;q=0"),
            Some("application/openmetrics-text;q=0.1, text/plain;q=0.9"),
            Some("application/openmetrics-texts"),
            Some("application/openmetrics-text;q=high"),
            Some(""),
        ] {
            assert_eq!(wanted(accept), Format::Text, "{accept:?}");
        }
        for accept in [
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; version=1.0.0; charset=utf-8",
            // What Prometheus sends.
            "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        ] {
            assert_eq!(wanted(Some(accept)), Format::OpenMetrics, "{accept}");
        }
    }

    #[test]
    fn a_counter_is_declared_under_the_name_of_its_samples() {
        let open = "# HELP a Things.\n# TYPE a counter\na_total{x=\"# EOF\"} 1\n# HELP b B.\n# TYPE b gauge\nb 2\n\
                    # TYPE c unknown\n# UNIT c seconds\nc 3\n# EOF\n";
        let text = "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"# EOF\"} 1\n# HELP b B.\n\
                    # TYPE b gauge\nb 2\n# TYPE c untyped\nc 3\n";
        assert_eq!(as_text(open), text);
    }
}
