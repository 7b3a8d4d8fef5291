//! Many threads on one store: nothing is lost, every read is one moment, lanes keep their word.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mnemolog::codec::delta::HandleKind;
use mnemolog::{Error, Frame, Json, Options, Result, Store, Workspace, Writers};
use xxhash_rust::xxh3::xxh3_128;

const WORKSPACES: [&str; 2] = ["core", "core/worker"];
const WRITERS: usize = 10;
const ROUNDS: usize = 8;

fn workspace(store: &Store, path: &str) -> Workspace {
    store.workspace(path).expect("a valid path")
}

/// Writes to all four kinds, then a note and an episode as one frame.
fn write(at: &Workspace, writer: usize) -> Result<()> {
    for round in 0..ROUNDS {
        let key = format!("{writer}/{round}");
        at.notes().remember(&key, "s", &format!("body of {key}"))?;
        at.vectors("docs")?.upsert(&key, &format!("words {writer} {round}"), &Json::object())?;
        at.episodic("turns")?.record(&key, &Json::string(&key))?;
        at.working("pad")?.push(&key, "x")?;
        at.exclusive::<_, Error>(|tx| {
            tx.notes().remember(&format!("both/{key}"), "s", "b")?;
            tx.episodic("turns")?.record(&format!("both/{key}"), &Json::object())
        })?;
    }
    Ok(())
}

/// What one reader saw, in order: the last frame it knew of, the whole store's digest, and one handle's.
#[derive(Debug, Default)]
struct Seen {
    whole: Vec<(Frame, u128)>,
    handles: Vec<((HandleKind, String), u128)>,
}

fn snapshot(at: &Workspace, kind: HandleKind) -> Result<Vec<u8>> {
    match kind {
        HandleKind::Notes => at.notes().snapshot_bytes(),
        HandleKind::Vector => at.vectors("docs")?.snapshot_bytes(),
        HandleKind::Episodic => at.episodic("turns")?.snapshot_bytes(),
        HandleKind::Working => at.working("pad")?.snapshot_bytes(),
    }
}

fn read(store: &Store, over: &AtomicBool) -> Result<Seen> {
    let mut seen = Seen::default();
    let names = ["memory", "docs", "turns", "pad"];
    for n in 0.. {
        let last = over.load(Ordering::Acquire);
        let durable = store.durable();
        seen.whole.push((durable, store.digest()?));
        let (path, nth) = (WORKSPACES[n % 2], n / 2 % 4);
        let kind = HandleKind::ALL[nth];
        let bytes = snapshot(&workspace(store, path), kind)?;
        seen.handles.push(((kind, format!("{path}/{}", names[nth])), xxh3_128(&bytes)));
        let appended = store.appended();
        assert_eq!(store.at(appended)?.frame(), appended, "what was appended can be looked up");
        if last {
            break;
        }
    }
    Ok(seen)
}

/// Holds what a reader saw against every state that there was.
fn check(store: &Store, seen: &[Seen]) {
    let mut frames = HashMap::new();
    let mut handles: BTreeMap<(HandleKind, String), Vec<u128>> = BTreeMap::new();
    for n in 0..=store.appended().0 {
        let (whole, each) = store.at(Frame(n)).expect("a frame").digests().expect("readable");
        assert_eq!(frames.insert(whole, Frame(n)), None, "every frame changes the state");
        for digest in each {
            let id = (digest.handle.kind, digest.handle.id.to_string());
            handles.entry(id).or_default().push(digest.digest);
        }
    }
    let unused = Store::in_memory().expect("opens");
    for seen in seen {
        let mut before = Frame::ZERO;
        for (durable, digest) in &seen.whole {
            let frame = *frames.get(digest).expect("a state that existed at some frame");
            assert!(frame >= before, "a reader never goes back");
            assert!(frame >= *durable, "what is durable is seen: {frame} is before {durable}");
            before = frame;
        }
        for ((kind, id), digest) in &seen.handles {
            let empty = xxh3_128(&snapshot(&unused.root(), *kind).expect("readable"));
            let existed = handles.get(&(*kind, id.clone())).is_some_and(|all| all.contains(digest));
            assert!(existed || *digest == empty, "a state of {id} that never existed");
        }
        assert_eq!(before, store.appended(), "the last look saw everything");
    }
}

