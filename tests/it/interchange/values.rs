//! Values come out as they went in: digits, floats, bodies, what was left out, what was erased.

use mnemolog::{Frame, Options, Origin, Store, StubEmbedder};
use std::sync::Arc;

use super::{dumped, empty, given, line, load_into, loaded, note, with};

fn upsert(args: &str) -> String {
    line("vector", "docs", "upsert", args)
}

#[test]
fn lines_come_out_as_the_format_writes_them() {
    let text = concat!(
        r#"{"frame":1,"time":"2026-11-30T12:00:00.000000Z","origin":{"agent":"scribe","tool":"t"},"handle_kind":"notes","handle_id":"core/memory","op":"remember","args":{"key":"user/name","summary":"the user's name","body":"Ada"}}"#,
        "\n",
        r#"{"frame":2,"time":"2026-11-30T12:00:00.000001Z","handle_kind":"vector","handle_id":"core/docs","op":"upsert","args":{"id":"a","text":"…","metadata":{},"embedding":[0.10000000149011612]}}"#,
        "\n",
        r#"{"frame":3,"time":"2026-11-30T12:00:00.000002Z","handle_kind":"episodic","handle_id":"core/turns","op":"record","args":{"key":"q1","timestamp_ms":0,"value":{"n":1}}}"#,
        "\n",
        r#"{"frame":3,"time":"2026-11-30T12:00:00.000002Z","handle_kind":"working","handle_id":"core/scratch","op":"push","args":{"label":"plan","content":"outline","tokens":7}}"#,
        "\n",
        r#"{"frame":4,"time":"2026-11-30T12:00:00.000003Z","handle_kind":"vector","handle_id":"core/docs","op":"configure","args":{"embedder":{"name":"n","model":"m","dim":1}}}"#,
        "\n",
        r#"{"frame":5,"time":"2026-11-30T12:00:00.000003Z","handle_kind":"vector","handle_id":"core/docs","op":"configure","args":{"embedder":null}}"#,
        "\n",
        r#"{"frame":6,"time":"2026-11-30T12:00:00.000003Z","handle_kind":"vector","handle_id":"core/docs","op":"clear","args":{}}"#,
        "\n",
        r#"{"frame":7,"time":"2026-11-30T12:00:00.000003Z","handle_kind":"working","handle_id":"core/scratch","op":"snapshot","args":{"config":{"budget":9},"items":[{"label":"l","content":"c","tokens":6},{"erased":{"class":"put","tokens":3}}]}}"#,
        "\n",
        r#"{"frame":8,"time":"2026-11-30T12:00:00.000003Z","handle_kind":"notes","handle_id":"memory","op":"snapshot","args":{"config":{},"items":[{"key":"k","body":[1]}]}}"#,
        "\n",
        r#"{"frame":9,"time":"2026-11-30T12:00:00.000003Z","handle_kind":"episodic","handle_id":"turns","op":"erased","args":{"class":"put"}}"#,
        "\n",
        r#"{"frame":10,"time":"2026-11-30T12:00:00.000003Z","handle_kind":"episodic","handle_id":"turns","op":"configure","args":{"max":null}}"#,
        "\n",
    );
    let store = empty();
    let report = load_into(&store, text);
    assert_eq!((report.frames, report.lines, report.renumbered), (10, 11, false));
    assert_eq!((report.first, report.last), (Some(Frame(1)), Some(Frame(10))));
    assert_eq!(dumped(&store), text);
    let scratch = store.workspace("core").expect("path").working("scratch").expect("name");
    assert_eq!((scratch.entries(), scratch.current_tokens()), (vec![("l".into(), "c".into(), 6)], 9));
}

