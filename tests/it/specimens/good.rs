//! The specimens that a reader must read to the end, and the one bit of each that must not be flipped.

use mnemolog::codec::delta::{Body, Class, Config, HandleKind, Identity, Note, Op, Push, Record, Upsert};
use mnemolog::codec::intent::{Drop, Intent, Move};
use mnemolog::position::{Frame, SegmentId};

use super::Specimen;
use super::build::{Log, Payload, STORE, Store, salt};

const NOTES: &str = "core/memory";
const DOCS: &str = "core/docs";
const TURNS: &str = "core/turns";
const SCRATCH: &str = "scratch";
pub(super) const FIRST: &str = "log/00000000000000000001.seg";

pub(super) fn all() -> Vec<Specimen> {
    vec![
        good("whole", whole(), (FIRST, 4096 + 48 + 100)),
        good("empty", with_tail(Log::first().store(), 64), (FIRST, 4096 + 20)),
        good("zero-tail", zero_tail(), (FIRST, 4096 + 60)),
        good("sealed-end", two_commits().seal(0xabc, 0).store(), (FIRST, 4096 + 8)),
        good("closed-and-reopened", closed_and_reopened(), (FIRST, 4096 + 44)),
        good("erased", erased().promise(3), (FIRST, 4096 + 48 + 8 + 2)),
        good("erased-handle", erased_handle(), (FIRST, 4096 + 48 + 40 + 3)),
        good("base", base(), ("log/00000000000000000008.2.base", 4096 + 33)),
        good("lost", lost(), (FIRST, 4096 + 48)),
        good("first-header-bad", first_header_bad(), (FIRST, 2048 + 40)),
        good("durable-torn", durable_torn(), ("DURABLE", 12)),
        good("durable-of-another-store", durable_of_another_store(), (FIRST, 4096 + 70)),
        good("intent", intent(), ("INTENT", 60)),
    ]
}

/// A good specimen, and as its twin the same store with one bit flipped.
fn good(name: &'static str, store: Store, (path, offset): (&str, usize)) -> Specimen {
    let mut twin = store.clone();
    twin.file(path)[offset] ^= 1;
    Specimen { name, store, twin, verdict: ("clean", None), what: None }
}

/// A log of one segment, and where its last frame stands.
pub(super) struct Ending {
    pub(super) store: Store,
    pub(super) path: &'static str,
    pub(super) last: usize,
    pub(super) end: usize,
    pub(super) salt: u64,
}

/// Logs whose last frame holds each kind of thing that a frame can hold.
pub(super) fn logs() -> Vec<Ending> {
    let ending = |add: fn(Log) -> Log| {
        let log = two_commits();
        let last = log.end();
        let log = add(log);
        Ending { store: log.store(), path: FIRST, last, end: log.end(), salt: salt(0) }
    };
    vec![
        ending(|log| log.commit(notes)),
        ending(|log| log.commit(vectors)),
        ending(|log| log.commit(episodes)),
        ending(|log| log.commit(entries)),
        ending(|log| log.commit(snapshots)),
        ending(|log| log.commit(erased_snapshots)),
        ending(|log| log.lost(3, 9)),
        ending(|log| log.seal(0x5ea1, 0)),
        ending(Log::close),
    ]
}

pub(super) fn note<'a>(key: &'a str, body: &'a str) -> Op<'a> {
    Op::Remember(Note { key, summary: Some("a summary"), body: Body::Text(body) })
}

fn upsert<'a>(id: &'a str, metadata: &'a str, embedding: &'a [f32]) -> Op<'a> {
    Op::Upsert(Upsert { id, text: "what was embedded", metadata, embedding: embedding.into() })
}

pub(super) fn record<'a>(key: &'a str, value: &'a str, timestamp_ms: i64) -> Op<'a> {
    Op::Record(Record { key, value, timestamp_ms })
}

fn push<'a>(label: &'a str, content: &'a str, tokens: u32) -> Op<'a> {
    Op::Push(Push { label, content, tokens })
}

fn identity(dim: u32) -> Config<'static> {
    Config::Vector(Some(Identity { name: "stub-fnv".into(), model: "stub-fnv".into(), dim }))
}

