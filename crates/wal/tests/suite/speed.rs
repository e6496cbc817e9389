//! Figures, not verdicts: prints what the log adds to the bare disk. Run it on a quiet machine with
//! `cargo test --release -p driftq-wal --test suite speed -- --ignored --nocapture`.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use driftq_wal::{Options, RealDisk, WriteError, open};

const RUN: Duration = Duration::from_secs(2);

fn per_second(bytes: usize, mut step: impl FnMut(&[u8])) -> f64 {
    let body = vec![7; bytes];
    let (begun, mut count) = (Instant::now(), 0u32);
    while begun.elapsed() < RUN {
        step(&body);
        count += 1;
    }
    f64::from(count) / begun.elapsed().as_secs_f64()
}

#[test]
#[ignore = "a measurement, not a test: add `--release --test suite speed -- --ignored --nocapture`"]
fn append_and_sync_against_the_bare_disk() {
    for bytes in [400usize, 4000, 65_000] {
        let dir = tempfile::tempdir_in(".").unwrap();
        let file =
            File::options().create_new(true).read(true).write(true).open(dir.path().join("bare")).unwrap();
        file.write_all_at(&vec![0; 64 << 20], 0).unwrap();
        file.sync_all().unwrap();
        let mut at = 0;
        let bare = per_second(bytes, |body| {
            at = (at + body.len() as u64) % (63 << 20);
            file.write_all_at(body, at).unwrap();
            file.sync_data().unwrap();
        });
        let mut opened = open(RealDisk::create(dir.path().join("log")).unwrap(), Options::default()).unwrap();
        let keeper = opened.keeper.clone();
        let log = per_second(bytes, |body| {
            if let Err(WriteError::NoSpace) = opened.writer.append(body) {
                keeper.prepare_spare().unwrap();
                opened.writer.append(body).unwrap();
            }
            opened.writer.sync().unwrap();
        });
        println!("{bytes} bytes: bare {bare:.0}/s, log {log:.0}/s, ratio {:.2}", log / bare);
    }
}

#[test]
#[ignore = "a measurement, not a test: add `--release --test suite speed -- --ignored --nocapture`"]
fn recovery_of_200_megabytes() {
    for body in [500usize, 20_000] {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("log");
        let mut opened = open(RealDisk::create(&path).unwrap(), Options::default()).unwrap();
        let bytes = vec![7; body];
        for n in 0..200_000_000 / body {
            if n % (1_000_000 / body) == 0 {
                opened.writer.sync().unwrap();
            }
            if let Err(WriteError::NoSpace) = opened.writer.append(&bytes) {
                opened.keeper.prepare_spare().unwrap();
                opened.writer.append(&bytes).unwrap();
            }
        }
        opened.writer.sync().unwrap();
        drop(opened);
        let begun = Instant::now();
        let (mut chunk, mut read) = (vec![0; 1 << 20], 0);
        for entry in std::fs::read_dir(&path).unwrap() {
            let (file, mut at) = (File::open(entry.unwrap().path()).unwrap(), 0);
            while let now @ 1.. = file.read_at(&mut chunk, at).unwrap() {
                at += now as u64;
            }
            read += at;
        }
        println!("bare read of {read} bytes: {:?}", begun.elapsed());
        let begun = Instant::now();
        let opened = open(RealDisk::create(&path).unwrap(), Options::default()).unwrap();
        let examined = begun.elapsed();
        let mut sum = 0u64;
        opened
            .replay(&mut |_, body| {
                sum += u64::from(body[0]);
                ControlFlow::Continue(())
            })
            .unwrap();
        println!(
            "{body}-byte bodies: {} frames, open {examined:?}, open and replay {:?} ({sum})",
            opened.recovery.frames,
            begun.elapsed()
        );
    }
}
