//! Who else is there while something is erased: pasts, readers, writers, sections, tails, ways back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mnemolog::disk::MemoryDisk;
use mnemolog::{Error, Frame, Json, Restored, TailEvent, Writers};

use super::{holder, open, options};

const SECRET: &str = "the secret that nobody may read again";

#[test]
fn an_erased_note_has_the_history_of_a_key_that_was_never_used() {
    let disk = MemoryDisk::new();
    let store = open(&disk, Writers::One);
    let notes = store.root().notes();
    for body in ["one", SECRET, "three"] {
        notes.remember("k", "", body).expect("writes");
    }
    notes.forget("k").expect("writes");
    notes.remember("other", "", "stays").expect("writes");
    let early = store.at(Frame(2)).expect("there");
    assert_eq!(early.root().notes().recall("k"), SECRET);
    let receipt = notes.erase("k").expect("erases");
    assert_eq!(receipt.blanked(), 4, "every version, its deletion too");
    assert!(receipt.files.iter().all(|file| file.open_here), "a past still reads the old file: {receipt:?}");
    assert_eq!(early.root().notes().recall("k"), SECRET, "and shows what it showed");
    assert_eq!(store.at(Frame(2)).expect("there").root().notes().get("k").expect("reads"), None);
    assert_eq!(notes.history("k").count(), 0);
    assert!(store.diff(Frame(1), Frame(4)).expect("compares").handles.is_empty(), "nothing was there");
    assert!(matches!(notes.restore("k", Frame(2)), Ok(Restored::WasAbsent)));
    notes.remember_if("k", None, "", "anew").expect("the key is free");
    let history: Vec<_> = notes.history("k").collect::<Result<_, _>>().expect("reads");
    assert_eq!(history.len(), 1, "it begins again");
    drop(early);
    assert!(notes.erase("k").expect("erases").files.iter().all(|file| !file.open_here), "nobody reads it");
    assert_eq!(holder(&disk, SECRET), None);
}

#[test]
fn readers_and_writers_in_other_processes_see_it_when_they_look() {
    let disk = MemoryDisk::new();
    let (store, other) = (open(&disk, Writers::Many), open(&disk, Writers::Many));
    let reader = options().open_read_only_on(Arc::new(disk.clone())).expect("opens");
    store.root().notes().remember("k", "", SECRET).expect("writes");
    store.root().notes().remember("kept", "", "beside it").expect("writes");
    other.refresh().expect("looks");
    reader.refresh().expect("looks");
    assert_eq!(
        (other.root().notes().recall("k"), reader.root().notes().recall("k")),
        (SECRET.into(), SECRET.into())
    );
    other.checkpoint().expect("saves");
    let receipt = store.root().notes().erase("k").expect("erases");
    assert_eq!(receipt.checkpoints.len(), 1, "{receipt:?}");
    assert_eq!(reader.root().notes().recall("k"), SECRET, "it did not look yet");
    other.root().notes().remember("more", "", "by another").expect("writes go on");
    reader.refresh().expect("looks");
    store.refresh().expect("looks");
    let digest = store.digest().expect("digest");
    for each in [&store, &other, &reader] {
        assert_eq!(each.root().notes().get("k").expect("reads"), None);
        assert_eq!(each.root().notes().recall("kept"), "beside it");
        assert_eq!(each.digest().expect("digest"), digest);
    }
    assert_eq!(other.root().notes().history("k").count(), 0);
    assert_eq!(other.checkpoint().expect("saves"), Frame(3));
    assert_eq!(holder(&disk, SECRET), None, "neither in a checkpoint that another process makes");
}

