//! Signs of life of long work: on stderr, and only if that is a terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often they move while nothing else happens.
const TICK: Duration = Duration::from_millis(200);

/// A bar with a known end.
pub(crate) fn bar(template: &str) -> ProgressBar {
    styled(ProgressBar::new(1), template)
}

/// A count without a known end.
pub(crate) fn counter(template: &str) -> ProgressBar {
    styled(ProgressBar::new_spinner(), template)
}

/// Work that cannot be counted: what it is, and how long it has taken.
pub(crate) fn spinner(what: &str) -> ProgressBar {
    let spinner = counter("{spinner} {msg} ({elapsed})");
    spinner.set_message(what.to_owned());
    if !spinner.is_hidden() {
        spinner.enable_steady_tick(TICK);
    }
    spinner
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    ProgressStyle::with_template(template)
        .map_or_else(|_| ProgressBar::hidden(), |style| bar.with_style(style))
}
