//! The bytes of every kind of file, pinned. If one of these fails, the format changed: raise
//! `FORMAT_VERSION`, keep reading the old one, and update docs/file-format.md.

use std::fs;

use driftq_wal::{Lsn, Options, RealDisk, open};

fn hex(bytes: &[u8]) -> String {
    let lines = bytes
        .chunks(16)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// As in docs/file-format.md.
const SEGMENT: &str = "\
44 72 69 66 74 51 73 67 b2 f6 f5 68 01 00 00 00
01 00 00 00 00 0e 00 00 c7 e9 41 bf 9d 61 89 4e
00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
44 51 66 72 df 20 2a 66 05 00 00 00 00 00 00 00
40 00 00 00 01 00 00 00 40 00 00 00 01 00 00 00
c7 e9 41 bf 9d 61 89 4e 68 65 6c 6c 6f 00 00 00
44 51 66 72 7c 59 9a 46 0e 00 00 00 00 00 00 00
70 00 00 00 01 00 00 00 70 00 00 00 01 00 00 00
c7 e9 41 bf 9d 61 89 4e 44 72 69 66 74 51 2c 20
74 77 69 63 65 2e 00 00 00 00 00 00 00 00 00 00";

const SNAPSHOT: &str = "\
44 72 69 66 74 51 73 6e dc 90 f9 59 01 00 00 00
70 00 00 00 01 00 00 00 05 00 00 00 00 00 00 00
df 68 db 66 00 00 00 00 00 00 00 00 00 00 00 00
00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
73 74 61 74 65";

const NEWEST: &str = "44 72 69 66 74 51 6e 77 01 00 00 00 a0 8d 7c fa";

#[test]
fn files_have_exactly_these_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        segment_bytes: 4096,
        spares_max: 2,
        spares_ahead: 1,
        spares_for_acks: 0,
        reserve_bytes: 512,
        salt: 0x5eed,
    };
    let mut opened = open(RealDisk::create(dir.path()).unwrap(), options).unwrap();
    opened.writer.append(b"hello").unwrap();
    let upto = opened.writer.sync().unwrap();
    opened.writer.append(b"DriftQ, twice.").unwrap();
    opened.writer.sync().unwrap();
    opened.keeper.put_snapshot(upto, b"state").unwrap();
    opened.keeper.prepare_spare().unwrap();
    opened.keeper.restore_reserve().unwrap();
    drop(opened);

    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    let segment = read("seg-00000001.log");
    assert_eq!(hex(&segment[..176]), SEGMENT);
    assert_eq!((segment.len(), segment[176..].iter().any(|&byte| byte != 0)), (4096, false));
    assert_eq!(hex(&read("snap-0000000100000070.snap")), SNAPSHOT);
    assert_eq!(read("spare-00000000.seg"), vec![0; 4096]);
    assert_eq!(read("reserve"), vec![0; 512]);
    assert_eq!(read("LOCK"), b"");
    assert_eq!(hex(&read("newest")), NEWEST);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 6);
}

#[test]
fn pinned_bytes_can_still_be_read() {
    let parse = |text: &str| -> Vec<u8> {
        text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    };
    let dir = tempfile::tempdir().unwrap();
    let mut segment = parse(SEGMENT);
    segment.resize(4096, 0);
    fs::write(dir.path().join("seg-00000001.log"), segment).unwrap();
    fs::write(dir.path().join("snap-0000000100000070.snap"), parse(SNAPSHOT)).unwrap();
    let opened = open(RealDisk::create(dir.path()).unwrap(), Options::default()).unwrap();
    let snapshot = opened.snapshot.as_ref().unwrap();
    assert_eq!((snapshot.upto, snapshot.bytes.as_slice()), (Lsn::new(1, 112), b"state".as_slice()));
    let mut bodies = Vec::new();
    let replayed = opened.replay(&mut |at, body| {
        bodies.push((at, body.to_vec()));
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(replayed.unwrap(), Lsn::new(1, 168));
    assert_eq!(bodies, [(Lsn::new(1, 152), b"DriftQ, twice.".to_vec())]);
    assert_eq!(opened.reader.read_at(Lsn::new(1, 104), 5).unwrap(), b"hello");
}

#[test]
fn the_documentation_shows_the_same_bytes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/file-format.md");
    let page = fs::read_to_string(path).unwrap();
    let shown: Vec<&str> = page
        .lines()
        .filter(|line| line.get(4..6) == Some("  ") && u32::from_str_radix(&line[..4], 16).is_ok())
        .map(|line| line[6..].split("   ").next().unwrap().trim())
        .collect();
    let pinned: Vec<&str> = SEGMENT.lines().chain(SNAPSHOT.lines()).chain(NEWEST.lines()).collect();
    assert_eq!(shown, pinned);
}
