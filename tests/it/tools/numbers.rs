//! Numbers through the tools: none is answered or stored as another one, and none is left out without a word.

use mnemolog::tools::{ToolErrorKind, Toolbox};
use mnemolog::{Frame, Json};
use serde_json::{Value, json};

use super::{Checked, store};

/// What a double cannot hold, or no double is near.
const NOT_HELD: [&str; 6] = [
    "1e400",
    "-1e400",
    "1e-400",
    "123456789012345678901234567890",
    "12345678901234567890123.5",
    "0.1000000000000000055511151231257827",
];

const HELD: [&str; 11] = [
    "null",
    "0.1",
    "1.50",
    "-0",
    "1e3",
    "10000000000000000000000",
    "6.02e23",
    "31.245270191439438",
    "18446744073709551615",
    "-9223372036854775808",
    "9007199254740993",
];

fn json(text: &str) -> Json {
    Json::parse(text).expect("JSON")
}

/// The text as a program reads it that has nothing but doubles for it.
fn sent(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_stored_number_that_no_value_holds_is_answered_as_its_text() {
    let store = store();
    let tools = Checked::new(&store.root());
    let (ring, table) = (store.root().episodic("main"), store.root().vectors("main"));
    let (ring, table) = (ring.expect("a name"), table.expect("a name"));
    for number in NOT_HELD {
        let value = json(&format!(r#"{{"a":"1e400 \" 5,","n":[1,{number}]}}"#));
        ring.record("k", &value).expect("recorded");
        table.upsert("v", "fox", &value).expect("stored");
        let recent = tools.call("episodic_recent", &json!({"limit": 1}));
        let episode = &recent.structured["episodes"][0];
        assert_eq!((episode.get("value"), &episode["value_text"]), (None, &json!(value.as_str())));
        assert!(recent.text.contains(number), "{}", recent.text);
        let found = tools.call("vector_search", &json!({"query": "fox"}));
        let hit = &found.structured["hits"][0];
        assert_eq!((hit.get("metadata"), &hit["metadata_text"]), (None, &json!(value.as_str())));
    }
}

#[test]
fn a_stored_number_that_a_value_holds_is_answered_as_that() {
    let store = store();
    let tools = Checked::new(&store.root());
    for number in HELD {
        let value = json(&format!(r#"{{"n":{number}}}"#));
        store.root().episodic("main").expect("a name").record("k", &value).expect("recorded");
        let episode = tools.call("episodic_recent", &json!({"limit": 1})).structured["episodes"][0].clone();
        assert_eq!((&episode["value"], episode.get("value_text")), (&sent(value.as_str()), None), "{number}");
    }
}

#[test]
fn a_number_that_may_have_been_rounded_on_the_way_is_refused_with_the_way_out() {
    let store = store();
    let tools = Toolbox::new(&store.root());
    for number in [
        "12345678901234567890123.5",
        "123456789012345678901234567890",
        "18446744073709551616",
        "-9223372036854775809",
        "9007199254740993.0",
        "1e300",
    ] {
        let number = sent(number);
        for (tool, name, arguments) in [
            ("episodic_record", "value", json!({"key": "k", "value": number})),
            (
                "vector_upsert",
                "metadata",
                json!({"id": "v", "text": "fox", "metadata": {"n": [{"m": number}]}}),
            ),
            ("vector_search", "filter", json!({"query": "fox", "filter": {"n": number}})),
        ] {
            let error = tools.call(tool, &arguments).expect_err("it may be another number");
            assert_eq!(error.kind, ToolErrorKind::BadArguments);
            let told = format!("`{name}` of {tool} holds the number {number}, which may have been rounded");
            assert!(error.text.starts_with(&told), "{error}");
            assert!(error.text.ends_with("call it again with this number as a string"), "{error}");
        }
    }
    assert_eq!(store.appended(), Frame::ZERO, "nothing was written");
}

#[test]
fn a_number_that_arrives_as_it_was_sent_is_stored_with_its_digits() {
    let store = store();
    let tools = Checked::new(&store.root());
    for number in [
        "18446744073709551615",
        "-9223372036854775808",
        "9007199254740993",
        "31.245270191439438",
        "1e-7",
        "0.1",
    ] {
        tools.call("episodic_record", &json!({"key": "k", "value": sent(number)}));
        let stored = store.root().episodic("main").expect("a name").recent(1).expect("readable");
        assert_eq!(stored[0].value.as_str(), number);
    }
}
