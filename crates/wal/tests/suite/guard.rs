//! When the file of a segment may become another one: not while it is read, not while it has its name.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use driftq_wal::{
    Disk, DiskFile, Entry, FRAME_HEADER_BYTES, LockError, Lsn, Opened, Options, ReadError, RealDisk,
    SEGMENT_HEADER_BYTES, open,
};

/// A real disk whose next read or cut, when armed, says that it has begun and waits to be let through.
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

impl Gate {
    fn pass(&self) {
        if self.armed.swap(false, Ordering::SeqCst) {
            self.begun.send(()).unwrap();
            self.let_through.lock().unwrap().recv().unwrap();
        }
    }
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
        self.gate.pass();
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
        self.gate.pass();
        self.file.set_bytes(bytes)
    }
}

/// A log whose first segment may be dropped.
struct House {
    dir: tempfile::TempDir,
    disk: SlowDisk,
    has_begun: Receiver<()>,
    release: SyncSender<()>,
    opened: Opened<SlowDisk>,
}

/// Appends batches of `bytes` until the log goes on in a second segment.
fn house(bytes: usize) -> House {
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
    while opened.writer.sync().unwrap().segment() < 2 {
        if opened.writer.cursor().rolls() {
            opened.keeper.prepare_spare().unwrap();
        }
        opened.writer.append(&vec![5; bytes]).unwrap();
    }
    opened.keeper.put_snapshot(opened.writer.sync().unwrap(), b"").unwrap();
    disk.gate.armed.store(true, Ordering::SeqCst);
    House { dir, disk, has_begun, release, opened }
}

/// The last batch reaches beyond the size of a segment, and the file is cut before it is used again.
#[test]
fn a_segment_is_cut_when_its_name_is_gone() {
    let House { dir, disk, has_begun, release, opened } = house(3000);
    let first = dir.path().join("seg-00000001.log");
    assert!(first.metadata().unwrap().len() > 4096);
    let keeper = opened.keeper;
    let dropping = std::thread::spawn(move || keeper.drop_segments(&[1]));
    has_begun.recv().unwrap();
    let has_its_name = first.exists();
    release.send(()).unwrap();
    dropping.join().unwrap().unwrap();
    assert!(!has_its_name, "whoever found it under its name found it cut");
    let sizes: Vec<u64> =
        disk.list().unwrap().iter().filter(|e| e.name.starts_with("spare")).map(|e| e.bytes).collect();
    assert_eq!(sizes, [4096]);
}

#[test]
fn dropping_a_segment_waits_for_reads_of_it() {
    let House { dir: _dir, has_begun, release, opened, .. } = house(1000);
    let at = Lsn::new(1, SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES);
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
