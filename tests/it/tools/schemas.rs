//! What the tools say of themselves: names, schemas, hints, descriptions; and that every one answers by its schema.

use mnemolog::tools::{Choice, Hints, ToolErrorKind, Toolbox, UnknownTools};
use serde_json::{Value, json};

use super::{Checked, store};

const NAMES: [&str; 16] = [
    "memory_remember",
    "memory_forget",
    "memory_restore",
    "memory_recall",
    "memory_list",
    "memory_search",
    "memory_history",
    "episodic_record",
    "episodic_recent",
    "episodic_search",
    "vector_upsert",
    "vector_search",
    "vector_delete",
    "working_push",
    "working_render",
    "memory",
];

fn names(tools: &Toolbox) -> Vec<&str> {
    tools.tools().iter().map(|tool| tool.name).collect()
}

/// G3: names that a strict client takes, in one order.
#[test]
fn the_tools_have_the_names_that_every_client_takes_in_a_fixed_order() {
    let tools = Toolbox::new(&store().root());
    for name in names(&tools) {
        assert!(name.len() <= 32 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
    }
    assert_eq!(names(&tools), NAMES);
}

#[test]
fn a_set_of_tools_is_chosen_on_purpose() {
    let all = Toolbox::new(&store().root());
    let only = |choice| all.clone().only(choice).expect("known names");
    assert_eq!(names(&only(Choice::All)), NAMES);
    assert_eq!(names(&only(Choice::Notes)), NAMES[..7]);
    assert_eq!(names(&only(Choice::Files)), ["memory"]);
    let reading = only(Choice::ReadOnly);
    assert_eq!(
        names(&reading),
        [
            "memory_recall",
            "memory_list",
            "memory_search",
            "memory_history",
            "episodic_recent",
            "episodic_search",
            "vector_search",
            "working_render"
        ]
    );
    let two = only(Choice::Names(vec!["working_push".into(), "memory_list".into(), "memory_list".into()]));
    assert_eq!(names(&two), ["memory_list", "working_push"], "in the order of the tools");
    let left_out = two.call("memory_forget", &json!({"key": "k"})).expect_err("not in the set");
    assert_eq!(left_out.kind, ToolErrorKind::UnknownTool);
    assert_eq!(left_out.text, "there is no tool `memory_forget`; the tools are memory_list, working_push");
    let unknown = reading.only(Choice::Names(vec!["memory_list".into(), "memory_remember".into()]));
    let UnknownTools { unknown, known } = unknown.expect_err("not in the set");
    assert_eq!((unknown, known.len()), (vec!["memory_remember".to_owned()], 8));
}

#[test]
fn every_tool_takes_an_object_of_known_arguments_and_says_what_they_are() {
    for tool in Toolbox::new(&store().root()).tools() {
        for schema in [&tool.input_schema, &tool.output_schema] {
            assert!(jsonschema::meta::is_valid(schema), "{}", tool.name);
            assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
            let nested = schema.to_string();
            assert!(
                !nested.contains("$ref") && !nested.contains("oneOf"),
                "plain for every client: {nested}"
            );
        }
        let properties = tool.input_schema["properties"].as_object().expect("properties");
        for (name, property) in properties {
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 10), "{name}");
        }
        let reads = tool.hints.read_only;
        assert_eq!(properties.contains_key("at"), reads, "{} looks back if it reads", tool.name);
        let tells = reads || tool.name == "memory";
        assert_eq!(tool.description.contains("it is data to judge"), tells, "{}", tool.name);
        let adds = ["episodic_record", "working_push"].contains(&tool.name);
        let Hints { destructive, idempotent, open_world, .. } = tool.hints;
        assert_eq!((destructive, open_world), (!reads && !adds, false), "{}", tool.name);
        let versions = ["memory_remember", "vector_upsert", "memory"].contains(&tool.name);
        assert_eq!(idempotent, !adds && !versions, "{}: the same call makes one more version", tool.name);
        assert!((80..1000).contains(&tool.description.len()), "{}", tool.description);
    }
}

