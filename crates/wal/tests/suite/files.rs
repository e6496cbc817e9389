//! A log may have many more segments than a process may have open files.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use driftq_wal::{Lsn, Options, RealDisk, open};

/// How many files below `dir` this process has open.
fn files_open(dir: &Path) -> usize {
    let links =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    links.filter(|link| link.starts_with(dir)).count()
}

#[test]
fn reading_everywhere_keeps_few_files_open() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        segment_bytes: 4096,
        spares_max: 1,
        spares_ahead: 1,
        spares_for_acks: 0,
        reserve_bytes: 512,
        salt: 3,
    };
    let mut opened = open(RealDisk::create(dir.path()).unwrap(), options.clone()).unwrap();
    let mut places: Vec<Lsn> = Vec::new();
    while opened.writer.cursor().end().segment() < 340 {
        if opened.writer.cursor().rolls() {
            opened.keeper.prepare_spare().unwrap();
        }
        places.push(opened.writer.cursor().next_body());
        opened.writer.append(&[(places.len() % 251) as u8; 3600]).unwrap();
    }
    assert!(files_open(dir.path()) < 270, "{} while writing", files_open(dir.path()));
    drop(opened);
    let opened = open(RealDisk::create(dir.path()).unwrap(), options).unwrap();
    assert!(files_open(dir.path()) < 10, "{} after opening", files_open(dir.path()));
    for _ in 0..2 {
        for (index, &at) in places.iter().enumerate() {
            let bytes = opened.reader.read_at(at, 3600).unwrap();
            assert!(bytes.iter().all(|&byte| usize::from(byte) == (index + 1) % 251));
        }
    }
    assert!(files_open(dir.path()) < 270, "{} after reading", files_open(dir.path()));
}
