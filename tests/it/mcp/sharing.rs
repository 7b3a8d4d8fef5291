//! Several servers on one store, and servers that die: nothing that was answered is lost, and each sees the others.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Era, Place, Session};

/// Twenty calls of one turn, as one write.
fn turn(session: &mut Session, round: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    let mut lines = String::new();
    for n in 0..20 {
        let arguments =
            json!({"key": format!("{round}/{n}"), "summary": "s", "body": format!("{round} {n}")});
        let (id, request) =
            session.request("tools/call", json!({"name": "memory_remember", "arguments": arguments}));
        lines.push_str(&format!("{request}\n"));
        ids.push(id);
    }
    session.send_bytes(lines.as_bytes());
    ids
}

#[test]
fn what_was_answered_is_there_after_a_kill_in_the_middle_of_twenty_calls() {
    let place = Place::new();
    let mut answered = BTreeSet::new();
    for round in 0..10 {
        let mut session = place.serve();
        let ids = turn(&mut session, round);
        let mut said: Vec<Value> = (0..round * 2 + 1).map(|_| session.hear()).collect();
        said.extend(session.kill().iter().filter_map(|line| serde_json::from_str(line).ok()));
        for answer in said {
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            let n = ids.iter().position(|id| answer["id"] == *id).expect("an id of ours");
            answered.insert((round, n));
        }
    }
    println!("{} of 200 calls were answered before a kill", answered.len());
    let mut session = place.serve();
    for (round, n) in answered {
        assert_eq!(session.recall(&format!("{round}/{n}")), format!("{round} {n}"));
    }
    place.done(&["verify"]);
}

#[test]
fn two_servers_and_the_command_line_write_one_store_and_see_each_other() {
    let place = Place::new();
    let mut first = place.open(&["mcp"], Era::Initialize);
    let mut second = place.open(&["mcp"], Era::Stateless);
    for n in 0..10 {
        let key = n.to_string();
        first.remember(&key, "first");
        assert_eq!(second.recall(&key), "first");
        second.remember(&key, "second");
        assert_eq!(first.recall(&key), "second");
        place.done(&["remember", &key, "--summary", "s", "--body", "third"]);
        assert_eq!((first.recall(&key), second.recall(&key)), ("third".to_owned(), "third".to_owned()));
        first.text("memory_forget", json!({"key": key}));
        assert_eq!(second.recall(&key), format!("nothing is saved under {key}"));
        assert_eq!(place.done(&["list"]).trim_end(), "(no memories)");
    }
    let history = first.call("memory_history", json!({"key": "3", "limit": 100}));
    assert_eq!(history["structuredContent"]["versions"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_resource_and_a_prompt_show_at_once_what_another_process_wrote() {
    let place = Place::new();
    let mut session = place.serve();
    for n in 0..3 {
        place.done(&["remember", "a", "--summary", &format!("summary {n}"), "--body", &format!("body {n}")]);
        // Nothing but this request looks at the store, so it is this request that takes in the write.
        let (method, params, found) = vec![
            ("resources/read", json!({"uri": "memory:///a"}), "body 0"),
            ("resources/list", json!({}), "summary 1"),
            ("prompts/get", json!({"name": "start_session"}), "summary 2"),
        ]
        .swap_remove(n);
        let result = session.result(method, params).to_string();
        assert!(result.contains(found), "{method}: {result}");
    }
}

#[test]
fn turns_of_two_servers_and_the_command_line_at_once_lose_nothing() {
    let place = Place::new();
    let mut sessions = [place.open(&["mcp"], Era::Initialize), place.open(&["mcp"], Era::Initialize)];
    for (round, session) in sessions.iter_mut().enumerate() {
        turn(session, round);
    }
    place.done(&["remember", "line", "--summary", "s", "--body", "b"]);
    for session in &mut sessions {
        for _ in 0..20 {
            let answer = session.hear();
            assert_eq!(answer["result"]["isError"], false, "{answer}");
        }
    }
    for session in &mut sessions {
        assert_eq!(session.call("memory_list", json!({}))["structuredContent"]["total"], 41);
    }
    let info: Value = serde_json::from_str(&place.done(&["--json", "info"])).expect("an object");
    assert_eq!(info["frame"], 41, "every write is a frame of its own");
}
