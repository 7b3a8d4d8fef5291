//! A server over a store that is damaged: what can be read is read, and the damage is said.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};

use serde_json::json;

use super::{Era, Place, Session};

/// Changes one byte of the log, in the place where a text stands, as a medium does: under whoever has it open.
fn rot(place: &Place, text: &str) {
    let path = place.store().join("log/00000000000000000001.seg");
    let bytes = fs::read(&path).expect("a segment");
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).expect("the text");
    let mut file = OpenOptions::new().write(true).open(path).expect("a segment");
    file.seek(SeekFrom::Start(at as u64))
        .and_then(|_| file.write_all(&[bytes[at] ^ 1]))
        .expect("it is written");
}

fn prompt(session: &mut Session, name: &str) -> String {
    let result = session.result("prompts/get", json!({"name": name, "arguments": {}}));
    result["messages"][0]["content"]["text"].as_str().expect("a text").to_owned()
}

#[test]
fn resources_and_prompts_serve_what_was_before_the_damage_and_say_so() {
    const SAID: &str =
        "(the store is damaged: what was before frame 2 is shown — tell the user to run `mnemolog verify`.)";
    let place = Place::new();
    for (key, body) in [("one", "body of one"), ("two", "body of two"), ("three", "body of three")] {
        place.done(&["remember", key, "--summary", "s", "--body", body]);
    }
    rot(&place, "body of two");
    let mut session = place.open(&["mcp", "--read-only"], Era::Initialize);
    assert_eq!(session.recall("one"), format!("body of one\n{SAID}"));
    let list = session.result("resources/list", json!({}));
    let resources = list["resources"].as_array().expect("resources");
    assert_eq!((resources.len(), &resources[1]["name"]), (2, &json!("one")), "{list}");
    assert!(resources[0]["description"].as_str().is_some_and(|text| text.ends_with(SAID)), "{list}");
    let index = session.result("resources/read", json!({"uri": "memory-index:///"}));
    let text = index["contents"][0]["text"].as_str().expect("a text");
    assert!(text.contains("- one: s\n") && text.ends_with(SAID), "{text}");
    // A body is the body, to the last byte.
    let note = session.result("resources/read", json!({"uri": "memory:///one"}));
    let texts: Vec<&str> =
        note["contents"].as_array().expect("contents").iter().filter_map(|c| c["text"].as_str()).collect();
    assert_eq!(texts, ["body of one", SAID]);
    let text = prompt(&mut session, "start_session");
    assert!(text.contains("- one: s") && text.ends_with(SAID), "{text}");
    let template = json!({"type": "ref/resource", "uri": "memory://{workspace}/{+key}"});
    let params = json!({"ref": template, "argument": {"name": "key", "value": ""}});
    let values = session.result("completion/complete", params)["completion"]["values"].clone();
    assert_eq!(values, json!(["one"]));
}

#[test]
fn a_review_needs_no_body_so_a_rotten_one_does_not_end_it() {
    let place = Place::new();
    let lines: Vec<String> = ["good", "rotten"]
        .iter()
        .zip(1..)
        .map(|(key, frame)| {
            let args = json!({"key": key, "summary": "s", "body": format!("the {key} body")});
            json!({
                "frame": frame, "time": "2020-01-01T00:00:00Z", "handle_kind": "notes", "handle_id": "memory",
                "op": "remember", "args": args,
            })
            .to_string()
        })
        .collect();
    place.done(&["load", &place.file("old.jsonl", lines.join("\n"))]);
    let mut session = place.serve();
    rot(&place, "the rotten body");
    let failure = session.failure("memory_recall", json!({"key": "rotten"}));
    assert!(failure.contains("damaged"), "a body is read from the file: {failure}");
    let text = prompt(&mut session, "review_stale_memories");
    assert!(text.contains("- good: s (saved 2020") && text.contains("- rotten: s (saved 2020"), "{text}");
}
