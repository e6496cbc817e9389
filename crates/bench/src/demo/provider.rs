//! The payment provider, and the one with the gun. It lives outside of both crews, and decides by the plan who dies.

use std::{collections::VecDeque, fs::File, io::Write, path::PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::plan::{Plan, Point};

/// What workers work on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) order: String,
    pub(super) number: u32,
    pub(super) cents: u32,
}

impl Order {
    pub(super) fn new(number: u32) -> Self {
        Self { order: format!("order-{}", number + 1), number, cents: 500 + 100 * (number % 7) }
    }
}

/// Who works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Crew {
    /// Charges, then acks.
    Naive,
    /// Asks the ledger first.
    Driftq,
}

pub(super) const CREWS: [Crew; 2] = [Crew::Naive, Crew::Driftq];

impl Crew {
    pub(super) const fn topic(self) -> &'static str {
        match self {
            Self::Naive => "orders-naive",
            Self::Driftq => "orders-driftq",
        }
    }

    /// For people.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Driftq => "DriftQ",
        }
    }
}

/// What a worker says to the provider.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub(super) enum Call {
    /// An attempt begins. A real provider hears nothing of that; this one counts.
    Attempt { number: u32 },
    /// Charge the customer.
    Charge { number: u32, cents: u32 },
    /// Was this order charged?
    Find { number: u32 },
    /// Everything is done but the ack. A real provider hears nothing of that either.
    Acking { number: u32 },
}

/// What the provider says.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Said {
    /// The charge, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) charge: Option<String>,
}

/// What becomes of the worker who called.
pub(super) enum Fate {
    /// It gets this answer.
    Goes(Said),
    /// It dies, here.
    Dies(Point, u32),
}

/// What is known about the work of one crew.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    /// Kills that are still to come, by order.
    kills: Vec<VecDeque<Point>>,
    /// Charges by order.
    charges: Vec<Vec<String>>,
    /// Orders whose worker was let go to ack.
    let_go: Vec<bool>,
    pub(super) attempts: u64,
    pub(super) asked: u64,
    /// Kills that took place, by where: before the charge, after it, before the ack.
    pub(super) killed: [u64; 3],
}

impl Book {
    pub(super) fn crashes(&self) -> u64 {
        self.killed.iter().sum()
    }

    pub(super) fn messages(&self) -> u64 {
        self.charges.len() as u64
    }

    pub(super) fn charges(&self) -> u64 {
        self.charges.iter().map(|charges| charges.len() as u64).sum()
    }

    /// Charges beyond the first of an order.
    pub(super) fn duplicates(&self) -> u64 {
        self.charges.iter().map(|charges| charges.len().saturating_sub(1) as u64).sum()
    }

    /// Orders that were charged more than once.
    pub(super) fn doubled(&self) -> u64 {
        self.charges.iter().filter(|charges| charges.len() > 1).count() as u64
    }

    /// Orders that were never charged.
    pub(super) fn lost(&self) -> u64 {
        self.charges.iter().filter(|charges| charges.is_empty()).count() as u64
    }

    /// Orders that a worker was let go to ack.
    pub(super) fn worked_on(&self) -> u64 {
        self.let_go.iter().filter(|done| **done).count() as u64
    }

    /// Takes the kill that is due here, if one is. A worker that gets as far as the ack has passed all other
    /// points, or had no reason to go there.
    fn kill_at(&mut self, order: usize, here: Point) -> Option<Point> {
        let kills = self.kills.get_mut(order)?;
        match kills.front() {
            Some(point) if *point == here || here == Point::BeforeAck => kills.pop_front().map(|_| here),
            _ => None,
        }
    }
}

/// Charges for every call, as often as workers call.
pub(super) struct Provider {
    books: [Book; 2],
    charges: u64,
    file: File,
}

impl Provider {
    pub(super) fn new(plan: &Plan, file: PathBuf) -> Result<Self> {
        let orders = plan.kills.len();
        let book = Book {
            kills: plan.kills.clone(),
            charges: vec![Vec::new(); orders],
            let_go: vec![false; orders],
            ..Book::default()
        };
        let file = File::create(file).context("the provider's books")?;
        Ok(Self { books: [book.clone(), book], charges: 0, file })
    }

    pub(super) const fn book(&self, crew: Crew) -> &Book {
        &self.books[crew as usize]
    }

