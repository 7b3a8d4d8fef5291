//! Bad lines: each is named with its number in one sentence, and nothing of the input is loaded.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::time::Duration;

use mnemolog::disk::MemoryDisk;
use mnemolog::interchange::{LineReason, LoadError, LoadOptions, load};
use mnemolog::{EmbedError, Embedder, Error, Frame, Json, Options, Store, StubEmbedder};

use super::{dumped, empty, given, keep_going, line, load_into, loaded, note, refused, with};

/// Refuses `bad` behind a good line and before another, with the sentence.
fn check(store: &Store, bad: &str, sentence: &str) {
    let lines = [note("first"), bad.to_owned(), note("last")].join("\n");
    let error = refused(store, &lines);
    assert_eq!(error.to_string(), format!("line 2: {sentence} (nothing was loaded)"), "{bad}");
    let report = keep_going(&with(Options::new().max_item_bytes(40)), &lines);
    let numbers: Vec<_> = report.refused.iter().map(|refused| refused.line).collect();
    assert_eq!((numbers, report.frames), (vec![2], 2), "{bad}");
}

#[test]
fn what_is_no_line_is_refused() {
    let store = empty();
    let name = "each segment takes lower-case letters a to z, digits, '-' and '_', at least one";
    for (bad, sentence) in [
        ("[]", "`the line` is not a JSON object; correct it"),
        ("7", "`the line` is not a JSON object; correct it"),
        (&given(r#""color":1"#, &note("a")), "`color` is no field of a line; remove it or correct its name"),
        (&given(r#""op":"forget""#, &note("a")), "`op` stands twice in a line; leave one"),
        (
            r#"{"handle_kind":"notes","handle_id":"memory","op":"forget"}"#,
            "`args` is missing in a line; add it",
        ),
        (r#"{"handle_id":"memory","op":"forget","args":{}}"#, "`handle_kind` is missing in a line; add it"),
        (&given(r#""frame":0"#, &note("a")), "`frame` is not a whole number from 1; correct it"),
        (&given(r#""frame":1.0"#, &note("a")), "`frame` is not a whole number from 1; correct it"),
        (
            &given(r#""frame":18446744073709551616"#, &note("a")),
            "`frame` is not a whole number from 1; correct it",
        ),
        (&given(r#""base":1"#, &note("a")), "`base` is not true or false; correct it"),
        (&given(r#""base":true"#, &note("a")), "a line of a base holds a snapshot; remove `base`"),
        (&given(r#""time":5"#, &note("a")), "`time` is not a string; correct it"),
        (
            &given(r#""origin":{"who":"a"}"#, &note("a")),
            "`who` is no field of the origin; remove it or correct its name",
        ),
        (&given(r#""origin":"a""#, &note("a")), "`origin` is not a JSON object; correct it"),
        (
            &line("facts", "memory", "remember", "{}"),
            "`facts` is no kind of memory; use notes, vector, episodic or working",
        ),
        (
            &line("notes", "core/facts", "clear", "{}"),
            "the notes of a workspace are named `memory`, not `facts`; correct `handle_id`",
        ),
        (&line("notes", "../memory", "clear", "{}"), &format!("workspace \"..\" holds '.'; {name}")),
        (&line("vector", "a//b", "clear", "{}"), &format!("workspace \"a/\" has an empty segment; {name}")),
        (&line("vector", "a/B", "clear", "{}"), &format!("handle name \"B\" holds 'B'; {name}")),
        (&line("vector", "", "clear", "{}"), &format!("handle name \"\" has an empty segment; {name}")),
        (&line("vector", r"a\u0000", "clear", "{}"), &format!("handle name \"a\\0\" holds '\\0'; {name}")),
        (
            &line("notes", "memory", "clear", "{}"),
            "notes has no operation `clear`; use one of: remember, forget, snapshot, erased",
        ),
        (
            &line("working", "pad", "upsert", "{}"),
            "working has no operation `upsert`; use one of: push, clear, configure, snapshot, erased",
        ),
    ] {
        check(&store, bad, sentence);
    }
    let time = r#""time":"yesterday""#;
    check(
        &store,
        &given(time, &note("a")),
        "`yesterday` is not a time between 1970 and 9999: write it as RFC 3339, for example 2026-11-30T12:00:00Z",
    );
}

/// Kind, operation, arguments, and the sentence that refuses them.
const ARGUMENTS: &[(&str, &str, &str, &str)] = &[
    ("notes", "remember", "[]", "`args` is not a JSON object; correct it"),
    ("notes", "remember", r#"{"body":""}"#, "`key` is missing in remember; add it"),
    ("notes", "remember", r#"{"key":"a"}"#, "`body` is missing in remember; add it"),
    ("notes", "remember", r#"{"key":1,"body":""}"#, "`key` is not a string; correct it"),
    (
        "notes",
        "remember",
        r#"{"key":"","body":"","text":""}"#,
        "`text` is no field of remember; remove it or correct its name",
    ),
    ("notes", "forget", r#"{}"#, "`key` is missing in forget; add it"),
    ("vector", "upsert", r#"{"id":"a"}"#, "`text` is missing in upsert; add it"),
    (
        "vector",
        "upsert",
        r#"{"id":"a","text":"t","embedding":1}"#,
        "`embedding` is not an array of numbers; correct it",
    ),
    (
        "vector",
        "upsert",
        r#"{"id":"a","text":"t","embedding":[1,"2"]}"#,
        "`embedding` is not an array of numbers; correct it",
    ),
    (
        "vector",
        "upsert",
        r#"{"id":"a","text":"t","embedding":[1,[2],3]}"#,
        "`embedding` is not an array of numbers; correct it",
    ),
    (
        "vector",
        "upsert",
        r#"{"id":"a","text":"t","embedding":[null]}"#,
        "`embedding` is not an array of numbers; correct it",
    ),
    ("vector", "delete", r#"{"key":"a"}"#, "`id` is missing in delete; add it"),
    ("vector", "clear", r#"{"id":"a"}"#, "`id` is no field of clear; remove it or correct its name"),
    ("vector", "configure", "{}", "`embedder` is missing in configure; add it"),
    ("vector", "configure", r#"{"embedder":"x"}"#, "`embedder` is not a JSON object; correct it"),
    (
        "vector",
        "configure",
        r#"{"embedder":{"name":"x","model":"x"}}"#,
        "`dim` is missing in the embedder; add it",
    ),
    (
        "vector",
        "configure",
        r#"{"embedder":{"name":"x","model":"x","dim":0}}"#,
        "the embedder's width is 0, expected 1 to 65,536 floats",
    ),
    (
        "vector",
        "configure",
        r#"{"embedder":{"name":"x","model":"x","dim":-1}}"#,
        "`dim` is not a whole number from 1 to 65,536; correct it",
    ),
    ("episodic", "record", r#"{"key":"a"}"#, "`value` is missing in record; add it"),
    (
        "episodic",
        "record",
        r#"{"key":"a","value":1,"timestamp_ms":0.5}"#,
        "`timestamp_ms` is not a whole number of milliseconds in 64 bits; correct it",
    ),
    ("episodic", "configure", r#"{"max":-1}"#, "`max` is not a whole number, or null; correct it"),
    ("working", "push", r#"{"label":"a"}"#, "`content` is missing in push; add it"),
    (
        "working",
        "push",
        r#"{"label":"a","content":"","tokens":4294967296}"#,
        "`tokens` is not a whole number from 0 to 4,294,967,295; correct it",
    ),
    ("working", "configure", r#"{"budget":"all"}"#, "`budget` is not a whole number, or null; correct it"),
    ("working", "snapshot", r#"{"config":{}}"#, "`budget` is missing in the configuration; add it"),
    ("working", "snapshot", r#"{"config":{"budget":1},"items":{}}"#, "`items` is not an array; correct it"),
    (
        "notes",
        "snapshot",
        r#"{"config":{"max":1},"items":[]}"#,
        "`max` is no field of the configuration; remove it or correct its name",
    ),
    (
        "notes",
        "snapshot",
        r#"{"config":{},"items":[{"erased":{"class":"remove"}}]}"#,
        "notes has no operation of class `remove` to erase; correct the class",
    ),
    (
        "notes",
        "erased",
        r#"{"class":"configure"}"#,
        "notes has no operation of class `configure` to erase; correct the class",
    ),
    (
        "episodic",
        "erased",
        r#"{"class":"put","tokens":1}"#,
        "`tokens` is not 0, since only a scratchpad entry has a cost; correct it",
    ),
];

#[test]
fn wrong_arguments_are_refused() {
    let store = empty();
    for &(kind, op, args, sentence) in ARGUMENTS {
        let id = if kind == "notes" { "memory" } else { "table" };
        check(&store, &line(kind, id, op, args), sentence);
    }
}

#[test]
fn what_is_no_json_or_no_utf8_is_refused_by_line() {
    let store = empty();
    let surrogate = line("notes", "memory", "forget", r#"{"key":"\ud800"}"#);
    for bad in ["x", "{", r#"{"a":}"#, r#"{"a":1} 2"#, &surrogate, "{\"a\":\"\u{1}\"}"] {
        let error = refused(&store, &[&note("a"), bad].join("\n"));
        let LoadError::Refused(error) = error else { panic!("{bad}: {error}") };
        assert_eq!(error.line, 2, "{bad}");
        assert!(matches!(error.reason, LineReason::Json(_)), "{error}");
    }
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let bad = line("episodic", "t", "record", &format!(r#"{{"key":"k","value":{deep}}}"#));
    check(&store, &bad, "JSON nested deeper than 120 levels: flatten it");
    let mut bytes = note("a").into_bytes();
    bytes.extend_from_slice(b"\n{\"handle\xff");
    let error = load(&store, &mut bytes.as_slice(), LoadOptions::default()).expect_err("not UTF-8");
    assert_eq!(
        error.to_string(),
        "line 2: byte 9 is not UTF-8; save the input as UTF-8 (nothing was loaded)"
    );
    let options = LoadOptions { keep_going: true, ..LoadOptions::default() };
    let report = load(&empty(), &mut bytes.as_slice(), options).expect("loads the rest");
    assert_eq!((report.frames, report.refused.len(), report.refused[0].line), (1, 1, 2));
}

#[test]
fn an_oversized_value_is_the_same_error_as_in_the_library() {
    let store = with(Options::new().max_item_bytes(40));
    let value = Json::string(&"x".repeat(60));
    let turns = store.root().episodic("turns").expect("name");
    let by_library = turns.record("k", &value).expect_err("too large").to_string();
    let bad = line("episodic", "turns", "record", &format!(r#"{{"key":"k","value":{value}}}"#));
    check(&store, &bad, &by_library);
    let bad = line(
        "episodic",
        "turns",
        "snapshot",
        &format!(r#"{{"config":{{"max":null}},"items":[{{"key":"k","value":{value}}}]}}"#),
    );
    check(&store, &bad, &by_library);
    let store = empty();
    let key = "k".repeat(64 * 1024 + 1);
    let by_library = store.root().notes().remember(&key, "", "").expect_err("too large").to_string();
    let bad = line("notes", "memory", "remember", &format!(r#"{{"key":"{key}","body":""}}"#));
    assert!(refused(&store, &bad).to_string().contains(&by_library));
    let agent = "a".repeat(1100);
    let error = refused(&store, &given(&format!(r#""origin":{{"agent":"{agent}"}}"#), &note("a")));
    assert_eq!(
        error.to_string(),
        "line 1: the origin in bytes is 1105, the limit is 1024; make it smaller or split it (nothing was loaded)"
    );
    let many = given(r#""frame":1"#, &note("a")) + "\n";
    let error = refused(&store, &many.repeat(65_536));
    assert_eq!(
        error.to_string(),
        "line 65536: the number of changes in one commit is 65536, the limit is 65535; make it smaller or split it (nothing was loaded)"
    );
}

fn row(id: &str, embedding: &str) -> String {
    line("vector", "docs", "upsert", &format!(r#"{{"id":"{id}","text":"word","embedding":{embedding}}}"#))
}

const STUB: &str = r#"{"name":"stub-fnv","model":"stub-fnv","dim":2}"#;

const OTHER: &str = r#"{"name":"x","model":"y","dim":2}"#;

/// A store whose tables are two floats wide.
fn narrow() -> Store {
    with(Options::new().embedder(Arc::new(StubEmbedder::with_dim(2))))
}

fn on_docs(op: &str, args: &str) -> String {
    line("vector", "docs", op, args)
}

fn text(id: &str) -> String {
    row(id, "null")
}

fn configure(embedder: &str) -> String {
    on_docs("configure", &format!(r#"{{"embedder":{embedder}}}"#))
}

fn snapshot(config: &str, items: &str) -> String {
    on_docs("snapshot", &format!(r#"{{"config":{{"embedder":{config}}},"items":[{items}]}}"#))
}

#[test]
fn vectors_that_no_table_takes_are_refused() {
    let store = narrow();
    let width = "the table docs holds vectors of 2 floats, this one has 3; use its embedder, or a vector of that width";
    let zero = "nothing was stored: vector 0 is all zeros, which no search can find; mend what made it and try again";
    let mismatch = "the table docs was made with x (y, 2 floats), not with stub-fnv (stub-fnv, 2 floats); use that embedder, or re-embed";
    let refusals: [(Vec<String>, &str); 14] = [
        (vec![row("a", "[1,2]"), row("b", "[1,2,3]")], width),
        (vec![text("a"), row("b", "[1,2,3]")], width),
        (
            vec![row("a", "[1,2,3]"), row("b", "[1,2,3]"), on_docs("delete", r#"{"id":"a"}"#), text("c")],
            "the table docs holds vectors of 3 floats, this one has 2; use its embedder, or a vector of that width",
        ),
        (vec![configure(STUB), on_docs("clear", "{}"), row("b", "[1,2,3]")], width),
        (vec![row("a", "[1,2]"), configure(r#"{"name":"x","model":"y","dim":3}"#)], width),
        (vec![row("a", "[0,-0.0]")], zero),
        (vec![configure(OTHER), row("a", "[0,0]")], zero),
        (
            vec![row("a", "[1e39,1]")],
            "`embedding` is not an array of numbers that 32-bit floats can hold; correct it",
        ),
        (
            vec![row("a", "[]")],
            "nothing was stored: vector 0 has 0 floats, expected 1; mend what made it and try again",
        ),
        (vec![configure(OTHER), text("a")], mismatch),
        (vec![snapshot(OTHER, r#"{"id":"a","text":"t"}"#)], mismatch),
        (vec![snapshot(STUB, r#"{"id":"a","text":"t","embedding":[1,2,3]}"#)], width),
        (
            vec![snapshot(
                "null",
                r#"{"id":"a","text":"t","embedding":[1,2]},{"id":"b","text":"t","embedding":[1,2,3]}"#,
            )],
            width,
        ),
        (
            vec![snapshot("null", r#"{"id":"a","text":"t"}"#)],
            "the table docs was made with no embedder, not with stub-fnv (stub-fnv, 2 floats); use that embedder, or re-embed",
        ),
    ];
    for (lines, sentence) in refusals {
        let error = refused(&store, &lines.join("\n")).to_string();
        assert_eq!(error, format!("line {}: {sentence} (nothing was loaded)", lines.len()), "{lines:?}");
    }
}

#[test]
fn a_table_takes_what_fits_it_at_that_point() {
    for lines in [
        vec![row("a", "[1,2,3]"), on_docs("delete", r#"{"id":"a"}"#), text("c"), row("d", "[0,0]")],
        vec![row("a", "[1,2,3]"), on_docs("clear", "{}"), text("c")],
        vec![configure(OTHER), configure("null"), text("a")],
        vec![configure(OTHER), row("a", "[1,2]"), configure(STUB), text("b")],
        vec![
            snapshot(STUB, r#"{"id":"a","text":"word"},{"id":"b","text":"t","embedding":[0,0]}"#),
            text("c"),
        ],
    ] {
        let store = narrow();
        load_into(&store, &lines.join("\n"));
        assert!(!store.root().vectors("docs").expect("name").is_empty(), "{lines:?}");
    }
}

/// Fails for texts that hold a word, in one of several ways.
#[derive(Debug)]
struct Faulty(&'static str);

impl Embedder for Faulty {
    fn name(&self) -> &str {
        "faulty"
    }
    fn dim(&self) -> usize {
        2
    }
    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        match (text.contains("bad"), self.0) {
            (true, "error") => Err(EmbedError::new("no")),
            (true, "zero") => Ok(vec![0.0, 0.0]),
            (true, "nan") => Ok(vec![f32::NAN, 0.0]),
            (true, "width") => Ok(vec![1.0]),
            _ => Ok(vec![1.0, 2.0]),
        }
    }
    fn embed_batch(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let rows = texts.iter().map(|text| self.embed(text)).collect::<Result<Vec<_>, _>>()?;
        Ok(if self.0 == "count" { rows.into_iter().skip(1).collect() } else { rows })
    }
}

#[test]
fn an_embedder_that_fails_is_blamed_on_its_line() {
    let text = |id: &str, text: &str| {
        line("vector", "docs", "upsert", &format!(r#"{{"id":"{id}","text":"{text}"}}"#))
    };
    let lines = [text("a", "good"), note("n"), text("b", "bad"), text("c", "good")].join("\n");
    for fault in ["error", "zero", "nan", "width"] {
        let store = with(Options::new().embedder(Arc::new(Faulty(fault))));
        let LoadError::Refused(error) = refused(&store, &lines) else { panic!("{fault}") };
        assert!(error.line == 3 && matches!(error.reason, LineReason::Store(Error::Embedding(_))), "{error}");
        let report = keep_going(&store, &lines);
        assert_eq!((report.frames, report.embedded, report.refused.len()), (3, 2, 1), "{fault}");
        assert!(dumped(&store).lines().next().is_some_and(|line| line.contains("configure")));
    }
    let store = with(Options::new().embedder(Arc::new(Faulty("count"))));
    let LoadError::Refused(error) = refused(&store, &lines) else { panic!("count") };
    assert_eq!(error.line, 1, "nobody knows which vector is missing");
    let report = keep_going(&store, &lines);
    assert_eq!((report.frames, report.refused.len()), (1, 3));
    // The line that would have brought the embedder is gone; the next one brings it.
    let store = with(Options::new().embedder(Arc::new(Faulty("zero"))));
    keep_going(&store, &[text("b", "bad"), text("c", "good")].join("\n"));
    assert!(
        dumped(&store).lines().next().is_some_and(|line| line.contains("configure")),
        "{}",
        dumped(&store)
    );
}

#[test]
fn keeping_going_loads_whole_frames_only() {
    let framed = |frame: u64, key: &str| given(&format!(r#""frame":{frame}"#), &note(key));
    let bad = given(r#""frame":2"#, &line("notes", "memory", "remember", r#"{"key":"x"}"#));
    let lines = [
        framed(1, "a"),
        framed(2, "b"),
        bad,
        framed(2, "c"),
        framed(3, "d"),
        "garbage".into(),
        framed(3, "e"),
        framed(4, "f"),
        "garbage".into(),
        framed(5, "g"),
    ];
    let store = empty();
    let report = keep_going(&store, &lines.join("\n"));
    let numbers: Vec<_> = report.refused.iter().map(|refused| refused.line).collect();
    assert_eq!(numbers, [2, 3, 4, 5, 6, 7, 9]);
    assert_eq!(
        store.root().notes().list_memories(),
        ["a", "f", "g"].map(|k| format!("- {k}: (no summary)")).join("\n")
    );
    assert_eq!((report.frames, report.lines, report.renumbered), (3, 3, true));
    assert_eq!(
        report.refused[0].to_string(),
        "line 2: line 3 of the same frame is refused; correct that one"
    );
}

#[test]
fn a_refused_frame_leaves_nothing_that_others_are_checked_against() {
    let framed = |frame: u64, line: &str| given(&format!(r#""frame":{frame}"#), line);
    let lines = [framed(1, &row("a", "[1,2,3]")), framed(1, &row("b", "[0,0,0]")), framed(2, &text("c"))];
    let store = narrow();
    let report = keep_going(&store, &lines.join("\n"));
    assert_eq!((report.refused.len(), report.frames, report.embedded), (2, 1, 1), "{:?}", report.refused);
}

/// Input that breaks off.
struct Broken(io::Cursor<Vec<u8>>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl BufRead for Broken {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let left = self.0.fill_buf()?;
        if left.is_empty() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
    fn consume(&mut self, n: usize) {
        self.0.consume(n);
    }
}

#[test]
fn input_that_breaks_off_loads_nothing() {
    let store = empty();
    let mut input = Broken(io::Cursor::new(format!("{}\n{}", note("a"), note("b")).into_bytes()));
    let error = load(&store, &mut input, LoadOptions::default()).expect_err("breaks off");
    assert!(matches!(error, LoadError::Input(_)), "{error}");
    assert_eq!(store.appended(), Frame(0));
}

#[test]
fn a_store_that_takes_no_writes_refuses_before_the_first() {
    let disk = Arc::new(MemoryDisk::new());
    Options::new().open_on(disk.clone()).expect("opens").close().expect("closes");
    let store = Options::new().open_read_only_on(disk).expect("opens");
    let error = load(&store, &mut note("a").as_bytes(), LoadOptions::default()).expect_err("read only");
    assert!(matches!(error, LoadError::Store(Error::ReadOnly)), "{error}");
    let store = empty();
    let inside = store.root().exclusive::<_, Error>(|_| {
        Ok(load(&store, &mut note("a").as_bytes(), LoadOptions::default())
            .expect_err("would wait for itself"))
    });
    let error = inside.expect("the section itself is well");
    assert!(matches!(error, LoadError::Store(Error::InsideExclusive { .. })), "{error}");
}

#[test]
fn loading_waits_for_the_lanes_of_its_workspaces_and_for_no_other() {
    let store = with(Options::new().lane_wait(Duration::from_millis(20)));
    let inside = store.root().exclusive::<_, Error>(|_| {
        let load = |lines: String| {
            let store = store.clone();
            let load = move || load(&store, &mut lines.as_bytes(), LoadOptions::default());
            std::thread::spawn(load).join().expect("does not panic")
        };
        let elsewhere = line("notes", "core/memory", "forget", r#"{"key":"a"}"#);
        assert_eq!(load(elsewhere.clone()).expect("passes").frames, 1);
        Ok(load([note("a"), elsewhere].join("\n")).expect_err("the root is busy"))
    });
    let error = inside.expect("the section itself is well");
    assert!(matches!(error, LoadError::Store(Error::LaneBusy { .. })), "{error}");
    assert_eq!(store.appended(), Frame(1));
}

#[test]
fn a_write_that_fails_names_the_last_line_that_was_saved() {
    let disk = Arc::new(MemoryDisk::new());
    let store = Options::new().segment_bytes(16 * 1024).open_on(disk.clone()).expect("opens");
    load_into(&store, &note("a"));
    disk.set_capacity(Some(300 * 1024));
    let lines: Vec<_> = (0..1000).map(|i| note(&format!("{i}-{}", "x".repeat(900)))).collect();
    let error = load(&store, &mut lines.join("\n").as_bytes(), LoadOptions::default()).expect_err("full");
    let LoadError::Writing { last: Some((line, frame)), cause: Error::DiskFull { .. } } = &error else {
        panic!("{error}")
    };
    assert!((50..500).contains(line) && *frame == Frame(line + 1), "{error}");
    assert_eq!((store.durable(), store.appended()), (*frame, *frame));
    assert!(
        error.to_string().ends_with(&format!("loaded up to line {line}, which is frame {frame}")),
        "{error}"
    );
    let _ = loaded(&dumped(&store));
}
