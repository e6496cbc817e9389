//! One call that does it all: what it writes down, what it leaves to the lapse, and what it does when the store has
//! trouble. Time is paused: it passes when everybody waits.

mod lapse;
mod lost;
mod trouble;
mod world;
mod written;
