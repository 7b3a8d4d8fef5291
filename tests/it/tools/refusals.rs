//! How calls fail: with a kind for programs and a sentence that tells a model how to mend the call.

use std::sync::Arc;
use std::time::Duration;

use mnemolog::disk::MemoryDisk;
use mnemolog::interchange::{LoadOptions, load};
use mnemolog::tools::{Answer, Choice, Files, ToolError, ToolErrorKind, Toolbox};
use mnemolog::{EmbedError, Embedder, Error, Frame, Options, Store, Writers};
use serde_json::{Value, json};

use super::store;

fn refused(answer: Result<Answer, ToolError>) -> (ToolErrorKind, String) {
    let error = answer.expect_err("refused");
    assert!(!error.text.is_empty() && !error.text.contains('\n'), "{}", error.text);
    assert_eq!(error.to_string(), error.text);
    (error.kind, error.text)
}

/// Each call is refused as one with bad arguments, by a sentence that begins like this; nothing is written.
fn check_bad(calls: &[(&str, Value, &str)]) {
    let store = store();
    let tools = Toolbox::new(&store.root());
    for (name, arguments, text) in calls {
        let (kind, found) = refused(tools.call(name, arguments));
        assert_eq!(kind, ToolErrorKind::BadArguments, "{found}");
        assert!(found.starts_with(text), "{found}\nexpected: {text}");
    }
    assert_eq!(store.appended(), Frame::ZERO, "nothing was written");
}

#[test]
fn a_bad_argument_is_named_with_what_was_expected() {
    let moment =
        "the number of a frame, or a time as RFC 3339, such as 2026-11-30T12:00:00Z; call it again with that";
    check_bad(&[
        ("memory_recall", json!({}), "memory_recall needs `key`: The note's key: any text."),
        ("memory_recall", json!({"key": null}), "memory_recall needs `key`: "),
        (
            "memory_recall",
            json!({"key": 7}),
            "`key` of memory_recall is `7`, expected a string; call it again with that",
        ),
        (
            "memory_recall",
            json!({"key": "k", "kye": 1}),
            "memory_recall has no argument `kye`; it takes key, offset, at",
        ),
        (
            "memory_recall",
            json!("k"),
            "the arguments of memory_recall are `\\\"k\\\"`, expected a JSON object",
        ),
        (
            "memory_recall",
            json!({"key": "k", "at": "yesterday"}),
            &format!("`at` of memory_recall is `\\\"yesterday\\\"`, expected {moment}"),
        ),
        (
            "memory_restore",
            json!({"key": "k", "to": -1}),
            &format!("`to` of memory_restore is `-1`, expected {moment}"),
        ),
    ]);
}

#[test]
fn an_argument_out_of_its_range_is_refused_with_the_range() {
    let deep = (0..130).fold(json!(0), |value, _| json!([value]));
    check_bad(&[
        ("episodic_record", json!({"key": "k", "value": deep}), "JSON nested deeper than 120 levels"),
        (
            "episodic_recent",
            json!({"limit": 101}),
            "`limit` of episodic_recent is `101`, expected an integer from 1 to 100; call it again with that",
        ),
        (
            "episodic_recent",
            json!({"limit": 0}),
            "`limit` of episodic_recent is `0`, expected an integer from 1 to 100",
        ),
        (
            "memory_list",
            json!({"offset": -1}),
            "`offset` of memory_list is `-1`, expected an integer of at least 0; call it again with that",
        ),
        ("episodic_record", json!({"key": "k"}), "episodic_record needs `value`: What happened"),
        (
            "vector_search",
            json!({"query": "q", "filter": [1]}),
            "`filter` of vector_search is `[1]`, expected a JSON object",
        ),
        (
            "working_push",
            json!({"label": "l", "content": "c", "name": "No Name"}),
            "handle name \"No Name\" holds 'N'",
        ),
        (
            "memory",
            json!({"command": "chmod"}),
            "`command` of memory is `\\\"chmod\\\"`, expected one of view, create",
        ),
        ("memory", json!({"command": "create", "path": "/memories/a"}), "create needs `file_text`"),
        (
            "memory",
            json!({"command": "insert", "path": "/memories/a", "insert_text": ""}),
            "insert needs `insert_line`",
        ),
        (
            "memory",
            json!({"command": "view", "path": "/memories/a", "view_range": [1]}),
            "`view_range` of memory is `[1]`",
        ),
        (
            "memory",
            json!({"command": "view", "path": "/etc/passwd"}),
            "Error: The path /etc/passwd is not inside /memories",
        ),
        (
            "memory_recall",
            json!({"key": "k", "at": 9}),
            "there is no frame 9: the last one is 0; ask for a frame from 0 to 0",
        ),
    ]);
}

