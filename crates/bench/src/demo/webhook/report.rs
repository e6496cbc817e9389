//! The results: the receiver's books beside the server's, and said in a sentence.

use std::time::Duration;

use serde::Serialize;

use super::{super::Args, LEASE, receiver::Books};
use driftq_cli::{colour::Paint, wrap};

/// What the server knows of one delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    pub(super) is_delivered: bool,
    /// Sends of which it is on record that they may have arrived.
    pub(super) unknown: u64,
}

/// What is printed at the end.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) passed: bool,
    scenario: &'static str,
    seed: u64,
    kills_asked: u64,
    lease_ms: u64,
    took_ms: u64,
    /// What does the same again.
    command: String,
    deliveries: u64,
    /// How often the server was killed.
    crashes: u64,
    /// Sends that reached the receiver.
    sends: u64,
    /// Of these, those that it answered with 500.
    refused: u64,
    /// And those that it took without an answer.
    broken_off: u64,
    /// Deliveries that it took once more than it had to.
    repeats: u64,
    /// Of the repeats, those of which the server says that they may be one.
    repeats_on_record: u64,
    /// All sends of which the server says that they may have arrived.
    unknown_on_record: u64,
    signatures_verified: u64,
    signatures_wrong: u64,
    /// Deliveries that the receiver never took, or of which the server does not know that they arrived.
    lost: u64,
}

impl Report {
    pub(super) fn new(
        books: &Books,
        recorded: &[Recorded],
        crashes: u64,
        args: &Args,
        seed: u64,
        took: Duration,
    ) -> Self {
        let kills_asked = u64::from(args.kills());
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let pairs = || books.entries.iter().zip(recorded);
        let repeats = |taken: u64| taken.saturating_sub(1);
        let mut report = Self {
            passed: false,
            scenario: "webhook",
            seed,
            kills_asked,
            lease_ms: millis(LEASE),
            took_ms: millis(took),
            command: args.again(seed),
            deliveries: books.entries.len() as u64,
            crashes,
            sends: books.entries.iter().map(|entry| entry.arrived).sum(),
            refused: books.refused,
            broken_off: books.broken_off,
            repeats: books.entries.iter().map(|entry| repeats(entry.taken)).sum(),
            repeats_on_record: pairs()
                .map(|(entry, recorded)| repeats(entry.taken).min(recorded.unknown))
                .sum(),
            unknown_on_record: recorded.iter().map(|recorded| recorded.unknown).sum(),
            signatures_verified: books.verified,
            signatures_wrong: books.wrong,
            lost: pairs().filter(|(entry, recorded)| entry.taken == 0 || !recorded.is_delivered).count()
                as u64,
        };
        report.passed = crashes == kills_asked && report.is_good();
        report
    }

    const fn is_good(&self) -> bool {
        self.lost == 0 && self.repeats_on_record == self.repeats && self.signatures_wrong == 0
    }

    pub(super) fn text(&self, paint: Paint, width: usize) -> String {
        let mut text = format!("\n{}\n{}\n", self.table(paint), self.verdict(paint, width));
        for (name, paragraphs) in self.method() {
            text.push_str(&format!("  {}\n", paint.bold(name)));
            for line in paragraphs.iter().flat_map(|paragraph| wrap::lines(paragraph, width - 4)) {
                text.push_str(&format!("    {}\n", paint.dim(&line)));
            }
        }
        text
    }

    fn table(&self, paint: Paint) -> String {
        let rule = |left: &str, middle: &str, right: &str| {
            paint.dim(&format!("  {left}{}{middle}{}{right}\n", "─".repeat(24), "─".repeat(9)))
        };
        let wall = paint.dim("│");
        let mut text = rule("┌", "┬", "┐");
        let unrecorded = self.repeats - self.repeats_on_record;
        let rows: [(&str, u64, bool); 9] = [
            ("deliveries", self.deliveries, false),
            ("crashes of the server", self.crashes, false),
            ("sends that arrived", self.sends, false),
            ("refused with 500", self.refused, false),
            ("broken off", self.broken_off, false),
            ("repeats, on record", self.repeats_on_record, false),
            ("repeats, unheard of", unrecorded, true),
            ("wrong signatures", self.signatures_wrong, true),
            ("lost", self.lost, true),
        ];
        for (name, number, is_bad) in rows {
            let cell = format!("{number:>7}");
            let cell = match (is_bad, number) {
                (false, _) => cell,
                (true, 0) => paint.green(&cell),
                (true, _) => paint.red(&cell),
            };
            text.push_str(&format!("  {wall} {name:<22} {wall} {cell} {wall}\n"));
        }
        text.push_str(&rule("└", "┴", "┘"));
        text
    }

