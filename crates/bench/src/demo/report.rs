//! The results: measured, compared, and said in a sentence.

use std::time::Duration;

use serde::Serialize;

use super::{Args, provider::Book, worker::LEASE};
use driftq_cli::{colour::Paint, wrap};

/// How one crew did.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    messages: u64,
    attempts: u64,
    crashes: u64,
    charges: u64,
    /// Charges beyond the first of an order.
    duplicates: u64,
    /// Orders that were charged more than once.
    orders_doubled: u64,
    /// Orders that were never charged.
    lost: u64,
    /// How often the provider was asked whether an order was charged.
    looked_up: u64,
    killed_at: KilledAt,
}

/// Where the workers were when they were killed.
#[derive(Clone, Copy, Debug, Serialize)]
struct KilledAt {
    before_charge: u64,
    after_charge: u64,
    before_ack: u64,
}

impl From<&Book> for Figures {
    fn from(book: &Book) -> Self {
        let [before_charge, after_charge, before_ack] = book.killed;
        Self {
            messages: book.messages(),
            attempts: book.attempts,
            crashes: book.crashes(),
            charges: book.charges(),
            duplicates: book.duplicates(),
            orders_doubled: book.doubled(),
            lost: book.lost(),
            looked_up: book.asked,
            killed_at: KilledAt { before_charge, after_charge, before_ack },
        }
    }
}

impl Figures {
    const fn is_once_each(&self) -> bool {
        self.charges == self.messages && self.duplicates == 0 && self.lost == 0
    }
}

/// What is printed at the end.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) passed: bool,
    seed: u64,
    kills_asked: u64,
    lease_ms: u64,
    took_ms: u64,
    /// What does the same again.
    command: String,
    naive: Figures,
    driftq: Figures,
}

