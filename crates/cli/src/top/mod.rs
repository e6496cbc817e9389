//! `driftq top`: the overview of the dashboard in a terminal, live by the same stream.

mod frame;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anyhow::Result;
use driftq_api::v2::{Event, Sample, TopicRow};
use rustix::termios::tcgetwinsize;

use crate::client::Events;
use crate::output::{self, write};
use crate::{CallError, Common, Exit, Fault, Format, Now, Signals};

/// How long to wait before a server that does not answer is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// Lines of a frame where no terminal says how many it has.
const LINES_USUAL: usize = 24;

/// The other screen of the terminal, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// To the first line; what is left of a line; what is left of the screen.
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";

#[derive(clap::Args)]
#[command(
    after_help = "Shows rates, what waits and since when, retries, dead letters, unknown effects and the busiest \
topics, and changes as they do, once in a second at the most; Ctrl-C ends it. For what to do about them see `driftq report`.

Examples:
  driftq top
  driftq top --once
  driftq top -o ndjson | jq -c '[.sample.at, .sample.lag]'"
)]
pub(crate) struct Args {
    /// Print one frame and end
    #[arg(long)]
    once: bool,
}

/// What is known so far.
#[derive(Default)]
struct View {
    sample: Option<Sample>,
    /// What the rates are told by.
    before: Option<Sample>,
    topics: BTreeMap<String, TopicRow>,
    left_out: u64,
}

impl View {
    fn take(&mut self, event: Event) {
        let history = event.history.and_then(|history| history.samples.last().copied());
        let before = self.sample.or(history);
        // A server that was started anew counts from the beginning.
        self.before =
            before.filter(|before| before.epoch == event.sample.epoch && before.at != event.sample.at);
        self.sample = Some(event.sample);
        for name in event.gone {
            self.topics.remove(&name);
        }
        self.topics.extend(event.topics.into_iter().map(|row| (row.name.clone(), row)));
        self.left_out = event.left_out;
    }
}

pub(crate) async fn run(common: &Common, args: &Args) -> Result<()> {
    let client = common.client()?;
    let mut events = client.events().await.map_err(CallError::into_error)?;
    if args.once {
        let event = events.next().await.map_err(CallError::into_error)?;
        let mut view = View::default();
        view.take(event.clone());
        return output::print_one(common.output, &event, || frame::text(&view, client.url(), usize::MAX));
    }
    if let Some(Format::Json | Format::Ndjson) = common.output {
        loop {
            let event = events.next().await.map_err(CallError::into_error)?;
            write(&(serde_json::to_string(&event)? + "\n"))?;
        }
    }
    if !io::stdout().is_terminal() {
        let fault = Fault::new(Exit::Usage, "there is no terminal to show it on");
        return Err(fault.help("print one frame with --once, or every event with -o ndjson").into());
    }
    let mut signals = Signals::new()?;
    write(ENTER)?;
    let shown = tokio::select! {
        shown = show(&client, events) => shown,
        _ = signals.next() => Ok(()),
    };
    write(LEAVE)?;
    shown
}

/// Shows frame after frame. A server that goes away is waited for.
async fn show(client: &crate::Client, events: Events) -> Result<()> {
    let (mut view, mut events) = (View::default(), Some(events));
    loop {
        let told = match &mut events {
            Some(open) => open.next().await,
            None => match client.events().await {
                Ok(mut open) => {
                    let told = open.next().await;
                    events = Some(open);
                    view = View::default();
                    told
                }
                Err(error) => Err(error),
            },
        };
        let size = tcgetwinsize(io::stdout()).ok();
        let lines = size.map_or(LINES_USUAL, |size| usize::from(size.ws_row)).max(2);
        let columns = size.map_or(usize::MAX, |size| usize::from(size.ws_col));
        let text = match told {
            Ok(event) => {
                view.take(event);
                frame::text(&view, client.url(), lines - 1)
            }
            Err(error) => {
                events = None;
                frame::text(&view, client.url(), lines - 2) + &format!("{error}; asking again\n")
            }
        };
        write(&on_screen(&text, columns))?;
        if events.is_none() {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A frame over the one before. Lines are cut where the terminal ends: a line that is wrapped would move the rest.
fn on_screen(text: &str, columns: usize) -> String {
    let mut screen = HOME.to_owned();
    for line in text.lines() {
        let is_plain = !line.contains('\x1b');
        match line.char_indices().nth(columns) {
            Some((end, _)) if is_plain => screen.push_str(&line[..end]),
            _ => screen.push_str(line),
        }
        screen.push_str(REST_OF_LINE);
        screen.push_str("\r\n");
    }
    screen + REST_OF_SCREEN
}

/// The time against which ages are told.
fn now() -> Now {
    Now::read()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_covers_the_one_before_and_no_line_is_wrapped() {
        let screen = on_screen("abcdef\nx\n", 4);
        assert_eq!(screen, "\x1b[Habcd\x1b[K\r\nx\x1b[K\r\n\x1b[J");
        assert!(on_screen("äöü\n", 2).contains("äö\x1b[K"));
    }
}