/// E10: the same limits by every way into the log.
#[test]
fn what_is_too_large_is_so_by_every_way() {
    let limit = 1000;
    let open = || Options::new().max_item_bytes(limit).open_on(Arc::new(MemoryDisk::new())).expect("opens");
    for (key, body, what) in [
        ("k".repeat(65_537), String::new(), "the key in bytes is 65537, the limit is 65536"),
        ("k".to_owned(), "b".repeat(999), "the item in bytes is 1001, the limit is 1000"),
    ] {
        let store = open();
        let tools = Toolbox::new(&store.root());
        let library = store.root().notes().remember(&key, "s", &body).expect_err("too large");
        assert!(library.to_string().starts_with(what), "{library}");
        let (kind, tool) =
            refused(tools.call("memory_remember", &json!({"key": key, "summary": "s", "body": body})));
        assert_eq!((kind, tool), (ToolErrorKind::BadArguments, library.to_string()));
        let args = json!({"key": key, "summary": "s", "body": body});
        let line = json!({"handle_kind": "notes", "handle_id": "memory", "op": "remember", "args": args})
            .to_string();
        let loaded = load(&store, &mut line.as_bytes(), LoadOptions::default()).expect_err("too large");
        assert!(loaded.to_string().contains(what), "{loaded}");
        let summary = body.chars().take(1).collect::<String>();
        let file =
            Files::new(&store.root()).create(&format!("/memories/{key}"), &format!("{summary}\n{body}"));
        assert!(file.expect_err("too large").to_string().contains("the limit is"));
        assert_eq!(store.appended(), Frame::ZERO, "nothing was written");
    }
    let store = open();
    let tools = Toolbox::new(&store.root());
    let long = "x".repeat(1000);
    for (name, arguments) in [
        ("episodic_record", json!({"key": "k", "value": long})),
        ("vector_upsert", json!({"id": "i", "text": long})),
        ("working_push", json!({"label": "l", "content": long})),
        ("memory", json!({"command": "create", "path": "/memories/k", "file_text": long})),
    ] {
        let (kind, text) = refused(tools.call(name, &arguments));
        assert_eq!(kind, ToolErrorKind::BadArguments);
        assert!(text.ends_with("the limit is 1000; make it smaller or split it"), "{text}");
    }
    assert_eq!(store.appended(), Frame::ZERO);
    tools
        .call("memory_remember", &json!({"key": "k", "summary": "s", "body": "b".repeat(998)}))
        .expect("just fits");
}

#[test]
fn what_the_store_does_not_allow_is_refused_with_its_reason() {
    let store = store();
    let root = store.root();
    let tools = Toolbox::new(&root);
    tools.call("memory_remember", &json!({"key": "k", "summary": "s", "body": "one"})).expect("saved");
    let stale = json!({"key": "k", "summary": "s", "body": "two", "if_frame": 0});
    let (kind, text) = refused(tools.call("memory_remember", &stale));
    assert_eq!(kind, ToolErrorKind::Refused);
    assert_eq!(text, "k is saved by frame 1, not absent; read it again and decide anew");
    root.vectors("main")
        .expect("a name")
        .upsert_embedding("v", "t", &mnemolog::Json::object(), &[1.0])
        .expect("stored");
    assert_eq!(refused(tools.call("vector_search", &json!({"query": "q"}))).0, ToolErrorKind::Refused);
    let exists = json!({"command": "create", "path": "/memories/k", "file_text": "x"});
    let (kind, text) = refused(tools.call("memory", &exists));
    assert_eq!((kind, text.as_str()), (ToolErrorKind::Refused, "Error: File /memories/k already exists"));
    for workspace in
        [root.at(store.appended()).expect("the last frame"), store.at(Frame(1)).expect("a frame").root()]
    {
        for tool in Toolbox::new(&workspace).tools().iter().filter(|tool| !tool.hints.read_only) {
            let arguments = match tool.name {
                "memory_restore" => json!({"key": "k", "to": 0}),
                "episodic_record" => json!({"key": "k", "value": 1}),
                "vector_upsert" => json!({"id": "w", "text": "t", "name": "other"}),
                "vector_delete" => json!({"id": "v"}),
                "working_push" => json!({"label": "l", "content": "c"}),
                "memory" => json!({"command": "delete", "path": "/memories/k"}),
                "memory_forget" => json!({"key": "k"}),
                _ => json!({"key": "n", "summary": "s", "body": "b"}),
            };
            let (kind, text) = refused(Toolbox::new(&workspace).call(tool.name, &arguments));
            assert_eq!(kind, ToolErrorKind::Refused, "{}: {text}", tool.name);
            assert_eq!(text, "nothing can be written here: only the tools that read will answer");
        }
    }
    store.compact(Frame(2), false).expect("compacted");
    let (kind, text) = refused(tools.call("memory_list", &json!({"at": 0})));
    assert_eq!(
        (kind, text.contains("was compacted; ask for frame")),
        (ToolErrorKind::Refused, true),
        "{text}"
    );
}

