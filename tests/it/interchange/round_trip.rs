//! Random histories of every operation of every kind: a dump loaded into an empty store is the same store.

use std::sync::Arc;

use mnemolog::{Options, Store, StubEmbedder};
use proptest::prelude::*;

use super::{dumped, frames, given, keep_going, line, load_into, with};

/// A store whose embedder makes rows as wide as those of the histories.
fn narrow() -> Store {
    with(Options::new().embedder(Arc::new(StubEmbedder::with_dim(2))).segment_bytes(16 * 1024))
}

fn select(values: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(values)
}

fn text() -> impl Strategy<Value = String> {
    select(&["", "a", "a/b", "b", "red fox", r"two\nlines", "服务器", r"\u0000\u2028", "é", r#"\"q\""#])
        .prop_map(str::to_owned)
}

fn json() -> impl Strategy<Value = &'static str> {
    select(&[
        "null",
        "1.50",
        "-0",
        "12345678901234567890",
        "1e400",
        r#"{"b":1,"a":[{}]}"#,
        r#""s""#,
        "[]",
        "true",
    ])
}

fn embedding() -> impl Strategy<Value = &'static str> {
    select(&["null", "[1,2]", "[-0.0,1e-45]", "[3.4028235e38,-1]", "[0.1,0.2]", "[0,0]", "[1]", "[1,2,3]"])
}

