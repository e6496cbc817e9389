//! The knobs of traces.

use super::knob::Knob;
use super::shapes::NONE;
use crate::trace::{TraceOptions, check_endpoint};

const TRACES: &str = "Traces";

/// The variable by which every program that speaks OpenTelemetry is told the same.
pub(super) const STANDARD_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

pub(super) const OTLP_ENDPOINT: Knob = Knob {
    name: "otlp_endpoint",
    flag: "otlp-endpoint",
    env: "DRIFTQ_OTLP_ENDPOINT",
    heading: TRACES,
    help: "Send traces to this collector by OTLP over HTTP, such as http://127.0.0.1:4318; none for no traces. \
           OTEL_EXPORTER_OTLP_ENDPOINT counts if this is not given",
    value: "URL",
    get: |config| config.http.traces.endpoint.clone().unwrap_or_else(|| NONE.to_owned()),
    set: |config, text| {
        if text != NONE {
            check_endpoint(text)?;
        }
        config.http.traces.endpoint = (text != NONE).then(|| text.to_owned());
        Ok(())
    },
};

pub(super) const TRACE_SAMPLE: Knob = Knob {
    name: "trace_sample",
    flag: "trace-sample",
    env: "DRIFTQ_TRACE_SAMPLE",
    heading: TRACES,
    help: "Share of the messages that come without a traceparent and begin a trace, 0 to 1; others do as theirs says",
    value: "SHARE",
    get: |config| show_share(config.http.traces.sample_ppm),
    set: |config, text| {
        config.http.traces.sample_ppm = share(text)?;
        Ok(())
    },
};

/// A share in parts of a million.
fn share(text: &str) -> Result<u32, String> {
    let complain =
        || format!("`{text}` is not a share from 0 to 1 with at most six decimals, for example 0.01");
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let plain = |part: &str| part.chars().all(|c| c.is_ascii_digit());
    if !matches!(whole, "0" | "1") || decimals.len() > 6 || !plain(decimals) {
        return Err(complain());
    }
    let millionths: u32 = format!("{whole}{decimals:0<6}").parse().map_err(|_| complain())?;
    if millionths > TraceOptions::SAMPLE_ALL { Err(complain()) } else { Ok(millionths) }
}

fn show_share(ppm: u32) -> String {
    let (whole, rest) = (ppm / TraceOptions::SAMPLE_ALL, ppm % TraceOptions::SAMPLE_ALL);
    let decimals = format!("{rest:06}");
    match decimals.trim_end_matches('0') {
        "" => whole.to_string(),
        decimals => format!("{whole}.{decimals}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{share, show_share};

    #[test]
    fn shares_are_read_and_shown() {
        for (text, ppm) in [("0", 0), ("1", 1_000_000), ("0.01", 10_000), ("0.000001", 1), ("0.5", 500_000)] {
            assert_eq!(share(text), Ok(ppm));
            assert_eq!(show_share(ppm), text);
        }
        assert_eq!(share("1.0"), Ok(1_000_000));
        for text in ["", "2", "1.1", "-1", ".5", "0,5", "1%", "0.0000001", "0.x", "NaN"] {
            assert!(share(text).unwrap_err().contains("0.01"), "{text}");
        }
    }
}