#[test]
fn a_past_answers_up_to_its_own_frame() {
    let store = store();
    let notes = store.root().notes();
    for body in ["one", "two", "three"] {
        notes.remember("k", "s", body).expect("saved");
    }
    let past = store.root().at(Frame(2)).expect("a frame");
    let recall = |at: Value| Toolbox::new(&past).call("memory_recall", &json!({"key": "k", "at": at}));
    assert_eq!(recall(Value::Null).expect("readable").text, "two");
    assert_eq!(recall(json!(1)).expect("readable").text, "one");
    assert_eq!(
        recall(json!("9999-01-01T00:00:00Z")).expect("readable").text,
        "two",
        "not beyond its own frame"
    );
    let (kind, text) = refused(recall(json!(3)));
    assert_eq!(kind, ToolErrorKind::BadArguments);
    assert!(text.starts_with("there is no frame 3: the last one is 2"), "{text}");
    assert!(matches!(past.at(Frame(3)), Err(Error::NoSuchFrame { last: Frame(2), .. })));
    assert_eq!(past.at_time(store.last_time().expect("a time")).expect("a past").notes().recall("k"), "two");
}

#[test]
fn a_store_that_was_closed_or_is_locked_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("opens");
    let tools = Toolbox::new(&store.root());
    tools.call("memory_remember", &json!({"key": "k", "summary": "s", "body": "b"})).expect("saved");
    store.close().expect("closed");
    let error = tools.call("memory_forget", &json!({"key": "k"})).expect_err("closed");
    assert_eq!(error.kind, ToolErrorKind::StoreFailed);
    assert!(matches!(error.cause, Some(Error::Closed)));
    assert_eq!(tools.call("memory_recall", &json!({"key": "k"})).expect("reads go on").text, "b");
    let many = || Options::new().writers(Writers::Many).lock_wait(Duration::from_millis(20));
    let [holder, waiting] = [many(), many()].map(|options| options.open(dir.path()).expect("opens"));
    let tools = Toolbox::new(&waiting.root());
    let (list, forget) = (|| tools.call("memory_list", &json!({})), json!({"key": "k"}));
    let held = || Ok::<_, Error>((list(), tools.call("memory_forget", &forget)));
    let (read, wrote) = holder.root().exclusive(|_| held()).expect("an empty section");
    assert_eq!(read.expect("a read needs no lock").text, "- k: s");
    let error = wrote.expect_err("another holds the lock");
    assert_eq!(error.kind, ToolErrorKind::StoreFailed);
    assert!(matches!(error.cause, Some(Error::Locked { .. })));
    assert!(error.text.ends_with("the same call may succeed later"), "{error}");
    assert!(tools.call("memory_forget", &forget).is_ok(), "the lock is free");
}

/// An embedder of a remote model that does not answer.
#[derive(Debug)]
struct Remote;

impl Embedder for Remote {
    fn name(&self) -> &str {
        "remote-3"
    }

    fn dim(&self) -> usize {
        3
    }

    fn embed(&self, _: &str) -> Result<Vec<f32>, EmbedError> {
        Err(EmbedError::new("the model does not answer"))
    }
}

#[test]
fn another_embedder_is_named_and_reached_out_to() {
    let disk = Arc::new(MemoryDisk::new());
    let store = Options::new().embedder(Arc::new(Remote)).open_on(disk).expect("opens");
    let tools = Toolbox::new(&store.root());
    for tool in tools.tools() {
        let embeds = ["vector_upsert", "vector_search"].contains(&tool.name);
        assert_eq!(tool.hints.open_world, embeds, "{}", tool.name);
        assert_eq!(tool.description.ends_with("Similarity is that of the embedder remote-3."), embeds);
    }
    let (kind, text) = refused(tools.call("vector_upsert", &json!({"id": "v", "text": "t"})));
    assert_eq!(kind, ToolErrorKind::Refused);
    assert!(text.contains("the embedder remote-3 failed: the model does not answer"), "{text}");
}

#[test]
fn an_unknown_name_is_refused_with_those_that_there_are() {
    let tools = Toolbox::new(&store().root());
    let (kind, text) = refused(tools.call("memory_recal\n", &json!({})));
    assert_eq!(kind, ToolErrorKind::UnknownTool);
    assert!(
        text.starts_with("there is no tool `memory_recal\\n`; the tools are memory_remember, "),
        "{text}"
    );
    let unknown = tools.only(Choice::Names(vec!["memory\n".into(), "x".into()])).expect_err("unknown");
    assert!(
        unknown.to_string().starts_with("there is no tool `memory\\n`, `x`; the tools are memory_remember")
    );
}
