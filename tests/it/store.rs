//! A store as a program uses it: write, read, reopen, look back.

use std::sync::Arc;
use std::time::Duration;

use mnemolog::disk::MemoryDisk;
use mnemolog::{Error, Frame, Json, Options, Store};

fn reopen(disk: &Arc<MemoryDisk>) -> Store {
    Options::new().open_on(disk.clone()).expect("opens")
}

#[test]
fn every_kind_of_memory_survives_reopening() {
    let disk = Arc::new(MemoryDisk::new());
    let store = reopen(&disk);
    let core = store.workspace("core").expect("a valid path");
    assert_eq!(
        core.notes().remember("user/name", "the user's name", "Ada").expect("saved"),
        "saved user/name"
    );
    core.vectors("docs").expect("name").upsert("a", "a red fox", &Json::object()).expect("stored");
    core.episodic("turns").expect("name").record("q1", &Json::string("hello")).expect("recorded");
    core.working("scratch").expect("name").push("plan", "outline the introduction").expect("pushed");
    let digest = store.digest().expect("digest");
    assert_eq!((store.appended(), store.durable()), (Frame(4), Frame(4)));
    store.close().expect("closes");
    let store = reopen(&disk);
    assert_eq!(store.digest().expect("digest"), digest);
    let core = store.workspace("core").expect("a valid path");
    assert_eq!(core.notes().recall("user/name"), "Ada");
    assert_eq!(core.vectors("docs").expect("name").search("fox", 3).expect("hits")[0].id, "a");
    assert_eq!(core.episodic("turns").expect("name").recent(1).expect("read")[0].key, "q1");
    let rendered = core.working("scratch").expect("name").render();
    assert_eq!(rendered, "## Working Memory\n- **plan**: outline the introduction");
}

#[test]
fn the_past_shows_what_was_known_and_takes_no_writes() {
    let store = Store::in_memory().expect("opens");
    let notes = store.root().notes();
    notes.remember("a", "first", "one").expect("saved");
    notes.remember("a", "second", "two").expect("saved");
    notes.forget("a").expect("forgot");
    let at = |n| store.at(Frame(n)).expect("a frame of the log").root().notes();
    assert_eq!([at(0).recall("a"), at(1).recall("a")], ["nothing is saved under a", "one"]);
    assert_eq!([at(2).recall("a"), at(3).recall("a")], ["two", "nothing is saved under a"]);
    assert!(matches!(at(1).remember("b", "", ""), Err(Error::ReadOnly)));
    assert!(matches!(store.at(Frame(4)), Err(Error::NoSuchFrame { asked: Frame(4), last: Frame(3) })));
}

#[test]
fn a_critical_section_is_one_frame_or_none() {
    let store = Options::new().lane_wait(Duration::from_millis(50)).open_on(Arc::new(MemoryDisk::new()));
    let store = store.expect("opens");
    let core = store.workspace("core").expect("a valid path");
    core.exclusive::<_, Error>(|tx| {
        tx.notes().remember("n", "", "1")?;
        assert_eq!(tx.notes().recall("n"), "1", "the section sees its own writes");
        assert_eq!(core.notes().recall("n"), "nothing is saved under n", "nobody else does");
        tx.episodic("turns")?.record("k", &Json::object())?;
        assert!(matches!(core.notes().forget("n"), Err(Error::InsideExclusive { .. })));
        Ok(())
    })
    .expect("commits");
    assert_eq!(store.appended(), Frame(1));
    let refused = core.exclusive::<(), Error>(|tx| {
        tx.notes().forget("n")?;
        Err(Error::ReadOnly)
    });
    assert!(matches!(refused, Err(Error::ReadOnly)));
    assert_eq!((store.appended(), core.notes().recall("n")), (Frame(1), "1".to_owned()));
}

/// Protects promise 12.
#[test]
fn what_lies_in_checkpoints_or_does_not_changes_no_answer() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("opens");
    for n in 0..20 {
        store.root().notes().remember(&format!("k{}", n % 7), "s", &n.to_string()).expect("saved");
    }
    store.close().expect("closes");
    let answers = || {
        let store = Store::open_read_only(dir.path()).expect("opens");
        let digest = |n| store.at(Frame(n)).and_then(|past| past.digest()).expect("readable");
        (store.digest().expect("readable"), (0..=20).map(digest).collect::<Vec<_>>())
    };
    let _ = std::fs::remove_dir_all(dir.path().join("checkpoints"));
    let without = answers();
    std::fs::create_dir(dir.path().join("checkpoints")).expect("a directory");
    for (name, bytes) in [("20.checkpoint", &b""[..]), ("7.checkpoint", b"noise"), ("x.tmp", &[0; 5000])] {
        std::fs::write(dir.path().join("checkpoints").join(name), bytes).expect("a file");
    }
    assert_eq!(answers(), without);
    drop(Store::open(dir.path()).expect("opens for writing"));
    assert_eq!(answers(), without);
}
