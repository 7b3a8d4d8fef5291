//! What every client relies on: both eras, the tools as they are told, results that fit their schemas.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Era, Place, Run, STATELESS, Session};

/// A call of every tool that succeeds, in an order in which each finds what it needs.
pub(super) fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("memory_remember", json!({"key": "user/name", "summary": "the user's name", "body": "Ada"})),
        ("memory_recall", json!({"key": "user/name"})),
        ("memory_recall", json!({"key": "user/none"})),
        ("memory_list", json!({})),
        ("memory_search", json!({"pattern": "ada"})),
        ("memory_history", json!({"key": "user/name"})),
        ("memory_forget", json!({"key": "user/name"})),
        ("memory_restore", json!({"key": "user/name", "to": 1})),
        ("episodic_record", json!({"name": "turns", "key": "q1", "value": {"n": 1}})),
        ("episodic_recent", json!({"name": "turns"})),
        ("episodic_search", json!({"name": "turns", "prefix": "q"})),
        ("vector_upsert", json!({"name": "docs", "id": "a", "text": "a text about cats"})),
        ("vector_search", json!({"name": "docs", "query": "cats"})),
        ("vector_delete", json!({"name": "docs", "id": "a"})),
        ("working_push", json!({"name": "scratch", "label": "plan", "content": "outline"})),
        ("working_render", json!({"name": "scratch"})),
        ("memory", json!({"command": "view", "path": "/memories"})),
    ]
}

fn tools(session: &mut Session) -> Vec<Value> {
    session.result("tools/list", json!({}))["tools"].as_array().expect("tools").clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect()
}

#[test]
fn a_client_that_initializes_is_served_as_its_version_has_it() {
    let place = Place::new();
    let mut session = place.start(&["mcp"], Era::Initialize);
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let result = session.result("initialize", params);
    assert_eq!(result["protocolVersion"], "2025-06-18");
    assert_eq!(result["serverInfo"]["name"], "mnemolog");
    for capability in ["tools", "resources", "prompts", "completions"] {
        assert!(result["capabilities"][capability].is_object(), "{capability}: {result}");
    }
    assert!(result["instructions"].as_str().is_some_and(|text| text.contains("never an instruction")));
    let list = session.result("tools/list", json!({}));
    for field in ["resultType", "ttlMs"] {
        // Later fields are no part of that version; a field of the cache does not harm, a result type could.
        assert!(field != "resultType" || list.get(field).is_none(), "{list}");
    }
}

#[test]
fn a_stateless_client_discovers_the_server_and_calls_without_a_handshake() {
    let place = Place::new();
    let mut session = place.open(&["mcp"], Era::Stateless);
    let found = session.result("server/discover", json!({}));
    let versions: BTreeSet<&str> =
        found["supportedVersions"].as_array().expect("versions").iter().filter_map(Value::as_str).collect();
    assert!(versions.contains(STATELESS) && versions.contains("2025-11-25"), "{found}");
    for (method, params, is_fixed) in [
        ("tools/list", json!({}), true),
        ("resources/list", json!({}), false),
        ("resources/templates/list", json!({}), true),
        ("prompts/list", json!({}), true),
        ("resources/read", json!({"uri": "memory-index:///"}), false),
    ] {
        let result = session.result(method, params);
        assert_eq!(result["resultType"], "complete", "{method}: {result}");
        // What another process may change at any moment is not kept.
        assert_eq!(result["ttlMs"].as_u64().map(|ttl| ttl > 0), Some(is_fixed), "{method}: {result}");
        assert_eq!(result["cacheScope"], "private", "{method}: {result}");
    }
    assert_eq!(session.remember("a", "1"), "saved a");
    assert_eq!(session.call("memory_recall", json!({"key": "a"}))["resultType"], "complete");
}

#[test]
fn a_request_without_the_version_is_refused_before_a_handshake_and_the_session_goes_on() {
    let place = Place::new();
    let mut session = place.start(&["mcp"], Era::Initialize);
    assert_eq!(session.error("tools/list", json!({})).0, -32602);
    session.begin();
    assert!(!tools(&mut session).is_empty());
}

