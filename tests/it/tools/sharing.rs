//! Several callers at once, in one process and in several.

use std::path::Path;
use std::thread;

use mnemolog::tools::Toolbox;
use mnemolog::{Options, Store, Writers};
use serde_json::json;

use super::{Checked, store};

fn many(path: &Path) -> Store {
    Options::new().writers(Writers::Many).open(path).expect("opens")
}

/// A1: the four tool calls of one turn, in parallel, by two stores that share one directory.
#[test]
fn the_calls_of_one_turn_may_run_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let stores = [many(dir.path()), many(dir.path())];
    let (rounds, mut forgotten) = (10, 0);
    for round in 0..rounds {
        let key = format!("turn/{round}");
        let note = |body: &str| json!({"key": key, "summary": body, "body": body});
        let calls = [
            ("memory_remember", note("one")),
            ("memory_remember", note("two")),
            ("memory_forget", json!({"key": key})),
            ("episodic_record", json!({"key": key, "value": round})),
        ];
        let answers = thread::scope(|scope| {
            let call = |(index, (name, arguments)): (usize, (&'static str, _))| {
                let tools = Toolbox::new(&stores[index % 2].root());
                scope.spawn(move || tools.call(name, &arguments).expect("answered").structured)
            };
            let started: Vec<_> = calls.into_iter().enumerate().map(call).collect();
            started.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        let mut frames: Vec<u64> = answers.iter().filter_map(|answer| answer["frame"].as_u64()).collect();
        frames.sort_unstable();
        frames.dedup();
        let forgot = answers[2]["found"] == true;
        forgotten += u64::from(forgot);
        assert_eq!(frames.len(), 3 + usize::from(forgot), "each write is a frame, and names its own");
    }
    let tools = Checked::new(&stores[0].root());
    let recorded = tools.call("episodic_search", &json!({"prefix": "turn/", "limit": 100}));
    assert_eq!(recorded.structured["total"], rounds);
    drop(tools);
    drop(stores);
    let reopened = Store::open(dir.path()).expect("whole");
    assert_eq!(reopened.appended().0, 3 * rounds + forgotten);
}

/// D8: forget, then search: at once, in another process, and after reopening.
#[test]
fn what_was_forgotten_is_found_nowhere() {
    let dir = tempfile::tempdir().expect("a directory");
    let (here, there) = (many(dir.path()), many(dir.path()));
    let reader = Store::open_read_only(dir.path()).expect("opens");
    let [here_tools, there_tools, reader_tools] =
        [&here, &there, &reader].map(|store| Checked::new(&store.root()));
    let search = json!({"pattern": "rosebud"});
    here_tools.call("memory_remember", &json!({"key": "k", "summary": "s", "body": "Rosebud"}));
    let found = here_tools.text("memory_search", &search);
    assert_eq!(found, "- k: s\n  Rosebud");
    assert_eq!([&there_tools, &reader_tools].map(|tools| tools.text("memory_search", &search)), [&*found; 2]);
    there_tools.call("memory_forget", &json!({"key": "k"}));
    let all = [&there_tools, &here_tools, &reader_tools];
    assert_eq!(all.map(|tools| tools.text("memory_search", &search)), ["(no matches)"; 3]);
    assert_eq!(all.map(|tools| tools.text("memory_list", &json!({}))), ["(no memories)"; 3]);
    let view = json!({"command": "view", "path": "/memories/k"});
    assert!(all.iter().all(|tools| tools.refuses("memory", &view)));
    assert_eq!(
        all.map(|tools| tools.text("memory_search", &json!({"pattern": "rosebud", "at": 1}))),
        [&*found; 3]
    );
    drop((here_tools, there_tools, reader_tools, here, there, reader));
    let reopened = Store::open(dir.path()).expect("opens");
    assert_eq!(Checked::new(&reopened.root()).text("memory_search", &search), "(no matches)");
}

#[test]
fn a_file_that_another_process_made_is_viewed_at_once_and_each_change_names_its_frame() {
    let dir = tempfile::tempdir().expect("a directory");
    let (here, there) = (many(dir.path()), many(dir.path()));
    let [here, there] = [&here, &there].map(|store| Checked::new(&store.root()));
    let create = json!({"command": "create", "path": "/memories/a", "file_text": "x"});
    assert_eq!(there.call("memory", &create).structured["frame"], 1);
    let view = json!({"command": "view", "path": "/memories/a"});
    let shown = here.call("memory", &view);
    assert!(shown.text.ends_with("\tx"), "{}", shown.text);
    assert_eq!(shown.structured, json!({"command": "view", "text": shown.text}), "a view writes no frame");
    let rename = json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"});
    assert_eq!(here.call("memory", &rename).structured["frame"], 2);
}

#[test]
fn many_threads_call_one_toolbox() {
    let store = store();
    let tools = Toolbox::new(&store.root());
    thread::scope(|scope| {
        for n in 0..20 {
            let tools = &tools;
            scope.spawn(move || {
                let note = json!({"key": format!("k{n}"), "summary": "s", "body": n.to_string()});
                let frame = tools.call("memory_remember", &note).expect("saved").structured["frame"].clone();
                let then = json!({"key": format!("k{n}"), "at": frame});
                assert_eq!(tools.call("memory_recall", &then).expect("read").text, n.to_string());
            });
        }
    });
    assert_eq!(store.root().notes().len(), 20);
}
