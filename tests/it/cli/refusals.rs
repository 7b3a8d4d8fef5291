//! What a command refuses, and the code, the sentence and the unchanged store that go with it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use mnemolog::codec::segment::{
    FORMAT_VERSION, SEGMENT_HEADER_BYTES, SEGMENT_HEADER_OFFSETS, segment_header,
};
use mnemolog::{Error, Store};

use super::{Place, check_sentence, finish, lines};

/// Every verb that reads a store, as it is now.
const READS: [&[&str]; 17] = [
    &["recall", "k"],
    &["list"],
    &["search", ""],
    &["index-note"],
    &["vector", "search", "docs", "q"],
    &["vector", "get", "docs", "a"],
    &["episodic", "recent", "turns"],
    &["episodic", "search", "turns", ""],
    &["working", "render", "pad"],
    &["replay"],
    &["replay", "--step"],
    &["replay", "--dump-json"],
    &["dump"],
    &["verify"],
    &["info"],
    &["history", "k"],
    &["vector", "history", "docs", "a"],
];

/// Reads of the beginning.
const PASTS: [&[&str]; 5] = [
    &["list", "--at", "0"],
    &["list", "--at", "2000-01-01T00:00:00Z"],
    &["diff", "0", "0"],
    &["replay", "--at", "0"],
    &["dump", "--at", "0"],
];

/// One verb of each kind that writes.
const WRITES: [&[&str]; 4] = [
    &["remember", "k", "--summary", "s", "--body", "b"],
    &["vector", "upsert", "docs", "a", "--text", "t"],
    &["episodic", "record", "turns", "k", "1"],
    &["working", "push", "pad", "l", "c"],
];

fn segment(place: &Place) -> PathBuf {
    place.store().join("log/00000000000000000001.seg")
}

fn three_notes(place: &Place) {
    for key in ["one", "two", "three"] {
        place.done(&["remember", key, "--summary", "s", "--body", &format!("body of {key}")]);
    }
}

/// Changes one byte of the log, in the place where a text stands.
fn damage(place: &Place, text: &str) {
    let mut bytes = fs::read(segment(place)).expect("a segment");
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).expect("the text");
    bytes[at] ^= 1;
    fs::write(segment(place), bytes).expect("a segment");
}

#[test]
fn a_read_of_no_store_is_refused_and_creates_nothing() {
    let place = Place::new();
    let removals: [&[&str]; 7] = [
        &["forget", "k"],
        &["restore", "k", "0"],
        &["vector", "restore", "d", "a", "0"],
        &["rollback", "0"],
        &["vector", "delete", "d", "a"],
        &["episodic", "clear", "t"],
        &["working", "clear", "p"],
    ];
    for args in READS.iter().chain(&PASTS).chain(&removals) {
        let run = place.run(args);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{args:?}: {run:?}");
        check_sentence(&run.err);
        assert!(run.err.contains("there is no store at"), "{args:?}: {run:?}");
        assert!(place.everything().is_empty(), "{args:?} left something behind");
    }
}

#[test]
fn a_directory_of_something_else_is_refused_and_left_alone() {
    let place = Place::new();
    fs::create_dir(place.store()).expect("a directory");
    fs::write(place.store().join("letter.txt"), "dear").expect("a file");
    let before = place.everything();
    for args in READS.iter().chain(&PASTS).chain(&WRITES) {
        let run = place.run(args);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{args:?}: {run:?}");
        check_sentence(&run.err);
        assert!(run.err.contains("not a store") && run.err.contains("letter.txt"), "{run:?}");
    }
    assert_eq!(place.everything(), before);
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let place = Place::new();
    three_notes(&place);
    let mut bytes = fs::read(segment(&place)).expect("a segment");
    for at in SEGMENT_HEADER_OFFSETS {
        let header = &mut bytes[at as usize..][..SEGMENT_HEADER_BYTES];
        let newer = (FORMAT_VERSION + 1).to_le_bytes();
        header[segment_header::VERSION..][..4].copy_from_slice(&newer);
        let mut crc = crc32fast::Hasher::new();
        crc.update(&header[..segment_header::CRC]);
        crc.update(&header[segment_header::CRC + 4..]);
        header[segment_header::CRC..][..4].copy_from_slice(&crc.finalize().to_le_bytes());
    }
    fs::write(segment(&place), bytes).expect("a segment");
    let before = place.everything();
    for args in [READS[1], WRITES[0]] {
        let run = place.run(args);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
        check_sentence(&run.err);
        assert!(run.err.contains("newer"), "{run:?}");
    }
    assert_eq!(place.everything(), before);
}

