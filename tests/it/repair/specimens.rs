//! Every specimen of the format, repaired: each kind of damage, one at a time.
//!
//! Specimens of one fault in the second of three frames lose that frame; what others lose is stated here.

use std::sync::Arc;

use mnemolog::codec::frame::FrameKind;
use mnemolog::log::verify;
use mnemolog::{Error, Options};

use super::{check_repaired, contents, disk_of, ranges, repair, write_to};
use crate::log::frames_of;
use crate::specimens;

/// What a broken specimen loses, where that is not frame 2.
fn stated(name: &str) -> &'static [(u64, u64)] {
    match name {
        "leftover" | "torn-header" | "torn-payload" | "torn-size" | "torn-sector" | "noise-tail" => &[],
        "zeros-in-the-middle-unpromised" => &[],
        // Both frames are whole; only what ties them together is wrong.
        "wrong-chain" | "time-back" => &[],
        // Headers are known from frames, names and neighbours.
        "first-header-bad" | "both-headers-bad" | "newer-version-unproved" | "foreign-lineage" => &[],
        "foreign-store" | "first-frame-not-in-the-name" | "renamed-segment" => &[],
        "unsealed-segment" | "seal-miscounts" | "ends-in-a-base" => &[],
        "torn-header-promised"
        | "gone-promised"
        | "flip-padding"
        | "nonzero-padding"
        | "evicts-nothing"
        | "lost-gap" => &[(3, 3)],
        "missing-last-segment" => &[(3, 3)],
        "flip-first" => &[(1, 1)],
        "missing-first-segment" => &[(1, 2)],
        "promise-beyond-the-end" => &[(4, 4)],
        _ => &[(2, 2)],
    }
}

#[test]
fn every_specimen_is_whole_after_repair_and_has_lost_what_is_stated() {
    let out = tempfile::tempdir().unwrap();
    let mut stores = Vec::new();
    for (name, before) in specimens::stores_of_all() {
        let disk = disk_of(&before);
        if ["newer-version", "newer-promise"].contains(&name) {
            assert!(matches!(repair(&disk), Err(Error::NewerFormat { .. })));
            assert_eq!(contents(&disk), before, "{name}");
            continue;
        }
        let whole = verify(&disk).unwrap().is_whole();
        let repaired = repair(&disk).unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = if whole { &[] } else { stated(name) };
        assert_eq!(ranges(&repaired.lost), expected, "{name}: {repaired:#?}");
        assert_eq!(repaired.damage.is_empty(), whole, "{name}");
        assert_eq!(repaired.rewritten.is_empty(), whole, "{name}");
        check_repaired(&before, &disk, &repaired, name);
        let store = Options::new().open_on(Arc::new(disk.clone())).unwrap();
        store.root().notes().remember("after", "", "repair").unwrap();
        assert_eq!(store.appended().0, repaired.last.0 + 1, "{name}");
        store.close().unwrap();
        let root = out.path().join(name);
        write_to(&disk, &root);
        stores.push(root);
    }
    assert!(stores.len() > 60, "{}", stores.len());
    specimens::agree(&stores);
}

const BASE: &str = "log/00000000000000000008.1.base";
const NEXT: &str = "log/00000000000000000008.2.base";

#[test]
fn headers_and_seals_of_a_base_are_mended_and_a_base_without_all_its_frames_is_refused() {
    let all: std::collections::BTreeMap<_, _> = specimens::stores_of_all().into_iter().collect();
    let sound = &all["base"];
    for path in [BASE, NEXT] {
        let seal = *frames_of(&sound[path]).last().unwrap();
        assert_eq!(seal.1, FrameKind::Seal);
        for (from, to) in [(0, 10), (0, 4096), (seal.0, seal.0 + 80)] {
            let mut files = sound.clone();
            files.get_mut(path).unwrap()[from..to].fill(3);
            let disk = disk_of(&files);
            let repaired = repair(&disk).unwrap_or_else(|error| panic!("{path} {from}: {error}"));
            check_repaired(&files, &disk, &repaired, path);
            assert!(repaired.lost.is_empty());
            assert_eq!(repaired.rewritten.len(), 1, "{path} {from}: {:?}", repaired.rewritten);
        }
        for hurt in 0..3 {
            let mut files = sound.clone();
            match hurt {
                0 => files.get_mut(path).unwrap()[4096 + 60] ^= 1,
                1 => drop(files.remove(path)),
                _ => files.get_mut(path).unwrap().fill(0),
            }
            let disk = disk_of(&files);
            let refused = repair(&disk);
            assert!(matches!(refused, Err(Error::Damaged(_))), "{path} {hurt}: {refused:?}");
            assert_eq!(contents(&disk), files, "{path} {hurt}");
        }
    }
}
