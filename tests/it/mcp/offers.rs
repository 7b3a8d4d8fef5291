//! What a model is told to do is what it can do: no text names a tool that is not offered.

use serde_json::{Value, json};

use super::{Era, Place, Session, protocol};

/// Every text that tells a model what to do, and the prompts that are listed.
fn told(session: &mut Session) -> (String, Vec<String>) {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let mut text = session.result("initialize", params)["instructions"].to_string();
    let prompts = session.result("prompts/list", json!({}))["prompts"].clone();
    let names: Vec<String> = prompts
        .as_array()
        .expect("prompts")
        .iter()
        .filter_map(|p| p["name"].as_str().map(str::to_owned))
        .collect();
    text.push_str(&prompts.to_string());
    for name in &names {
        text.push_str(&session.result("prompts/get", json!({"name": name, "arguments": {}})).to_string());
    }
    text.push_str(&session.result("resources/templates/list", json!({})).to_string());
    (text, names)
}

#[test]
fn no_text_names_a_tool_that_is_not_offered() {
    let sets: [(&[&str], &[&str]); 5] = [
        (&["mcp"], &["start_session", "review_stale_memories"]),
        (&["mcp", "--read-only"], &["start_session"]),
        (
            &["mcp", "--tools", "memory_recall,memory_remember,memory_forget"],
            &["start_session", "review_stale_memories"],
        ),
        (&["mcp", "--tools", "memory"], &[]),
        (&["mcp", "--tools", "vector_search"], &[]),
    ];
    for (args, prompts) in sets {
        let place = Place::new();
        let line = json!({
            "frame": 1, "time": "2020-01-01T00:00:00Z", "handle_kind": "notes", "handle_id": "memory",
            "op": "remember", "args": {"key": "old", "summary": "s", "body": "b"},
        });
        place.done(&["load", &place.file("old.jsonl", line.to_string())]);
        let mut session = place.start(args, Era::Initialize);
        let (text, listed) = told(&mut session);
        assert_eq!(listed, prompts, "{args:?}");
        let tools = session.result("tools/list", json!({}))["tools"].clone();
        let offered: Vec<&str> =
            tools.as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str()).collect();
        for (tool, _) in protocol::calls() {
            // A word that is no name by itself.
            if tool != "memory" && !offered.contains(&tool) {
                assert!(!text.contains(tool), "{args:?}: {tool}: {text}");
            }
        }
        for name in ["start_session", "review_stale_memories"] {
            let answer: Value = session.ask("prompts/get", json!({"name": name, "arguments": {}}));
            assert_eq!(answer.get("result").is_some(), prompts.contains(&name), "{args:?}: {answer}");
        }
    }
}
