//! The specimens as whole stores: what opening them makes of each verdict, and what it leaves on the disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mnemolog::disk::{Disk, FileDisk};
use mnemolog::{Error, Frame, Store as Opened};

use super::build::Store;
use super::lines::of_store;
use super::{Specimen, all, expected, golden, last, normals};

/// Calls `check` with each specimen of a verdict, copied to a place where it may change, and its last line.
fn each(verdict: &str, check: impl Fn(&str, &Path, &serde_json::Value)) {
    let mut met = 0;
    for Specimen { name, .. } in all() {
        let end = last(&expected(name));
        if end["end"] == verdict {
            let scratch = tempfile::tempdir().unwrap();
            Store::read(&golden().join(name)).write(scratch.path());
            check(name, scratch.path(), &end);
            met += 1;
        }
    }
    assert!(met > 0, "no specimen is {verdict}");
}

fn frame(end: &serde_json::Value) -> Frame {
    Frame(end["frame"].as_u64().unwrap())
}

#[test]
fn reading_a_specimen_changes_no_byte_of_it() {
    for verdict in ["clean", "unclean", "damaged", "newer"] {
        each(verdict, |name, path, _| {
            let before = Store::read(path);
            let _ = Opened::open_read_only(path);
            assert_eq!(Store::read(path), before, "{name}");
        });
    }
}

#[test]
fn a_sound_specimen_opens_for_writing_with_every_frame_and_its_lines_stay() {
    each("clean", |name, path, end| {
        let store = Opened::open(path).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((store.appended(), store.durable()), (frame(end), frame(end)), "{name}");
        assert!(store.recovery().cut.is_none(), "{name}");
        store.close().unwrap();
        let (mut before, mut after) = (expected(name), of_store(path));
        assert_eq!(last(&after)["frame"], end["frame"], "{name}");
        // Closing may have added its marker in front of the verdict.
        before.pop();
        after.truncate(before.len());
        assert_eq!(normals(&after), normals(&before), "{name}");
    });
}

/// Protects promise 7.
#[test]
fn an_unclean_specimen_is_cut_and_what_was_cut_is_kept() {
    each("unclean", |name, path, end| {
        let file = format!("log/{}", end["file"].as_str().unwrap());
        let offset = usize::try_from(end["offset"].as_u64().unwrap()).unwrap();
        let torn = Store::read(path).file(&file)[offset..].to_vec();
        let store = Opened::open(path).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(store.appended(), frame(end), "{name}");
        let cut = store.recovery().cut.clone().unwrap_or_else(|| panic!("{name}: nothing was cut"));
        store.close().unwrap();
        let mut after = Store::read(path);
        let kept = after.file(&format!("quarantine/{}", cut.quarantine.unwrap())).clone();
        assert!(torn.starts_with(&kept) && torn[kept.len()..].iter().all(|&b| b == 0), "{name}");
        assert_eq!(last(&of_store(path))["end"], "clean", "{name}");
    });
}

#[test]
fn a_damaged_specimen_is_refused_for_writing_and_served_up_to_the_damage() {
    each("damaged", |name, path, end| {
        let before = Store::read(path).0;
        match Opened::open(path) {
            Err(Error::Damaged(damage)) => {
                assert_eq!(damage.segment, end["file"], "{name}");
                assert_eq!(
                    (damage.offset, damage.frame.0),
                    (end["offset"].as_u64().unwrap(), frame(end).0),
                    "{name}"
                );
            }
            other => panic!("{name}: {other:?}"),
        }
        let mut after = Store::read(path).0;
        after.remove("LOCK");
        assert_eq!(after, before, "{name}: a refused opening mends nothing");
        let read = Opened::open_read_only(path).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(read.appended(), frame(end).previous(), "{name}");
        assert!(read.recovery().damage.is_some(), "{name}");
    });
}

/// Protects promise 13.
#[test]
fn a_newer_specimen_is_refused_as_newer() {
    each("newer", |name, path, _| {
        for opened in [Opened::open(path), Opened::open_read_only(path)] {
            assert!(matches!(opened, Err(Error::NewerFormat { found: 2, .. })), "{name}: {opened:?}");
        }
        let before = Store::read(path);
        let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(path).unwrap());
        let verified = mnemolog::log::verify(&*disk);
        assert!(matches!(verified, Err(Error::NewerFormat { found: 2, .. })), "{name}: {verified:?}");
        let repaired = mnemolog::log::repair(&disk, Duration::ZERO, true, Default::default());
        assert!(matches!(repaired, Err(Error::NewerFormat { found: 2, .. })), "{name}: {repaired:?}");
        assert_eq!(Store::read(path), before, "{name}");
    });
}