/// The operation that puts something into a handle, and its arguments; in a snapshot they are an item.
fn put(kind: &'static str) -> BoxedStrategy<(&'static str, String)> {
    match kind {
        "notes" => (text(), proptest::option::of(text()), json())
            .prop_map(|(key, summary, body)| {
                let summary = summary.map(|s| format!(r#","summary":"{s}""#)).unwrap_or_default();
                ("remember", format!(r#"{{"key":"{key}"{summary},"body":{body}}}"#))
            })
            .boxed(),
        "vector" => (text(), text(), json(), embedding())
            .prop_map(|(id, text, metadata, embedding)| {
                (
                    "upsert",
                    format!(
                        r#"{{"id":"{id}","text":"{text}","metadata":{metadata},"embedding":{embedding}}}"#
                    ),
                )
            })
            .boxed(),
        "episodic" => (text(), json(), select(&["null", "0", "-9223372036854775808", "1795910400500"]))
            .prop_map(|(key, value, at)| {
                ("record", format!(r#"{{"key":"{key}","value":{value},"timestamp_ms":{at}}}"#))
            })
            .boxed(),
        _ => (text(), text(), select(&["null", "0", "5", "90"]))
            .prop_map(|(label, content, tokens)| {
                ("push", format!(r#"{{"label":"{label}","content":"{content}","tokens":{tokens}}}"#))
            })
            .boxed(),
    }
}

fn config(kind: &'static str) -> BoxedStrategy<String> {
    match kind {
        "notes" => Just("{}".to_owned()).boxed(),
        "vector" => select(&[
            "null",
            r#"{"name":"stub-fnv","model":"stub-fnv","dim":2}"#,
            r#"{"name":"x","model":"y","dim":2}"#,
            r#"{"name":"x","model":"y","dim":3}"#,
        ])
        .prop_map(|embedder| format!(r#"{{"embedder":{embedder}}}"#))
        .boxed(),
        "episodic" => select(&["null", "0", "1", "3"]).prop_map(|max| format!(r#"{{"max":{max}}}"#)).boxed(),
        _ => select(&["null", "0", "100"]).prop_map(|budget| format!(r#"{{"budget":{budget}}}"#)).boxed(),
    }
}

fn erased(kind: &'static str) -> &'static str {
    if kind == "working" { r#"{"class":"put","tokens":30}"# } else { r#"{"class":"put"}"# }
}

fn snapshot(kind: &'static str) -> BoxedStrategy<(&'static str, String)> {
    let item = prop_oneof![
        5 => put(kind).prop_map(|(_, args)| args),
        1 => Just(format!(r#"{{"erased":{}}}"#, erased(kind))),
    ];
    (config(kind), proptest::collection::vec(item, 0..4))
        .prop_map(|(config, items)| {
            ("snapshot", format!(r#"{{"config":{config},"items":[{}]}}"#, items.join(",")))
        })
        .boxed()
}

fn other(kind: &'static str) -> BoxedStrategy<(&'static str, String)> {
    match kind {
        "notes" => text().prop_map(|key| ("forget", format!(r#"{{"key":"{key}"}}"#))).boxed(),
        "vector" => text().prop_map(|id| ("delete", format!(r#"{{"id":"{id}"}}"#))).boxed(),
        _ => Just(("clear", "{}".to_owned())).boxed(),
    }
}

/// A line without its frame; some of them are refused.
fn any_line() -> impl Strategy<Value = String> {
    let kind = select(&["notes", "vector", "episodic", "working"]);
    kind.prop_flat_map(|kind| {
        let configure = if kind == "notes" { "snapshot" } else { "configure" };
        let config = config(kind).prop_map(move |config| match kind {
            "notes" => (configure, r#"{"config":{},"items":[]}"#.to_owned()),
            _ => (configure, config),
        });
        let op = prop_oneof![
            12 => put(kind), 2 => other(kind), 2 => config, 1 => snapshot(kind),
            1 => Just(("erased", erased(kind).to_owned())),
        ];
        (Just(kind), select(&["core/", ""]), op)
    })
    .prop_map(|(kind, path, (op, args))| {
        let name = if kind == "notes" { "memory" } else { "name" };
        line(kind, &format!("{path}{name}"), op, &args)
    })
}

/// Lines in frames: several a frame, each frame with its time and origin.
fn any_history() -> impl Strategy<Value = String> {
    let origin = select(&[
        "",
        r#","origin":{}"#,
        r#","origin":{"agent":"a","tool":"t"}"#,
        r#","origin":{"session":"s"}"#,
    ]);
    let frame = (proptest::collection::vec(any_line(), 1..4), 0..60u32, origin);
    proptest::collection::vec(frame, 1..25).prop_map(|frames| {
        let lines = frames.into_iter().enumerate().flat_map(|(i, (lines, minute, origin))| {
            let fields = format!(r#""frame":{},"time":"2026-11-30T11:{minute:02}:00.25Z"{origin}"#, i + 1);
            lines.into_iter().map(move |line| given(&fields, &line))
        });
        lines.collect::<Vec<_>>().join("\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_dump_loaded_into_an_empty_store_is_the_same_store(history in any_history()) {
        let store = narrow();
        let report = keep_going(&store, &history);
        let lines = history.lines().count() as u64;
        prop_assert_eq!(report.lines + report.refused.len() as u64, lines);
        let text = dumped(&store);
        let again = narrow();
        let report = load_into(&again, &text);
        prop_assert!(!report.renumbered && report.raised_times == 0 && report.embedded == 0);
        prop_assert_eq!(frames(&again), frames(&store));
        prop_assert_eq!(dumped(&again), text);
    }

    #[test]
    fn any_text_and_any_json_survive(key in ".*", body in ".*", floats in proptest::collection::vec(any::<f32>(), 3)) {
        let store = super::empty();
        let finite: Vec<f32> = floats.into_iter().map(|x| if x.is_finite() { x } else { 1.0 }).chain([1.0]).collect();
        store.root().notes().remember(&key, &body, &body).unwrap();
        store.root().vectors("docs").unwrap().upsert_embedding(&key, &body, &mnemolog::Json::string(&body), &finite).unwrap();
        let again = super::loaded(&dumped(&store));
        prop_assert_eq!(again.root().notes().recall(&key), store.root().notes().recall(&key));
        prop_assert_eq!(again.digest().unwrap(), store.digest().unwrap());
    }
}
