//! Loss of power, death of the process and failing calls, at every place of a history, against a plain list.
//!
//! The oracle is the list of keys that were appended and how many of them were acknowledged. After a
//! reopening the log must hold a beginning of that list, at least the acknowledged part; what it holds is
//! acknowledged from then on.
//!
//! Protects promises 6 and 7.

use std::collections::BTreeMap;
use std::sync::Arc;

use mnemolog::codec::segment::StoreId;
use mnemolog::disk::{Disk, Fault, MemoryDisk, Tear};
use mnemolog::error::{Error, Result};
use mnemolog::log::verify;
use mnemolog::position::Frame;

use super::{Entry, SMALL, Writing, keys, open, read, segment};

/// Answers numbers below `n`.
type Choose<'a> = &'a mut dyn FnMut(u64) -> u64;

/// Small, seeded, and good enough to choose by.
pub(super) fn random(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |n| {
        seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n.max(1)
    }
}

#[derive(Debug, Default)]
struct Oracle {
    appended: Vec<String>,
    acknowledged: usize,
    keys: usize,
}

impl Oracle {
    fn key(&mut self) -> String {
        self.keys += 1;
        format!("key {}", self.keys)
    }

    fn acknowledge(&mut self, frame: Frame) {
        self.acknowledged = self.acknowledged.max(frame.0 as usize);
    }

    /// Holds what an opening for writing found against the list.
    fn check(&mut self, found: &[Entry], context: &str) {
        let found = keys(found);
        let expected: Vec<_> = self.appended.iter().map(String::as_str).take(found.len()).collect();
        assert_eq!(found, expected, "{context}: not a beginning of what was appended");
        assert!(
            found.len() >= self.acknowledged,
            "{context}: {} frames were acknowledged and {} are there",
            self.acknowledged,
            found.len()
        );
        self.appended.truncate(found.len());
        self.acknowledged = found.len();
    }
}

fn contents(disk: &MemoryDisk) -> BTreeMap<String, Vec<u8>> {
    disk.files()
        .into_iter()
        .filter_map(|path| Some((disk.read_file(&path)?, path)))
        .map(|(b, p)| (p, b))
        .collect()
}

/// Opens, and holds what was found against the oracle, and a cut against its copy.
fn reopen(disk: &MemoryDisk, oracle: &mut Oracle, context: &str) -> Result<Writing> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let before = contents(disk);
    let writing = open(&shared, SMALL).inspect_err(|error| {
        assert!(!matches!(error, Error::Damaged(_)), "{context}: {error}");
    })?;
    oracle.check(&writing.found, context);
    if let Some(cut) = &writing.recovery.cut {
        let copy = disk.read_file(&format!("quarantine/{}", cut.quarantine.as_ref().unwrap())).unwrap();
        let file = &before[&format!("log/{}", cut.segment)];
        let from = cut.offset as usize;
        assert_eq!(file[from..from + copy.len()], copy, "{context}: the copy is not what was cut");
        assert!(file[from + copy.len()..].iter().all(|b| *b == 0));
    }
    Ok(writing)
}

/// What a crash left is unclean at most: the full check gives the verdict that opening will give.
fn check_whole(disk: &MemoryDisk, context: &str) {
    match verify(disk) {
        Ok(report) => assert!(report.is_whole(), "{context}: {:#?}", report.findings),
        Err(Error::NoSuchStore { .. }) => {}
        Err(error) => panic!("{context}: {error}"),
    }
}

/// One life of a process: opens, then some operations, until something fails.
fn live(
    disk: &MemoryDisk,
    oracle: &mut Oracle,
    operations: usize,
    choose: Choose<'_>,
    context: &str,
) -> Result<()> {
    let writing = reopen(disk, oracle, context)?;
    for _ in 0..operations {
        match choose(8) {
            0 => {
                let last = writing.log.appended();
                writing.log.flush()?;
                oracle.acknowledge(last);
            }
            1 => _ = append(&writing, oracle, choose)?,
            _ => {
                if let Some(frame) = append(&writing, oracle, choose)? {
                    writing.log.wait_durable(frame)?;
                    oracle.acknowledge(frame);
                }
            }
        }
    }
    if choose(2) == 0 {
        let last = writing.log.appended();
        writing.log.close()?;
        oracle.acknowledge(last);
    }
    Ok(())
}

