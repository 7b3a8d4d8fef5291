//! A crash at every call of erasing: it has happened wholly, or not begun.

use std::collections::BTreeMap;

use mnemolog::disk::{Disk, Fault, MemoryDisk, Tear};
use mnemolog::{Erase, Store, Writers};
use serde_json::Value;

use super::lines::{Goes, without};
use super::random::World;
use super::{dumped, holder, open};
use crate::model::Rng;

const SEEDS: u64 = 8;

/// Is removed when the store is open, and comes back with a loss of power.
const REMOVED: &str = "quarantine/cut.0";

type Image = BTreeMap<String, Vec<u8>>;

fn image(disk: &MemoryDisk) -> Image {
    disk.files().into_iter().map(|path| (path.clone(), disk.read_file(&path).expect("is there"))).collect()
}

fn disk_of(image: &Image) -> MemoryDisk {
    let disk = MemoryDisk::simulated();
    for (path, bytes) in image {
        disk.write_file(path, bytes).expect("writes");
    }
    disk
}

fn values(store: &Store) -> Vec<Value> {
    dumped(store).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// What a crash leaves of what was not durable.
#[derive(Clone, Copy, Debug)]
enum Survivors {
    Process,
    All,
    None,
    Random,
}

impl Survivors {
    const ALL: [Survivors; 4] = [Survivors::Process, Survivors::All, Survivors::None, Survivors::Random];

    fn crash(self, disk: &MemoryDisk, rng: &mut Rng) {
        match self {
            Survivors::Process => disk.kill_torn(&mut |n| rng.below(n)),
            Survivors::All => disk.power_loss(&mut |_| 0, Tear::Sector),
            Survivors::None => disk.power_loss(&mut |n| n - 1, Tear::Sector),
            Survivors::Random => disk.power_loss(&mut |n| rng.below(n), Tear::Byte),
        }
    }
}

/// A closed store with a secret in it.
fn written(seed: u64) -> (World, Image) {
    let mut world = World::new(2000 + seed, false);
    let store = world.write(24);
    store.root().notes().remember("secret", "", &world.secret).expect("writes");
    store.checkpoint().expect("saves");
    drop(store);
    for path in [REMOVED, "quarantine/cut.1", "checkpoints/00000000000000000003.tmp", "log/0123.0.tmp"] {
        world.disk.write_file(path, world.secret.as_bytes()).expect("writes");
    }
    let image = image(&world.disk);
    (world, image)
}

/// How many calls erasing makes.
fn calls(world: &World, image: &Image) -> u64 {
    let disk = disk_of(image);
    let store = open(&disk, world.writers);
    disk.remove(REMOVED).expect("is there");
    let before = disk.calls();
    assert!(store.erase(&Erase::containing(world.secret.as_str())).expect("erases").found());
    disk.calls() - before
}

#[test]
fn a_crash_at_any_call_leaves_all_of_it_or_nothing_of_it() {
    let (mut crashes, mut finished, mut undone) = (0, 0, 0);
    for seed in 0..SEEDS {
        let (mut world, image) = written(seed);
        let erase = Erase::containing(world.secret.as_str());
        let (before, expected) = {
            let store = open(&disk_of(&image), world.writers);
            (values(&store), without(&dumped(&store), &Goes::Text(world.secret.clone())))
        };
        for call in 0..calls(&world, &image) {
            for survivors in Survivors::ALL {
                let context = format!("seed {seed}, call {call}, {survivors:?}");
                let disk = disk_of(&image);
                let store = open(&disk, world.writers);
                disk.remove(REMOVED).expect("is there");
                disk.crash_at(call);
                assert!(store.erase(&erase).is_err(), "{context}: the crash stops it");
                drop(store);
                survivors.crash(&disk, &mut world.rng);
                crashes += 1;
                let store = open(&disk, world.writers);
                let found = values(&store);
                if found == expected {
                    finished += 1;
                } else {
                    assert!(found == before, "{context}: neither before nor after");
                    undone += 1;
                    store.erase(&erase).unwrap_or_else(|e| panic!("{context}: {e}"));
                }
                assert_eq!(holder(&disk, &world.secret), None, "{context}");
                assert_eq!(values(&store), expected, "{context}");
                drop(store);
                // Nothing of it was only in the cache.
                survivors.crash(&disk, &mut world.rng);
                drop(open(&disk, world.writers));
                assert_eq!(holder(&disk, &world.secret), None, "{context}, after a second crash");
            }
        }
    }
    println!("{crashes} crashes: {finished} times finished, {undone} times not begun");
    assert!(finished > 50 && undone > 50, "both happen: {finished}, {undone}");
}

#[test]
fn a_call_that_fails_leaves_all_of_it_or_nothing_of_it() {
    for seed in 0..SEEDS / 2 {
        let (mut world, image) = written(seed);
        let erase = Erase::containing(world.secret.as_str());
        let (before, expected) = {
            let store = open(&disk_of(&image), world.writers);
            (values(&store), without(&dumped(&store), &Goes::Text(world.secret.clone())))
        };
        for call in 0..calls(&world, &image) {
            for fault in [Fault::Io, Fault::Full, Fault::SyncLost] {
                let context = format!("seed {seed}, call {call}, {fault:?}");
                let disk = disk_of(&image);
                let store = open(&disk, world.writers);
                disk.fail_at(call, fault);
                let erased = store.erase(&erase);
                if let Err(mnemolog::Error::DiskFull { .. }) = &erased {
                    assert!(values(&store) == before, "{context}: nothing was changed");
                    store.root().notes().remember("after", "", "a full disk").expect("writes go on");
                    continue;
                }
                drop(store);
                disk.clear_faults();
                Survivors::Random.crash(&disk, &mut world.rng);
                let store = open(&disk, world.writers);
                let found = values(&store);
                assert!(found == expected || (erased.is_err() && found == before), "{context}: {erased:?}");
                if found == expected {
                    assert_eq!(holder(&disk, &world.secret), None, "{context}");
                }
            }
        }
    }
}

#[test]
fn what_a_dead_process_left_of_another_change_goes_too_and_is_in_nobodys_way() {
    let disk = MemoryDisk::simulated();
    let store = open(&disk, Writers::Many);
    let secret = "what somebody was building when they died";
    store.root().notes().remember("secret", "", secret).expect("writes");
    for path in ["log/0123.0.tmp", "INTENT.tmp"] {
        disk.write_file(path, secret.as_bytes()).expect("writes");
    }
    assert!(store.erase_containing(secret).expect("erases").found());
    disk.power_loss(&mut |n| n - 1, Tear::Sector);
    assert_eq!(holder(&disk, secret), None, "nor does it come back");
}
