//! The log on real files.

mod files;
mod golden;
mod guard;
mod real;
mod speed;
