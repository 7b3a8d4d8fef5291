//! The parts that a child process plays, and what it writes.
//!
//! Every text that is written carries its own checksum, so whoever reads it knows whether it is whole.

use std::env;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;

use mnemolog::{Error, Frame, Json, Options, Result, Store, Writers};
use xxhash_rust::xxh3::xxh3_64;

use crate::model::Rng;

/// Names the part of a child process.
pub(crate) const PART: &str = "MNEMOLOG_TEST_PART";
/// Names its store.
pub(crate) const STORE: &str = "MNEMOLOG_TEST_STORE";
/// The test that plays it.
pub(crate) const TEST: &str = "processes::parts::a_child_process_plays_its_part";
/// The workspaces in which writers write, one each.
pub(super) const WORKSPACES: [&str; 4] = ["w0", "w1", "w2", "w3"];

/// What the parent says, line by line.
struct Orders(Receiver<String>);

impl Orders {
    fn listen() -> Orders {
        let (sender, orders) = channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(std::io::Result::ok) {
                let _ = sender.send(line);
            }
        });
        Orders(orders)
    }

    /// Whether the parent has no more orders, or is gone.
    fn are_over(&self) -> bool {
        matches!(self.0.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// Waits for the next order; none once the parent has no more, or is gone.
    fn next(&self) -> Option<String> {
        self.0.recv().ok()
    }
}

/// Says a line with one write, so that a kill leaves it whole or away.
pub(super) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent listens");
}

/// A text that is unlike any other with another tag, and tells whether it is whole.
pub(super) fn text(tag: &str) -> String {
    let mut rng = Rng::new(xxh3_64(tag.as_bytes()));
    let len = rng.below(1500);
    let filler: String = (0..len).map(|_| char::from(b'a' + rng.below(26) as u8)).collect();
    let text = format!("{tag}:{filler}");
    let sum = xxh3_64(text.as_bytes());
    format!("{text}:{sum:016x}")
}

/// The checksum that a text carries, if it is whole.
pub(super) fn sum(text: &str) -> Option<&str> {
    let (content, sum) = text.rsplit_once(':')?;
    (format!("{:016x}", xxh3_64(content.as_bytes())) == sum).then_some(sum)
}

/// Not a test of its own: what a child process runs. Without a part there is nothing to do.
#[test]
fn a_child_process_plays_its_part() {
    let Ok(part) = env::var(PART) else { return };
    let path = PathBuf::from(env::var_os(STORE).expect("a store"));
    // Whatever the test harness wrote before stands on a line of its own.
    say("");
    let words: Vec<&str> = part.split(' ').collect();
    let orders = Orders::listen();
    match words[..] {
        ["writer", workspace, life, threads, segment_bytes] => {
            let many = Options::new().writers(Writers::Many).lock_wait(Duration::from_secs(60));
            let store = many.segment_bytes(segment_bytes.parse().expect("a size")).open(path).expect("opens");
            write_until_told(&store, workspace, life, threads.parse().expect("a number"), &orders);
        }
        ["reader"] => read_until_told(&Options::new().open_read_only(path).expect("opens"), &orders),
        ["tail", role, from] => {
            let options = Options::new().writers(Writers::Many).lock_wait(Duration::from_secs(60));
            let opened = if role == "writer" { options.open(path) } else { options.open_read_only(path) };
            let from = Frame(from.parse().expect("a frame"));
            super::tails::tell_until_told(&opened.expect("opens"), from, &|| orders.are_over());
        }
        ["holder"] => {
            let store = Options::new().open(path).expect("opens");
            store.root().notes().remember("held", "s", "by the only writer").expect("saved");
            say("holds");
            orders.next();
        }
        ["section"] => {
            let store = Options::new().writers(Writers::Many).open(path).expect("opens");
            let inside = |tx: &mnemolog::Tx| -> Result<()> {
                tx.notes().remember("half", "s", "of a section that does not end")?;
                say("inside");
                orders.next();
                Ok(())
            };
            store.root().exclusive(inside).expect("saved");
        }
        #[cfg(target_os = "linux")]
        ["full", writers] => super::media::fill(&path, writers),
        #[cfg(target_os = "linux")]
        ["sealed"] => super::media::read_sealed(&path),
        _ => panic!("no such part: {part}"),
    }
}