/// `None`: refused, because the disk was full.
fn append(writing: &Writing, oracle: &mut Oracle, choose: Choose<'_>) -> Result<Option<Frame>> {
    let key = oracle.key();
    let sizes = [10, 100, 600, 1500, 3000, 7000];
    match writing.append(&key, sizes[choose(6) as usize]) {
        Ok(done) => {
            oracle.appended.push(key);
            assert_eq!(done.frame.0 as usize, oracle.appended.len());
            Ok(Some(done.frame))
        }
        Err(Error::DiskFull { .. }) => Ok(None),
        Err(error @ Error::OutcomeUnknown { .. }) => {
            oracle.appended.push(key);
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// What survives of what was not durable.
#[derive(Clone, Copy, Debug)]
enum Survivors {
    All,
    Nothing,
    Random,
}

fn lose_power(disk: &MemoryDisk, survivors: Survivors, tear: Tear, choose: Choose<'_>) {
    match survivors {
        Survivors::All => disk.power_loss(&mut |_| 0, tear),
        Survivors::Nothing => disk.power_loss(&mut |n| n - 1, tear),
        Survivors::Random => disk.power_loss(choose, tear),
    }
}

/// Protects promises 6, 7 and 8.
#[test]
fn a_loss_of_power_at_any_call_of_a_history_takes_back_nothing_acknowledged() {
    let (mut call, mut crashes) = (0, 0);
    loop {
        let mut finished = true;
        for survivors in [Survivors::All, Survivors::Nothing, Survivors::Random] {
            let context = format!("call {call}, {survivors:?}");
            let (disk, mut oracle) = (MemoryDisk::simulated(), Oracle::default());
            let mut chance = random(call);
            for round in 0..3 {
                // The first life is the same for every call and rotates; the crash walks through it.
                let mut script = random(7 + round);
                disk.crash_at(if round == 0 { call } else { chance(90) });
                let ended = live(&disk, &mut oracle, 24, &mut script, &context);
                crashes += u64::from(ended.is_err());
                finished &= round > 0 || ended.is_ok();
                lose_power(&disk, survivors, Tear::Sector, &mut chance);
                check_whole(&disk, &context);
            }
            reopen(&disk, &mut oracle, &context).unwrap();
            check_whole(&disk, &context);
        }
        if finished {
            break;
        }
        call += 1;
    }
    assert!(call > 100 && crashes > call * 3, "{crashes} crashes in {call} calls");
}

/// What ends a life.
fn befall(disk: &MemoryDisk, choose: Choose<'_>) {
    let fault = [Fault::Io, Fault::SyncLost, Fault::ShortWrite(choose(900) as usize), Fault::Full];
    match choose(5) {
        0 => disk.fail_at(choose(90), fault[choose(4) as usize]),
        1 => {
            disk.fail_at(choose(60), fault[choose(4) as usize]);
            disk.crash_at(choose(120));
        }
        2 => {}
        _ => disk.crash_at(choose(120)),
    }
}

#[test]
fn whatever_befalls_a_log_nothing_acknowledged_is_lost_and_nothing_is_taken_for_damage() {
    let (mut crashes, mut cuts, mut frames) = (0, 0, 0);
    for seed in 0..2000 {
        let mut choose = random(seed * 77 + 5);
        let (disk, mut oracle) = (MemoryDisk::simulated(), Oracle::default());
        for round in 0..4 {
            let context = format!("seed {seed}, round {round}");
            befall(&disk, &mut choose);
            let operations = 5 + choose(25) as usize;
            crashes += u64::from(live(&disk, &mut oracle, operations, &mut choose, &context).is_err());
            let tear = if choose(2) == 0 { Tear::Sector } else { Tear::Byte };
            match choose(6) {
                0 => disk.kill(),
                1 => disk.kill_torn(&mut choose),
                // The next life is of the same machine: a poisoned log is dropped and opened again.
                2 => {
                    disk.clear_faults();
                    if disk.network().is_err() {
                        disk.kill();
                    }
                }
                3 => lose_power(&disk, Survivors::All, tear, &mut choose),
                4 => lose_power(&disk, Survivors::Nothing, tear, &mut choose),
                _ => lose_power(&disk, Survivors::Random, tear, &mut choose),
            }
            check_whole(&disk, &context);
        }
        disk.kill();
        reopen(&disk, &mut oracle, &format!("seed {seed}, the end")).unwrap();
        cuts += disk.files().iter().filter(|path| path.starts_with("quarantine/")).count();
        frames += oracle.appended.len();
        assert!(disk.read_file(&segment(1)).is_some());
    }
    println!("{crashes} lives ended early, {cuts} ends were cut, {frames} frames are left");
    assert!(crashes > 4000 && cuts > 60 && frames > 10_000, "{crashes} {cuts} {frames}");
}

/// Opens a log for writing, appends nothing, and answers whose it is.
fn identity(disk: &MemoryDisk) -> Result<StoreId> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    open(&shared, SMALL)?;
    Ok(read(&shared, SMALL)?.0.store)
}

#[test]
fn whoever_goes_on_with_a_new_store_has_made_its_identity_durable() {
    let mut died = 0;
    for call in 0..40 {
        let disk = MemoryDisk::simulated();
        disk.crash_at(call);
        died += u64::from(identity(&disk).is_err());
        disk.kill();
        let store = identity(&disk).unwrap();
        lose_power(&disk, Survivors::Nothing, Tear::Sector, &mut |n| n - 1);
        assert_eq!(identity(&disk).unwrap(), store, "the creator died at call {call}");
    }
    assert!(died > 10, "the creator died only {died} times");
}