#[test]
fn names_that_climb_are_refused_and_open_nothing() {
    let place = Place::new();
    for workspace in ["../escape", "", "/", "a//b", "a/..", "A", "a b", "/etc", "a/"] {
        for args in [READS[1], WRITES[0], WRITES[3], READS[9]] {
            let run = place.run(&[&["--workspace", workspace], args].concat());
            assert_eq!((run.code, run.out.as_str()), (1, ""), "{workspace}: {run:?}");
            check_sentence(&run.err);
        }
    }
    for name in ["..", "../docs", "a/b", "", "Docs", "."] {
        for args in
            [["vector", "upsert", name, "a", "--text", "t"], ["episodic", "record", name, "k", "1", "--json"]]
        {
            let run = place.run(&args);
            assert_eq!((run.code, run.out.as_str()), (1, ""), "{args:?}: {run:?}");
            check_sentence(&run.err);
        }
    }
    assert!(place.everything().is_empty(), "nothing was created anywhere");
}

#[test]
fn what_is_not_there_is_said_on_standard_output() {
    let place = Place::new();
    three_notes(&place);
    let absent: [&[&str]; 4] = [
        &["recall", "nope"],
        &["forget", "nope"],
        &["vector", "get", "d", "nope"],
        &["vector", "delete", "d", "nope"],
    ];
    for args in absent {
        let run = place.run(args);
        let expected = (1, "nothing is saved under nope\n", "");
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), expected, "{args:?}");
        let run = place.run(&[&["--json"], args].concat());
        let object = r#"{"key":"nope","found":false,"text":"nothing is saved under nope"}"#;
        assert_eq!((run.code, run.out.trim_end(), run.err.as_str()), (1, object, ""), "{args:?}");
    }
    let run = place.run(&["list", "--at", "4"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains("there is no frame 4: the last one is 3"), "{run:?}");
}

#[test]
fn a_command_that_is_not_understood_ends_with_2_and_opens_nothing() {
    let place = Place::new();
    let wrong: [&[&str]; 12] = [
        &[],
        &["remembr", "k"],
        &["remember", "k"],
        &["list", "--at", "yesterday"],
        &["list", "--at", "-1"],
        &["list", "--at", "99999999999999999999"],
        &["list", "--at", "2026-11-30"],
        &["episodic", "record", "t", "k", "{"],
        &["episodic", "configure", "t", "--max", "0"],
        &["vector", "search", "d", "q", "--filter", "[1]"],
        &["vector", "upsert", "d", "a", "--text", "t", "--embedding", "[1,null]"],
        &["--store", "", "list"],
    ];
    for args in wrong {
        let run = place.run(args);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{args:?}: {run:?}");
        assert!(!run.err.is_empty());
    }
    assert!(place.everything().is_empty());
}

#[test]
fn text_that_is_not_utf_8_is_refused_as_a_whole() {
    let place = Place::new();
    let run = place.run_with(&["remember", "k", "--summary", "s"], b"good until\xff here");
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
    check_sentence(&run.err);
    assert!(run.err.contains("byte 10"), "{run:?}");
    assert!(place.everything().is_empty());
}

#[test]
fn a_store_held_elsewhere_is_locked_for_writing_and_open_for_reading_under_any_name() {
    let place = Place::new();
    let held = Store::open(place.store()).expect("a store");
    held.root().notes().remember("k", "s", "b").expect("saved");
    let link = place.root().join("link");
    symlink(place.store(), &link).expect("a link");
    for store in [place.store(), link] {
        let store = store.to_str().expect("ours");
        for args in WRITES {
            let run = place.run(&[&["--store", store, "--lock-wait", "0"], args].concat());
            assert_eq!((run.code, run.out.as_str()), (4, ""), "{run:?}");
            check_sentence(&run.err);
            assert!(run.err.contains(&format!("process {}", std::process::id())), "{run:?}");
        }
        assert_eq!(place.done(&["--store", store, "list"]), "- k: s\n");
    }
    drop(held);
    place.done(WRITES[0]);
}

