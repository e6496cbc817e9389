//! Where a demo tells what happens: bars on a terminal, lines elsewhere, nothing for programs. All of it on stderr.

use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use driftq_cli::{colour::Paint, wrap};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Everything is indented by this much.
const INDENT: usize = 2;
const TICK: Duration = Duration::from_millis(100);

/// Tells what happens.
pub(super) struct Screen {
    place: Place,
    pub(super) paint: Paint,
    begun: Instant,
    /// None, unless they are seen.
    pub(super) bars: Vec<ProgressBar>,
}

enum Place {
    Terminal(MultiProgress),
    Lines,
    Nowhere,
}

impl Screen {
    /// What the demo is about is said before there are bars, so that it stays above them.
    pub(super) fn new(is_for_programs: bool, title: &str, text: &str) -> Self {
        let paint = Paint::of(&io::stderr());
        let place = if is_for_programs { Place::Nowhere } else { Place::Lines };
        let mut screen = Self { place, paint, begun: Instant::now(), bars: Vec::new() };
        screen.say(&format!("\n  {}", paint.bold(title)));
        for line in wrap::lines(text, wrap::width_of_stderr() - INDENT) {
            screen.say(&format!("  {line}"));
        }
        screen.say("");
        if !is_for_programs && io::stderr().is_terminal() {
            screen.place = Place::Terminal(MultiProgress::new());
        }
        screen
    }

    /// Adds a bar, where bars can be seen.
    pub(super) fn add_bar(&mut self, prefix: &str, length: u32, template: &str) {
        let Place::Terminal(all) = &self.place else { return };
        let bar = all.add(ProgressBar::new(length.into()));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_prefix(self.paint.bold(prefix));
        bar.enable_steady_tick(TICK);
        self.bars.push(bar);
    }

    fn say(&self, line: &str) {
        match &self.place {
            // It fails if the terminal is gone, and then there is no reader to miss it.
            Place::Terminal(all) => drop(all.println(line)),
            Place::Lines => eprintln!("{line}"),
            Place::Nowhere => {}
        }
    }

    /// A process is dead.
    pub(super) fn killed(&self, what: &str, pid: Option<u32>) {
        let seconds = self.paint.dim(&format!("{:>5.1}s", self.begun.elapsed().as_secs_f32()));
        let pid = pid.map_or_else(String::new, |pid| self.paint.dim(&format!(" (pid {pid})")));
        self.say(&format!("  {seconds} {} {what}{pid}", self.paint.red("SIGKILL")));
    }

    pub(super) fn done(&self) {
        self.bars.iter().for_each(ProgressBar::finish_and_clear);
    }
}
