//! Backups beside writers, in this process and in others.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mnemolog::disk::MemoryDisk;
use mnemolog::{Frame, Writers, log};

use super::{check, options, reader, write};
use crate::model::Rng;
use crate::support::{dumped, shared};

#[test]
fn a_backup_beside_writers_holds_all_that_was_acknowledged_before() {
    for writers in [Writers::One, Writers::Many] {
        let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
        let store = options().writers(writers).open_on(shared(&disk)).expect("opens");
        write(&store, &mut Rng::new(1), 20);
        let (acknowledged, over) = (AtomicU64::new(20), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = Rng::new(2);
                for _ in 0..300 {
                    write(&store, &mut rng, 1);
                    acknowledged.store(store.durable().0, Ordering::Release);
                }
                over.store(true, Ordering::Release);
            });
            let beside = reader(&disk);
            for round in 0.. {
                let last = over.load(Ordering::Acquire);
                let before = acknowledged.load(Ordering::Acquire);
                let source = if round % 2 == 0 { &store } else { &beside };
                let made = source.backup_on(&shared(&target)).expect("backed up");
                assert!(made.frame >= Frame(before), "frame {}, {before} acknowledged", made.frame);
                assert!(log::verify(&target).expect("reads").is_whole());
                assert_eq!(dumped(&reader(&target), made.frame), dumped(&store, made.frame));
                if last {
                    break;
                }
            }
        });
        check(&store, &target, store.appended(), "at the end");
    }
}

#[test]
fn writes_of_other_processes_are_in_a_backup() {
    let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
    let open = || options().writers(Writers::Many).open_on(shared(&disk)).expect("opens");
    let (one, other, third) = (open(), open(), reader(&disk));
    write(&one, &mut Rng::new(1), 30);
    write(&other, &mut Rng::new(2), 60);
    let last = other.appended();
    for store in [&one, &third] {
        assert_eq!(store.backup_on(&shared(&target)).expect("backed up").frame, last);
    }
    check(&other, &target, last, "another process wrote");
}
