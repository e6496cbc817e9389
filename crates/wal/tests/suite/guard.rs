//! A read that is under way keeps its segment's file from becoming another segment.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use driftq_wal::{Disk, DiskFile, Entry, LockError, Options, ReadError, RealDisk, open};

/// A real disk whose reads, when armed, say that they have begun and wait to be let through.
#[derive(Clone)]
struct SlowDisk {
    disk: RealDisk,
    gate: Arc<Gate>,
}

struct Gate {
    armed: AtomicBool,
    begun: SyncSender<()>,
    let_through: Mutex<Receiver<()>>,
}

struct SlowFile {
    file: File,
    gate: Arc<Gate>,
}

impl Disk for SlowDisk {
    type File = SlowFile;
    type Lock = File;

    fn name(&self) -> String {
        self.disk.name()
    }
    fn list(&self) -> io::Result<Vec<Entry>> {
        self.disk.list()
    }
    fn open(&self, file: &str) -> io::Result<SlowFile> {
        Ok(SlowFile { file: self.disk.open(file)?, gate: Arc::clone(&self.gate) })
    }
    fn create(&self, file: &str) -> io::Result<SlowFile> {
        Ok(SlowFile { file: Disk::create(&self.disk, file)?, gate: Arc::clone(&self.gate) })
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, file: &str) -> io::Result<()> {
        self.disk.remove(file)
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }
    fn free_bytes(&self) -> Option<u64> {
        self.disk.free_bytes()
    }

    fn lock(&self) -> Result<File, LockError> {
        self.disk.lock()
    }
}

impl DiskFile for SlowFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        if self.gate.armed.swap(false, Ordering::SeqCst) {
            self.gate.begun.send(()).unwrap();
            self.gate.let_through.lock().unwrap().recv().unwrap();
        }
        DiskFile::read_at(&self.file, buffer, at)
    }
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        DiskFile::write_at(&self.file, bytes, at)
    }
    fn sync_data(&self) -> io::Result<()> {
        DiskFile::sync_data(&self.file)
    }
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }
    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.file.set_bytes(bytes)
    }
}

#[test]
fn dropping_a_segment_waits_for_reads_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (begun, has_begun) = sync_channel(1);
    let (release, let_through) = sync_channel(1);
    let gate = Gate { armed: AtomicBool::new(false), begun, let_through: Mutex::new(let_through) };
    let disk = SlowDisk { disk: RealDisk::create(dir.path()).unwrap(), gate: Arc::new(gate) };
    let options = Options {
        segment_bytes: 4096,
        spares_max: 2,
        spares_ahead: 1,
        spares_for_acks: 0,
        reserve_bytes: 0,
        salt: 1,
    };
    let mut opened = open(disk.clone(), options).unwrap();
    let at = opened.writer.cursor().next_body();
    for _ in 0..6 {
        if opened.writer.cursor().rolls() {
            opened.keeper.prepare_spare().unwrap();
        }
        opened.writer.append(&[5; 1000]).unwrap();
    }
    let upto = opened.writer.sync().unwrap();
    assert_eq!(upto.segment(), 2);
    opened.keeper.put_snapshot(upto, b"").unwrap();

    disk.gate.armed.store(true, Ordering::SeqCst);
    let reader = opened.reader.clone();
    let reading = std::thread::spawn(move || reader.read_at(at, 1000));
    has_begun.recv().unwrap();
    let keeper = opened.keeper.clone();
    let (dropped, is_dropped) = sync_channel(1);
    let dropping = std::thread::spawn(move || {
        keeper.drop_segments(&[1]).unwrap();
        dropped.send(()).unwrap();
    });
    // Real code never answers here; code that does not wait answers at once.
    assert!(is_dropped.recv_timeout(Duration::from_millis(300)).is_err(), "dropped under a running read");
    release.send(()).unwrap();
    assert_eq!(reading.join().unwrap().unwrap(), [5; 1000]);
    dropping.join().unwrap();
    assert!(matches!(opened.reader.read_at(at, 1000), Err(ReadError::Gone)));
    assert!(opened.keeper.spare_ready());
}
