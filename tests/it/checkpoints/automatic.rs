//! Checkpoints that a store makes by itself: while it is written to, and when it closes.

use super::*;

/// A hundred frames or so.
const DISTANCE: u64 = 32 * 1024;

fn small(disk: &MemoryDisk, writers: Writers) -> Store {
    let options = Options::new().segment_bytes(16 * 1024).checkpoint_distance(DISTANCE).pasts_bytes(0);
    options.writers(writers).open_on(Arc::new(disk.clone())).unwrap()
}

#[test]
fn a_growing_log_gets_checkpoints_and_every_past_is_within_reach() {
    for writers in [Writers::One, Writers::Many] {
        let disk = MemoryDisk::new();
        let store = small(&disk, writers);
        for n in 0..1500 {
            store.root().notes().remember(&format!("k{}", n % 10), "a note", &format!("{n:0100}")).unwrap();
        }
        drop(store);
        let store = small(&disk, writers);
        let listed = Checkpoints::new(Arc::new(disk.clone()), false).list();
        assert!(listed.len() > 4, "{listed:?}");
        assert!(disk.files().iter().all(|path| !path.ends_with(".tmp")));
        assert!(store.opened().folded < 120, "{:?}", store.opened());
        // Every frame is about as long as the others here.
        let log_bytes = listed.last().unwrap().log_bytes;
        let each = log_bytes / listed.last().unwrap().frame.0;
        for n in 1..=1500 {
            let before = listed.iter().rfind(|checkpoint| checkpoint.frame <= Frame(n));
            let age = log_bytes.saturating_sub(n * each);
            let reach = reach(before.map_or(0, |b| b.bytes), age, DISTANCE) + 2 * each;
            let folded = store.at(Frame(n)).unwrap().folded();
            assert!(folded * each <= reach, "frame {n} folded {folded}, {} in reach", reach / each);
        }
    }
}

#[test]
fn a_short_visit_makes_none() {
    let disk = MemoryDisk::new();
    let store = small(&disk, Writers::Many);
    for n in 0..300 {
        store.root().notes().remember(&format!("k{n}"), "a note", "body").unwrap();
    }
    store.checkpoint().unwrap();
    drop(store);
    let before = checkpoints(&disk);
    for _ in 0..3 {
        let store = small(&disk, Writers::Many);
        assert_eq!(store.opened().checkpoint, Some(Frame(300)));
        store.root().notes().remember("visitor", "a note", "body").unwrap();
    }
    let reader = options().open_read_only_on(Arc::new(disk.clone())).unwrap();
    assert_eq!(reader.opened().folded, 3);
    drop(reader);
    assert_eq!(checkpoints(&disk), before);
}

#[test]
fn what_came_in_without_checkpoints_gets_one_at_the_close() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    for n in 0..200 {
        store.root().notes().remember(&format!("k{n}"), "a note", "body").unwrap();
    }
    drop(store);
    assert!(checkpoints(&disk).is_empty());
    let store = small(&disk, Writers::One);
    assert_eq!(store.opened(), mnemolog::Opened { checkpoint: None, folded: 200 });
    drop(store);
    assert_eq!(small(&disk, Writers::One).opened().checkpoint, Some(Frame(200)));
}

#[test]
fn a_disk_without_room_for_a_checkpoint_takes_writes_as_before() {
    let disk = MemoryDisk::new();
    let store = small(&disk, Writers::One);
    store.root().notes().remember("first", "a note", "body").unwrap();
    let used: u64 = disk.files().iter().map(|path| disk.read_file(path).unwrap().len() as u64).sum();
    disk.set_capacity(Some(used + 100));
    assert!(matches!(store.checkpoint(), Err(Error::DiskFull { .. })));
    let mut last = 0;
    for n in 1..300 {
        if store.root().notes().remember("key", "a note", &n.to_string()).is_err() {
            break;
        }
        last = n;
    }
    assert!(last > 100, "space for these was reserved");
    drop(store);
    disk.set_capacity(None);
    assert!(checkpoints(&disk).is_empty(), "what could not be finished was removed");
    assert_eq!(small(&disk, Writers::One).root().notes().recall("key"), last.to_string());
}