/// Ends the threads beside, also where a check fails.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_was_read_before_is_not_written_after() {
    for writers in [Writers::One, Writers::Many] {
        let disk = MemoryDisk::new();
        let store = open(&disk, writers);
        let ws = store.workspace("core").expect("a name");
        ws.notes().remember("k", "", SECRET).expect("writes");
        ws.vectors("rows").and_then(|rows| rows.upsert("k", SECRET, &Json::object())).expect("writes");
        ws.notes().forget("k").expect("writes");
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for n in 0..3 {
                let (ws, over) = (&ws, &over);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        match n {
                            0 => drop(ws.rollback(Frame(2)).expect("rolls back")),
                            1 => drop(ws.notes().restore("k", Frame(1)).expect("restores")),
                            _ => drop(
                                ws.vectors("rows").expect("a name").restore("k", Frame(2)).expect("restores"),
                            ),
                        }
                        ws.notes().forget("k").expect("forgets");
                    }
                });
            }
            let _over = Over(&over);
            for _ in 0..20 {
                let receipt = store.erase_containing(SECRET).expect("erases");
                assert_eq!(holder(&disk, SECRET), None, "{receipt:?}");
            }
        });
        assert_eq!(holder(&disk, SECRET), None);
    }
}

#[test]
fn it_waits_for_critical_sections_and_is_refused_inside_of_one() {
    let disk = MemoryDisk::new();
    let store =
        options().lane_wait(Duration::from_millis(20)).open_on(Arc::new(disk.clone())).expect("opens");
    let ws = store.workspace("core").expect("a name");
    ws.exclusive(|tx| {
        tx.notes().remember("k", "", SECRET)?;
        assert!(matches!(store.erase_containing(SECRET), Err(Error::InsideExclusive { .. })));
        assert!(matches!(tx.notes().erase("k"), Err(Error::InsideExclusive { .. })));
        let waited = thread::scope(|scope| scope.spawn(|| store.erase_containing(SECRET)).join());
        assert!(matches!(waited.expect("ends"), Err(Error::LaneBusy { .. })), "somebody is inside");
        Ok::<_, Error>(())
    })
    .expect("the section ends");
    assert!(store.erase_containing(SECRET).expect("erases").found());
    ws.notes().remember("k", "", "after").expect("the lanes are open again");
}

#[test]
fn a_tail_goes_on_where_it_was() {
    for writers in [Writers::One, Writers::Many] {
        let disk = MemoryDisk::new();
        let store = open(&disk, writers);
        let notes = store.root().notes();
        notes.remember("a", "", SECRET).expect("writes");
        notes.remember("b", "", SECRET).expect("writes");
        let mut tail = store.tail(Frame::ZERO).expect("tails");
        let mut next = || tail.next_within(Duration::from_secs(5)).expect("reads").map(|event| event.last());
        assert_eq!(next(), Some(Frame(1)));
        store.erase_containing(SECRET).expect("erases");
        notes.remember("c", "", "after").expect("writes");
        assert_eq!([next(), next()], [Some(Frame(2)), Some(Frame(3))]);
        let mut again = store.tail(Frame::ZERO).expect("tails");
        let event = again.next_within(Duration::from_secs(5)).expect("reads");
        assert!(matches!(event, Some(TailEvent::Frame(frame)) if !format!("{frame:?}").contains(SECRET)));
    }
}

#[test]
fn an_erased_episode_keeps_its_place_and_an_erased_entry_its_cost() {
    let store = open(&MemoryDisk::new(), Writers::One);
    let turns = store.root().episodic("turns").and_then(|turns| turns.with_max(2)).expect("a ring");
    for key in ["oldest", "secret", "last"] {
        turns.record(key, &Json::string(SECRET)).expect("writes");
    }
    let pad = store.root().working("pad").and_then(|pad| pad.with_budget(30)).expect("a scratchpad");
    for label in ["oldest", "secret", "last"] {
        pad.push(label, "forty letters make ten tokens, no more..").expect("writes");
    }
    let before = pad.current_tokens();
    turns.erase("secret").expect("erases");
    pad.erase("last").expect("erases");
    let keys = |store: &mnemolog::Store| {
        let turns = store.root().episodic("turns").expect("a ring").recent(9).expect("reads");
        turns.into_iter().map(|episode| episode.key).collect::<Vec<_>>()
    };
    assert_eq!(keys(&store), ["last"], "what was evicted does not come back");
    assert_eq!((pad.current_tokens(), pad.render()), (before, String::new()), "neither here");
    turns.record("next", &Json::string("x")).expect("writes");
    assert_eq!(keys(&store), ["next", "last"], "the place was free for the next one");
}
