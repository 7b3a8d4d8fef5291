//! Whatever a tool is given it answers by its schema or fails with a sentence; and files do what a plain map would do.

use std::collections::BTreeMap;

use mnemolog::tools::{Files, Toolbox};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::{Checked, store};

fn value() -> impl Strategy<Value = Value> {
    let odd = [
        "",
        "k",
        "main",
        "view",
        "create",
        "rename",
        "/memories",
        "/memories/a",
        "/memories/a/..",
        "0",
        "1",
        "18446744073709551616",
        "2026-11-30T12:00:00Z",
        "9999-99-99T00:00:00Z",
        "\u{0}\n\u{2028}",
        "../x",
        "NaN",
    ];
    let number = select(vec![
        json!(0),
        json!(1),
        json!(-1),
        json!(2.0),
        json!(0.5),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e300),
    ]);
    let leaf = prop_oneof![
        select(odd.to_vec()).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        number,
        select(vec![json!(null), json!(true), json!({}), json!([]), json!([1, -1]), json!([2, 1.0])]),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn any_arguments_are_answered_by_the_schema_or_refused_with_a_sentence(
        calls in prop::collection::vec((0_usize..16, prop::collection::vec(value(), 10), 0_u32..1024, value()), 1..12),
    ) {
        let store = store();
        let checked = Checked::new(&store.root());
        let tools = Toolbox::new(&store.root());
        for (tool, values, given, alone) in calls {
            let tool = &tools.tools()[tool];
            let names = tool.input_schema["properties"].as_object().expect("properties").keys();
            let given = |index: usize| given >> (index % 10) & 1 == 1 || values[index % 10].is_string();
            let fields: Map<String, Value> = names
                .enumerate()
                .filter(|(index, _)| given(*index))
                .map(|(index, name)| (name.clone(), values[index % 10].clone()))
                .collect();
            for arguments in [Value::Object(fields), alone] {
                let before = store.appended();
                match tools.call(tool.name, &arguments) {
                    Ok(answer) => checked.check(tool.name, &answer),
                    Err(error) => {
                        prop_assert!(!error.text.is_empty());
                        prop_assert_eq!(store.appended(), before, "{} wrote: {}", tool.name, error);
                    }
                }
                let after = store.appended().0;
                prop_assert!(after == before.0 || (!tool.hints.read_only && after == before.0 + 1));
            }
        }
    }

    #[test]
    fn files_do_what_a_map_from_paths_to_texts_would_do(
        steps in prop::collection::vec((0..5, "[ab](/[ab]){0,2}", "[ab](/[ab]){0,2}", "[xy\r\n]{0,4}", 0..4_i64), 1..40),
    ) {
        let store = store();
        let files = Files::new(&store.root());
        let mut plain: BTreeMap<String, String> = BTreeMap::new();
        let at = |path: &str| format!("/memories/{path}");
        for (kind, path, other, text, line) in steps {
            let before = store.appended().0;
            let body = plain.get(&path).cloned();
            let moved: Vec<String> = plain.keys().filter(|key| is_at(key, &path)).cloned().collect();
            let (answer, done) = match kind {
                0 => (files.create(&at(&path), &text), body.is_none().then(|| plain.insert(path, text)).is_some()),
                1 => (files.delete(&at(&path)), {
                    plain.retain(|key, _| !is_at(key, &path));
                    !moved.is_empty()
                }),
                2 => {
                    let free = !plain.keys().any(|key| is_at(key, &other));
                    let inside = moved.iter().any(|key| *key != path) && is_at(&other, &path);
                    let done = !moved.is_empty() && free && !inside;
                    for key in moved.iter().filter(|_| done) {
                        let body = plain.remove(key).expect("it is there");
                        plain.insert(format!("{other}{}", &key[path.len()..]), body);
                    }
                    (files.rename(&at(&path), &at(&other)), done)
                }
                3 => {
                    let edited = body.filter(|body| !text.is_empty() && overlapping(body, &text) == 1);
                    let edited = edited.map(|body| body.replacen(&text, "new", 1));
                    let answer = files.str_replace(&at(&path), &text, "new");
                    (answer, edited.map(|body| plain.insert(path, body)).is_some())
                }
                _ => {
                    let text = format!("{text}\n");
                    let ended = body.filter(|body| body.is_empty() || body.ends_with('\n'));
                    let Some(body) = ended else { continue };
                    let mut lines: Vec<&str> = body.split_inclusive('\n').collect();
                    let line_exists = line as usize <= lines.len();
                    let answer = files.insert(&at(&path), line, &text);
                    if line_exists {
                        lines.insert(line as usize, &text);
                        plain.insert(path, lines.concat());
                    }
                    (answer, line_exists)
                }
            };
            prop_assert_eq!(answer.is_ok(), done, "{:?}", answer);
            prop_assert_eq!(store.appended().0 - before, u64::from(done), "a change is one frame, a refusal none");
            let notes = store.root().notes();
            let saved: BTreeMap<String, String> =
                notes.summaries().into_iter().map(|(key, _)| (key.clone(), notes.recall(&key))).collect();
            prop_assert_eq!(&saved, &plain);
        }
    }
}

fn is_at(key: &str, path: &str) -> bool {
    key == path || key.starts_with(&format!("{path}/"))
}

fn overlapping(text: &str, part: &str) -> usize {
    (0..text.len()).filter(|at| text[*at..].starts_with(part)).count()
}
