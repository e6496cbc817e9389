//! How the server does: what it says itself, told to people by `driftq report`, and held against numbers of monitors by
//! `driftq check`.

pub mod check;
mod judge;
pub(super) mod report;
mod survey;
mod threshold;

#[cfg(test)]
mod judge_tests;
#[cfg(test)]
mod sample;
