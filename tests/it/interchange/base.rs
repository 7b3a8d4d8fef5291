//! A dump that begins at a base, loaded into an empty store: the same frames, times and states, and no others.

use std::path::Path;
use std::sync::Arc;

use mnemolog::codec::delta::HandleKind;
use mnemolog::disk::{Disk as _, Fault, MemoryDisk, Tear};
use mnemolog::interchange::LoadOptions;
use mnemolog::{Error, Frame, Json, Options, Store, Writers};

use super::{dumped, load_into, note};

/// A store that begins at a base.
fn compacted() -> Store {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("format/golden/v1/base");
    Store::open_read_only(golden).expect("the specimen opens")
}

fn digests(store: &Store, from: Frame) -> Vec<u128> {
    let digest = |n| store.at(Frame(n)).and_then(|past| past.digest()).expect("a frame of the log");
    (from.0..=store.appended().0).map(digest).collect()
}

/// The lines of the frames behind the base, whose parts are one after loading.
fn kept(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.contains(r#""base":true"#)).map(str::to_owned).collect()
}

fn first_kept(store: &Store) -> Frame {
    match store.at(Frame::ZERO) {
        Err(Error::Compacted { oldest }) => oldest,
        other => panic!("the history before a base is gone, found {other:?}"),
    }
}

#[test]
fn a_dump_that_begins_at_a_base_gives_back_frames_times_and_states() {
    let (source, text) = (compacted(), dumped(&compacted()));
    let oldest = first_kept(&source);
    assert!(text.contains(r#""base":true"#) && oldest > Frame::ZERO);
    for writers in [Writers::One, Writers::Many] {
        let disk = MemoryDisk::new();
        let open = || Options::new().writers(writers).open_on(Arc::new(disk.clone())).expect("opens");
        let store = open();
        let report = load_into(&store, &text);
        assert!(!report.renumbered);
        let reader = Options::new().open_read_only_on(Arc::new(disk.clone())).expect("opens");
        for store in [&store, &reader] {
            assert_eq!((kept(&dumped(store)), first_kept(store)), (kept(&text), oldest));
            assert_eq!(
                store.at(oldest).map(|past| past.time()).ok(),
                source.at(oldest).map(|p| p.time()).ok()
            );
            assert_eq!(digests(store, oldest), digests(&source, oldest));
        }
        drop(store);
        assert!(mnemolog::log::verify(&disk).expect("reads").is_whole());
        let store = open();
        store.root().notes().remember("after", "", "the base").expect("writes go on");
        assert_eq!(Some(store.appended()), source.appended().next());
    }
}

#[test]
fn a_store_that_has_frames_takes_a_base_as_snapshots() {
    let store = Store::in_memory().expect("opens");
    load_into(&store, &note("first"));
    let report = load_into(&store, &dumped(&compacted()));
    assert!(report.renumbered && report.first == Some(Frame(2)));
    assert!(!dumped(&store).contains(r#""base":true"#));
}

#[test]
fn loading_a_base_has_happened_or_has_not_begun_whenever_the_power_fails() {
    let text = dumped(&compacted());
    let oldest = first_kept(&compacted());
    let mut whole = 0;
    for call in 0..400 {
        let disk = MemoryDisk::simulated();
        let store = Options::new().open_on(Arc::new(disk.clone())).expect("opens");
        disk.crash_at(call);
        let options = LoadOptions { trust_times: true, ..LoadOptions::default() };
        let done = mnemolog::interchange::load(&store, &mut text.as_bytes(), options).is_ok();
        disk.power_loss(&mut |n| if call % 2 == 0 { n - 1 } else { 0 }, Tear::Byte);
        drop(store);
        let store = Options::new().open_on(Arc::new(disk.clone())).expect("opens after a crash");
        match store.at(Frame::ZERO) {
            Ok(_) => assert!(!done && store.appended() == Frame::ZERO, "call {call}: neither old nor new"),
            Err(_) => {
                assert_eq!(first_kept(&store), oldest, "call {call}");
                assert!(
                    !done || kept(&dumped(&store)) == kept(&text),
                    "call {call}: what was acknowledged is there"
                );
            }
        }
        whole += u64::from(done);
    }
    assert!(whole > 0 && whole < 400, "some loads ended and some did not: {whole}");
}

#[test]
fn a_call_that_fails_while_a_base_is_loaded_leaves_no_store_that_forgets() {
    let text = dumped(&compacted());
    let (mut failed, mut went_on) = (0, 0);
    for call in 0..200 {
        for fault in [Fault::Full, Fault::Io] {
            let disk = MemoryDisk::simulated();
            let store = Options::new().open_on(Arc::new(disk.clone())).expect("opens");
            disk.fail_at(call, fault);
            let options = LoadOptions { trust_times: true, ..LoadOptions::default() };
            failed += u64::from(mnemolog::interchange::load(&store, &mut text.as_bytes(), options).is_err());
            disk.clear_faults();
            let saved = store.root().notes().remember("after", "", "the failure").is_ok();
            went_on += u64::from(saved);
            disk.power_loss(&mut |n| n - 1, Tear::Byte);
            drop(store);
            let store = Options::new().open_on(Arc::new(disk.clone())).expect("opens after a failure");
            let recalled = store.root().notes().recall("after");
            assert!(!saved || recalled == "the failure", "call {call}: {recalled}");
        }
    }
    assert!(failed > 20 && went_on > 20, "{failed} loads failed, {went_on} stores went on");
}

/// A line of a base: a ring with these keys.
fn ring(name: &str, keys: std::ops::Range<u32>) -> String {
    let item = |key: u32| format!(r#"{{"key":"{key}","value":{key},"timestamp_ms":0}}"#);
    let items: Vec<String> = keys.map(item).collect();
    format!(
        r#"{{"frame":7,"time":"2026-01-01T00:00:00Z","base":true,"handle_kind":"episodic","handle_id":"{name}","op":"snapshot","args":{{"config":{{"max":null}},"items":[{}]}}}}"#,
        items.join(",")
    )
}

#[test]
fn a_base_of_more_than_a_frame_or_a_file_can_hold_is_loaded_as_several() {
    let mut lines: Vec<String> = (0..66_000).map(|n| ring(&format!("r{n}"), 0..1)).collect();
    lines.push(ring("long", 0..20_000));
    let (disk, text) = (MemoryDisk::new(), lines.join("\n"));
    let store = Options::new().segment_bytes(64 * 1024).open_on(Arc::new(disk.clone())).expect("opens");
    let report = load_into(&store, &text);
    assert_eq!((report.frames, report.last, report.renumbered), (1, Some(Frame(7)), false));
    let parts = disk.list("log").expect("lists").iter().filter(|name| name.ends_with(".base")).count();
    assert!(parts > 2, "{parts} files");
    let long = store.root().episodic("long").expect("a name");
    assert_eq!((long.len(), store.root().episodic("r65999").expect("a name").len()), (20_000, 1));
    assert_eq!(long.recent(1).expect("reads")[0].key, "19999");
    store.close().expect("closes");
    assert!(mnemolog::log::verify(&disk).expect("reads").is_whole());
}

#[test]
fn a_base_of_which_a_handle_was_erased_is_loaded_without_it() {
    for kind in [HandleKind::Notes, HandleKind::Episodic] {
        let store = Store::in_memory().expect("opens");
        let turns = store.root().episodic("turns").expect("a name");
        store.root().notes().remember("k", "", "note").expect("saved");
        turns.record("e", &Json::object()).expect("saved");
        store.root().notes().remember("later", "", "note").expect("saved");
        store.compact(Frame(3), false).expect("compacts");
        match kind {
            HandleKind::Notes => drop(store.root().notes().erase_all().expect("erases")),
            _ => drop(turns.erase_all().expect("erases")),
        }
        let text = dumped(&store);
        assert!(text.contains(r#""op":"erased""#) && text.contains(r#""base":true"#), "{text}");
        let loaded = Store::in_memory().expect("opens");
        load_into(&loaded, &text);
        assert_eq!(loaded.digest().expect("reads"), store.digest().expect("reads"), "{kind:?}");
        assert_eq!(dumped(&loaded), text, "{kind:?}");
    }
}
