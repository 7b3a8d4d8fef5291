//! Going back: single notes and rows, whole workspaces, and writes that hold only if nothing changed meanwhile.

use std::sync::Arc;
use std::thread;

use mnemolog::codec::delta::HandleKind;
use mnemolog::disk::MemoryDisk;
use mnemolog::view::history::Operation;
use mnemolog::{Error, Frame, Json, Options, Origin, Restored, Result, RolledBack, Store, Writers};

use crate::model::{self, Rng, Step, WORKSPACES};

#[test]
fn a_note_is_brought_back_as_it_was_at_a_frame() -> Result<()> {
    let store = Store::in_memory()?;
    let notes = store.workspace("core")?.notes();
    notes.remember("k", "first", "one")?;
    notes.remember("k", "second", "two")?;
    notes.forget("k")?;
    notes.remember("other", "", "x")?;
    assert_eq!(notes.restore("k", Frame(1))?, Restored::Saved);
    let note = notes.get("k")?.expect("it is back");
    assert_eq!((note.summary.as_deref(), note.body.as_str(), note.frame), (Some("first"), "one", Frame(5)));
    assert_eq!(notes.restore("k", Frame(1))?, Restored::Unchanged);
    assert_eq!(store.appended(), Frame(5), "nothing is written where nothing differs");
    assert_eq!(notes.restore("k", Frame(3))?, Restored::Removed);
    assert_eq!(notes.restore("k", Frame(0))?, Restored::WasAbsent);
    assert_eq!(notes.restore("k", Frame(5))?, Restored::Saved);
    assert_eq!(notes.history("k").count(), 6, "going back is a version like any other");
    let refused = notes.restore("k", Frame(9));
    assert!(matches!(refused, Err(Error::NoSuchFrame { asked: Frame(9), .. })), "{refused:?}");
    let refused = store.at(Frame(1))?.workspace("core")?.notes().restore("k", Frame(1));
    assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    Ok(())
}

#[test]
fn a_note_whose_history_a_snapshot_ended_is_still_brought_back() -> Result<()> {
    let store = Store::in_memory()?;
    let notes = store.root().notes();
    let empty = notes.snapshot_bytes()?;
    notes.remember("k", "", "one")?;
    notes.restore_bytes(&empty)?;
    assert_eq!(notes.history("k").count(), 0);
    assert_eq!(notes.restore("k", Frame(1))?, Restored::Saved);
    assert_eq!(notes.recall("k"), "one");
    Ok(())
}

#[test]
fn a_row_is_brought_back_bit_for_bit_unless_its_width_does_not_fit_any_more() -> Result<()> {
    let store = Store::in_memory()?;
    let docs = store.root().vectors("docs")?;
    docs.upsert_embedding("a", "x", &Json::parse("{\"n\":1.50}")?, &[0.5, -0.0, 3.0])?;
    docs.delete("a")?;
    assert_eq!(docs.restore("a", Frame(1))?, Restored::Saved);
    let row = docs.get("a")?.expect("it is back");
    assert_eq!((row.metadata.as_str(), row.embedding[1].to_bits()), ("{\"n\":1.50}", (-0.0_f32).to_bits()));
    docs.clear()?;
    docs.upsert_embedding("b", "y", &Json::object(), &[1.0, 2.0])?;
    let refused = docs.restore("a", Frame(1));
    assert!(matches!(refused, Err(Error::Dimension { expected: 2, found: 3, .. })), "{refused:?}");
    assert_eq!(docs.restore("b", Frame(1))?, Restored::Removed);
    assert_eq!(docs.restore("a", Frame(4))?, Restored::WasAbsent, "it was cleared");
    Ok(())
}

#[test]
fn a_note_is_saved_only_if_it_is_the_one_that_was_read() -> Result<()> {
    let store = Store::in_memory()?;
    let notes = store.root().notes();
    let conflict = |expected: Option<Frame>| match notes.remember_if("k", expected, "", "x") {
        Err(Error::Conflict { expected, found, .. }) => (expected.0, found.0),
        other => panic!("{other:?}"),
    };
    assert_eq!(conflict(Some(Frame(1))), (1, 0));
    notes.remember_if("k", None, "s", "one")?;
    assert_eq!(conflict(None), (0, 1));
    notes.remember_if("k", Some(Frame(1)), "s", "two")?;
    assert_eq!(conflict(Some(Frame(1))), (1, 2));
    notes.forget("k")?;
    assert_eq!(conflict(Some(Frame(2))), (2, 0));
    assert_eq!(conflict(Some(Frame(3))), (3, 0), "a deletion saves nothing");
    assert_eq!(store.appended(), Frame(3), "a refused write writes nothing");
    notes.remember_if("k", Some(Frame::ZERO), "s", "three")?;
    assert_eq!(notes.recall("k"), "three");
    let error = notes.remember_if("k", None, "", "x").expect_err("it is there");
    assert_eq!(error.to_string(), "k is saved by frame 4, not absent; read it again and decide anew");
    Ok(())
}

