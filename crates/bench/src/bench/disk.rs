//! The disk's own limit: how often it syncs.

use std::{
    fs::OpenOptions,
    io::{Seek, SeekFrom, Write},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

const BLOCK_BYTES: usize = 4096;
const FILE_BLOCKS: u64 = 1024;

/// Syncs per second of 4 KiB writes onto a file that was zeroed and synced before, as the log does it.
pub(super) fn syncs_per_second(dir: &Path, length: Duration) -> Result<f64> {
    let path = dir.join("sync-probe");
    let mut file =
        OpenOptions::new().create(true).truncate(true).write(true).open(&path).context("the sync probe")?;
    let block = [0x5a; BLOCK_BYTES];
    for _ in 0..FILE_BLOCKS {
        file.write_all(&[0; BLOCK_BYTES])?;
    }
    file.sync_all()?;
    let started = Instant::now();
    let mut syncs = 0;
    while started.elapsed() < length {
        file.seek(SeekFrom::Start(syncs % FILE_BLOCKS * BLOCK_BYTES as u64))?;
        file.write_all(&block)?;
        file.sync_data()?;
        syncs += 1;
    }
    let rate = syncs as f64 / started.elapsed().as_secs_f64();
    std::fs::remove_file(&path).context("removing the sync probe")?;
    Ok(rate)
}
