//! The simulated disk keeps what it must and loses what it may.

use driftq_sim::disk::{Fault, Op, SECTOR_BYTES, SimDisk};
use driftq_wal::{Disk, DiskFile};

fn survivors(seeds: u64, work: impl Fn(&SimDisk)) -> Vec<Option<Vec<u8>>> {
    let mut seen = Vec::new();
    for seed in 0..seeds {
        let disk = SimDisk::new(seed);
        work(&disk);
        disk.crash();
        let left = disk.contents("f");
        if !seen.contains(&left) {
            seen.push(left);
        }
    }
    seen
}

#[test]
fn synced_bytes_under_a_synced_name_always_survive() {
    let left = survivors(50, |disk| {
        let file = disk.create("f").unwrap();
        file.write_at(b"kept", 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir().unwrap();
    });
    assert_eq!(left, [Some(b"kept".to_vec())]);
}

#[test]
fn an_unsynced_name_may_vanish() {
    let left = survivors(50, |disk| {
        disk.create("f").unwrap().sync_data().unwrap();
    });
    assert!(left.contains(&None) && left.contains(&Some(Vec::new())));
}

#[test]
fn unsynced_sectors_are_lost_kept_and_torn_each_on_its_own() {
    let left = survivors(200, |disk| {
        disk.put("f", &[0; 2 * SECTOR_BYTES]);
        disk.open("f").unwrap().write_at(&[1; 2 * SECTOR_BYTES], 0).unwrap();
    });
    let sectors: Vec<_> = left.iter().flatten().map(|file| (file[0], file[SECTOR_BYTES])).collect();
    assert_eq!(sectors.len(), 4, "{sectors:?}");
    assert!(sectors.contains(&(0, 1)), "a later write may land without an earlier one");
}

#[test]
fn an_unsynced_rename_happened_or_did_not() {
    let left = survivors(50, |disk| {
        disk.put("f", b"old");
        disk.put("g", b"new");
        disk.rename("g", "f").unwrap();
    });
    assert_eq!(left.len(), 2);
    assert!(left.contains(&Some(b"old".to_vec())) && left.contains(&Some(b"new".to_vec())));
}

#[test]
fn a_failed_sync_forgets_and_the_next_one_does_not_help() {
    let left = survivors(50, |disk| {
        disk.put("f", b"old");
        let file = disk.open("f").unwrap();
        file.write_at(b"new", 0).unwrap();
        disk.fail(Op::Sync, 0, Fault::Eio);
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
        assert_eq!(disk.contents("f").unwrap(), b"new", "reads do not tell");
    });
    assert!(left.contains(&Some(b"old".to_vec())));
}

#[test]
fn a_full_disk_takes_what_fits() {
    let disk = SimDisk::new(1);
    disk.set_capacity(Some(10));
    let file = disk.create("f").unwrap();
    assert_eq!(file.write_at(&[1; 8], 0).unwrap(), 8);
    assert_eq!(file.write_at(&[1; 8], 8).unwrap(), 2);
    assert_eq!(file.write_at(&[1; 8], 10).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(file.write_at(&[2; 8], 0).unwrap(), 8, "overwriting needs no space");
    disk.remove("f").unwrap();
    assert_eq!(disk.used(), 0);
}

#[test]
fn no_operation_works_without_power_and_old_handles_stay_dead() {
    let disk = SimDisk::new(1);
    let file = disk.create("f").unwrap();
    disk.power_off_at(disk.ops());
    assert!(file.sync_data().is_err());
    assert!(file.write_at(b"x", 0).is_err() && disk.create("g").is_err());
    disk.crash();
    assert!(file.write_at(b"x", 0).is_err());
    assert!(disk.create("g").is_ok());
}

#[test]
fn the_lock_is_exclusive_and_dies_with_the_process() {
    let disk = SimDisk::new(1);
    let lock = disk.lock().unwrap();
    assert!(disk.lock().is_err());
    disk.kill();
    let second = disk.lock().unwrap();
    drop(lock);
    assert!(disk.lock().is_err(), "a dead holder must not release a living one's lock");
    drop(second);
    assert!(disk.lock().is_ok());
}