#[test]
fn numbers_and_json_keep_their_digits() {
    for value in ["1.50", "12345678901234567890", "1e400", "-0.0", "1E+2", r#"{"a":1.0,"b":[1.10,2]}"#] {
        let store = loaded(
            &[
                line("episodic", "turns", "record", &format!(r#"{{"key":"k","value":{value}}}"#)),
                line("notes", "memory", "remember", &format!(r#"{{"key":"k","body":{value}}}"#)),
                upsert(&format!(r#"{{"id":"k","text":"t","metadata":{value},"embedding":[1]}}"#)),
            ]
            .join("\n"),
        );
        let text = dumped(&store);
        for field in ["value", "body", "metadata"] {
            assert!(text.contains(&format!(r#""{field}":{value}"#)), "{field} {value}: {text}");
        }
        let episodes = store.root().episodic("turns").expect("name").recent(1).expect("reads");
        assert_eq!((episodes[0].value.as_str(), &*store.root().notes().recall("k")), (value, value));
    }
    let store =
        loaded(&line("episodic", "turns", "record", r#"{"key":"k","value":{ "b" : 1, "a": "\u0041" }}"#));
    assert!(dumped(&store).contains(r#""value":{"a":"A","b":1}"#), "canonical: {}", dumped(&store));
}

#[test]
fn every_bit_of_a_float_survives() {
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.1,
        f32::MIN_POSITIVE,
        1e-45,
        -1e-45,
        1.175_494_2e-38,
        f32::MAX,
        f32::MIN,
        16_777_217.0,
        0.333_333_34,
        f32::EPSILON,
        3.402_823_3e38,
        f32::from_bits(100),
    ];
    let bits = |floats: &[f32]| floats.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let embedding = |store: &Store| {
        let row = store.root().vectors("docs").expect("name").get("a").expect("reads").expect("is there");
        bits(&row.embedding)
    };
    let store = empty();
    let docs = store.root().vectors("docs").expect("name");
    docs.upsert_embedding("a", "t", &mnemolog::Json::object(), &floats).expect("stored");
    assert_eq!(embedding(&loaded(&dumped(&store))), bits(&floats));
    // The shortest digits of each float, as other programs print them, do as well.
    let short: Vec<_> = floats.iter().map(|x| format!("{x:e}")).collect();
    let store = loaded(&upsert(&format!(r#"{{"id":"a","text":"t","embedding":[ {} ]}}"#, short.join(" , "))));
    assert_eq!(embedding(&store), bits(&floats));
}

#[test]
fn a_number_between_two_floats_is_rounded_once() {
    // Halfway between 1 and the next float, and a little more: rounding to a double first would lose the little.
    let store = loaded(&upsert(r#"{"id":"a","text":"t","embedding":[1.00000005960464477539062500000001]}"#));
    let row = store.root().vectors("docs").expect("name").get("a").expect("reads").expect("is there");
    assert_eq!(row.embedding[0].to_bits(), 1.0_f32.to_bits() + 1);
}

#[test]
fn what_was_left_out_is_stamped_and_computed() {
    let at = r#""time":"2026-11-29T00:00:00.5Z""#;
    let store = loaded(
        &[
            line("episodic", "turns", "record", r#"{"key":"a","value":1}"#),
            line("working", "pad", "push", r#"{"label":"plan","content":"outline"}"#),
            upsert(r#"{"id":"a","text":"red fox"}"#),
            upsert(r#"{"id":"b","text":"red fox"}"#),
        ]
        .join("\n"),
    );
    let twin = empty();
    let root = twin.root();
    root.episodic("turns")
        .expect("name")
        .record("a", &mnemolog::Json::parse("1").expect("JSON"))
        .expect("recorded");
    root.working("pad").expect("name").push("plan", "outline").expect("pushed");
    root.vectors("docs").expect("name").upsert("a", "red fox", &mnemolog::Json::object()).expect("stored");
    root.vectors("docs").expect("name").upsert("b", "red fox", &mnemolog::Json::object()).expect("stored");
    assert_eq!(dumped(&store), dumped(&twin), "loading writes what the handles write");
    let store = loaded(&given(at, &line("episodic", "turns", "record", r#"{"key":"a","value":1}"#)));
    let episodes = store.root().episodic("turns").expect("name").recent(1).expect("reads");
    assert_eq!(episodes[0].timestamp_ms, 1_795_910_400_500);
    let null = r#""frame":null,"time":null,"origin":null"#;
    let args = r#"{"id":"a","text":"t","embedding":null}"#;
    assert_eq!(
        dumped(&loaded(&given(null, &upsert(args)))),
        dumped(&loaded(&upsert(r#"{"id":"a","text":"t"}"#)))
    );
}

#[test]
fn only_the_first_row_of_a_table_brings_the_embedder() {
    let rows: Vec<_> = (0..600).map(|i| upsert(&format!(r#"{{"id":"{i}","text":"word {i}"}}"#))).collect();
    let store = empty();
    let report = load_into(&store, &rows.join("\n"));
    assert_eq!((report.frames, report.embedded), (600, 600));
    assert_eq!(dumped(&store).matches(r#""op":"configure""#).count(), 1);
    assert_eq!(dumped(&store).lines().next(), dumped(&store).lines().find(|l| l.contains("configure")));
    let row = store.root().vectors("docs").expect("name").get("599").expect("reads").expect("is there");
    assert_eq!(row.embedding, mnemolog::Embedder::embed(&StubEmbedder::new(), "word 599").expect("embeds"));
    let report = load_into(&store, &upsert(r#"{"id":"x","text":"word"}"#));
    assert_eq!((report.embedded, dumped(&store).matches(r#""op":"configure""#).count()), (1, 1));
}

#[test]
fn notes_take_a_missing_summary_and_a_json_body() {
    let store = loaded(
        &[
            line("notes", "memory", "remember", r#"{"key":"a","body":{"b":[1,2.0]}}"#),
            line("notes", "memory", "remember", r#"{"key":"b","summary":null,"body":"text"}"#),
            line("notes", "memory", "remember", r#"{"key":"c","summary":"","body":null}"#),
        ]
        .join("\n"),
    );
    let notes = store.root().notes();
    assert_eq!(notes.recall("a"), r#"{"b":[1,2.0]}"#);
    assert_eq!(notes.list_memories(), "- a: (no summary)\n- b: (no summary)\n- c: (no summary)");
    assert_eq!((&*notes.recall("b"), &*notes.recall("c")), ("text", "null"));
    assert_eq!(dumped(&loaded(&dumped(&store))), dumped(&store));
}

#[test]
fn erased_entries_occupy_the_ring_and_the_budget() {
    let store = loaded(
        &[
            line("episodic", "turns", "configure", r#"{"max":2}"#),
            line("episodic", "turns", "record", r#"{"key":"a","value":1}"#),
            line("episodic", "turns", "record", r#"{"key":"b","value":1}"#),
            line("episodic", "turns", "erased", r#"{"class":"put"}"#),
            line("working", "pad", "erased", r#"{"class":"put","tokens":2000}"#),
            line("notes", "memory", "erased", r#"{"class":"remove"}"#),
            line("vector", "docs", "erased", r#"{"class":"snapshot"}"#),
        ]
        .join("\n"),
    );
    let turns = store.root().episodic("turns").expect("name").recent(9).expect("reads");
    assert_eq!(turns.iter().map(|e| &*e.key).collect::<Vec<_>>(), ["b"]);
    assert_eq!(store.root().working("pad").expect("name").current_tokens(), 2000);
    assert_eq!(dumped(&loaded(&dumped(&store))), dumped(&store));
}

#[test]
fn snapshots_restored_by_the_library_load_as_they_are() {
    let store = with(Options::new().embedder(Arc::new(StubEmbedder::with_dim(3))));
    let ws = store
        .workspace("core")
        .expect("path")
        .with_origin(Origin { agent: Some("a".into()), ..Origin::default() });
    let ws = ws.expect("an origin");
    let docs = ws.vectors("docs").expect("name");
    docs.upsert("a", "…", &mnemolog::Json::object()).expect("a text without a word has zeros");
    docs.upsert("b", "red fox", &mnemolog::Json::parse("[1]").expect("JSON")).expect("stored");
    let bytes = docs.snapshot_bytes().expect("bytes");
    docs.clear().expect("cleared");
    docs.restore_bytes(&bytes).expect("restored");
    ws.notes().remember("a", "s", "b").expect("saved");
    let bytes = ws.notes().snapshot_bytes().expect("bytes");
    ws.notes().restore_bytes(&bytes).expect("restored");
    ws.exclusive::<_, mnemolog::Error>(|tx| {
        tx.notes().remember("b", "s", "b")?;
        tx.working("pad")?.push("l", "c")
    })
    .expect("committed");
    let text = dumped(&store);
    let again = loaded(&text);
    assert_eq!((super::frames(&again), dumped(&again)), (super::frames(&store), text));
}

#[test]
fn parts_of_a_base_become_one_snapshot_of_one_frame() {
    let base = |key: &str| {
        let args = format!(r#"{{"config":{{}},"items":[{{"key":"{key}","body":""}}]}}"#);
        given(r#""frame":7,"base":true"#, &line("notes", "memory", "snapshot", &args))
    };
    let turns = r#"{"config":{"max":3},"items":[{"key":"t","value":1}]}"#;
    let turns = given(r#""frame":7,"base":true"#, &line("episodic", "turns", "snapshot", turns));
    let text = [base("a"), base("b"), turns, given(r#""frame":8"#, &note("c"))].join("\n");
    let store = with(Options::new());
    load_into(&store, &note("first"));
    let report = load_into(&store, &text);
    assert_eq!((report.frames, report.renumbered, report.last), (2, true, Some(Frame(3))));
    assert_eq!(store.root().notes().list_memories().lines().count(), 3, "it replaces what was there");
    assert_eq!(store.root().episodic("turns").expect("name").len(), 1);
    assert!(!dumped(&store).contains("base"));
}

#[test]
fn blank_lines_a_byte_order_mark_and_dos_line_ends_are_no_error() {
    let text = format!("\u{feff}{}\r\n\r\n  \n{}", note("a"), note("b"));
    let store = empty();
    assert_eq!(load_into(&store, &text).lines, 2);
    assert_eq!(load_into(&store, "").frames, 0);
    assert_eq!(load_into(&store, "\n").first, None);
}
