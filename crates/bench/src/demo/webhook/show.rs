//! What is seen while webhooks go out.

use super::{
    super::{Args, screen::Screen},
    receiver::Books,
};

/// Tells what the server and its receiver do.
pub(super) struct Show(Screen);

impl Show {
    pub(super) fn new(is_for_programs: bool, args: &Args, seed: u64) -> Self {
        let (messages, kills) = (args.messages, args.kills());
        let title = "A server sends a webhook, and dies before it hears that it arrived.";
        let text = format!(
            "{messages} deliveries to a receiver that refuses some of them and breaks off others. {kills} times the \
             server gets SIGKILL while the receiver has a delivery in its hands. (seed {seed})"
        );
        let mut screen = Screen::new(is_for_programs, title, &text);
        screen.add_bar("", messages, "  {bar:20} {pos:>3}/{len} deliveries, {msg}");
        Self(screen)
    }

    /// The server is dead.
    pub(super) fn killed(&self, order: &str, pid: Option<u32>) {
        self.0.killed(&format!("server {order:<9} taken, and not answered"), pid);
    }

    /// Where it is.
    pub(super) fn update(&self, books: &Books, crashes: u64) {
        for bar in &self.0.bars {
            bar.set_position(books.entries.iter().filter(|entry| entry.taken > 0).count() as u64);
            let arrived: u64 = books.entries.iter().map(|entry| entry.arrived).sum();
            bar.set_message(format!("{crashes:>3} killed, {arrived:>3} sends"));
        }
    }

    pub(super) fn done(&self) {
        self.0.done();
    }
}
