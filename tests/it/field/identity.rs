//! Overwriting, deleting, and every limit: what is a different note, what is gone, what is too large.

use std::sync::Arc;

use mnemolog::codec::json::JSON_DEPTH_MAX;
use mnemolog::error::Result;
use mnemolog::{
    Durability, Error, Forgotten, Frame, Json, Options, Origin, Past, Store, StubEmbedder, VectorItem,
    Workspace,
};

use super::{disk, open, refused};

/// D3: keys that look alike, or like nothing.
#[test]
fn no_note_overwrites_another() {
    let disk = disk();
    let long = "x".repeat(60_000);
    let (left, right) = (format!("{long}1"), format!("{long}2"));
    let keys = ["🚀", "🎯", "", " ", "   ", "\t", "a", "A", "a/", "/a", "a//b", "a/b", &left, &right];
    let store = open(&disk);
    for (n, key) in keys.into_iter().enumerate() {
        let notes = store.root().notes();
        notes.remember(key, &format!("note {n}"), &format!("body {n}")).expect("saved");
    }
    let check = |store: &Store| {
        assert_eq!(store.root().notes().len(), keys.len());
        for (n, key) in keys.into_iter().enumerate() {
            let note = store.root().notes().get(key).expect("readable").expect("there");
            assert_eq!((note.key.as_str(), note.body.as_str()), (key, &*format!("body {n}")));
            assert_eq!(note.summary, Some(format!("note {n}")));
        }
    };
    check(&store);
    drop(store);
    check(&open(&disk));
}

/// D5: a body of 2 MB.
#[test]
fn a_body_of_two_megabytes_comes_back_byte_for_byte() {
    let dir = tempfile::tempdir().expect("a directory");
    let piece = "line\r\nnext\n\0 tab\t 日本語 🚀 e\u{301} \u{feff}\u{2028}\u{85} \"quoted\" \\ ";
    let body = piece.repeat((2 << 20) / piece.len() + 1);
    for map in [true, false] {
        let store = Options::new().map(map).open(dir.path()).expect("opens");
        store.root().notes().remember("long", "s", &body).expect("saved");
        assert!(store.root().notes().recall("long") == body);
        drop(store);
        let store = Options::new().map(map).open(dir.path()).expect("opens");
        let notes = store.root().notes();
        assert!(notes.recall("long") == body);
        notes.remember("copy", "s", &notes.recall("long")).expect("written back");
        assert!(notes.recall("copy") == body);
    }
}

fn forgotten_everywhere(workspace: &Workspace) {
    let notes = workspace.notes();
    assert_eq!(notes.recall("secret"), "nothing is saved under secret");
    assert_eq!(notes.get("secret").expect("readable"), None);
    assert_eq!(notes.list_memories(), "- kept: s");
    assert_eq!(notes.summaries(), [("kept".to_owned(), Some("s".to_owned()))]);
    assert_eq!(notes.index_note().lines().count(), 2);
    assert_eq!(
        (notes.search("rosebud"), notes.search("secret")),
        ("(no matches)".into(), "(no matches)".into())
    );
    assert!(notes.find("Rosebud").expect("readable").is_empty());
    assert_eq!(notes.len(), 1);
    let docs = workspace.vectors("docs").expect("a name");
    assert_eq!((docs.len(), docs.get("secret").expect("readable")), (0, None));
    assert!(docs.search("rosebud", 9).expect("searched").is_empty());
    let turns = workspace.episodic("turns").expect("a name");
    assert!(turns.recent(9).expect("readable").is_empty() && turns.search_by_key("").expect("ok").is_empty());
    assert_eq!(workspace.working("pad").expect("a name").render(), "");
}

