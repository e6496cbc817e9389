//! Figures beside their peers, and the page they end up on.

use serde::Serialize;

use super::{Plan, load::Length};
use driftq_api::shown::grouped;
use driftq_api::units::show_bytes;
use driftq_cli::output::Listing;

/// What a figure is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    PerSecond,
    Milliseconds,
    Microseconds,
    Bytes,
    PerRequest,
    Instructions,
    Percent,
}

/// What a figure has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Must {
    /// The ratio to the peer is at least this.
    RatioAtLeast(f64),
    /// The ratio to the peer is at most this.
    RatioAtMost(f64),
    /// The value itself is at most this.
    AtMost(f64),
    /// The value itself is at least this.
    AtLeast(f64),
}

/// One measured number.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) unit: Unit,
    /// What it is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer_value: Option<f64>,
    /// Our value by the peer's, round by round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<f64>,
    /// What it has to reach, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) must: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) met: Option<bool>,
}

impl Figure {
    pub(super) fn new(name: impl Into<String>, value: f64, unit: Unit) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            peer: None,
            peer_value: None,
            ratio: None,
            must: None,
            met: None,
        }
    }

    #[must_use]
    pub(super) fn beside(mut self, peer: impl Into<String>, value: f64, ratio: f64) -> Self {
        (self.peer, self.peer_value, self.ratio) = (Some(peer.into()), Some(value), Some(ratio));
        self
    }

    /// States the bound and whether it is met. A bound on a ratio without a peer is never met.
    #[must_use]
    pub(super) fn must(mut self, must: Must) -> Self {
        (self.must, self.met) = match must {
            Must::RatioAtLeast(least) => {
                (Some(format!("≥ {least:.2} ×")), Some(self.ratio.is_some_and(|ratio| ratio >= least)))
            }
            Must::RatioAtMost(most) => {
                (Some(format!("≤ {most:.2} ×")), Some(self.ratio.is_some_and(|ratio| ratio <= most)))
            }
            Must::AtMost(most) => (Some(format!("≤ {}", show(most, self.unit))), Some(self.value <= most)),
            Must::AtLeast(least) => {
                (Some(format!("≥ {}", show(least, self.unit))), Some(self.value >= least))
            }
        };
        self
    }
}

/// Everything a run measured.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: &'static str,
    cores: usize,
    data_directory: String,
    payload_bytes: usize,
    rounds: usize,
    round: String,
    pub(super) figures: Vec<Figure>,
    /// Things a reader of the figures should know.
    pub(super) notes: Vec<String>,
}

impl Report {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            data_directory: plan.dir.display().to_string(),
            payload_bytes: plan.payload,
            rounds: plan.rounds,
            round: match plan.length {
                Length::Time(length) => format!("{} s", length.as_secs_f64()),
                Length::Requests(count) => format!("{count} requests"),
            },
            figures: Vec::new(),
            notes: if cfg!(debug_assertions) {
                vec!["this is a debug build: build with --release before you believe a figure".to_owned()]
            } else {
                Vec::new()
            },
        }
    }

    pub(super) fn add(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    pub(super) fn text(&self) -> String {
        let mut listing = Listing::new(&["FIGURE", "VALUE", "BESIDE", "ITS VALUE", "RATIO", "MUST", "MET"]);
        let dash = || "-".to_owned();
        for figure in &self.figures {
            listing.row([
                figure.name.clone(),
                show(figure.value, figure.unit),
                figure.peer.clone().unwrap_or_else(dash),
                figure.peer_value.map_or_else(dash, |value| show(value, figure.unit)),
                figure.ratio.map_or_else(dash, |ratio| format!("{ratio:.2}")),
                figure.must.clone().unwrap_or_else(dash),
                figure.met.map_or_else(dash, |met| if met { "yes" } else { "NO" }.to_owned()),
            ]);
        }
        let mut text = format!(
            "driftq {}, {} cores, {}-byte values, {} rounds of {}, data in {}\n\n{}",
            self.version,
            self.cores,
            self.payload_bytes,
            self.rounds,
            self.round,
            self.data_directory,
            listing.text()
        );
        for note in &self.notes {
            text.push_str(&format!("\nnote: {note}"));
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        text
    }
}

fn show(value: f64, unit: Unit) -> String {
    match unit {
        Unit::PerSecond => format!("{}/s", grouped(value.round() as u64)),
        Unit::Milliseconds if value < 10.0 => format!("{value:.2} ms"),
        Unit::Milliseconds => format!("{} ms", grouped(value.round() as u64)),
        Unit::Microseconds => format!("{value:.1} µs"),
        Unit::Bytes if value >= f64::from(1 << 20) => format!("{:.1} MiB", value / f64::from(1 << 20)),
        Unit::Bytes => show_bytes(value.round() as u64),
        Unit::PerRequest => format!("{value:.3}"),
        Unit::Instructions => grouped(value as u64),
        Unit::Percent => format!("{value:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_judged() {
        let rate = Figure::new("produce", 50.0, Unit::PerSecond).beside("bare", 100.0, 0.5);
        assert_eq!(rate.clone().must(Must::RatioAtLeast(0.5)).met, Some(true));
        assert_eq!(rate.clone().must(Must::RatioAtMost(0.5)).met, Some(true));
        assert_eq!(rate.clone().must(Must::RatioAtMost(0.49)).met, Some(false));
        assert_eq!(rate.must(Must::RatioAtLeast(0.51)).met, Some(false));
        let alone = Figure::new("produce", 50.0, Unit::PerSecond);
        assert_eq!(alone.clone().must(Must::RatioAtLeast(0.1)).met, Some(false));
        assert_eq!(alone.must(Must::RatioAtMost(0.1)).met, Some(false));
        let memory = Figure::new("memory", 1024.0, Unit::Bytes).must(Must::AtMost(2048.0));
        assert_eq!((memory.met, memory.must.as_deref()), (Some(true), Some("≤ 2KiB")));
    }

    #[test]
    fn values_wear_their_unit() {
        for (value, unit, text) in [
            (12_345.6, Unit::PerSecond, "12,346/s"),
            (0.123, Unit::Milliseconds, "0.12 ms"),
            (1234.0, Unit::Milliseconds, "1,234 ms"),
            (f64::from(3 << 20), Unit::Bytes, "3.0 MiB"),
            (0.0123, Unit::PerRequest, "0.012"),
            (12_345.0, Unit::Instructions, "12,345"),
            (98.76, Unit::Percent, "98.8 %"),
        ] {
            assert_eq!(show(value, unit), text);
        }
    }
}
