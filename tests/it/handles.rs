//! What every public call of a handle refuses, by which typed error, and that nothing is written then.

use std::sync::Arc;

use mnemolog::codec::delta::{Body, Config, HandleKind, Note, Op, Record};
use mnemolog::codec::snapshot::{BadSnapshot, SnapshotWriter};
use mnemolog::disk::MemoryDisk;
use mnemolog::error::Result;
use mnemolog::interchange::{DumpOptions, LoadOptions, dump, load};
use mnemolog::view::vectors::filter::Filter;
use mnemolog::{
    EmbedError, Embedder, Error, Frame, Json, Options, Store, StubEmbedder, VectorItem, Workspace,
};

use crate::field::refused;

type Call = (&'static str, fn(&Workspace) -> Result<()>);

/// Every call that writes, in a way that has something to write in [`filled`].
const WRITES: [Call; 20] = [
    ("remember", |w| w.notes().remember("new", "s", "b").map(drop)),
    ("remember_json", |w| w.notes().remember_json("new", None, &Json::object()).map(drop)),
    ("forget", |w| w.notes().forget("note").map(drop)),
    ("notes.restore_bytes", |w| w.notes().restore_bytes(&w.notes().snapshot_bytes()?)),
    ("upsert", |w| w.vectors("docs")?.upsert("new", "t", &Json::object())),
    ("upsert_batch", |w| {
        let item = VectorItem { id: "new".to_owned(), text: "t".to_owned(), metadata: Json::object() };
        w.vectors("docs")?.upsert_batch(&[item])
    }),
    ("upsert_embedding", |w| w.vectors("docs")?.upsert_embedding("new", "t", &Json::object(), &[1.0; 64])),
    ("delete", |w| w.vectors("docs")?.delete("row")),
    ("vectors.clear", |w| w.vectors("docs")?.clear()),
    ("vectors.restore_bytes", |w| w.vectors("docs")?.restore_bytes(&w.vectors("docs")?.snapshot_bytes()?)),
    ("record", |w| w.episodic("turns")?.record("new", &Json::object())),
    ("record_at", |w| w.episodic("turns")?.record_at("new", &Json::object(), -1)),
    ("with_max", |w| w.episodic("turns")?.with_max(7).map(drop)),
    ("episodic.clear", |w| w.episodic("turns")?.clear()),
    ("episodic.restore_bytes", |w| {
        w.episodic("turns")?.restore_bytes(&w.episodic("turns")?.snapshot_bytes()?)
    }),
    ("push", |w| w.working("pad")?.push("new", "c")),
    ("with_budget", |w| w.working("pad")?.with_budget(7).map(drop)),
    ("working.clear", |w| w.working("pad")?.clear()),
    ("working.restore_bytes", |w| w.working("pad")?.restore_bytes(&w.working("pad")?.snapshot_bytes()?)),
    ("exclusive", |w| w.exclusive(|tx| tx.notes().remember("new", "s", "b").map(drop))),
];

fn filled() -> (Arc<MemoryDisk>, Store) {
    let disk = Arc::new(MemoryDisk::new());
    let store = Options::new().open_on(disk.clone()).expect("opens");
    let root = store.root();
    root.notes().remember("note", "s", "body").expect("saved");
    root.vectors("docs").expect("a name").upsert("row", "a red fox", &Json::object()).expect("stored");
    root.episodic("turns").expect("a name").record("turn", &Json::object()).expect("recorded");
    root.working("pad").expect("a name").push("label", "content").expect("pushed");
    (disk, store)
}

/// Every read answers what [`filled`] holds.
fn reads(root: &Workspace) {
    assert_eq!((root.notes().recall("note").as_str(), root.notes().len()), ("body", 1));
    let docs = root.vectors("docs").expect("a name");
    assert_eq!((docs.search("fox", 1).expect("searched").len(), docs.len()), (1, 1));
    assert_eq!(root.episodic("turns").expect("a name").recent(1).expect("readable").len(), 1);
    assert!(root.working("pad").expect("a name").render().contains("content"));
}

#[test]
fn every_write_is_refused_where_only_reads_are_allowed() {
    let (disk, store) = filled();
    let past = store.at(Frame(4)).expect("a frame");
    let reader = Options::new().open_read_only_on(disk.clone()).expect("opens for reading");
    for (name, write) in WRITES {
        for (place, root) in [("a past", past.root()), ("a read-only store", reader.root())] {
            let error = refused(&disk, &store, || write(&root));
            assert!(matches!(error, Error::ReadOnly), "{name} in {place}: {error}");
        }
    }
    for root in [past.root(), reader.root()] {
        reads(&root);
        let error = root.vectors("docs").expect("a name").flush().expect_err("nothing to flush");
        assert!(matches!(error, Error::ReadOnly));
    }
    for (name, write) in WRITES {
        let (_, store) = filled();
        write(&store.root()).expect(name);
        assert_eq!(store.appended(), Frame(5), "{name} does write where it may");
    }
}

#[test]
fn every_write_is_refused_after_closing_and_reads_go_on() {
    let (disk, store) = filled();
    store.close().expect("closes");
    store.close().expect("closing twice is closing");
    for (name, write) in WRITES {
        let error = refused(&disk, &store, || write(&store.root()));
        assert!(matches!(error, Error::Closed), "{name}: {error}");
    }
    reads(&store.root());
    reads(&store.at(Frame(4)).expect("a frame").root());
    let next = Options::new().open_on(disk).expect("the lock is free");
    reads(&next.root());
    next.root().notes().remember("new", "s", "b").expect("the next one writes");
}

#[test]
fn what_is_not_there_is_said_and_writes_nothing() {
    let (disk, store) = filled();
    let docs = store.root().vectors("docs").expect("a name");
    let error = refused(&disk, &store, || docs.delete("absent"));
    assert!(matches!(&error, Error::NotFound { id } if id == "absent"), "{error}");
    let error = refused(&disk, &store, || store.root().vectors("unused")?.delete("row"));
    assert!(matches!(&error, Error::NotFound { id } if id == "row"), "{error}");
    assert_eq!(docs.get("absent").expect("readable"), None);
    assert_eq!(store.root().vectors("unused").expect("a name").get("row").expect("readable"), None);
    let before = store.appended();
    store.root().notes().forget("absent").expect("no error");
    docs.upsert_batch(&[]).expect("an empty batch is stored");
    assert_eq!(store.appended(), before, "and neither is a frame");
    for asked in [Frame(5), Frame(u64::MAX)] {
        let error = store.at(asked).expect_err("beyond the last");
        assert!(matches!(error, Error::NoSuchFrame { last: Frame(4), asked: a } if a == asked), "{error}");
    }
}

/// An embedder of a width and a model that tests choose.
#[derive(Debug)]
struct Other(&'static str, usize);

impl Embedder for Other {
    fn name(&self) -> &str {
        "stub-fnv"
    }

    fn model(&self) -> &str {
        self.0
    }

    fn dim(&self) -> usize {
        self.1
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        StubEmbedder::with_dim(self.1).embed(text)
    }
}

#[test]
fn another_embedder_is_refused_by_name_and_the_rest_goes_on() {
    let (disk, store) = filled();
    for other in [Other("stub-fnv", 32), Other("a later model", 64)] {
        let given = format!("stub-fnv ({}, {} floats)", other.0, other.1);
        let docs = store.root().vectors("docs").expect("a name").with_embedder(Arc::new(other));
        let item = VectorItem { id: "new".to_owned(), text: "t".to_owned(), metadata: Json::object() };
        for error in [
            refused(&disk, &store, || docs.upsert("new", "t", &Json::object())),
            refused(&disk, &store, || docs.upsert_batch(std::slice::from_ref(&item))),
            refused(&disk, &store, || docs.search("fox", 1)),
            refused(&disk, &store, || docs.search_where("fox", 1, None)),
        ] {
            let Error::EmbedderMismatch { table, stored, given: g } = &error else { panic!("{error}") };
            assert_eq!((table.as_str(), stored.as_str()), ("docs", "stub-fnv (stub-fnv, 64 floats)"));
            assert_eq!(*g, given);
        }
        assert_eq!(docs.search_by_vector(&[1.0; 64], 1).expect("no embedder is needed").len(), 1);
        assert!(docs.get("row").expect("readable").is_some());
        docs.upsert_embedding("own", "t", &Json::object(), &[1.0; 64]).expect("of the right width");
        docs.delete("own").expect("deleted");
    }
    drop(store);
    let store =
        Options::new().embedder(Arc::new(Other("new", 64))).open_on(disk).expect("opens all the same");
    let docs = store.root().vectors("docs").expect("a name");
    assert!(matches!(docs.search("fox", 1), Err(Error::EmbedderMismatch { .. })));
    docs.clear().expect("cleared");
    let kept = docs.upsert("new", "t", &Json::object());
    assert!(matches!(kept, Err(Error::EmbedderMismatch { .. })), "clearing keeps the identity");
}

fn snapshots(root: &Workspace) -> Result<[Vec<u8>; 4]> {
    Ok([
        root.notes().snapshot_bytes()?,
        root.vectors("docs")?.snapshot_bytes()?,
        root.episodic("turns")?.snapshot_bytes()?,
        root.working("pad")?.snapshot_bytes()?,
    ])
}

fn restore(root: &Workspace, kind: HandleKind, bytes: &[u8]) -> Result<()> {
    match kind {
        HandleKind::Notes => root.notes().restore_bytes(bytes),
        HandleKind::Vector => root.vectors("docs")?.restore_bytes(bytes),
        HandleKind::Episodic => root.episodic("turns")?.restore_bytes(bytes),
        HandleKind::Working => root.working("pad")?.restore_bytes(bytes),
    }
}

#[test]
fn a_snapshot_that_does_not_serve_changes_nothing() {
    let (disk, store) = filled();
    let all = snapshots(&store.root()).expect("readable");
    for (kind, bytes) in HandleKind::ALL.into_iter().zip(&all) {
        let bad = |bytes: &[u8]| match refused(&disk, &store, || restore(&store.root(), kind, bytes)) {
            Error::Snapshot(bad) => bad,
            other => panic!("another error: {other}"),
        };
        for (found, other) in HandleKind::ALL.into_iter().zip(&all).filter(|(found, _)| *found != kind) {
            assert_eq!(*bad(other), BadSnapshot::Kind { expected: kind, found });
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let found = bad(&flipped);
            assert!(matches!(&*found, BadSnapshot::Malformed(_)), "byte {at} flipped: {found:?}");
        }
        for len in 0..bytes.len() {
            assert!(matches!(&*bad(&bytes[..len]), BadSnapshot::Malformed(_)), "cut to {len} bytes");
        }
        assert!(matches!(&*bad(&[&bytes[..], &[0; 8]].concat()), BadSnapshot::Malformed(_)));
        assert!(matches!(&*bad(b"{\"notes\": []}"), BadSnapshot::Malformed(_)), "another program's file");
        assert_eq!(*bad(&of_version(bytes, 2)), BadSnapshot::Newer { version: 2 });
        restore(&store.root(), kind, &of_version(bytes, 1)).expect("unchanged, it serves");
    }
    assert_eq!(snapshots(&store.root()).expect("readable"), all);
}

/// The snapshot as a program of that format version would have headed it, checksum included.
fn of_version(bytes: &[u8], version: u32) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out[8..12].copy_from_slice(&version.to_le_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&out[..12]);
    crc.update(&out[16..]);
    out[12..16].copy_from_slice(&crc.finalize().to_le_bytes());
    out
}

/// A snapshot that the codec builds and no handle would.
fn built(head: &Op<'_>, item: &Op<'_>) -> Vec<u8> {
    let mut writer = SnapshotWriter::new(head).expect("encodes");
    writer.item(item).expect("encodes");
    writer.finish()
}

#[test]
fn a_snapshot_whose_content_no_log_may_hold_is_refused() {
    let (disk, store) = filled();
    let head = |config, continues| Op::Snapshot { config, items: 1, continues };
    let record = |value| Op::Record(Record { key: "k", value, timestamp_ms: 0 });
    let note = |body| Op::Remember(Note { key: "k", summary: None, body });
    for (config, continues, item) in [
        (Config::Episodic(None), false, record("{\"a\": 1}")),
        (Config::Episodic(None), false, record("{\"a\":")),
        (Config::Episodic(None), true, record("1")),
        (Config::Notes, false, note(Body::Json("\"a string\""))),
        (Config::Notes, false, note(Body::Json("{\"b\":1,\"a\":2}"))),
        (Config::Notes, true, note(Body::Text("text"))),
    ] {
        let (kind, bytes) = (config.kind(), built(&head(config, continues), &item));
        let error = refused(&disk, &store, || restore(&store.root(), kind, &bytes));
        assert!(
            matches!(&error, Error::Snapshot(bad) if matches!(**bad, BadSnapshot::Malformed(_))),
            "{error}"
        );
    }
    let fine = built(&head(Config::Notes, false), &note(Body::Json("{\"a\":2}")));
    restore(&store.root(), HandleKind::Notes, &fine).expect("canonical");
    assert_eq!(store.root().notes().recall("k"), "{\"a\":2}");
}

#[test]
fn a_json_string_as_a_body_is_the_text_that_it_holds() {
    let disk = Arc::new(MemoryDisk::new());
    let store = Options::new().open_on(disk.clone()).expect("opens");
    let notes = store.root().notes();
    let text = "two\nlines, \"quoted\" 🚀";
    notes.remember_json("string", Some("s"), &Json::string(text)).expect("saved");
    notes.remember_json("object", None, &Json::parse("{\"b\": 1.50}").expect("JSON")).expect("saved");
    assert_eq!([notes.recall("string"), notes.recall("object")], [text, "{\"b\":1.50}"]);
    let (mut lines, again) = (Vec::new(), Store::in_memory().expect("opens"));
    dump(&store, &mut lines, DumpOptions::default()).expect("dumps");
    load(&again, &mut lines.as_slice(), LoadOptions::default()).expect("loads");
    assert_eq!(again.digest().expect("readable"), store.digest().expect("readable"));
    store.close().expect("closes");
    let report = mnemolog::log::verify(&*disk).expect("readable");
    assert!(report.findings.is_empty(), "what is written is no damage: {:?}", report.findings);
}

#[test]
fn senseless_parameters_are_refused() {
    let (disk, store) = filled();
    let root = store.root();
    let invalid = |error: Error| assert!(matches!(error, Error::Invalid { .. }), "{error}");
    invalid(refused(&disk, &store, || root.episodic("turns")?.with_max(0)));
    for filter in ["1", "[]", "null", "\"a\""] {
        invalid(Filter::parse(&Json::parse(filter).expect("JSON")).expect_err(filter));
    }
    let docs = root.vectors("docs").expect("a name");
    invalid(refused(&disk, &store, || docs.search_by_vector(&[f32::NAN; 64], 1)));
    let dimension = refused(&disk, &store, || docs.search_by_vector(&[1.0; 3], 1));
    assert!(matches!(dimension, Error::Dimension { expected: 64, found: 3, .. }), "{dimension}");
    let dimension = refused(&disk, &store, || docs.upsert_embedding("a", "b", &Json::object(), &[1.0]));
    assert!(matches!(dimension, Error::Dimension { expected: 64, found: 1, .. }), "{dimension}");
    for name in ["", "a/b", "Docs", "..", "memory "] {
        for error in [
            root.vectors(name).expect_err(name),
            root.episodic(name).expect_err(name),
            root.working(name).expect_err(name),
        ] {
            assert!(matches!(error, Error::BadName { .. }), "{error}");
        }
    }
    let pad = root.working("pad").expect("a name").with_budget(0).expect("zero counts as one");
    assert_eq!(pad.budget(), 1);
    let before = store.appended();
    root.working("pad").expect("a name").with_budget(1).expect("it is that already");
    root.episodic("turns").expect("a name").with_max(3).expect("configured");
    root.episodic("turns").expect("a name").with_max(3).expect("it is that already");
    assert_eq!(store.appended(), before.next().expect("a number"), "what changes nothing is no frame");
    assert_eq!(docs.search("fox", 0).expect("searched").len(), 0);
    assert_eq!(docs.search("fox", usize::MAX).expect("searched").len(), 1);
}

#[test]
fn a_table_is_restored_only_from_rows_that_fit_together() {
    let (disk, store) = filled();
    let docs = store.root().vectors("docs").expect("a name");
    let other = Store::in_memory().expect("opens");
    let own = other.root().vectors("own").expect("a name");
    own.upsert_embedding("a", "b", &Json::object(), &[1.0, 2.0]).expect("stored");
    docs.restore_bytes(&own.snapshot_bytes().expect("readable")).expect("a table of another width");
    assert_eq!((docs.len(), docs.identity()), (1, None), "is that table afterwards");
    assert_eq!(docs.search_by_vector(&[1.0, 2.0], 1).expect("searched")[0].id, "a");
    let dimension = refused(&disk, &store, || docs.search("fox", 1));
    assert!(matches!(dimension, Error::Dimension { expected: 2, found: 64, .. }), "{dimension}");
}