pub(super) fn with_tail(mut store: Store, zeros: usize) -> Store {
    let last = store.0.iter_mut().rfind(|(path, _)| path.starts_with("log/")).unwrap().1;
    last.resize(last.len() + zeros, 0);
    store
}

pub(super) fn two_commits() -> Log {
    Log::first()
        .commit(|p| p.op(NOTES, &note("user/name", "Ada")))
        .commit(|p| p.op(TURNS, &record("q1", r#"{"n":1}"#, 5)))
}

/// Every operation of every kind, in two segments.
fn whole() -> Store {
    let log = Log::first()
        .commit(|p| p.op(NOTES, &note("user/name", "Ada")))
        .commit(notes)
        .commit(vectors)
        .close()
        .commit(episodes)
        .commit(entries);
    let log = log.seal(0x5ea1, 0).begin(SegmentId::Segment { first: Frame(6) }, 0x5ea1);
    let log = log.commit(snapshots).commit(|p| {
        p.op(NOTES, &Op::Forget { key: "user/name" });
        p.op("memory", &note("user/name", "of the root workspace"));
        p.op("memory", &Op::Forget { key: "user/name" });
    });
    with_tail(log.close().store(), 128).promise(7)
}

fn notes(p: &mut Payload<'_>) {
    p.origin("scribe", Some("session-1"), Some("remember"));
    p.op(NOTES, &note("user/name", "Ada Lovelace, née Byron 🚀 \u{0} \"quoted\"\n\u{2028}"));
    p.op(NOTES, &Op::Remember(Note { key: "", summary: None, body: Body::Text("") }));
    let json = r#"{"a":[1.50,12345678901234567890.123456789,-0.0,1e400,null,true],"b":{"é":"\u0001\""},"embedding":[]}"#;
    p.op(NOTES, &Op::Remember(Note { key: "json", summary: Some(""), body: Body::Json(json) }));
    p.op(
        NOTES,
        &Op::Remember(Note {
            key: "json",
            summary: None,
            body: Body::Json("123456789012345678901234567890"),
        }),
    );
    let long = "0123456789abcdef".repeat(90);
    p.op(NOTES, &note("long/body", &long));
    p.op(NOTES, &Op::Forget { key: "absent" });
}

fn vectors(p: &mut Payload<'_>) {
    p.origin("scribe", None, None);
    p.op(DOCS, &Op::Configure(identity(4)));
    p.op(DOCS, &upsert("a", r#"{"kind":"x","n":1.0}"#, &[0.1, -0.0, 1.0, f32::MIN_POSITIVE]));
    p.op(DOCS, &upsert("b", "{}", &[f32::from_bits(1), f32::MAX, -f32::EPSILON, 16_777_216.0]));
    p.op(DOCS, &upsert("b", "null", &[0.3, 1e10, 1e-5, 123_456.79]));
    p.op(DOCS, &Op::Delete { id: "a" });
    p.op(DOCS, &Op::Clear(HandleKind::Vector));
    p.op(DOCS, &upsert("none", "[]", &[]));
    p.op(DOCS, &Op::Configure(Config::Vector(None)));
}

fn episodes(p: &mut Payload<'_>) {
    p.op(TURNS, &Op::Configure(Config::Episodic(Some(u64::MAX))));
    for (key, value, timestamp_ms) in
        [("q1", r#"{"n":1}"#, 0), ("q1", "\"text\"", -1), ("", "false", i64::MIN), ("q/2", "[]", i64::MAX)]
    {
        p.op(TURNS, &record(key, value, timestamp_ms));
    }
    p.evicting(TURNS, &record("q3", "3", 3), &[(2, 0)]);
    p.evicting(TURNS, &record("q4", "4", 4), &[(4, 1), (4, 300)]);
    p.op(TURNS, &Op::Clear(HandleKind::Episodic));
    p.op(TURNS, &Op::Configure(Config::Episodic(None)));
}

fn entries(p: &mut Payload<'_>) {
    p.op(SCRATCH, &Op::Configure(Config::Working(Some(2048))));
    p.op(SCRATCH, &push("plan", "outline the introduction", 12));
    p.op(SCRATCH, &push("", "", u32::MAX));
    p.op(SCRATCH, &push("free", "costs nothing", 0));
    p.evicting(SCRATCH, &push("dear", "costs what two others did", 20), &[(5, 1), (5, 2)]);
    p.op(SCRATCH, &Op::Clear(HandleKind::Working));
    p.op(SCRATCH, &Op::Configure(Config::Working(None)));
}

fn snapshots(p: &mut Payload<'_>) {
    p.origin("scribe", None, Some("restore"));
    p.snapshot(NOTES, Config::Notes, false, &[note("a", "one"), note("b", "two")]);
    p.op(NOTES, &note("c", "between two snapshots"));
    p.snapshot(DOCS, identity(2), false, &[upsert("a", "{}", &[0.5, 0.25])]);
    p.snapshot(TURNS, Config::Episodic(Some(3)), false, &[record("q1", "1", 1), record("q1", "2", 2)]);
    p.snapshot(SCRATCH, Config::Working(Some(64)), false, &[push("plan", "go on", 9)]);
    p.snapshot("core/empty", Config::Vector(None), false, &[]);
}

fn zero_tail() -> Store {
    let mut store = with_tail(two_commits().store(), 8192).promise(2);
    store.0.insert("log/00000000deadbeef.1.tmp".into(), b"built by someone who died".to_vec());
    store.0.insert("checkpoints/anything".into(), b"a cache".to_vec());
    store
}

fn closed_and_reopened() -> Store {
    let mut log = two_commits().close();
    log.writer = 0x88;
    log.commit(|p| p.op(NOTES, &note("b", "again"))).close().store().promise(3)
}

fn blanked(p: &mut Payload<'_>, id: &str, op: Op<'_>) {
    p.op(id, &op);
    p.blank();
}

fn erased() -> Store {
    let log = Log::first().commit(|p| {
        blanked(p, NOTES, note("gone", "what must not be read again"));
        p.op(NOTES, &note("kept", "beside it"));
        blanked(p, NOTES, Op::Forget { key: "gone" });
    });
    let log = log.commit(|p| {
        blanked(p, DOCS, upsert("gone", "{}", &[0.5, 0.25]));
        blanked(p, TURNS, record("gone", "1", 1));
        blanked(p, SCRATCH, push("gone", "secret", 7));
        blanked(p, SCRATCH, push("gone", "and free", 0));
        p.op(NOTES, &Op::Erased { kind: HandleKind::Notes, class: Class::Put, tokens: 0 });
    });
    log.commit(erased_snapshots).store()
}

/// Handles that were erased with their names, and origins.
fn erased_handle() -> Store {
    let log = Log::first().commit(|p| {
        p.origin("agent", Some("a secret"), None);
        p.blank();
        p.op(NOTES, &note("kept", "its origin was erased"));
        p.op(TURNS, &record("gone", "1", 1));
        p.blank_handle();
    });
    let log = log.commit(|p| {
        p.origin("agent", None, None);
        p.op(SCRATCH, &push("gone", "secret", 7));
        p.blank_handle();
        p.op(DOCS, &Op::Snapshot { config: Config::Vector(None), items: 2, continues: false });
        p.blank_handle();
        for id in ["a", "b"] {
            p.item(DOCS, &upsert(id, "{}", &[0.5]));
            p.blank_handle();
        }
        p.op(NOTES, &note("also kept", "behind a snapshot that is gone"));
    });
    log.store().promise(2)
}

fn erased_snapshots(p: &mut Payload<'_>) {
    p.op(SCRATCH, &Op::Snapshot { config: Config::Working(None), items: 2, continues: false });
    p.item(SCRATCH, &push("gone", "secret", 7));
    p.blank();
    p.item(SCRATCH, &push("kept", "not secret", 3));
    // A whole handle: the head too, and with it the number of its items.
    blanked(p, NOTES, Op::Snapshot { config: Config::Notes, items: 2, continues: false });
    for key in ["a", "b"] {
        p.item(NOTES, &note(key, "gone"));
        p.blank();
    }
}

/// The state before frame 8 in two parts, then the segment that was cut there.
fn base() -> Store {
    let first = Frame(8);
    let log = Log::new(7).begin(SegmentId::Base { first, part: 1 }, 0);
    let log = log.base(|p| {
        p.snapshot(NOTES, Config::Notes, false, &[note("a", "one")]);
        p.snapshot(DOCS, identity(2), false, &[upsert("a", "{}", &[1.0, 0.0])]);
    });
    let log = log.base(|p| p.snapshot(NOTES, Config::Notes, true, &[note("b", "two")]));
    let log = log.seal(0xba5e, 0).begin(SegmentId::Base { first, part: 2 }, 0xba5e);
    let log = log.base(|p| {
        p.snapshot(NOTES, Config::Notes, true, &[note("c", "three")]);
        p.snapshot(SCRATCH, Config::Working(Some(8)), false, &[]);
        p.item_of_erased_entry();
    });
    let log = log.seal(0xc07, 0).begin(SegmentId::Segment { first }, 0xc07);
    log.commit(|p| p.op(NOTES, &Op::Forget { key: "a" })).store().promise(8)
}

impl Payload<'_> {
    /// A scratchpad whose one entry was erased before the base was made: its cost stays.
    fn item_of_erased_entry(&mut self) {
        let erased = Op::Erased { kind: HandleKind::Working, class: Class::Put, tokens: 5 };
        self.snapshot("core/scratch", Config::Working(None), false, &[erased]);
    }
}

fn lost() -> Store {
    let log = two_commits().lost(3, 5).commit(|p| p.op(NOTES, &note("after", "the gap")));
    let log = log.lost(7, 7).seal(0x105, 0).begin(SegmentId::Segment { first: Frame(8) }, 0x105);
    log.commit(|p| p.op(NOTES, &note("later", "in the next segment"))).store().promise(8)
}

fn first_header_bad() -> Store {
    let mut store = two_commits().store();
    store.file(FIRST)[..512].fill(0xff);
    store
}

/// A promise whose checksum is wrong promises nothing; with the bit put right it would be damage.
fn durable_torn() -> Store {
    let mut store = two_commits().store().promise(9);
    store.file("DURABLE")[12] ^= 1;
    store
}

fn durable_of_another_store() -> Store {
    use mnemolog::codec::segment::{Durable, StoreId};
    let mut store = two_commits().store();
    let durable =
        Durable { store: StoreId([9; 16]), frame: Frame(9), segment: Frame(1), offset: 4096, copied: false };
    store.0.insert("DURABLE".into(), durable.encode().into());
    store
}

/// A compaction that was stated and half done: one new file has its name, the other waits, the old one is still there.
fn intent() -> Store {
    let first = Frame(3);
    let kept = Log::new(2).begin(SegmentId::Base { first, part: 1 }, 0).base(|p| {
        p.snapshot(NOTES, Config::Notes, false, &[note("user/name", "Ada")]);
    });
    let new = kept.seal(0x17e7, 0).begin(SegmentId::Segment { first }, 0x17e7);
    let mut store = new.commit(|p| p.op(NOTES, &note("b", "after"))).store();
    let base = store.0.remove("log/00000000000000000003.1.base").unwrap();
    store.0.insert("log/00000000000000c4.2.tmp".into(), base);
    store.0.extend(two_commits().commit(|p| p.op(NOTES, &note("b", "after"))).store().0);
    let moved = |k: u32, target: &str, salt| Move {
        temporary: format!("00000000000000c4.{k}.tmp"),
        target: target.into(),
        salt,
    };
    let intent = Intent {
        store: STORE,
        id: 0xc4,
        moves: vec![
            moved(1, "00000000000000000003.seg", salt(1)),
            moved(2, "00000000000000000003.1.base", salt(0)),
        ],
        drops: vec![
            Drop { directory: "log".into(), name: "00000000000000000001.seg".into() },
            Drop { directory: "checkpoints".into(), name: "2.checkpoint".into() },
        ],
    };
    store.0.insert("INTENT".into(), intent.encode().unwrap());
    store.promise(3)
}