#[test]
fn counting_with_conditional_writes_loses_no_step_among_several_writers() {
    const EACH: u64 = 40;
    let disk = MemoryDisk::new();
    let open = || Options::new().writers(Writers::Many).open_on(Arc::new(disk.clone())).expect("opens");
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let store = open();
                let notes = store.root().notes();
                for _ in 0..EACH {
                    loop {
                        let now = notes.get("n").expect("readable");
                        let count: u64 = now.as_ref().map_or(0, |note| note.body.as_str().parse().unwrap());
                        let next = (count + 1).to_string();
                        match notes.remember_if("n", now.map(|note| note.frame), "", &next) {
                            Ok(_) => break,
                            // The write that was refused has folded what came in between.
                            Err(Error::Conflict { .. }) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(open().root().notes().recall("n"), (3 * EACH).to_string());
}

#[test]
fn a_workspace_goes_back_with_those_below_it_and_no_other() -> Result<()> {
    let store = Store::in_memory()?;
    for path in ["core", "core/worker", "core2", "other"] {
        store.workspace(path)?.notes().remember("k", "", "old")?;
    }
    let then = store.appended();
    for path in ["core", "core/worker", "core2", "other"] {
        store.workspace(path)?.notes().remember("k", "", "new")?;
    }
    store.workspace("core/late")?.working("pad")?.push("l", "c")?;
    let origin = Origin { tool: Some("undo".into()), ..Origin::default() };
    let back = store.workspace("core")?.with_origin(origin.clone())?.rollback(then)?;
    assert_eq!(back, RolledBack { frame: Some(Frame(10)), deltas: 3 });
    let k = |path: &str| Ok::<_, Error>(store.workspace(path)?.notes().recall("k"));
    assert_eq!(
        [k("core")?, k("core/worker")?, k("core2")?, k("other")?].map(|body| body == "old"),
        [true, true, false, false]
    );
    assert!(store.workspace("core/late")?.working("pad")?.is_empty());
    let newest = store.workspace("core")?.notes().history("k").next().expect("a version")?;
    assert_eq!((newest.origin, newest.operation), (Some(origin), Operation::Remember));
    let again = store.workspace("core")?.rollback(then)?;
    assert_eq!((again, store.appended()), (RolledBack { frame: None, deltas: 0 }, Frame(10)));
    store.root().rollback(Frame(0))?;
    assert!(store.handles().is_empty(), "the root is above all");
    Ok(())
}

#[test]
fn a_rollback_is_refused_where_it_could_not_hold_its_lanes_or_its_frame() -> Result<()> {
    let store = Store::in_memory()?;
    let core = store.workspace("core")?;
    core.notes().remember("k", "", "x")?;
    let inside = core.exclusive(|tx| tx.rollback(Frame(0)));
    assert!(matches!(inside, Err(Error::InsideExclusive { .. })), "{inside:?}");
    let inside = core.exclusive(|_| core.rollback(Frame(0)));
    assert!(matches!(inside, Err(Error::InsideExclusive { .. })), "{inside:?}");
    let past = store.at(Frame(1))?.workspace("core")?.rollback(Frame(0));
    assert!(matches!(past, Err(Error::ReadOnly)), "{past:?}");
    let beyond = core.rollback(Frame(2));
    assert!(matches!(beyond, Err(Error::NoSuchFrame { .. })), "{beyond:?}");
    assert_eq!(store.appended(), Frame(1));
    Ok(())
}

#[test]
fn a_rollback_writes_the_least_that_brings_a_ring_back() -> Result<()> {
    let store = Store::in_memory()?;
    let root = store.root();
    let (turns, pad) = (root.episodic("turns")?, root.working("pad")?);
    turns.record("a", &Json::parse("1")?)?;
    turns.record("b", &Json::parse("2")?)?;
    pad.push("l", "c")?;
    let full = store.appended();
    turns.clear()?;
    pad.clear()?;
    let empty = store.appended();
    assert_eq!(root.rollback(full)?.deltas, 3, "two episodes and an entry are added");
    assert_eq!(root.rollback(empty)?.deltas, 2, "both are cleared");
    root.rollback(full)?;
    turns.record("c", &Json::parse("3")?)?;
    assert_eq!(root.rollback(full)?.deltas, 1, "an episode in between takes a snapshot");
    assert_eq!(turns.len(), 2);
    root.episodic("turns")?.with_max(7)?;
    assert_eq!(root.rollback(full)?.deltas, 1);
    assert_eq!(turns.max(), None);
    Ok(())
}

#[test]
fn a_table_goes_back_over_a_change_of_its_width() -> Result<()> {
    let store = Store::in_memory()?;
    let docs = store.root().vectors("docs")?;
    docs.upsert("a", "red fox", &Json::object())?;
    docs.upsert("b", "blue hen", &Json::object())?;
    let (then, digest) = (store.appended(), store.digest()?);
    docs.clear()?;
    store.root().rollback(Frame(0))?;
    docs.upsert_embedding("a", "other", &Json::object(), &[1.0, 2.0])?;
    let (wide, wide_digest) = (store.appended(), store.digest()?);
    store.root().rollback(then)?;
    assert_eq!(store.digest()?, digest);
    store.root().rollback(wide)?;
    assert_eq!(store.digest()?, wide_digest);
    let operations: Vec<_> =
        docs.history("a").map(|version| Ok(version?.operation.name())).collect::<Result<_>>()?;
    assert_eq!(operations, ["upsert", "clear", "upsert", "clear", "upsert", "clear", "upsert"]);
    Ok(())
}

/// Snapshots of all handles whose workspace is a path or lies below it.
fn snapshots(digests: Vec<mnemolog::view::HandleDigest>, path: &str) -> Vec<(HandleKind, String, u128)> {
    let within = |id: &str| id.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    let handles = digests.into_iter().filter(|digest| within(&digest.handle.id));
    handles.map(|digest| (digest.handle.kind, digest.handle.id.to_string(), digest.digest)).collect()
}

#[test]
fn any_history_goes_back_to_any_of_its_frames_and_forth_again() -> Result<()> {
    for seed in 0..40 {
        let (mut rng, store) = (Rng::new(seed), Store::in_memory()?);
        for _ in 0..60 {
            let at = WORKSPACES[rng.below(2) as usize];
            if rng.below(6) > 0 {
                Step::random(&mut rng).take(&store.workspace(at)?)?;
                continue;
            }
            let (to, before) = (Frame(rng.below(store.appended().0 + 1)), store.appended());
            let other = |store: &Store| model::held(store)[0].clone();
            let (untouched, state) = (other(&store), store.digest()?);
            let back = store.workspace(at)?.rollback(to)?;
            let was = snapshots(store.at(to)?.digests()?.1, at);
            assert_eq!(snapshots(store.digests()?.1, at), was, "seed {seed}: {at} from {before} to {to}");
            if at == WORKSPACES[1] {
                assert_eq!(other(&store), untouched, "seed {seed}: the workspace above stays");
            }
            assert_eq!(back.frame.is_some(), store.appended() > before);
            if rng.chance(2) {
                store.workspace(at)?.rollback(before)?;
                assert_eq!(store.digest()?, state, "seed {seed}: a rollback of a rollback");
            }
        }
        assert_eq!(store.digest()?, store.at(store.appended())?.digest()?, "seed {seed}");
    }
    Ok(())
}

#[test]
fn a_way_back_may_name_a_frame_that_another_process_has_just_written() {
    let disk = MemoryDisk::new();
    let open = || Options::new().writers(Writers::Many).open_on(Arc::new(disk.clone())).unwrap();
    let (one, other) = (open(), open());
    other.root().notes().remember("key", "a note", "1").unwrap();
    other.root().notes().remember("key", "a note", "2").unwrap();
    assert_eq!(one.root().notes().restore("key", Frame(1)).unwrap(), Restored::Saved);
    assert_eq!(other.root().notes().restore("key", Frame(2)).unwrap(), Restored::Saved);
    assert_eq!(one.root().rollback(Frame(4)).unwrap().frame, None, "it is the last one's state");
    other.root().notes().forget("key").unwrap();
    assert_eq!(one.root().rollback(Frame(4)).unwrap().frame, Some(Frame(6)));
    assert!(matches!(one.root().rollback(Frame(7)), Err(Error::NoSuchFrame { .. })));
}