impl Report {
    pub(super) fn new([naive, driftq]: &[Book; 2], args: &Args, seed: u64, took: Duration) -> Self {
        let (naive, driftq) = (Figures::from(naive), Figures::from(driftq));
        let kills_asked = u64::from(args.kills());
        let all_died = naive.crashes == kills_asked && driftq.crashes == kills_asked;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            passed: all_died && driftq.is_once_each(),
            seed,
            kills_asked,
            lease_ms: millis(LEASE),
            took_ms: millis(took),
            command: args.again(seed),
            naive,
            driftq,
        }
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
            let line = |width: usize| "─".repeat(width);
            paint.dim(&format!("  {left}{}{middle}{}{middle}{}{right}\n", line(14), line(9), line(9)))
        };
        let wall = paint.dim("│");
        let mut text = rule("┌", "┬", "┐");
        let header = ["", "naive", "DriftQ"].map(|name| paint.bold(&format!("{name:>7}")));
        let [corner, naive, driftq] = header;
        text.push_str(&format!("  {wall} {corner}      {wall} {naive} {wall} {driftq} {wall}\n"));
        text.push_str(&rule("├", "┼", "┤"));
        let (naive, driftq) = (&self.naive, &self.driftq);
        let rows: [(&str, u64, u64, bool); 6] = [
            ("messages", naive.messages, driftq.messages, false),
            ("attempts", naive.attempts, driftq.attempts, false),
            ("crashes", naive.crashes, driftq.crashes, false),
            ("charges", naive.charges, driftq.charges, false),
            ("duplicates", naive.duplicates, driftq.duplicates, true),
            ("lost", naive.lost, driftq.lost, true),
        ];
        for (name, naive, driftq, is_bad) in rows {
            let cell = |number: u64| {
                let cell = format!("{number:>7}");
                match (is_bad, number) {
                    (false, _) => cell,
                    (true, 0) => paint.green(&cell),
                    (true, _) => paint.red(&cell),
                }
            };
            text.push_str(&format!(
                "  {wall} {name:<12} {wall} {} {wall} {} {wall}\n",
                cell(naive),
                cell(driftq)
            ));
        }
        text.push_str(&rule("└", "┴", "┘"));
        text
    }

    fn verdict(&self, paint: Paint, width: usize) -> String {
        let (naive, driftq) = (&self.naive, &self.driftq);
        let ours = if self.passed {
            format!(
                "DriftQ: {} orders, {} crashes, {} charges. Every card was charged once.",
                driftq.messages, driftq.crashes, driftq.charges
            )
        } else if driftq.is_once_each() {
            format!("Not all kills took place: {} were asked for.", self.kills_asked)
        } else {
            format!(
                "DriftQ failed: {} duplicates and {} lost of {} orders. Please report this with the seed {}.",
                driftq.duplicates, driftq.lost, driftq.messages, self.seed
            )
        };
        let theirs = match (naive.duplicates, naive.lost) {
            (0, 0) => "The naive crew was lucky this time and doubled nothing.".to_owned(),
            (extra, lost) => format!(
                "The naive crew charged {} of {} customers more than once: {extra} charges too many{}.",
                naive.orders_doubled,
                naive.messages,
                if lost > 0 { format!(", {lost} never") } else { String::new() }
            ),
        };
        let tone = |line: &String| paint.bold(&if self.passed { paint.green(line) } else { paint.red(line) });
        let ours: String =
            wrap::lines(&ours, width - 2).iter().map(|line| format!("  {}\n", tone(line))).collect();
        let theirs = wrap::lines(&theirs, width - 2);
        theirs.iter().fold(ours, |text, line| text + &format!("  {line}\n"))
    }

    /// How it was done, and what it is not: paragraphs under headings.
    fn method(&self) -> [(&'static str, Vec<String>); 3] {
        let KilledAt { before_charge, after_charge, before_ack } = self.driftq.killed_at;
        let how = vec![
            "The charge is an effect under `hold`, named after the order.".to_owned(),
            format!(
                "Died in the middle of it: {} ({before_charge} before the charge, {after_charge} after it). No worker \
                 can know which, so the next attempt was told `unknown`, and its reconciler asked the provider for the \
                 order ({}x): if it was charged, that is the result; if not, the charge ran.",
                before_charge + after_charge,
                self.driftq.looked_up
            ),
            format!("Died before the ack: {before_ack}. The next attempt got the stored result."),
        ];
        let not = vec![
            format!(
                "With `retry` in place of `hold`, the {after_charge} that died after the charge would have charged \
                 again. That is right only where the provider takes the effect's key as its own idempotency key."
            ),
            "Delivery is at least once, with DriftQ too: what happens once is the effect.".to_owned(),
        ];
        let seconds = self.took_ms as f64 / 1000.0;
        let again =
            vec![self.command.clone(), format!("(this took {seconds:.1} s; leases of {} ms)", self.lease_ms)];
        [("How", how), ("What it is not", not), ("Again", again)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(charges: u64, duplicates: u64, lost: u64, crashes: u64) -> Figures {
        Figures {
            messages: 10,
            attempts: 20,
            crashes,
            charges,
            duplicates,
            orders_doubled: duplicates,
            lost,
            looked_up: 0,
            killed_at: KilledAt { before_charge: 0, after_charge: crashes, before_ack: 0 },
        }
    }

    #[test]
    fn only_once_each_is_good() {
        assert!(figures(10, 0, 0, 5).is_once_each());
        assert!(!figures(11, 1, 0, 5).is_once_each());
        assert!(!figures(9, 0, 1, 5).is_once_each());
        // One too many and one too few look like the right number.
        assert!(!figures(10, 1, 1, 5).is_once_each());
    }

    #[test]
    fn the_verdict_says_what_was_measured() {
        let paint = Paint::of(&std::fs::File::open("/dev/null").unwrap());
        let mut report = Report {
            passed: true,
            seed: 7,
            kills_asked: 5,
            lease_ms: 1,
            took_ms: 1,
            command: "driftq demo --seed 7".to_owned(),
            naive: figures(15, 5, 0, 5),
            driftq: figures(10, 0, 0, 5),
        };
        let text = report.text(paint, 80);
        assert!(
            text.contains("10 orders, 5 crashes, 10 charges") && text.contains("5 charges too many"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        report.naive = figures(10, 0, 0, 5);
        assert!(report.text(paint, 80).contains("lucky"), "a naive crew without duplicates is no proof");
        report.passed = false;
        assert!(report.text(paint, 80).contains("Not all kills took place"));
        report.driftq = figures(11, 1, 0, 5);
        assert!(report.text(paint, 80).contains("DriftQ failed: 1 duplicates"));
    }
}