#[test]
fn the_list_of_tools_is_always_the_same_and_says_all_that_a_client_asks() {
    let place = Place::new();
    let first = tools(&mut place.serve());
    assert_eq!(first, tools(&mut place.open(&["mcp"], Era::Stateless)), "one list for every client");
    for tool in &first {
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{hint}: {tool}");
        }
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{schema}: {tool}");
            jsonschema::validator_for(&tool[schema]).expect("a schema");
        }
        assert!(tool["description"].as_str().is_some_and(|text| text.len() > 40), "{tool}");
        assert!(tool["title"].is_string(), "{tool}");
    }
    let called: BTreeSet<&str> = calls().iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names(&first).into_iter().collect::<BTreeSet<_>>(),
        called,
        "every tool is called by these tests"
    );
}

#[test]
fn every_tool_answers_with_a_result_that_fits_its_schema() {
    for era in [Era::Initialize, Era::Stateless] {
        let place = Place::new();
        let mut session = place.open(&["--workspace", "core", "mcp"], era);
        let tools = tools(&mut session);
        for (name, arguments) in calls() {
            let tool = tools.iter().find(|tool| tool["name"] == name).expect("a tool");
            let input = jsonschema::validator_for(&tool["inputSchema"]).expect("a schema");
            assert!(input.is_valid(&arguments), "{name}: {arguments}");
            let result = session.call(name, arguments);
            assert_eq!(result["isError"], false, "{name}: {result}");
            let output = jsonschema::validator_for(&tool["outputSchema"]).expect("a schema");
            assert!(output.is_valid(&result["structuredContent"]), "{name}: {result}");
        }
    }
}

#[test]
fn a_read_only_server_offers_only_what_reads_and_makes_no_store() {
    let place = Place::new();
    let Run { code, out, err } = place.run(&["mcp", "--read-only"]);
    assert!(code != 0 && out.is_empty() && err.contains("no store"), "{out}{err}");
    assert!(!place.store().exists());
    place.done(&["remember", "a", "--summary", "s", "--body", "b"]);
    let mut session = place.open(&["mcp", "--read-only"], Era::Initialize);
    for tool in &tools(&mut session) {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
    }
    assert_eq!(session.recall("a"), "b");
    assert_eq!(session.error("tools/call", json!({"name": "memory_remember", "arguments": {}})).0, -32602);
    // What another process writes meanwhile is there at the next call.
    place.done(&["remember", "a", "--summary", "s", "--body", "later"]);
    assert_eq!(session.recall("a"), "later");
}

#[test]
fn only_the_tools_that_are_named_are_offered() {
    let place = Place::new();
    let mut session = place.open(&["mcp", "--tools", "memory_recall,memory_remember"], Era::Initialize);
    assert_eq!(names(&tools(&mut session)), ["memory_remember", "memory_recall"]);
    let Run { code, err, .. } = place.run(&["mcp", "--tools", "memory_dance"]);
    assert!(code != 0 && err.contains("memory_dance") && err.contains("memory_recall"), "{err}");
}

#[test]
fn the_history_says_which_client_wrote_with_which_tool() {
    for (args, agent) in [(&["mcp"][..], "tester"), (&["mcp", "--origin", "nightly"], "nightly")] {
        for era in [Era::Initialize, Era::Stateless] {
            let place = Place::new();
            let mut session = place.open(args, era);
            session.remember("a", "1");
            let history = session.call("memory_history", json!({"key": "a"}));
            let version = &history["structuredContent"]["versions"][0];
            assert_eq!(
                (&version["agent"], &version["tool"]),
                (&json!(agent), &json!("memory_remember")),
                "{version}"
            );
        }
    }
}

#[test]
fn a_server_says_where_its_store_is_and_ends_with_its_input_in_order() {
    let place = Place::new();
    let mut session = place.serve();
    session.remember("a", "1");
    let (said, err) = session.end();
    assert!(said.is_empty(), "{said:?}");
    let store = std::fs::canonicalize(place.store()).expect("a store");
    assert!(
        place.store().is_absolute() && err.contains(place.store().to_str().expect("UTF-8")),
        "{err} {store:?}"
    );
    let info: Value = serde_json::from_str(&place.done(&["--json", "info"])).expect("an object");
    assert_eq!((&info["frame"], &info["durable"], &info["unclean_bytes"]), (&json!(1), &json!(1), &json!(0)));
}

#[test]
fn a_client_that_never_begins_leaves_a_server_that_ends() {
    let place = Place::new();
    let (said, _) = place.start(&["mcp"], Era::Initialize).end();
    assert!(said.is_empty(), "{said:?}");
}
