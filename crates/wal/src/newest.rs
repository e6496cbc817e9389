//! The file that names the newest segment. If any other segment is missing, the ones after it show that; for the last
//! one, only this file does.
//!
//! It is written after the segment exists for good and without a sync: a crash may leave an older number or none at all,
//! which says less and nothing wrong.

use std::io;

use crate::checksum::{crc32c, u32_at};
use crate::disk::{Disk, DiskFile, read_all, write_all};
use crate::names;

const MAGIC: [u8; 8] = *b"DriftQnw";
const BYTES: usize = 16;

fn encode(number: u32) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    let crc = crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Says that there is a segment of this number, and none above it.
pub(crate) fn note<D: Disk>(disk: &D, number: u32) -> io::Result<()> {
    let file = match disk.open(names::NEWEST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(names::NEWEST)?,
        opened => opened?,
    };
    write_all(&file, &encode(number), 0)
}

/// As [`note`], for good: what was said before would be wrong.
pub(crate) fn correct<D: Disk>(disk: &D, number: Option<u32>) -> io::Result<()> {
    match number {
        Some(number) => {
            note(disk, number)?;
            disk.open(names::NEWEST)?.sync_data()?;
        }
        None => disk.remove(names::NEWEST)?,
    }
    disk.sync_dir()
}

/// The number that was noted, if it can be read.
pub(crate) fn noted<D: Disk>(disk: &D) -> Option<u32> {
    let file = disk.open(names::NEWEST).ok()?;
    let mut bytes = [0; BYTES];
    read_all(&file, &mut bytes, 0).ok()?;
    let number = u32_at(&bytes, 8);
    (bytes == encode(number)).then_some(number)
}