#[test]
fn ten_writers_lose_nothing_and_three_readers_see_only_what_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Options::new().segment_bytes(16 * 1024).open(dir.path()).expect("opens");
    let over = AtomicBool::new(false);
    let seen: Vec<Seen> = thread::scope(|scope| {
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(|| read(&store, &over))).collect();
        let writers: Vec<_> = (0..WRITERS)
            .map(|n| (n, workspace(&store, WORKSPACES[n % 2])))
            .map(|(n, at)| scope.spawn(move || write(&at, n)))
            .collect();
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        over.store(true, Ordering::Release);
        assert!(written.into_iter().all(|done| done.is_ok_and(|done| done.is_ok())));
        readers.into_iter().map(|reader| reader.join().expect("no panic").expect("readable")).collect()
    });
    assert_eq!(store.appended(), Frame((WRITERS * ROUNDS * 5) as u64), "one frame a write");
    assert_eq!(store.durable(), store.appended());
    assert!(store.log_size().segments > 2, "readers read across rotations");
    check(&store, &seen);
    let digest = store.digest().expect("readable");
    drop(store);
    let store = Store::open(dir.path()).expect("reopens");
    assert_eq!(store.digest().expect("readable"), digest);
    for n in 0..WRITERS {
        let at = workspace(&store, WORKSPACES[n % 2]);
        let turns = at.episodic("turns").expect("a name").search_by_key(&format!("{n}/")).expect("readable");
        let keys: Vec<_> = turns.into_iter().map(|episode| episode.key).collect();
        let expected: Vec<_> = (0..ROUNDS).map(|round| format!("{n}/{round}")).collect();
        assert_eq!(keys, expected, "each writer's episodes, in its order");
        for key in expected {
            assert_eq!(at.notes().recall(&key), format!("body of {key}"));
            assert_eq!(at.notes().recall(&format!("both/{key}")), "b");
            assert!(at.vectors("docs").expect("a name").get(&key).expect("readable").is_some());
            assert!(at.working("pad").expect("a name").entries().iter().any(|(label, ..)| *label == key));
        }
    }
}

#[test]
fn reading_modifying_and_writing_is_atomic_in_a_critical_section() {
    let store = Store::in_memory().expect("opens");
    thread::scope(|scope| {
        for n in 0..8 {
            let at = workspace(&store, "core");
            scope.spawn(move || {
                for round in 0..50 {
                    at.exclusive::<(), Error>(|tx| {
                        let count: u64 = tx.notes().recall("count").parse().unwrap_or(0);
                        tx.notes().remember("count", "", &(count + 1).to_string()).map(drop)
                    })
                    .expect("counted");
                    at.notes().remember(&format!("noise/{n}"), "", &round.to_string()).expect("saved");
                }
            });
        }
    });
    assert_eq!(workspace(&store, "core").notes().recall("count"), "400");
    assert_eq!(store.appended(), Frame(800));
}

