//! What is seen while webhooks go out: a bar on a terminal, lines elsewhere, nothing for programs.

use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{super::Args, receiver::Books};
use driftq_cli::{colour::Paint, wrap};

/// Everything is indented by this much.
const INDENT: usize = 2;
const TICK: Duration = Duration::from_millis(100);

/// Where it is told.
enum Screen {
    Bar(ProgressBar),
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
        // Said before there is a bar, so that it stays above it.
        show.screen = Screen::Lines;
        show.introduce(args, seed);
        if io::stderr().is_terminal() {
            show.screen = Screen::Bar(bar(args.messages));
        }
        show
    }

    fn introduce(&self, args: &Args, seed: u64) {
        let (messages, kills) = (args.messages, args.kills());
        let title = "A server sends a webhook, and dies before it hears that it arrived.";
        self.say(&format!("\n  {}", self.paint.bold(title)));
        let text = format!(
            "{messages} deliveries to a receiver that refuses some of them and breaks off others. {kills} times the \
             server gets SIGKILL while the receiver has a delivery in its hands. (seed {seed})"
        );
        for line in wrap::lines(&text, wrap::width_of_stderr() - INDENT) {
            self.say(&format!("  {line}"));
        }
        self.say("");
    }

    fn say(&self, line: &str) {
        match &self.screen {
            Screen::Bar(bar) => bar.println(line),
            Screen::Lines => eprintln!("{line}"),
            Screen::Nothing => {}
        }
    }

    /// The server is dead.
    pub(super) fn killed(&self, order: &str, pid: Option<u32>) {
        let seconds = self.paint.dim(&format!("{:>5.1}s", self.begun.elapsed().as_secs_f32()));
        let pid = pid.map_or_else(String::new, |pid| self.paint.dim(&format!(" (pid {pid})")));
        let killed = self.paint.red("SIGKILL");
        self.say(&format!("  {seconds} {killed} server {order:<9} taken, and not answered{pid}"));
    }

    /// Where it is.
    pub(super) fn update(&self, books: &Books, crashes: u64) {
        if let Screen::Bar(bar) = &self.screen {
            bar.set_position(books.entries.iter().filter(|entry| entry.taken > 0).count() as u64);
            let arrived: u64 = books.entries.iter().map(|entry| entry.arrived).sum();
            bar.set_message(format!("{crashes:>3} killed, {arrived:>3} sends"));
        }
    }

    pub(super) fn done(&self) {
        if let Screen::Bar(bar) = &self.screen {
            bar.finish_and_clear();
        }
    }
}

fn bar(messages: u32) -> ProgressBar {
    let bar = ProgressBar::new(messages.into());
    if let Ok(style) = ProgressStyle::with_template("  {bar:20} {pos:>3}/{len} deliveries, {msg}") {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar.enable_steady_tick(TICK);
    bar
}
