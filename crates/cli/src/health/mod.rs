//! How the server does: one survey of everything it has, told to people by `driftq report` and to monitors by
//! `driftq check`.

pub mod check;
mod judge;
pub(super) mod report;
mod rules;
mod survey;
mod threshold;

#[cfg(test)]
mod judge_tests;
#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod sample;