/// Writes to all four kinds as fast as it can, and says what was acknowledged, until there is an order; then answers
/// each with what it takes for the last frame, and its digest.
fn write_until_told(store: &Store, workspace: &str, life: &str, threads: u64, orders: &Orders) {
    let told = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let told = &told;
            scope.spawn(move || {
                for step in 0.. {
                    if told.load(Ordering::Relaxed) {
                        return;
                    }
                    let tag = format!("{workspace}.{life}.{thread}.{step}");
                    let (wrote, key) = write(store, workspace, &tag, step).expect("a write is acknowledged");
                    // With one thread the last frame of this process is that of its last write.
                    let frame = if threads == 1 { store.appended() } else { Frame::ZERO };
                    say(&format!("ack {} {wrote} {key} {}", frame.0, sum(&text(&tag)).expect("whole")));
                }
            });
        }
        let first = orders.next();
        told.store(true, Ordering::Relaxed);
        first
    });
    say("halted");
    while orders.next().is_some() {
        tell(store);
    }
}

/// One frame. Answers kind and handle, and the key.
fn write(store: &Store, workspace: &str, tag: &str, step: u64) -> Result<(String, String)> {
    let (at, text) = (store.workspace(workspace)?, text(tag));
    let key = format!("k{}", step % 40);
    let done =
        |kind: &str, handle: &str, key: &str| Ok((format!("{kind} {workspace}/{handle}"), key.to_owned()));
    match step % 5 {
        0 => {
            at.notes().remember(&key, "a note", &text)?;
            done("notes", "memory", &key)
        }
        1 => {
            at.vectors("table")?.upsert(&key, &text, &Json::object())?;
            done("vector", "table", &key)
        }
        2 => {
            at.episodic("turns")?.record(&key, &Json::string(&text))?;
            done("episodic", "turns", &key)
        }
        3 => {
            at.working("pad")?.push(&key, &text)?;
            done("working", "pad", &key)
        }
        _ => {
            at.exclusive::<_, Error>(|tx| {
                tx.notes().remember("left", "one half", &text)?;
                tx.notes().remember("right", "the other", &text)
            })?;
            done("notes", "memory", "left")
        }
    }
}

/// Looks again and again, checks everything it can see, and says what it saw; answers orders as a writer does.
fn read_until_told(store: &Store, orders: &Orders) {
    let (mut last, mut looks) = (Frame::ZERO, 0_u64);
    loop {
        match orders.0.recv_timeout(Duration::from_millis(1)) {
            Ok(_) => tell(store),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let frame = store.refresh().expect("a reader is not disturbed");
        assert!(frame >= last, "what was seen at frame {last} is gone at {frame}");
        looks += 1;
        if frame > last {
            check_texts(store);
            say(&format!("saw {} {:032x}", frame.0, store.digest().expect("readable")));
            last = frame;
        }
    }
    say(&format!("looks {looks}"));
}

/// Whether every text that a reader can see is whole, and both halves of a section are there.
fn check_texts(store: &Store) {
    let whole = |text: &str| assert!(sum(text).is_some(), "a torn read: {text}");
    for workspace in WORKSPACES {
        let at = store.workspace(workspace).expect("a path");
        let notes = at.notes();
        let half = |key: &str| notes.get(key).expect("readable").map(|_| notes.recall(key));
        assert_eq!(half("left"), half("right"), "half a frame");
        for (key, _) in notes.summaries() {
            whole(&notes.recall(&key));
        }
        for key in (0..40).map(|n| format!("k{n}")) {
            if let Some(row) = at.vectors("table").expect("a name").get(&key).expect("readable") {
                whole(&row.text);
            }
        }
        for episode in at.episodic("turns").expect("a name").recent(10).expect("readable") {
            whole(episode.value.to_value().as_str().expect("a string"));
        }
        for (_, content, _) in at.working("pad").expect("a name").entries() {
            whole(&content);
        }
    }
}

fn tell(store: &Store) {
    let frame = store.refresh().expect("refreshes");
    say(&format!("at {} {:032x}", frame.0, store.digest().expect("readable")));
}