    fn verdict(&self, paint: Paint, width: usize) -> String {
        let Self { deliveries, crashes, repeats, lost, seed, .. } = self;
        let said = if self.passed {
            format!(
                "DriftQ: {deliveries} deliveries, {crashes} crashes of the server. None was lost, and each of the \
                 {repeats} repeats is on record."
            )
        } else if self.is_good() {
            format!("Not all kills took place: {} were asked for.", self.kills_asked)
        } else {
            format!(
                "DriftQ failed: {lost} of {deliveries} lost, {} repeats unheard of, {} wrong signatures. Please \
                 report this with the seed {seed}.",
                repeats - self.repeats_on_record,
                self.signatures_wrong
            )
        };
        let tone = |line: &String| paint.bold(&if self.passed { paint.green(line) } else { paint.red(line) });
        wrap::lines(&said, width - 2).iter().map(|line| format!("  {}\n", tone(line))).collect()
    }

    /// How it was done, and what it is not: paragraphs under headings.
    fn method(&self) -> [(&'static str, Vec<String>); 3] {
        let how = vec![
            "Every delivery is an effect. A send that the receiver took without an answer, and a send that died with \
             the server, are written down as `unknown` before the delivery goes out again."
                .to_owned(),
            format!(
                "So said the server {} times. The receiver, which counts by `webhook-id`, took {} deliveries once more \
                 than it had to; the others of these sends had not reached it. All {} signatures were right.",
                self.unknown_on_record, self.repeats, self.signatures_verified
            ),
        ];
        let not = vec![
            "A webhook arrives at least once, with DriftQ too: a receiver has to know an id again. What DriftQ adds \
             is that nothing is lost, and that no repeat is silent. Where a repeat would do harm, `on_unknown` is \
             `hold`, and a person decides."
                .to_owned(),
        ];
        let seconds = self.took_ms as f64 / 1000.0;
        let again =
            vec![self.command.clone(), format!("(this took {seconds:.1} s; leases of {} ms)", self.lease_ms)];
        [("How", how), ("What it is not", not), ("Again", again)]
    }
}

#[cfg(test)]
mod tests {
    use super::{super::receiver::Entry, *};

    fn report(taken: [u64; 2], unknown: [u64; 2], wrong: u64) -> Report {
        let entries = taken.map(|taken| Entry { arrived: taken, taken }).into();
        let books = Books { entries, wrong, ..Books::default() };
        let recorded = unknown.map(|unknown| Recorded { is_delivered: true, unknown });
        let args = Args::of_webhooks(2, 1);
        Report::new(&books, &recorded, 1, &args, 7, Duration::from_secs(1))
    }

    #[test]
    fn nothing_is_lost_and_no_repeat_is_silent() {
        assert!(report([1, 2], [0, 1], 0).passed);
        assert!(report([1, 1], [0, 1], 0).passed, "what may have arrived need not have");
        assert!(!report([0, 2], [0, 1], 0).passed, "one is lost");
        assert!(!report([1, 2], [1, 0], 0).passed, "the other's record does not count");
        assert!(!report([1, 3], [0, 1], 0).passed, "one of two repeats is silent");
        assert!(!report([1, 1], [0, 0], 1).passed, "a signature is wrong");
    }

    #[test]
    fn the_verdict_says_what_was_measured() {
        let paint = Paint::of(&std::fs::File::open("/dev/null").unwrap());
        let text = report([1, 2], [0, 1], 0).text(paint, 80);
        assert!(
            text.contains("2 deliveries, 1 crashes") && text.contains("1 repeats is on record"),
            "{text}"
        );
        assert!(text.contains("driftq demo --scenario webhook --seed 7"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(report([1, 2], [0, 0], 0).text(paint, 80).contains("DriftQ failed"));
    }
}
