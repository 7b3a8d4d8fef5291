//! Tools over a store that is damaged: what stands before the damage is answered, and the text says that there is more.

use std::sync::Arc;

use mnemolog::disk::MemoryDisk;
use mnemolog::tools::{Files, ToolErrorKind, Toolbox};
use mnemolog::{Error, Json, Options, Store};
use serde_json::json;

use super::Checked;

const SEGMENT: &str = "log/00000000000000000001.seg";

/// Flips a bit of a text where it stands in the log.
fn rot(disk: &MemoryDisk, text: &str) {
    let file = disk.read_file(SEGMENT).expect("a segment");
    let at = file.windows(text.len()).position(|bytes| bytes == text.as_bytes()).expect("it stands there");
    disk.flip(SEGMENT, at as u64, 1).expect("a byte of the file");
}

fn open(disk: &MemoryDisk) -> Store {
    Options::new().open_on(Arc::new(disk.clone())).expect("opens")
}

#[test]
fn every_tool_that_reads_answers_what_stands_before_the_damage_and_says_so() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    let root = store.root();
    root.notes().remember("k", "s", "whole").expect("saved");
    root.episodic("main").expect("a name").record("e", &Json::object()).expect("recorded");
    root.vectors("main").expect("a name").upsert("v", "fox", &Json::object()).expect("stored");
    root.working("main").expect("a name").push("plan", "outline").expect("pushed");
    root.notes().remember("k", "s", "the body that rots").expect("saved");
    store.close().expect("closed");
    rot(&disk, "the body that rots");
    let reader = Options::new().open_read_only_on(Arc::new(disk.clone())).expect("serves what is whole");
    assert!(reader.recovery().damage.is_some());
    let tools = Checked::new(&reader.root());
    let told =
        "(the store is damaged: what was before frame 5 is shown — tell the user to run `mnemolog verify`.)";
    for (name, arguments, text) in [
        ("memory_recall", json!({"key": "k"}), "whole"),
        ("memory_list", json!({}), "- k: s"),
        ("memory_search", json!({"pattern": "whole"}), "- k: s"),
        ("memory_history", json!({"key": "k"}), "remember: s"),
        ("episodic_recent", json!({}), "e: {}"),
        ("episodic_search", json!({"prefix": ""}), "e: {}"),
        ("vector_search", json!({"query": "fox"}), "- v "),
        ("working_render", json!({}), "outline"),
        ("memory", json!({"command": "view", "path": "/memories/k"}), "\twhole"),
    ] {
        for _ in 0..2 {
            let answer = tools.text(name, &arguments);
            assert!(answer.contains(text), "{name}: {answer}");
            assert_eq!(answer.lines().last(), Some(told), "{name}");
        }
    }
}

#[test]
fn a_note_that_rotted_is_told_in_what_a_model_can_do_about_it() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    store.root().notes().remember("whole", "s", "still here").expect("saved");
    store.root().notes().remember("k", "s", "the body that rots").expect("saved");
    rot(&disk, "the body that rots");
    let tools = Toolbox::new(&store.root());
    for (name, arguments) in [
        ("memory_recall", json!({"key": "k"})),
        ("memory", json!({"command": "view", "path": "/memories/k"})),
    ] {
        let error = tools.call(name, &arguments).expect_err("it cannot be read");
        assert!(matches!(error.cause, Some(Error::Corrupt { .. })), "{name}");
        let told = "what frame 2 saved cannot be read, because the store is damaged there; tell the user to run \
            `mnemolog verify`. All else can be read as before";
        assert_eq!((error.kind, error.text.as_str()), (ToolErrorKind::StoreFailed, told), "{name}");
    }
    assert_eq!(tools.call("memory_recall", &json!({"key": "whole"})).expect("readable").text, "still here");
}

#[test]
fn a_file_that_cannot_be_read_is_listed_as_damaged_and_adds_to_no_size() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    for (key, body) in [("d/a", "whole"), ("d/b", "the body that rots")] {
        store.root().notes().remember(key, "s", body).expect("saved");
    }
    rot(&disk, "the body that rots");
    let files = Files::new(&store.root());
    let listed = files.view("/memories", None).expect("listed");
    let lines: Vec<&str> = listed.lines().skip(1).collect();
    let damaged = "(damaged: run verify)\t/memories/d/b";
    assert_eq!(lines, ["5B\t/memories", "5B\t/memories/d/", "5B\t/memories/d/a", damaged]);
}
