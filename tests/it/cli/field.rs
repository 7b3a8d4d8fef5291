//! What users of similar software ran into when several processes shared a store, through commands and beside
//! long-lived programs. The id in each test's comment is that of the collected case.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mnemolog::{Clock, Json, Options, Store, SystemClock, Time, Writers};

use super::{Place, Run};

fn many() -> Options {
    Options::new().writers(Writers::Many)
}

/// A1, A15: the four tool calls of one turn, each a process, half of them by another name of the store.
#[test]
fn the_commands_of_one_turn_may_run_at_once_and_under_two_names() {
    let place = Place::new();
    let (store, link) = (place.store(), place.root().join("link"));
    place.done(&["remember", "before", "--summary", "s", "--body", "b"]);
    std::os::unix::fs::symlink(&store, &link).expect("a link");
    let (link, rounds) = (link.to_str().expect("a path of ours"), 8);
    let mut forgotten = 0;
    for round in 0..rounds {
        let key = format!("turn/{round}");
        let calls: [&[&str]; 4] = [
            &["remember", &key, "--summary", "first", "--body", "one"],
            &["--store", link, "remember", &key, "--summary", "second", "--body", "two"],
            &["--store", link, "forget", &key],
            &["episodic", "record", "turns", &key, "{}"],
        ];
        let runs: Vec<Run> = thread::scope(|scope| {
            let place = &place;
            let started = calls.map(|args| scope.spawn(move || place.run(args)));
            started.into_iter().map(|run| run.join().expect("no panic")).collect()
        });
        assert!(runs.iter().all(|run| run.err.is_empty()), "{runs:?}");
        assert_eq!([runs[0].code, runs[1].code, runs[3].code], [0; 3], "{runs:?}");
        assert!(runs[2].code <= 1, "{runs:?}");
        forgotten += i64::from(runs[2].code == 0);
        let body = place.run(&["recall", &key]).out;
        let allowed = ["one\n".to_owned(), "two\n".to_owned(), format!("nothing is saved under {key}\n")];
        assert!(allowed.contains(&body), "{body}");
    }
    assert_eq!(place.json(&["info"])[0]["frame"], 1 + 3 * rounds + forgotten, "each call is one frame");
    assert_eq!(place.json(&["episodic", "recent", "turns", "-n", "100"]).len() as i64, rounds);
    place.done(&["verify"]);
}

/// The log's only segment, where three notes end in it, where a fourth does, and the promise from in between: what a
/// process leaves that dies while it writes the fourth.
struct Torn {
    segment: PathBuf,
    bytes: Vec<u8>,
    durable: Vec<u8>,
    from: usize,
    to: usize,
}

const LAST: &str = "用户服务器部署在腾讯云";

impl Torn {
    fn new(place: &Place) -> Torn {
        for key in ["a", "b", "c"] {
            place.done(&["remember", key, "--summary", "s", "--body", key]);
        }
        let used = || place.json(&["info"])[0]["used"].as_u64().expect("a number") as usize;
        let (from, durable) = (used(), fs::read(place.store().join("DURABLE")).expect("the promise"));
        place.done(&["remember", "last", "--summary", "s", "--body", LAST]);
        let segment = place.store().join("log/00000000000000000001.seg");
        let bytes = fs::read(&segment).expect("a segment");
        Torn { segment, bytes, durable, from, to: used() }
    }

    /// Every kind of place before the padding: inside the header, behind it, in the middle, inside a character, just before the end.
    fn cuts(&self) -> BTreeSet<usize> {
        let text = self.bytes.windows(3).rposition(|w| w == "云".as_bytes()).expect("the last character");
        let last = self.bytes[..self.to].iter().rposition(|&b| b != 0).expect("a frame");
        let near = [self.from + 1, self.from + 48, text + 1, last].into_iter();
        let near = near.flat_map(|at| [at - 1, at, at + 1]);
        near.chain((self.from..last).step_by(13)).filter(|at| (self.from..=last).contains(at)).collect()
    }

    fn leave(&self, place: &Place, cut: usize, truncated: bool) {
        let mut bytes = self.bytes.clone();
        if truncated {
            bytes.truncate(cut);
        } else {
            bytes[cut..].fill(0);
        }
        fs::write(&self.segment, bytes).expect("a segment");
        fs::write(place.store().join("DURABLE"), &self.durable).expect("a promise");
    }
}

const THREE: &str = "- a: s\n- b: s\n- c: s\n";

/// A3, A4, A11: the last record ends anywhere, also inside a character; commands read, write, and read again.
#[test]
fn a_record_that_ends_anywhere_stops_no_command_and_runs_into_no_other() {
    let place = Place::new();
    let torn = Torn::new(&place);
    for (n, cut) in torn.cuts().into_iter().enumerate() {
        torn.leave(&place, cut, n % 2 == 0);
        assert_eq!(place.done(&["list"]), THREE, "cut at {cut}");
        let saved = place.run(&["remember", "next", "--summary", "s", "--body", "whole"]);
        assert_eq!((saved.code, saved.out.as_str()), (0, "saved next\n"), "cut at {cut}: {saved:?}");
        let again = place.run(&["remember", "second", "--summary", "s", "--body", "too"]);
        assert_eq!((again.code, again.err.as_str()), (0, ""), "mended once: {again:?}");
        assert_eq!(place.done(&["list"]), format!("{THREE}- next: s\n- second: s\n"), "cut at {cut}");
        assert_eq!(place.done(&["recall", "next"]), "whole\n");
    }
    place.done(&["verify"]);
}