/// D8: forget, then look everywhere: in the same store, in another opening of it, and after reopening.
#[test]
fn what_was_forgotten_is_not_found_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("opens");
    let core = store.workspace("core").expect("a path");
    core.notes().remember("kept", "s", "b").expect("saved");
    core.notes().remember("secret", "a secret", "the word is Rosebud").expect("saved");
    core.vectors("docs").expect("a name").upsert("secret", "rosebud", &Json::object()).expect("stored");
    core.episodic("turns").expect("a name").record("secret", &Json::string("rosebud")).expect("recorded");
    core.working("pad").expect("a name").push("secret", "rosebud").expect("pushed");
    let known = store.appended();
    let forgot = core.notes().forget("secret").expect("forgot");
    assert_eq!(forgot, Forgotten::Forgot("forgot secret (its history stays until erased)".to_owned()));
    let again = core.notes().forget("secret").expect("absent");
    assert_eq!(again, Forgotten::WasAbsent("nothing is saved under secret".to_owned()));
    core.vectors("docs").expect("a name").delete("secret").expect("deleted");
    core.episodic("turns").expect("a name").clear().expect("cleared");
    core.working("pad").expect("a name").clear().expect("cleared");
    forgotten_everywhere(&core);
    let reader = Store::open_read_only(dir.path()).expect("another reader");
    forgotten_everywhere(&reader.workspace("core").expect("a path"));
    drop((core, store));
    let store = Store::open(dir.path()).expect("reopens");
    forgotten_everywhere(&store.workspace("core").expect("a path"));
    let past: Past = store.at(known).expect("its past is still there");
    assert_eq!(past.workspace("core").expect("a path").notes().recall("secret"), "the word is Rosebud");
}

/// D9: the same note twice.
#[test]
fn remembering_the_same_twice_keeps_it_once() {
    let disk = disk();
    let store = open(&disk);
    for _ in 0..2 {
        assert_eq!(store.root().notes().remember("k", "s", "the same").expect("saved"), "saved k");
        store
            .root()
            .vectors("docs")
            .expect("a name")
            .upsert("k", "the same", &Json::object())
            .expect("stored");
    }
    drop(store);
    let root = open(&disk).root();
    assert_eq!(
        (root.notes().list_memories(), root.notes().recall("k")),
        ("- k: s".into(), "the same".into())
    );
    assert_eq!(root.vectors("docs").expect("a name").len(), 1);
}

/// The limit and the size of something too large.
fn too_large(error: &Error) -> (&'static str, u64, u64) {
    match error {
        Error::TooLarge { what, limit, found } => (what, *limit, *found),
        other => panic!("another error: {other}"),
    }
}

const ITEM: &str = "the item in bytes";
const KEY: &str = "the key in bytes";

