//! What erasing refuses, and what it then leaves alone: everything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mnemolog::disk::MemoryDisk;
use mnemolog::{Erase, Error, Frame, Json, Stays, Store, Time, Writers};

use super::{dumped, holder, open, options};

const SECRET: &str = "the secret that nobody may read again";

fn image(disk: &MemoryDisk) -> BTreeMap<String, Vec<u8>> {
    let files = disk.files().into_iter().filter(|path| path != "LOCK");
    files.map(|path| (path.clone(), disk.read_file(&path).expect("is there"))).collect()
}

fn written(disk: &MemoryDisk) -> Store {
    // No checkpoint comes to be beside what is compared.
    let store = options().checkpoint_distance(1 << 40).open_on(Arc::new(disk.clone())).expect("opens");
    for n in 0..40 {
        let body = format!("{SECRET} {}", "x".repeat(1000));
        store.root().notes().remember(&format!("k{n}"), "", &body).expect("writes");
    }
    store
}

#[test]
fn a_full_disk_changes_nothing() {
    let disk = MemoryDisk::new();
    let store = written(&disk);
    let (before, used) = (image(&disk), image(&disk).values().map(|bytes| bytes.len() as u64).sum::<u64>());
    assert!(before.len() > 3, "several files are to be written anew");
    for more in [0, 1000, 20_000, 40_000] {
        disk.set_capacity(Some(used + more));
        assert!(matches!(store.erase_containing(SECRET), Err(Error::DiskFull { .. })), "{more}");
        assert!(image(&disk) == before, "{more}");
    }
    disk.set_capacity(None);
    store.erase_containing(SECRET).expect("goes on when there is room");
    assert_eq!(holder(&disk, SECRET), None);
}

#[test]
fn a_reader_and_a_past_only_tell_what_would_go() {
    let disk = MemoryDisk::new();
    let store = written(&disk);
    let past = store.at(Frame(2)).expect("there");
    assert!(matches!(past.root().notes().erase("k1"), Err(Error::ReadOnly)));
    let reader = options().open_read_only_on(Arc::new(disk.clone())).expect("opens");
    assert!(matches!(reader.erase_containing(SECRET), Err(Error::ReadOnly)));
    let before = image(&disk);
    let told = reader.erase(&Erase::containing(SECRET).dry_run(true)).expect("tells");
    assert!(told.dry_run && told.blanked() == 40 && told.files.iter().all(|file| !file.open_here));
    assert!(image(&disk) == before, "nothing was changed");
    store.close().expect("closes");
    assert!(matches!(store.erase_containing(SECRET), Err(Error::Closed)));
}

#[test]
fn the_empty_text_is_refused() {
    let disk = MemoryDisk::new();
    let store = written(&disk);
    let before = image(&disk);
    for dry_run in [false, true] {
        let erased = store.erase(&Erase::containing("").dry_run(dry_run));
        assert!(matches!(erased, Err(Error::Invalid { .. })), "{erased:?}");
    }
    assert!(image(&disk) == before, "nothing was changed");
}

#[test]
fn what_nobody_of_ours_put_beside_the_log_is_not_taken_away_and_said() {
    for path in ["quarantine/a:b", "checkpoints/a\\b", "quarantine/directory/file"] {
        let disk = MemoryDisk::new();
        let store = written(&disk);
        if disk.write_file(path, b"whose is this?").is_err() {
            continue;
        }
        let before = image(&disk);
        let erased = store.erase_containing(SECRET);
        assert!(
            matches!(&erased, Err(Error::Invalid { found, .. }) if path.starts_with(found)),
            "{erased:?}"
        );
        assert!(image(&disk) == before, "nothing was changed");
        store.root().notes().remember("after", "", "life goes on").expect("writes");
    }
}

#[test]
fn a_frame_that_rotted_stops_it_before_anything_is_changed() {
    let disk = MemoryDisk::new();
    let store = written(&disk);
    disk.flip("log/00000000000000000001.seg", 4096 + 200, 3).expect("flips");
    let before = image(&disk);
    let erased = store.erase_containing(SECRET);
    assert!(matches!(erased, Err(Error::Corrupt { .. })), "{erased:?}");
    assert!(image(&disk) == before, "nothing was changed");
}

#[test]
fn ranges_that_a_repair_gave_up_stay_and_what_it_kept_of_them_goes() {
    let disk = MemoryDisk::new();
    drop(written(&disk));
    disk.flip("log/00000000000000000001.seg", 4096 + 200, 3).expect("flips");
    let repaired = mnemolog::log::repair(&(Arc::new(disk.clone()) as _), Duration::ZERO, false, Time::ZERO);
    assert!(!repaired.expect("repairs").lost.is_empty());
    let store = open(&disk, Writers::One);
    let receipt = store.erase_containing(SECRET).expect("erases");
    assert!(!receipt.quarantine.is_empty(), "{receipt:?}");
    assert_eq!(holder(&disk, SECRET), None);
    assert!(matches!(store.at(Frame(1)), Err(Error::Lost { .. })), "it stays lost");
    assert_eq!(store.root().notes().len(), 0);
    assert!(mnemolog::log::verify(&disk).expect("reads").is_whole());
    assert_eq!(dumped(&store).lines().filter(|line| line.contains("erased")).count(), 39);
}

#[test]
fn names_of_handles_and_embedders_stay_and_are_told() {
    let store = open(&MemoryDisk::new(), Writers::One);
    let rows = store.workspace("core").and_then(|core| core.vectors("a-stub-of-rows")).expect("a name");
    rows.upsert("a", "text", &Json::object()).expect("writes");
    let receipt = store.erase_containing("stub").expect("erases");
    assert!(!receipt.found());
    let kinds: Vec<_> = receipt.stays.iter().map(|s| matches!(s, Stays::Handle(_))).collect();
    assert_eq!(kinds, [true, false], "{receipt:?}");
    assert!(rows.erase_all().expect("erases").found());
    assert!(
        store.erase_containing("stub").expect("erases").stays.is_empty(),
        "the name went with the handle"
    );
    assert_eq!((rows.len(), rows.identity()), (0, None));
}

#[test]
fn a_text_is_looked_for_as_it_reads() {
    let json = |text: &str| Json::parse(text).expect("JSON");
    let cases = [
        (json(r#"{"a":"tab\there"}"#), "tab\there", true),
        (json(r#"{"a":"tab\there"}"#), r"tab\there", true),
        (json(r#"{"a":"tab\there"}"#), "there", false),
        (json(r#"{"card":4111111111111111}"#), "4111111111111111", true),
        (json(r#"[-12.5e3]"#), "2.5e", true),
        (json(r#"{"a":null}"#), "null", false),
        (json(r#"{"a":{"b":"c"}}"#), r#""b":"c""#, true),
        (json(r#"{"a\"b":1}"#), r#"a"b"#, true),
        (json(r#"["one","two"]"#), "onetwo", false),
        (json(r#"["ein Männlein"]"#), "Männ", true),
        (json(r#"["Case"]"#), "case", false),
    ];
    for (value, text, goes) in cases {
        let store = open(&MemoryDisk::new(), Writers::One);
        store.root().episodic("e").and_then(|e| e.record("k", &value)).expect("writes");
        let receipt = store.erase_containing(text).expect("erases");
        assert_eq!(receipt.found(), goes, "{text} in {value}");
    }
}
