//! What is seen while the demo runs: bars on a terminal, lines elsewhere, nothing for programs.

use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{
    Args,
    plan::Point,
    provider::{Book, CREWS, Crew, Order},
};
use driftq_cli::{colour::Paint, wrap};

/// Everything is indented by this much.
const INDENT: usize = 2;
const TICK: Duration = Duration::from_millis(100);

/// Where it is told.
enum Screen {
    Bars { all: MultiProgress, bars: [ProgressBar; 2] },
    Lines,
    Nothing,
}

/// Tells what happens, on stderr.
pub(super) struct Show {
    screen: Screen,
    paint: Paint,
    begun: Instant,
}

impl Show {
    pub(super) fn new(is_for_programs: bool, args: &Args, seed: u64) -> Self {
        let paint = Paint::of(&io::stderr());
        let mut show = Self { screen: Screen::Nothing, paint, begun: Instant::now() };
        if is_for_programs {
            return show;
        }
        // Said before there are bars, so that it stays above them.
        show.screen = Screen::Lines;
        show.introduce(args, seed);
        if io::stderr().is_terminal() {
            let all = MultiProgress::new();
            let bars = CREWS.map(|crew| all.add(bar(crew, args.messages, paint)));
            show.screen = Screen::Bars { all, bars };
            show.update(&Default::default());
        }
        show
    }

    fn introduce(&self, args: &Args, seed: u64) {
        let (messages, kills) = (args.messages, args.kills());
        let title = "A worker charges a card, and dies before it can say so.";
        self.say(&format!("\n  {}", self.paint.bold(title)));
        let text = format!(
            "{messages} orders, twice: one crew charges and acks, the other asks DriftQ's ledger first. {kills} \
             workers of each get SIGKILL: before the charge, right after it, or before the ack. (seed {seed})"
        );
        for line in wrap::lines(&text, wrap::width_of_stderr() - INDENT) {
            self.say(&format!("  {line}"));
        }
        self.say("");
    }

    fn say(&self, line: &str) {
        match &self.screen {
            // It fails if the terminal is gone, and then there is no reader to miss it.
            Screen::Bars { all, .. } => drop(all.println(line)),
            Screen::Lines => eprintln!("{line}"),
            Screen::Nothing => {}
        }
    }

    /// A worker is dead.
    pub(super) fn killed(&self, crew: Crew, point: Point, number: u32, pid: Option<u32>) {
        let place = match point {
            Point::BeforeCharge => "before the charge",
            Point::AfterCharge => "right after the charge",
            Point::BeforeAck => "before the ack",
        };
        let seconds = self.begun.elapsed().as_secs_f32();
        let order = Order::new(number).order;
        let name = format!("{:<6}", crew.name());
        let pid = pid.map_or_else(String::new, |pid| self.paint.dim(&format!(" (pid {pid})")));
        self.say(&format!(
            "  {} {} {name} {order:<9} {place}{pid}",
            self.paint.dim(&format!("{seconds:>5.1}s")),
            self.paint.red("SIGKILL"),
        ));
    }

    /// Where both crews are.
    pub(super) fn update(&self, books: &[Book; 2]) {
        if let Screen::Bars { bars, .. } = &self.screen {
            for (bar, book) in bars.iter().zip(books) {
                bar.set_position(book.worked_on());
                bar.set_message(self.standing(book));
            }
        }
    }

    fn standing(&self, book: &Book) -> String {
        let duplicates = format!("{} twice", book.duplicates());
        let duplicates =
            if book.duplicates() > 0 { self.paint.red(&duplicates) } else { self.paint.green(&duplicates) };
        format!("{:>3} killed, {:>3} charges, {duplicates}", book.crashes(), book.charges())
    }

    pub(super) fn done(&self) {
        if let Screen::Bars { bars, .. } = &self.screen {
            bars.iter().for_each(ProgressBar::finish_and_clear);
        }
    }
}

fn bar(crew: Crew, messages: u32, paint: Paint) -> ProgressBar {
    let bar = ProgressBar::new(messages.into());
    if let Ok(style) = ProgressStyle::with_template("  {prefix} {bar:20} {pos:>3}/{len} orders, {msg}") {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar.set_prefix(paint.bold(&format!("{:<6}", crew.name())));
    bar.enable_steady_tick(TICK);
    bar
}