/// D6, E10: an item of exactly the limit, and of one byte more, by every way into the log.
#[test]
fn the_item_limit_holds_on_every_path() {
    const LIMIT: usize = 1000;
    let disk = disk();
    let store = Options::new().max_item_bytes(LIMIT as u64).open_on(disk.clone()).expect("opens");
    let free = Store::in_memory().expect("opens");
    type Write = fn(&Workspace, usize) -> Result<()>;
    let ways: [(&str, Write); 8] = [
        ("remember", |w, n| w.notes().remember("key", "sum", &"b".repeat(n - 6)).map(drop)),
        ("remember by its summary", |w, n| w.notes().remember("key", &"s".repeat(n - 6), "bod").map(drop)),
        ("remember_json", |w, n| {
            w.notes().remember_json("key", None, &Json::parse(&format!("[{}]", "1".repeat(n - 5)))?).map(drop)
        }),
        ("upsert", |w, n| w.vectors("t")?.upsert("id", &"t".repeat(n - 4 - 4 * 64), &Json::object())),
        ("upsert_batch", |w, n| {
            let item =
                |id: &str, n| VectorItem { id: id.into(), text: "t".repeat(n), metadata: Json::object() };
            w.vectors("t")?.upsert_batch(&[item("good", 1), item("id", n - 4 - 4 * 64)])
        }),
        ("upsert_embedding", |w, n| {
            let metadata = Json::string(&"m".repeat(n - 2 - 3 - 2 - 4));
            w.vectors("own")?.upsert_embedding("id", "txt", &metadata, &[1.0])
        }),
        ("record", |w, n| w.episodic("e")?.record("key", &Json::string(&"v".repeat(n - 5)))),
        ("push", |w, n| w.working("p")?.push("label", &"c".repeat(n - 5))),
    ];
    for (name, write) in ways {
        let expected = (ITEM, LIMIT as u64, LIMIT as u64 + 1);
        let plain = refused(&disk, &store, || write(&store.root(), LIMIT + 1));
        assert_eq!(too_large(&plain), expected, "{name}");
        let inside = refused(&disk, &store, || store.root().exclusive(|tx| write(tx, LIMIT + 1)));
        assert_eq!(too_large(&inside), expected, "{name} in a critical section");
        free.root().exclusive(|tx| write(tx, LIMIT + 1)).expect("another store has another limit");
        write(&store.root(), LIMIT).expect(name);
    }
    let [a, b] = [store.root(), free.root()];
    type Restore<'r> = &'r dyn Fn(&[u8]) -> Result<()>;
    let restores: [(&str, Result<Vec<u8>>, Restore<'_>); 5] = [
        ("notes", b.notes().snapshot_bytes(), &|bytes| a.notes().restore_bytes(bytes)),
        ("rows", b.vectors("t").and_then(|t| t.snapshot_bytes()), &|bytes| {
            a.vectors("t")?.restore_bytes(bytes)
        }),
        ("own", b.vectors("own").and_then(|t| t.snapshot_bytes()), &|bytes| {
            a.vectors("t")?.restore_bytes(bytes)
        }),
        ("ring", b.episodic("e").and_then(|e| e.snapshot_bytes()), &|bytes| {
            a.episodic("e")?.restore_bytes(bytes)
        }),
        ("pad", b.working("p").and_then(|p| p.snapshot_bytes()), &|bytes| {
            a.working("p")?.restore_bytes(bytes)
        }),
    ];
    for (name, bytes, restore) in restores {
        let error = refused(&disk, &store, || restore(&bytes.clone().expect("readable")));
        assert_eq!(too_large(&error), (ITEM, LIMIT as u64, LIMIT as u64 + 1), "restore_bytes of {name}");
    }
}

/// D6: the default limit of 32 MiB, for real.
#[test]
fn an_item_of_32_mib_is_whole_and_one_byte_more_is_refused() {
    let disk = disk();
    let store = open(&disk);
    let notes = store.root().notes();
    let body = "0123456789abcdef".repeat((32 << 20) / 16);
    let error = notes.remember("k", "", &body).expect_err("one byte over");
    assert_eq!(too_large(&error), (ITEM, 32 << 20, (32 << 20) + 1));
    assert_eq!((store.appended(), notes.len()), (Frame::ZERO, 0));
    notes.remember("k", "", &body[1..]).expect("exactly the limit");
    drop((store, notes));
    assert!(open(&disk).root().notes().recall("k") == body[1..], "and none of it was cut");
}

/// D6: keys, ids, episode keys and labels of 64 KiB.
#[test]
fn a_key_of_64_kib_is_whole_and_one_byte_more_is_refused() {
    let disk = disk();
    let store = open(&disk);
    type Write = fn(&Workspace, &str) -> Result<()>;
    let ways: [(&str, Write); 5] = [
        ("a note", |w, key| w.notes().remember(key, "s", "b").map(drop)),
        ("a row", |w, key| w.vectors("t")?.upsert(key, "t", &Json::object())),
        ("a row of one's own", |w, key| w.vectors("o")?.upsert_embedding(key, "t", &Json::object(), &[1.0])),
        ("an episode", |w, key| w.episodic("e")?.record(key, &Json::object())),
        ("an entry", |w, key| w.working("p")?.push(key, "c")),
    ];
    let longest = "é".repeat(32 * 1024);
    let over = format!("{longest}x");
    for (name, write) in ways {
        let plain = refused(&disk, &store, || write(&store.root(), &over));
        let inside = refused(&disk, &store, || {
            store.root().exclusive(|tx| {
                tx.notes().remember("a good one before it", "s", "b")?;
                write(tx, &over)
            })
        });
        for error in [plain, inside] {
            assert_eq!(too_large(&error), (KEY, 64 * 1024, 64 * 1024 + 1), "{name}");
        }
        write(&store.root(), &longest).expect(name);
    }
    drop(store);
    let root = open(&disk).root();
    assert_eq!(root.notes().recall(&longest), "b");
    assert!(root.vectors("t").expect("a name").get(&longest).expect("readable").is_some());
    assert_eq!(root.episodic("e").expect("a name").recent(1).expect("readable")[0].key, longest);
    assert!(matches!(root.notes().forget(&over), Ok(Forgotten::WasAbsent(_))), "none can be under it");
}

/// D6: the widest vector, the largest origin, the longest handle id, the deepest JSON.
#[test]
fn every_other_limit_is_exact_too() {
    let disk = disk();
    let store = open(&disk);
    let docs = store.root().vectors("wide").expect("a name");
    let wide = vec![0.5_f32; 65_537];
    let error = refused(&disk, &store, || docs.upsert_embedding("a", "b", &Json::object(), &wide));
    assert_eq!(too_large(&error), ("the vector in floats", 65_536, 65_537));
    let embedder = Arc::new(StubEmbedder::with_dim(65_537));
    let error =
        refused(&disk, &store, || docs.clone().with_embedder(embedder).upsert("a", "b", &Json::object()));
    assert_eq!(too_large(&error), ("the vector in floats", 65_536, 65_537), "from an embedder, too");
    docs.upsert_embedding("a", "b", &Json::object(), &wide[1..]).expect("exactly the limit");
    assert_eq!(docs.get("a").expect("readable").expect("there").embedding, wide[1..]);

    let origin = |n: usize| Origin { agent: Some("a".repeat(n)), ..Origin::default() };
    let largest =
        (1000..1024).rev().find(|n| store.root().with_origin(origin(*n)).is_ok()).expect("one fits");
    let error = store.root().with_origin(origin(largest + 1)).expect_err("one byte over");
    assert_eq!(too_large(&error), ("the origin in bytes", 1024, 1025));
    let by = store.root().with_origin(origin(largest)).expect("exactly the limit");
    by.notes().remember("k", "s", "b").expect("saved");

    let longest = "w".repeat(64 * 1024 - "/memory".len());
    let error = refused(&disk, &store, || {
        store.workspace(&format!("{longest}w"))?.notes().remember("k", "s", "b").map(drop)
    });
    assert_eq!(too_large(&error), ("the handle's name in bytes", 64 * 1024, 64 * 1024 + 1));
    store.workspace(&longest).expect("a path").notes().remember("k", "s", "b").expect("exactly the limit");
    assert!(matches!(store.workspace(&"w".repeat(64 * 1024 + 1)), Err(Error::BadName { .. })));

    let nested = |n: usize, inner: &str| format!("{}{inner}{}", "[".repeat(n), "]".repeat(n));
    for inner in ["", "1"] {
        assert!(Json::parse(&nested(JSON_DEPTH_MAX + 1, inner)).is_err(), "one level over");
        let deepest = Json::parse(&nested(JSON_DEPTH_MAX, inner)).expect("exactly the limit");
        assert_eq!(deepest.to_value().to_string(), deepest.as_str(), "and none of it is lost");
        let turns = store.root().episodic("turns").expect("a name");
        turns.record("deep", &deepest).expect("recorded");
        assert_eq!(turns.recent(1).expect("readable")[0].value, deepest);
    }
}

/// D6: the most changes that one frame holds.
#[test]
fn a_frame_holds_65_535_changes_and_not_one_more() {
    let disk = disk();
    let store = Options::new().durability(Durability::Os).open_on(disk.clone()).expect("opens");
    let one = Arc::new(StubEmbedder::with_dim(1));
    let items: Vec<_> = (0..65_535)
        .map(|n| VectorItem { id: n.to_string(), text: "t".to_owned(), metadata: Json::object() })
        .collect();
    let docs = store.root().vectors("docs").expect("a name").with_embedder(one);
    let error = refused(&disk, &store, || docs.upsert_batch(&items));
    assert_eq!(too_large(&error), ("the number of changes in one commit", 65_535, 65_536));
    docs.upsert_batch(&items[1..]).expect("the embedder's name is one change");
    assert_eq!(docs.len(), 65_534);
    docs.upsert("0", "t", &Json::object()).expect("stored");
    let whole = docs.snapshot_bytes().expect("readable");
    store
        .root()
        .exclusive::<(), Error>(|tx| {
            tx.vectors("copy")?.restore_bytes(&whole)?;
            for n in 1..65_535 {
                tx.working("pad")?.push("", &n.to_string())?;
            }
            let error = tx.working("pad")?.push("", "one more").expect_err("one over");
            assert_eq!(too_large(&error), ("the number of changes in one commit", 65_535, 65_536));
            Ok(())
        })
        .expect("a snapshot with all its items is one change");
    assert_eq!(store.root().vectors("copy").expect("a name").len(), 65_535);
    let last = store.root().working("pad").expect("a name").entries().pop().expect("an entry");
    assert_eq!((last.1.as_str(), store.appended()), ("65534", Frame(3)));
}