/// A10: a process died while it wrote; a program that has the store open goes on, without opening it again.
#[test]
fn a_long_lived_writer_mends_what_a_dead_process_left_and_goes_on() {
    let place = Place::new();
    let torn = Torn::new(&place);
    for cut in torn.cuts().into_iter().step_by(3) {
        torn.leave(&place, torn.from, false);
        let store = many().open(place.store()).expect("opens");
        let notes = store.root().notes();
        torn.leave(&place, cut, false);
        notes.remember("next", "s", "whole").expect("the torn record is in nobody's way");
        assert_eq!(place.done(&["list"]), format!("{THREE}- next: s\n"), "cut at {cut}");
        place.done(&["remember", "second", "--summary", "s", "--body", "too"]);
        assert_eq!(store.refresh().expect("refreshes").0, 5);
        assert_eq!(notes.recall("second"), "too");
    }
}

/// A7: what one process forgets takes nothing along that another has just added.
#[test]
fn forgetting_in_one_process_drops_nothing_that_another_added() {
    let place = Place::new();
    let store = many().open(place.store()).expect("opens");
    let notes = store.root().notes();
    notes.remember("old", "s", "b").expect("saved");
    place.done(&["remember", "new", "--summary", "s", "--body", "b"]);
    notes.forget("old").expect("decided on what the command left");
    assert_eq!(place.done(&["list"]), "- new: s\n");

    for n in 0..12 {
        notes.remember(&format!("old/{n}"), "s", "b").expect("saved");
    }
    let over = AtomicBool::new(false);
    let added = thread::scope(|scope| {
        let adding = scope.spawn(|| {
            (0..).take_while(|_| !over.load(Ordering::Relaxed)).fold(Vec::new(), |mut added, n| {
                notes.remember(&format!("new/{n}"), "s", "b").expect("saved");
                added.push(format!("new/{n}"));
                added
            })
        });
        let forgets: Vec<Run> = (0..12).map(|n| place.run(&["forget", &format!("old/{n}")])).collect();
        over.store(true, Ordering::Relaxed);
        assert!(forgets.iter().all(|run| run.code == 0), "{forgets:?}");
        adding.join().expect("no panic")
    });
    let left: BTreeSet<String> =
        place.json(&["list"]).iter().map(|note| note["key"].as_str().expect("a key").to_owned()).collect();
    assert!(added.len() > 1, "nothing was added meanwhile");
    assert_eq!(left, added.into_iter().chain(["new".to_owned()]).collect());
}

/// A14: a long-lived writer, commands that read and another reader, all at once.
#[test]
fn new_rows_of_a_long_lived_writer_are_found_by_commands_and_by_other_readers() {
    for writers in [Writers::One, Writers::Many] {
        let place = Place::new();
        let store = Options::new().writers(writers).open(place.store()).expect("opens");
        let rows = store.root().vectors("docs").expect("a name");
        rows.upsert("0", "row 0", &Json::object()).expect("saved");
        let reader = Store::open_read_only(place.store()).expect("opens");
        for n in 1..10 {
            let (id, text) = (n.to_string(), format!("row {n}"));
            rows.upsert(&id, &text, &Json::object()).expect("saved");
            let found = place.json(&["vector", "search", "docs", &text, "-k", "1"]);
            assert_eq!((&found[0]["id"], &found[0]["text"]), (&id.clone().into(), &text.clone().into()));
            assert_eq!(reader.refresh().expect("refreshes"), store.appended());
            let hits = reader.root().vectors("docs").expect("a name").search(&text, 1).expect("searches");
            assert_eq!((&*hits[0].id, &*hits[0].text), (&*id, &*text));
        }
        assert_eq!(reader.digest().expect("readable"), store.digest().expect("readable"));
    }
}

/// The system's clock, put forward or back by so many microseconds.
#[derive(Debug)]
struct Off(i64);

impl Clock for Off {
    fn now(&self) -> Time {
        let now = SystemClock.now().as_micros().saturating_add_signed(self.0);
        Time::from_micros(now).expect("a time")
    }
}

/// F8: processes whose clocks differ by hours write by turns.
#[test]
fn order_is_that_of_writing_however_the_clocks_of_processes_differ() {
    let place = Place::new();
    let hours = 2 * 3_600_000_000;
    let ahead = SystemClock.now().as_micros() + hours as u64;
    for (n, off) in [(0, hours), (2, -hours)] {
        let store = many().clock(Arc::new(Off(off))).open(place.store()).expect("opens");
        store
            .root()
            .episodic("turns")
            .expect("a name")
            .record(&n.to_string(), &Json::object())
            .expect("saved");
        drop(store);
        place.done(&["episodic", "record", "turns", &(n + 1).to_string(), "{}"]);
    }
    let dump = place.json(&["dump"]);
    let times: Vec<&str> = dump.iter().map(|line| line["time"].as_str().expect("a time")).collect();
    assert_eq!(times, [times[0]; 4], "no time goes back, and none runs further ahead");
    assert!(times[0].parse::<Time>().expect("RFC 3339").as_micros() >= ahead);
    let keys = |lines: Vec<serde_json::Value>| -> Vec<String> {
        lines.iter().map(|line| line["key"].as_str().expect("a key").to_owned()).collect()
    };
    assert_eq!(keys(place.json(&["episodic", "recent", "turns"])), ["3", "2", "1", "0"]);
    assert_eq!(keys(place.json(&["episodic", "recent", "turns", "--at", "2"])), ["1", "0"]);
    assert_eq!(keys(place.json(&["episodic", "recent", "turns", "--at", times[0]])), ["3", "2", "1", "0"]);
    place.done(&["verify"]);
}
