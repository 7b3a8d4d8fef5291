//! `import`, driven as a program.

use std::fs;

use serde_json::json;

use super::Place;

#[test]
fn a_directory_comes_in_as_notes_and_what_does_not_is_named() {
    let place = Place::new();
    let dir = place.root().join("vault");
    fs::create_dir_all(dir.join("sub")).expect("a directory");
    fs::write(dir.join("a.md"), "# Title\ntext").expect("a file");
    fs::write(dir.join("sub/b.txt"), "line\n").expect("a file");
    fs::write(dir.join("c.bin"), [0, 1]).expect("a file");
    #[cfg(unix)]
    std::os::unix::fs::symlink(dir.join("a.md"), dir.join("z.md")).expect("a link");
    let path = dir.display().to_string();
    let dry = place.run(&["--json", "import", "text", &path, "--dry-run"]);
    assert_eq!(dry.code, 1, "{dry:?}");
    let answer = &super::lines(&dry.out)[0];
    assert_eq!(
        answer["items"],
        json!([
            {"key": "a.md", "fate": "added", "place": "a.md"},
            {"key": "sub/b.txt", "fate": "added", "place": "sub/b.txt"},
        ])
    );
    assert!(!place.store().exists(), "looking creates no store");
    let run = place.run(&["--workspace", "vault", "import", "text", &path]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("c.bin: byte 1 is zero"), "{run:?}");
    assert_eq!(run.err.contains("z.md: this is a symbolic link"), cfg!(unix), "{run:?}");
    assert_eq!(place.done(&["--workspace", "vault", "list"]), "- a.md: Title\n- sub/b.txt: line\n");
    let again = place.run(&["--json", "--workspace", "vault", "import", "text", &path]);
    let answer = &super::lines(&again.out)[0];
    assert_eq!((&answer["unchanged"], &answer["frames"]), (&json!(2), &json!(0)), "{again:?}");
}

#[test]
fn a_knowledge_graph_and_vectors_come_in() {
    let place = Place::new();
    let graph = place.file(
        "memory.jsonl",
        r#"{"type":"entity","name":"Ada","entityType":"person","observations":["wrote"]}"#,
    );
    let said = place.done(&["import", "mcp-memory", &graph]);
    assert_eq!(said, "imported 1 item: 1 new, 0 changed; 1 frame written\n");
    let rows = place.file("docs.json", r#"[{"id":"a","text":"green tea","metadata":{}}]"#);
    let answer = &place.json(&["import", "vectors", &rows])[0];
    assert_eq!((&answer["added"], &answer["embedded"]), (&json!(1), &json!(1)));
    assert_eq!(place.json(&["vector", "get", "docs", "a"])[0]["text"], "green tea");
    let bad = place.file("???.json", "[]");
    assert_eq!(place.run(&["import", "vectors", &bad]).code, 2);
    let missing = place.run(&["import", "text", "missing"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    super::check_sentence(&missing.err);
}
