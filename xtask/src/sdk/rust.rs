//! The Rust SDK: packed as crates, unpacked, and built into a newcomer's program.

use anyhow::Result;

use super::Shop;
use crate::task::Log;

pub(super) fn package(_shop: &Shop, _log: &mut Log) -> Result<()> {
    Ok(())
}
