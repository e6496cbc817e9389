//! What is seen while both crews work.

use super::{
    Args,
    plan::Point,
    provider::{Book, CREWS, Crew, Order},
    screen::Screen,
};

/// Tells what the crews do.
pub(super) struct Show(Screen);

impl Show {
    pub(super) fn new(is_for_programs: bool, args: &Args, seed: u64) -> Self {
        let (messages, kills) = (args.messages, args.kills());
        let title = "A worker charges a card, and dies before it can say so.";
        let text = format!(
            "{messages} orders, twice: one crew charges and acks, the other asks DriftQ's ledger first. {kills} \
             workers of each get SIGKILL: before the charge, right after it, or before the ack. (seed {seed})"
        );
        let mut screen = Screen::new(is_for_programs, title, &text);
        for crew in CREWS {
            let template = "  {prefix} {bar:20} {pos:>3}/{len} orders, {msg}";
            screen.add_bar(&format!("{:<6}", crew.name()), messages, template);
        }
        let show = Self(screen);
        show.update(&Default::default());
        show
    }

    /// A worker is dead.
    pub(super) fn killed(&self, crew: Crew, point: Point, number: u32, pid: Option<u32>) {
        let place = match point {
            Point::BeforeCharge => "before the charge",
            Point::AfterCharge => "right after the charge",
            Point::BeforeAck => "before the ack",
        };
        let order = Order::new(number).order;
        self.0.killed(&format!("{:<6} {order:<9} {place}", crew.name()), pid);
    }

    /// Where both crews are.
    pub(super) fn update(&self, books: &[Book; 2]) {
        for (bar, book) in self.0.bars.iter().zip(books) {
            bar.set_position(book.worked_on());
            bar.set_message(self.standing(book));
        }
    }

    fn standing(&self, book: &Book) -> String {
        let (paint, duplicates) = (self.0.paint, format!("{} twice", book.duplicates()));
        let duplicates =
            if book.duplicates() > 0 { paint.red(&duplicates) } else { paint.green(&duplicates) };
        format!("{:>3} killed, {:>3} charges, {duplicates}", book.crashes(), book.charges())
    }

    pub(super) fn done(&self) {
        self.0.done();
    }
}