#[test]
fn damage_stops_writing_and_what_is_before_it_is_read_with_a_warning() {
    let place = Place::new();
    three_notes(&place);
    damage(&place, "body of two");
    let before = place.everything();
    for args in [WRITES[0], &["forget", "one"]] {
        let run = place.run(args);
        assert_eq!((run.code, run.out.as_str()), (3, ""), "{run:?}");
        check_sentence(&run.err);
        let place_of_it = ["log/00000000000000000001.seg", "at byte ", "frame 2"];
        assert!(place_of_it.iter().all(|part| run.err.contains(part)), "{run:?}");
    }
    let whole: [&[&str]; 3] =
        [&["recall", "one", "--at", "1"], &["diff", "0", "1"], &["replay", "--at", "1"]];
    let certain = PASTS.iter().chain(&whole).map(|args| (0, args));
    for (code, args) in READS.iter().map(|args| (3, args)).chain(certain) {
        let read = place.run(args);
        assert_eq!(read.code, code, "the answer is whole only before the damage: {args:?}: {read:?}");
        if **args != ["verify"] {
            check_sentence(&read.err);
            assert!(read.err.contains("only frames up to 1"), "{read:?}");
        }
    }
    assert_eq!(place.run(&["recall", "one"]).out, "body of one\n", "what is before it is served");
    for args in [["list", "--at", "3"], ["list", "--at", "2999-01-01T00:00:00Z"]] {
        assert_eq!(place.run(&args).code, 3, "whether that was there is beyond the damage: {args:?}");
    }
    let info = lines(&place.run(&["--json", "info"]).out);
    assert!(info[0]["damage"].as_str().is_some_and(|damage| damage.contains("frame 2")));
    assert_eq!(place.everything(), before, "nothing was changed");
}

#[test]
fn an_unclean_end_is_mended_and_that_is_said_beside_the_data() {
    let place = Place::new();
    three_notes(&place);
    let used = place.json(&["info"])[0]["used"].as_u64().expect("a number") as usize;
    let mut bytes = fs::read(segment(&place)).expect("a segment");
    bytes[used..used + 7].copy_from_slice(b"garbage");
    fs::write(segment(&place), &bytes).expect("a segment");
    assert_eq!(place.json(&["info"])[0]["unclean_bytes"], 7);
    let run = place.run(&["--json", "forget", "one"]);
    assert_eq!((run.code, run.out.lines().count()), (0, 1), "{run:?}");
    check_sentence(&run.err);
    let kept =
        run.err.split_once("a copy is in ").map(|(_, path)| path.trim_end()).expect("where the copy is");
    assert_eq!(&fs::read(kept).expect("the copy")[..7], b"garbage");
    assert_eq!(place.run(&["list"]).err, "", "it was mended once");
}

#[test]
fn the_same_value_is_too_large_on_every_path() {
    let place = Place::new();
    let key = "k".repeat(64 * 1024 + 1);
    let library = Store::in_memory().expect("a store").root().notes().remember(&key, "s", "b");
    let Err(error @ Error::TooLarge { .. }) = library else { panic!("{library:?}") };
    let run = place.run(&["remember", &key, "--summary", "s", "--body", "b"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert_eq!(run.err, format!("mnemolog: {error}\n"));
    let body = vec![b'x'; (32 << 20) + 1];
    let run = place.run_with(&["remember", "k", "--summary", "s"], &body);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains("the limit is 33554432"), "{run:?}");
    assert_eq!(place.done(&["list"]), "(no memories)\n");
}

#[test]
fn a_device_without_space_ends_a_command_with_5() {
    let place = Place::new();
    three_notes(&place);
    let mut full = place.command(&["list"]);
    full.stdout(fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device"));
    let output = full.output().expect("the program ends");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    check_sentence(std::str::from_utf8(&output.stderr).expect("UTF-8"));

    // No file may grow beyond 64 KiB: the write is refused as by a full disk, and nothing else happens.
    let mut limited = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 128; exec \"$0\" remember large --summary s";
    limited.args(["-c", script, env!("CARGO_BIN_EXE_mnemolog")]).env("MNEMOLOG_STORE", place.store());
    let run = finish(limited, &vec![b'x'; 1 << 20]);
    assert_eq!((run.code, run.out.as_str()), (5, ""), "{run:?}");
    assert_eq!(place.json(&["list"]).len(), 3);
    place.done(WRITES[0]);
}

#[test]
fn a_file_in_the_place_of_a_store_is_refused_and_left_alone() {
    let place = Place::new();
    let file = place.file("file", "dear");
    let before = place.everything();
    for store in [file.clone(), format!("{file}/store")] {
        for args in READS.iter().chain(&PASTS).chain(&WRITES) {
            let run = place.run(&[&["--store", &store], *args].concat());
            assert_eq!((run.code, run.out.as_str()), (1, ""), "{args:?}: {run:?}");
            check_sentence(&run.err);
            assert!(run.err.contains(&format!("{store} is not a directory")), "{run:?}");
        }
    }
    assert_eq!(place.everything(), before);
}
