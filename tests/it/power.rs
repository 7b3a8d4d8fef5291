//! What a disk in RAM loses when it loses power, and what it never loses; and the faults that befall it.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::time::Duration;

use mnemolog::disk::{Access, Disk, Fault, LockError, MemoryDisk, Tear};

use crate::disk::{bytes, get, kind, put};

const NO_WAIT: Duration = Duration::ZERO;

fn simulated() -> MemoryDisk {
    let disk = MemoryDisk::simulated();
    disk.create_dir("").unwrap();
    disk
}

fn keep_all(_: u64) -> u64 {
    0
}

fn lose_all(n: u64) -> u64 {
    n - 1
}

/// Small, seeded, and good enough to choose by.
fn random(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |n| {
        seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

/// Every outcome that some choices lead to, found by trying many.
fn outcomes<T: Ord>(mut run: impl FnMut(&mut dyn FnMut(u64) -> u64) -> T) -> BTreeSet<T> {
    (0..400).map(|seed| run(&mut random(seed))).collect()
}

#[test]
fn unsynced_bytes_may_vanish_and_synced_ones_never_do() {
    let found = outcomes(|choose| {
        let disk = simulated();
        let file = put(&disk, "f", b"synced");
        file.sync_data().unwrap();
        disk.sync_dir("").unwrap();
        file.write_at(0, b"Synced").unwrap();
        file.write_at(600, b"new").unwrap();
        disk.power_loss(choose, Tear::Sector);
        let found = get(&disk, "f");
        (found[0], found.len(), found.get(600..603).map(<[u8]>::to_vec))
    });
    let (none, zero, new) = (None, Some(vec![0; 3]), Some(b"new".to_vec()));
    let expected = [b's', b'S']
        .into_iter()
        .flat_map(|first| [(first, 6, none.clone()), (first, 603, zero.clone()), (first, 603, new.clone())]);
    assert_eq!(found, expected.collect());
}

#[test]
fn what_was_lost_stays_lost_and_what_was_kept_stays_kept() {
    for choose in [keep_all, lose_all] {
        let disk = simulated();
        put(&disk, "f", b"1").sync_data().unwrap();
        disk.sync_dir("").unwrap();
        disk.open("f", Access::Write).unwrap().write_at(0, b"22").unwrap();
        disk.power_loss(&mut { choose }, Tear::Sector);
        let once = get(&disk, "f");
        assert_eq!(once, if choose(2) == 0 { &b"22"[..] } else { b"1" });
        disk.power_loss(&mut lose_all, Tear::Sector);
        disk.power_loss(&mut keep_all, Tear::Sector);
        assert_eq!(get(&disk, "f"), once);
    }
}

#[test]
fn sectors_survive_one_by_one_in_any_of_their_versions() {
    let found = outcomes(|choose| {
        let disk = simulated();
        let file = put(&disk, "f", &[1; 1024]);
        file.sync_data().unwrap();
        disk.sync_dir("").unwrap();
        file.write_at(0, &[2; 1024]).unwrap();
        file.write_at(0, &[3; 1024]).unwrap();
        disk.power_loss(choose, Tear::Sector);
        let found = get(&disk, "f");
        assert!(found[..512].iter().all(|b| *b == found[0]), "a sector is torn");
        assert!(found[512..].iter().all(|b| *b == found[512]), "a sector is torn");
        (found[0], found[512])
    });
    assert_eq!(found.len(), 9, "{found:?}");
}

#[test]
fn a_torn_sector_begins_new_and_ends_old() {
    let found = outcomes(|choose| {
        let disk = simulated();
        let file = put(&disk, "f", &[1; 512]);
        file.sync_data().unwrap();
        disk.sync_dir("").unwrap();
        file.write_at(0, &[2; 512]).unwrap();
        disk.power_loss(choose, Tear::Byte);
        let found = get(&disk, "f");
        let new = found.iter().take_while(|b| **b == 2).count();
        assert!(found[new..].iter().all(|b| *b == 1));
        new
    });
    assert!(found.contains(&0) && found.contains(&512) && found.len() > 50, "{found:?}");
}

#[test]
fn names_survive_in_any_subset_until_their_directory_is_synced() {
    let found = outcomes(|choose| {
        let disk = simulated();
        put(&disk, "old", b"old").sync_data().unwrap();
        put(&disk, "gone", b"").sync_data().unwrap();
        disk.sync_dir("").unwrap();
        put(&disk, "new.tmp", b"new").sync_data().unwrap();
        disk.rename("new.tmp", "old").unwrap();
        disk.remove("gone").unwrap();
        disk.power_loss(choose, Tear::Sector);
        (get(&disk, "old"), disk.files())
    });
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut expected = BTreeSet::new();
    for gone in [&["gone"][..], &[]] {
        expected.insert((b"new".to_vec(), names(&[gone, &["old"]].concat())));
        expected.insert((b"old".to_vec(), names(&[gone, &["old"]].concat())));
        expected.insert((b"old".to_vec(), names(&[gone, &["new.tmp", "old"]].concat())));
    }
    assert_eq!(found, expected);
}

#[test]
fn a_synced_name_is_never_lost_but_its_bytes_may_be() {
    let disk = simulated();
    disk.create_dir("log").unwrap();
    disk.sync_dir("").unwrap();
    put(&disk, "log/f.tmp", b"bytes");
    disk.rename("log/f.tmp", "log/f").unwrap();
    disk.sync_dir("log").unwrap();
    disk.power_loss(&mut lose_all, Tear::Sector);
    assert_eq!(disk.files(), ["log/f"]);
    assert_eq!(get(&disk, "log/f"), b"");
}

#[test]
fn an_unsynced_directory_takes_its_files_with_it() {
    let disk = simulated();
    disk.create_dir("log").unwrap();
    put(&disk, "log/f", b"bytes").sync_data().unwrap();
    disk.sync_dir("log").unwrap();
    disk.power_loss(&mut lose_all, Tear::Sector);
    assert_eq!(disk.list("").unwrap(), Vec::<String>::new());
    assert_eq!(kind(disk.list("log")), ErrorKind::NotFound);
}

#[test]
fn reserved_space_may_vanish_until_the_file_is_synced() {
    let sizes = |sync: bool| {
        outcomes(|choose| {
            let disk = simulated();
            let file = disk.open("f", Access::Create).unwrap();
            disk.sync_dir("").unwrap();
            file.allocate(1000).unwrap();
            file.allocate(9000).unwrap();
            if sync {
                file.sync_data().unwrap();
            }
            disk.power_loss(choose, Tear::Sector);
            get(&disk, "f").len()
        })
    };
    assert_eq!(sizes(false), BTreeSet::from([0, 1000, 9000]));
    assert_eq!(sizes(true), BTreeSet::from([9000]));
}

#[test]
fn handles_of_a_life_that_is_over_are_dead_and_harmless() {
    for end in
        [|disk: &MemoryDisk| disk.power_loss(&mut keep_all, Tear::Sector), |disk: &MemoryDisk| disk.kill()]
    {
        let disk = simulated();
        let old = disk.clone();
        let file = put(&old, "f", b"1");
        let lock = old.lock(NO_WAIT).unwrap();
        end(&disk);
        let again = disk.lock(NO_WAIT).unwrap();
        assert_eq!(kind(file.write_at(0, b"2")), ErrorKind::Other);
        assert_eq!(kind(file.read_at(0, &mut [0])), ErrorKind::Other);
        assert_eq!(kind(file.sync_data()), ErrorKind::Other);
        assert_eq!(kind(old.clone().remove("f")), ErrorKind::Other);
        drop(lock);
        assert!(matches!(disk.lock(NO_WAIT), Err(LockError::Held { .. })), "a dead lock released a live one");
        drop(again);
        assert_eq!(get(&disk.clone(), "f"), b"1");
    }
}

#[test]
fn the_death_of_the_process_loses_nothing_but_makes_nothing_durable() {
    let disk = simulated();
    put(&disk, "f", b"1");
    disk.kill();
    assert_eq!(get(&disk, "f"), b"1");
    disk.power_loss(&mut lose_all, Tear::Sector);
    assert!(disk.files().is_empty());
}

#[test]
fn a_plain_disk_loses_nothing() {
    let disk = MemoryDisk::new();
    disk.create_dir("").unwrap();
    put(&disk, "f", b"1");
    disk.power_loss(&mut lose_all, Tear::Byte);
    assert_eq!(get(&disk, "f"), b"1");
}

#[test]
fn the_chosen_call_fails_and_no_other() {
    let script = |disk: &MemoryDisk| -> Vec<bool> {
        let mut fine = vec![disk.create_dir("log").is_ok()];
        let file = disk.open("f", Access::Write).ok();
        fine.push(file.is_some());
        let file = file.unwrap_or_else(|| disk.open("f", Access::Write).unwrap());
        fine.push(file.write_at(0, b"1").is_ok());
        fine.push(file.allocate(10).is_ok());
        fine.push(file.read_at(0, &mut [0]).is_ok());
        fine.push(file.sync_data().is_ok());
        fine.push(file.len().is_ok());
        fine.push(file.id().is_ok());
        fine.push(file.map(10).is_ok());
        fine.push(disk.list("").is_ok());
        fine.push(disk.lock(NO_WAIT).is_ok());
        fine.push(disk.id("f").is_ok());
        fine.push(disk.rename("f", "g").is_ok());
        fine.push(disk.sync_dir("").is_ok());
        fine.push(disk.remove("g").is_ok());
        fine.push(disk.network().is_ok());
        fine
    };
    let steps = script(&{
        let disk = simulated();
        put(&disk, "f", b"");
        disk
    })
    .len();
    for failing in 0..steps {
        let disk = simulated();
        put(&disk, "f", b"");
        disk.fail_at(failing as u64, Fault::Io);
        let fine = script(&disk);
        // A rename that failed is why the remove fails after it.
        let expected: Vec<bool> =
            (0..steps).map(|step| step != failing && !(failing == 12 && step == 14)).collect();
        assert_eq!(fine, expected, "call {failing} was to fail");
    }
}

#[test]
fn a_short_write_leaves_its_beginning() {
    let disk = simulated();
    let file = put(&disk, "f", b"......");
    disk.fail_at(0, Fault::ShortWrite(3));
    assert_eq!(kind(file.write_at(0, b"abcdef")), ErrorKind::Other);
    assert_eq!(bytes(&*file), b"abc...");
    disk.fail_at(1, Fault::Full);
    file.write_at(0, b"A").unwrap();
    assert_eq!(kind(file.write_at(0, b"B")), ErrorKind::StorageFull);
    assert_eq!(bytes(&*file), b"Abc...");
}

#[test]
fn a_lost_sync_loses_its_bytes_though_a_later_one_succeeds() {
    let disk = simulated();
    let file = put(&disk, "f", &[1; 8192]);
    file.sync_data().unwrap();
    disk.sync_dir("").unwrap();
    file.write_at(0, &[2; 8192]).unwrap();
    disk.fail_at(0, Fault::SyncLost);
    file.sync_data().unwrap_err();
    file.sync_data().unwrap();
    assert_eq!(bytes(&*file), [2; 8192], "readers see the lost bytes while there is power");
    // Writing to a page again gives the whole page another chance.
    file.write_at(0, b"3").unwrap();
    file.sync_data().unwrap();
    disk.power_loss(&mut keep_all, Tear::Sector);
    let found = get(&disk, "f");
    assert_eq!((found[0], found[1], found[4095], found[4096], found[8191]), (b'3', 2, 2, 1, 1));
}

#[test]
fn a_failed_sync_is_reported_once_to_each_descriptor() {
    let disk = simulated();
    let one = put(&disk, "f", b"1");
    let two = disk.open("f", Access::Read).unwrap();
    disk.fail_at(0, Fault::Io);
    one.sync_data().unwrap_err();
    one.sync_data().unwrap();
    let late = disk.open("f", Access::Read).unwrap();
    late.sync_data().unwrap();
    two.sync_data().unwrap_err();
    two.sync_data().unwrap();
}

#[test]
fn a_crash_stops_everything_and_may_tear_the_write_under_way() {
    let run = |end: &dyn Fn(&MemoryDisk)| {
        let disk = simulated();
        let file = put(&disk, "f", b"....");
        file.sync_data().unwrap();
        disk.sync_dir("").unwrap();
        disk.crash_at(1);
        file.len().unwrap();
        assert_eq!(kind(file.write_at(0, b"abcd")), ErrorKind::Other);
        assert_eq!(kind(disk.list("")), ErrorKind::Other);
        assert_eq!(kind(file.read_at(0, &mut [0])), ErrorKind::Other);
        end(&disk);
        get(&disk, "f")
    };
    assert_eq!(run(&|disk| disk.kill()), b"....");
    let torn = outcomes(|choose| {
        let choice = choose(5);
        run(&|disk| disk.kill_torn(&mut |_| choice))
    });
    let expected = [&b"...."[..], b"a...", b"ab..", b"abc.", b"abcd"].map(<[u8]>::to_vec);
    assert_eq!(torn, expected.into());
    assert_eq!(run(&|disk| disk.power_loss(&mut keep_all, Tear::Sector)), b"abcd");
    assert_eq!(run(&|disk| disk.power_loss(&mut lose_all, Tear::Sector)), b"....");
}

#[test]
fn a_full_disk_refuses_what_grows_and_nothing_else() {
    let disk = simulated();
    let file = put(&disk, "f", &[1; 100]);
    put(&disk, "g", &[1; 50]);
    disk.set_capacity(Some(200));
    assert_eq!(kind(file.write_at(100, &[1; 51])), ErrorKind::StorageFull);
    assert_eq!(kind(file.allocate(151)), ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 100);
    file.allocate(150).unwrap();
    file.write_at(0, &[2; 150]).unwrap();
    assert_eq!(kind(file.write_at(150, b"1")), ErrorKind::StorageFull);
    disk.remove("g").unwrap();
    file.write_at(150, b"1").unwrap();
    disk.set_capacity(None);
    file.allocate(1000).unwrap();
}

#[test]
fn files_placed_flipped_and_removed_from_outside_are_durable_so() {
    let disk = MemoryDisk::simulated();
    disk.write_file("log/a/f", b"abc").unwrap();
    disk.write_file("g", b"").unwrap();
    let file = disk.open("log/a/f", Access::Write).unwrap();
    file.write_at(1, b"x").unwrap();
    disk.flip("log/a/f", 0, 1).unwrap();
    assert_eq!(disk.read_file("log/a/f").unwrap(), b"cxc");
    assert_eq!(kind(disk.flip("log/a/f", 3, 0)), ErrorKind::UnexpectedEof);
    disk.remove_file("g").unwrap();
    disk.power_loss(&mut lose_all, Tear::Sector);
    assert_eq!(disk.files(), ["log/a/f"]);
    assert_eq!(disk.read_file("log/a/f").unwrap(), b"cbc");
    assert_eq!(disk.read_file("g"), None);
}

#[test]
fn random_histories_lose_no_synced_byte_and_invent_none() {
    const LEN: usize = 3000;
    for seed in 0..300 {
        let mut choose = random(seed);
        let disk = simulated();
        let file = put(&disk, "f", &[0; LEN]);
        file.sync_data().unwrap();
        disk.sync_dir("").unwrap();
        // Per byte, every value that may be found there: a plain and slow oracle.
        let mut possible = vec![vec![0_u8]; LEN];
        for step in 1..=40 {
            if choose(6) == 0 {
                file.sync_data().unwrap();
                possible.iter_mut().for_each(|values| drop(values.drain(..values.len() - 1)));
            } else {
                let start = choose(LEN as u64) as usize;
                let end = (start + choose(1200) as usize + 1).min(LEN);
                file.write_at(start as u64, &vec![step; end - start]).unwrap();
                possible[start..end].iter_mut().for_each(|values| values.push(step));
            }
        }
        let tear = if seed % 2 == 0 { Tear::Sector } else { Tear::Byte };
        disk.power_loss(&mut choose, tear);
        let found = get(&disk, "f");
        assert_eq!(found.len(), LEN);
        for (at, (found, possible)) in found.iter().zip(&possible).enumerate() {
            assert!(possible.contains(found), "seed {seed}: byte {at} is {found}, not one of {possible:?}");
        }
    }
}
