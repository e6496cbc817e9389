//! Words of the wire as rows: the columns of each selection, and how its rows are filled.
//!
//! What changes while a message waits (its lease, its last error) is left out, so that the same range is the same bytes.

mod effect;
mod message;
mod output;
mod run;

pub(super) use effect::{EFFECT, effect};
pub(super) use message::{MESSAGE, letter, letter_columns, message};
pub(super) use output::{OUTPUT, output};
pub(super) use run::{RUN, steps};
