//! `tail` and `fork` as commands: what they print, how they end, and where they go on.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Place, check_sentence, lines};

/// A tail that runs beside the test, and is killed with it.
struct Running {
    child: Child,
    out: Option<BufReader<ChildStdout>>,
}

impl Running {
    fn start(place: &Place, args: &[&str]) -> Running {
        let mut command = place.command(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let out = child.stdout.take().map(BufReader::new);
        Running { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.as_mut().expect("open").read_line(&mut line).expect("readable");
        line
    }

    /// Waits for the end, and answers the code and what was said on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().expect("a process of ours") {
                let mut err = String::new();
                self.child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
                return (status.code(), err);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the tail did not end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn history() -> Place {
    let place = Place::new();
    for n in 1..=12 {
        place.done(&["remember", &format!("k{n}"), "--summary", &format!("note {n}"), "--body", "b"]);
    }
    place
}

#[test]
fn a_tail_shows_the_last_frames_and_can_end_behind_them() {
    let place = history();
    let dump = place.done(&["dump"]);
    let behind = |frame: usize| dump.lines().skip(frame).map(|line| format!("{line}\n")).collect::<String>();
    for (args, frame) in
        [(&[][..], 2), (&["-n", "3"], 9), (&["-n", "0"], 12), (&["--from", "0"], 0), (&["--from", "7"], 7)]
    {
        let run = place.run(&[&["--json", "tail", "--no-follow"], args].concat());
        assert_eq!((run.code, run.out, run.err.as_str()), (0, behind(frame), ""), "{args:?}");
    }
    let time = lines(&behind(4))[0]["time"].as_str().expect("a time").to_owned();
    assert_eq!(place.done(&["--json", "tail", "--no-follow", "--from", &time]), behind(5));
    let run = place.run(&["tail", "--no-follow", "--from", "13"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    check_sentence(&run.err);
    assert_eq!(place.run(&["tail", "-n", "1", "--from", "1"]).code, 2);
}

#[test]
fn people_see_one_line_for_each_change() {
    let place = Place::new();
    place.done(&["--workspace", "core", "remember", "a/b", "--summary", "two\nlines", "--body", "text"]);
    place.done(&["working", "configure", "pad", "--budget", "50"]);
    place.done(&["vector", "upsert", "docs", "x", "--text", "plum jam"]);
    place.done(&["episodic", "clear", "turns"]);
    let times: Vec<_> =
        lines(&place.done(&["dump"])).iter().map(|line| line["time"].as_str().unwrap().to_owned()).collect();
    let blank = " ".repeat(8 + 2 + 27);
    let expected = format!(
        "       1  {}  notes     core/memory              remember  a/b: two lines\n\
         \x20      2  {}  working   pad                      configure budget 50 tokens\n\
         \x20      3  {}  vector    docs                     configure embedder stub-fnv, 64 floats\n\
         {blank}  vector    docs                     upsert    x: plum jam\n\
         \x20      4  {}  episodic  turns                    clear\n",
        times[0], times[1], times[2], times[4]
    );
    assert_eq!(place.done(&["tail", "--no-follow"]), expected);
}

#[test]
fn a_tail_that_stays_shows_what_others_write_at_once() {
    let place = history();
    let mut tail = Running::start(&place, &["--json", "tail", "--from", "12"]);
    for n in 13..16 {
        place.done(&["remember", &format!("k{n}"), "--summary", "s", "--body", "b"]);
        assert_eq!(lines(&tail.line())[0]["frame"], json!(n));
    }
    tail.child.kill().expect("it runs");
    // Behind the last line that was read it goes on, also with what is there already.
    place.done(&["forget", "k1"]);
    let mut tail = Running::start(&place, &["--json", "tail", "--from", "15"]);
    let line = lines(&tail.line());
    assert_eq!((&line[0]["frame"], &line[0]["op"]), (&json!(16), &json!("forget")));
}

#[test]
fn a_tail_ends_quietly_when_nobody_reads_it() {
    let place = history();
    let mut tail = Running::start(&place, &["tail"]);
    assert!(tail.line().contains("note 3"));
    // The pipe is closed while the tail waits, and no frame comes that would tell it so.
    drop(tail.out.take());
    let (code, err) = tail.end();
    assert_eq!((code, err.as_str()), (Some(0), ""));
}

#[test]
fn a_fork_is_a_store_of_its_own_as_of_a_moment() {
    let place = history();
    let time = lines(&place.done(&["dump"]))[4]["time"].as_str().expect("a time").to_owned();
    let dir = |name: &str| place.root().join(name).to_str().expect("a path of ours").to_owned();
    for (name, at, frame) in [("a", &["--at", "5"][..], 5), ("b", &["--at", &time], 5), ("c", &[], 12)] {
        let answer = place.json(&[&["fork", &dir(name)], at].concat())[0].clone();
        assert_eq!((&answer["frame"], &answer["segments"]), (&json!(frame), &json!(1)), "{name}");
        assert_eq!(answer["store"].as_str(), Some(dir(name).as_str()));
        let info = place.json(&["--store", &dir(name), "info"])[0].clone();
        assert_eq!((&info["frame"], &info["durable"]), (&json!(frame), &json!(frame)), "{name}");
        assert_eq!(info["store_id"], answer["store_id"]);
        let digest = |args: &[&str]| place.json(args)[0]["digest"].clone();
        let there = digest(&["--store", &dir(name), "replay"]);
        assert_eq!(there, digest(&["replay", "--at", &frame.to_string()]), "{name}");
    }
    let run = place.run(&["fork", &dir("a")]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    check_sentence(&run.err);
    place.done(&["--store", &dir("a"), "forget", "k1"]);
    assert_eq!(place.done(&["recall", "k1"]), "b\n");
    let text = place.done(&["fork", &dir("d"), "--at", "0"]);
    assert!(
        text.starts_with("forked as of frame 0\nstore     ") && text.contains("1 file, 4096 bytes"),
        "{text}"
    );
}