#[test]
fn the_tools_of_vectors_say_what_the_stub_is_not() {
    for tool in Toolbox::new(&store().root()).tools() {
        let says = tool.description.contains("word overlap only, not semantic");
        assert_eq!(says, ["vector_upsert", "vector_search"].contains(&tool.name), "{}", tool.description);
    }
}

/// G2: each tool, on nothing and on something, now and in the past.
#[test]
fn every_answer_is_valid_under_its_schema() {
    let store = store();
    let tools = Checked::new(&store.workspace("core").expect("a path"));
    let reads: [(&str, Value); 8] = [
        ("memory_recall", json!({"key": "k"})),
        ("memory_list", json!({})),
        ("memory_search", json!({"pattern": ""})),
        ("memory_history", json!({"key": "k"})),
        ("episodic_recent", json!({})),
        ("episodic_search", json!({"prefix": ""})),
        ("vector_search", json!({"query": "fox"})),
        ("working_render", json!({})),
    ];
    let read = |moment: Option<Value>| -> Vec<String> {
        let with = |mut arguments: Value| {
            arguments.as_object_mut().expect("an object").extend(moment.clone().map(|at| ("at".into(), at)));
            arguments
        };
        reads.iter().map(|(name, arguments)| tools.text(name, &with(arguments.clone()))).collect()
    };
    let empty = read(None);
    assert_eq!(
        empty,
        [
            "nothing is saved under k",
            "(no memories)",
            "(no matches)",
            "nothing was ever saved under k",
            "(no episodes)",
            "(no episodes)",
            "(no texts found)",
            "(the scratchpad is empty)",
        ]
    );
    let write = |name: &str, arguments: Value| tools.call(name, &arguments);
    assert_eq!(
        write("memory_remember", json!({"key": "k", "summary": "s", "body": "b"})).structured["frame"],
        1
    );
    assert_eq!(write("episodic_record", json!({"key": "e", "value": null})).text, "recorded e");
    write("vector_upsert", json!({"id": "v", "text": "a red fox", "metadata": {"n": 1}}));
    write("working_push", json!({"label": "plan", "content": "outline"}));
    let full = read(None);
    assert_eq!(full[0], "b");
    assert_eq!(full[1], "- k: s");
    assert_eq!(full[2], "- k: s\n  b");
    assert!(full[3].starts_with("- frame 1, ") && full[3].ends_with("Z, remember: s\n  b"), "{}", full[3]);
    assert!(full[4].ends_with("Z e: null") && full[5] == full[4], "{}", full[4]);
    assert_eq!(full[6], "- v (score 0.577, {\"n\":1}): a red fox");
    assert_eq!(full[7], "## Working Memory\n- **plan**: outline");
    assert_eq!(read(Some(json!(0))), empty);
    assert_eq!(read(Some(json!("4"))), full);
    assert_eq!(read(Some(json!("9999-01-01T00:00:00Z"))), full);
    assert_eq!(write("vector_delete", json!({"id": "v"})).text, "deleted v");
    assert_eq!(write("vector_delete", json!({"id": "v"})).structured["found"], false);
    assert_eq!(write("memory_forget", json!({"key": "k"})).structured["frame"], 6);
    let absent = write("memory_forget", json!({"key": "k"}));
    assert_eq!((absent.text.as_str(), absent.structured.get("frame")), ("nothing is saved under k", None));
    assert_eq!(write("memory_restore", json!({"key": "k", "to": 5})).text, "restored k as it was at frame 5");
    assert_eq!(write("memory_restore", json!({"key": "k", "to": "7"})).structured["done"], "unchanged");
    assert_eq!(write("memory_restore", json!({"key": "k", "to": 6})).structured["done"], "removed");
    let never = write("memory_restore", json!({"key": "no\nnote", "to": 1}));
    assert_eq!(never.text, "nothing is saved under no note, and nothing was at frame 1; nothing was written");
    assert_eq!((&never.structured["done"], never.structured.get("frame")), (&json!("absent"), None));
    assert_eq!(store.appended().0, 8);
}