    /// Hears a call, does what it asks for, and says what becomes of the caller.
    pub(super) fn hear(&mut self, crew: Crew, call: &Call) -> Result<Fate> {
        let book = &mut self.books[crew as usize];
        let (Call::Attempt { number }
        | Call::Charge { number, .. }
        | Call::Find { number }
        | Call::Acking { number }) = *call;
        let order = number as usize;
        let charges = book.charges.get(order).context("an order that was never placed")?;
        let said = Said { charge: charges.first().cloned() };
        match *call {
            Call::Attempt { .. } => book.attempts += 1,
            Call::Find { .. } => {
                book.asked += 1;
                return Ok(Fate::Goes(said));
            }
            Call::Charge { cents, .. } => {
                if let Some(point) = book.kill_at(order, Point::BeforeCharge) {
                    return Ok(Fate::Dies(point, number));
                }
                let charge = self.charge(crew, order, cents)?;
                if let Some(point) = self.books[crew as usize].kill_at(order, Point::AfterCharge) {
                    return Ok(Fate::Dies(point, number));
                }
                return Ok(Fate::Goes(Said { charge: Some(charge) }));
            }
            Call::Acking { .. } => {
                if let Some(point) = book.kill_at(order, Point::BeforeAck) {
                    return Ok(Fate::Dies(point, number));
                }
                book.let_go[order] = true;
            }
        }
        Ok(Fate::Goes(Said::default()))
    }

    fn charge(&mut self, crew: Crew, order: usize, cents: u32) -> Result<String> {
        self.charges += 1;
        let charge = format!("ch_{}", self.charges);
        let entry = serde_json::json!({"crew": crew, "order": order + 1, "charge": charge, "cents": cents});
        writeln!(self.file, "{entry}").context("the provider's books")?;
        self.books[crew as usize].charges[order].push(charge.clone());
        Ok(charge)
    }

    /// A worker is dead: the system said so.
    pub(super) const fn killed(&mut self, crew: Crew, point: Point) {
        self.books[crew as usize].killed[point as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(points: &[Point]) -> (Provider, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let plan = Plan { kills: vec![points.iter().copied().collect()] };
        (Provider::new(&plan, directory.path().join("books")).unwrap(), directory)
    }

    fn dies(provider: &mut Provider, call: &Call) -> Option<Point> {
        match provider.hear(Crew::Driftq, call).unwrap() {
            Fate::Dies(point, _) => Some(point),
            Fate::Goes(_) => None,
        }
    }

    const CHARGE: Call = Call::Charge { number: 0, cents: 5 };
    const ACKING: Call = Call::Acking { number: 0 };

    #[test]
    fn workers_die_where_the_plan_says() {
        let (mut provider, _directory) =
            provider(&[Point::BeforeCharge, Point::AfterCharge, Point::BeforeAck]);
        assert_eq!(dies(&mut provider, &CHARGE), Some(Point::BeforeCharge));
        assert_eq!(provider.book(Crew::Driftq).charges(), 0);
        assert_eq!(dies(&mut provider, &CHARGE), Some(Point::AfterCharge));
        assert_eq!(provider.book(Crew::Driftq).charges(), 1, "the charge took place");
        assert_eq!(dies(&mut provider, &ACKING), Some(Point::BeforeAck));
        assert_eq!(dies(&mut provider, &ACKING), None);
        assert_eq!(provider.book(Crew::Driftq).worked_on(), 1);
        assert_eq!(provider.book(Crew::Naive).charges(), 0, "books are apart");
    }

    #[test]
    fn a_kill_does_not_wait_for_a_charge_that_never_comes() {
        let (mut provider, _directory) = provider(&[Point::AfterCharge]);
        assert_eq!(dies(&mut provider, &ACKING), Some(Point::BeforeAck));
    }

    #[test]
    fn whoever_asks_twice_is_charged_twice() {
        let (mut provider, _directory) = provider(&[]);
        assert_eq!(provider.book(Crew::Driftq).lost(), 1);
        for _ in 0..2 {
            assert_eq!(dies(&mut provider, &CHARGE), None);
        }
        let book = provider.book(Crew::Driftq);
        assert_eq!((book.charges(), book.duplicates(), book.doubled(), book.lost()), (2, 1, 1, 0));
    }
}