/// A store whose lane `core` another thread holds until the answer is dropped.
fn held(store: &Store) -> (mpsc::Sender<()>, thread::JoinHandle<Result<()>>) {
    let (inside, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let core = workspace(store, "core");
    let holder = thread::spawn(move || {
        core.exclusive(|tx| {
            tx.notes().remember("long", "", "section")?;
            inside.send(()).expect("the test waits");
            // An error, too, says that the test let go.
            let _ = left.recv();
            Ok(())
        })
    });
    entered.recv().expect("the section began");
    (leave, holder)
}

#[test]
fn a_deadline_bounds_what_a_write_waits_for_its_lane_and_for_another_process() {
    let (began, soon) = (Instant::now(), || Instant::now() + Duration::from_millis(50));
    let store = Store::in_memory().expect("opens");
    let (leave, holder) = held(&store);
    let core = workspace(&store, "core");
    let busy = |error: Option<Error>| assert!(matches!(error, Some(Error::LaneBusy { .. })), "{error:?}");
    busy(core.with_deadline(soon()).notes().remember("k", "", "b").err());
    busy(core.with_deadline(soon()).exclusive::<(), Error>(|_| panic!("it must not begin")).err());
    drop(leave);
    holder.join().expect("it ends").expect("committed");
    // A deadline that is over does not keep out whom nobody is in the way of.
    core.with_deadline(Instant::now()).notes().remember("k", "", "b").expect("saved");

    let disk = Arc::new(mnemolog::disk::MemoryDisk::new());
    let open = || {
        Options::new()
            .writers(Writers::Many)
            .lock_wait(Duration::from_secs(60))
            .open_on(disk.clone())
            .expect("opens")
    };
    let (first, second) = (open(), open());
    first
        .root()
        .exclusive(|_| {
            let found = second.root().with_deadline(soon()).notes().remember("k", "", "b").err();
            assert!(matches!(found, Some(Error::Locked { .. })), "{found:?}");
            Ok::<_, Error>(())
        })
        .expect("an empty section");
    assert!(began.elapsed() < Duration::from_secs(30), "the waits of the store are a minute each");
}

#[test]
fn a_long_section_lets_other_workspaces_and_readers_pass() {
    let wait = Duration::from_millis(20);
    let disk = Arc::new(mnemolog::disk::MemoryDisk::new());
    let store = Options::new().lane_wait(wait).open_on(disk).expect("opens");
    let (leave, holder) = held(&store);
    let core = workspace(&store, "core");
    for path in ["other", "core/worker", "co"] {
        workspace(&store, path).notes().remember("k", "", "passes").expect(path);
        workspace(&store, path).exclusive(|tx| tx.notes().forget("k").map(drop)).expect(path);
    }
    store.root().notes().remember("k", "", "the root is another workspace, too").expect("saved");
    assert_eq!(core.notes().recall("long"), "nothing is saved under long", "readers wait for nobody");
    let busy = |error: Error| match error {
        Error::LaneBusy { workspace, waited } => assert_eq!((workspace.as_str(), waited), ("core", wait)),
        other => panic!("another error: {other}"),
    };
    let before = store.appended();
    busy(core.notes().remember("k", "", "b").expect_err("busy"));
    busy(core.notes().forget("long").expect_err("busy"));
    busy(core.vectors("docs").expect("a name").delete("a").expect_err("busy"));
    busy(core.episodic("turns").expect("a name").clear().expect_err("busy"));
    busy(core.working("pad").expect("a name").push("a", "b").expect_err("busy"));
    busy(core.exclusive::<(), Error>(|_| panic!("the section must not begin")).expect_err("busy"));
    assert_eq!(store.appended(), before);
    drop(leave);
    holder.join().expect("no panic").expect("committed");
    assert_eq!(core.notes().recall("long"), "section");
    core.notes().remember("k", "", "b").expect("the lane is free");
}

#[test]
fn a_write_past_the_section_on_its_thread_is_refused() {
    let store = Store::in_memory().expect("opens");
    let core = workspace(&store, "core");
    let inside = |error: Error| match error {
        Error::InsideExclusive { workspace } => assert_eq!(workspace, "core"),
        other => panic!("another error: {other}"),
    };
    core.exclusive::<(), Error>(|tx| {
        inside(core.notes().remember("k", "", "b").expect_err("past tx"));
        inside(store.root().notes().remember("k", "", "b").expect_err("other workspaces, too"));
        inside(core.exclusive(|_| Ok::<_, Error>(())).expect_err("nested"));
        inside(tx.exclusive(|_| Ok::<_, Error>(())).expect_err("nested through tx"));
        let below = tx.workspace("worker")?.notes().remember("k", "", "b").expect_err("not this lane");
        assert!(matches!(below, Error::BadName { .. }), "{below}");
        let other = Store::in_memory()?;
        other.root().notes().remember("k", "", "another store is another matter")?;
        thread::scope(|scope| {
            let root = store.root();
            scope.spawn(move || root.notes().remember("k", "", "another thread")).join().expect("no panic")
        })?;
        Ok(())
    })
    .expect("an empty section");
    assert_eq!(store.appended(), Frame(1), "an empty section writes nothing");
    core.notes().remember("k", "", "b").expect("the thread is free again");
}

#[test]
fn what_outlives_a_section_writes_nothing_and_reads_the_store() {
    let store = Store::in_memory().expect("opens");
    let core = workspace(&store, "core");
    let mut left = None;
    core.exclusive::<(), Error>(|tx| {
        tx.notes().remember("k", "", "committed")?;
        left = Some((
            tx.notes(),
            tx.vectors("docs")?,
            tx.episodic("turns")?,
            tx.working("pad")?,
            tx.workspace("x")?,
        ));
        Ok(())
    })
    .expect("committed");
    let (notes, docs, turns, pad, below) = left.expect("the section ran");
    let closed = |error: Error| assert!(matches!(error, Error::Closed), "{error}");
    closed(notes.remember("k", "", "late").expect_err("over"));
    closed(notes.forget("k").expect_err("over"));
    closed(docs.upsert("a", "b", &Json::object()).expect_err("over"));
    closed(docs.delete("a").expect_err("over"));
    closed(turns.record("a", &Json::object()).expect_err("over"));
    closed(pad.push("a", "b").expect_err("over"));
    closed(notes.restore_bytes(&notes.snapshot_bytes().expect("readable")).expect_err("over"));
    closed(below.exclusive(|_| Ok::<_, Error>(())).expect_err("over"));
    assert_eq!(store.appended(), Frame(1));
    assert_eq!((notes.recall("k"), notes.len()), ("committed".to_owned(), 1));
    core.notes().remember("k", "", "later").expect("saved");
    assert_eq!(notes.recall("k"), "later", "no stale state is left behind");
    let mut failed = None;
    let refused = core.exclusive::<(), Error>(|tx| {
        tx.notes().remember("k", "", "never")?;
        failed = Some(tx.notes());
        Err(Error::ReadOnly)
    });
    assert!(matches!(refused, Err(Error::ReadOnly)));
    assert_eq!(failed.expect("it ran").recall("k"), "later", "nor what was never committed");
}

#[test]
fn threads_of_one_section_write_to_one_frame_or_are_refused() {
    let store = Store::in_memory().expect("opens");
    let core = workspace(&store, "core");
    for round in 0..50 {
        let (sender, taken) = mpsc::channel();
        core.exclusive::<(), Error>(|tx| {
            for n in 0..3 {
                let (turns, sender) = (tx.episodic("turns")?, sender.clone());
                thread::spawn(move || {
                    let key = format!("{round}/{n}");
                    while turns
                        .record(&key, &Json::object())
                        .map_err(|e| assert!(matches!(e, Error::Closed)))
                        .is_ok()
                    {
                        sender.send(key.clone()).expect("the test counts");
                    }
                });
            }
            taken.recv().map(drop).map_err(|_| Error::Closed)?;
            drop(sender);
            Ok(())
        })
        .expect("committed");
        let acknowledged = 1 + taken.iter().count();
        let turns = core.episodic("turns").expect("a name");
        let there = turns.search_by_key(&format!("{round}/")).expect("readable").len();
        assert_eq!(there, acknowledged, "every write that succeeded is in the frame");
    }
}

#[test]
fn a_panic_in_a_section_writes_nothing_and_leaves_the_store_usable() {
    let store = Options::new().lane_wait(Duration::ZERO).open_on(Arc::new(mnemolog::disk::MemoryDisk::new()));
    let store = store.expect("opens");
    let core = workspace(&store, "core");
    core.notes().remember("k", "", "before").expect("saved");
    for attempt in 0..2 {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            core.exclusive::<(), Error>(|tx| {
                tx.notes().remember("k", "", "half")?;
                std::panic::resume_unwind(Box::new("the closure gives up"));
            })
        }));
        assert!(panicked.is_err(), "{attempt}: the panic is the caller's");
        assert_eq!((store.appended(), core.notes().recall("k")), (Frame(1), "before".to_owned()));
    }
    core.notes().remember("k", "", "after").expect("this thread is free, and the lane");
    core.exclusive(|tx| tx.notes().forget("k").map(drop)).expect("a section, too");
    assert_eq!(store.appended(), Frame(3));
}
