//! Nobody waits for long: not for a lock that another process holds, not for calls that wait for it, not for the end.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use mnemolog::{Options, Store, Writers};
use serde_json::{Value, json};

use super::{DEADLINE, Era, Place, Session};

/// More writes than the server has at work at a time.
const WRITES: usize = 40;

/// The same store in this process, whose critical sections keep all others waiting.
fn other(place: &Place) -> Store {
    Options::new().writers(Writers::Many).open(place.store()).expect("opens")
}

/// Sends writes, and reads none of their answers.
fn send_writes(session: &mut Session) -> Vec<u64> {
    let arguments = json!({"key": "late", "summary": "s", "body": "b"});
    let call = json!({"name": "memory_remember", "arguments": arguments});
    (0..WRITES)
        .map(|_| {
            let (id, request) = session.request("tools/call", call.clone());
            session.send(&request);
            id
        })
        .collect()
}

/// Runs while no other process can write.
fn locked<T>(store: &Store, run: impl FnOnce() -> T) -> T {
    store.root().exclusive(|_| Ok::<_, mnemolog::Error>(run())).expect("an empty section")
}

#[cfg(unix)]
fn terminate(session: &Session) {
    let status = std::process::Command::new("kill").arg(session.child.id().to_string()).status();
    assert!(status.expect("there is such a program").success());
}

/// Waits for the end, which must come before a wait of minutes would be over.
fn ended(session: &mut Session, before: Instant, within: Duration) -> ExitStatus {
    let status = session.wait();
    assert!(before.elapsed() < within, "it ended after {:?}", before.elapsed());
    status
}

#[test]
fn reads_wait_for_no_write_however_many_wait_for_another_process() {
    let place = Place::new();
    place.done(&["remember", "a", "--summary", "s", "--body", "b"]);
    let mut session = place.serve();
    let other = other(&place);
    let waiting = locked(&other, || {
        let waiting = send_writes(&mut session);
        for _ in 0..20 {
            session.ask("ping", json!({}));
            assert_eq!(session.recall("a"), "b");
            assert!(session.text("memory", json!({"command": "view", "path": "/memories"})).contains("/a"));
        }
        waiting
    });
    let mut answered: Vec<u64> =
        waiting.iter().map(|_| session.hear()["id"].as_u64().expect("an id")).collect();
    answered.sort_unstable();
    assert_eq!(answered, waiting);
}

#[test]
fn every_write_is_answered_after_about_one_wait_and_may_be_tried_again() {
    let place = Place::new();
    place.done(&["remember", "a", "--summary", "s", "--body", "b"]);
    let mut session = place.open(&["--lock-wait", "1", "mcp"], Era::Initialize);
    let other = other(&place);
    locked(&other, || {
        let before = Instant::now();
        for _ in send_writes(&mut session) {
            let answer = session.hear();
            let result = &answer["result"];
            assert_eq!(result["isError"], true, "{answer}");
            let text = result["content"][0]["text"].as_str().expect("a text");
            assert!(text.contains("the same call may succeed later"), "{text}");
        }
        // One after the other they would take as many seconds as they are.
        assert!(before.elapsed() < Duration::from_secs(15), "{:?}", before.elapsed());
    });
    assert_eq!(session.remember("late", "b"), "saved late");
}

#[cfg(unix)]
#[test]
fn a_server_that_is_told_to_end_does_so_though_calls_wait() {
    let place = Place::new();
    place.done(&["remember", "a", "--summary", "s", "--body", "b"]);
    let mut session = place.serve();
    let other = other(&place);
    locked(&other, || {
        send_writes(&mut session);
        session.ask("ping", json!({}));
        let before = Instant::now();
        terminate(&session);
        assert!(ended(&mut session, before, Duration::from_secs(15)).success());
    });
    let info: Value = serde_json::from_str(&place.done(&["--json", "info"])).expect("an object");
    assert_eq!((&info["frame"], &info["unclean_bytes"]), (&json!(1), &json!(0)));
}

#[test]
fn a_server_whose_input_ended_ends_though_calls_wait_and_answers_them() {
    let place = Place::new();
    place.done(&["remember", "a", "--summary", "s", "--body", "b"]);
    let mut session = place.serve();
    let other = other(&place);
    locked(&other, || {
        let sent = send_writes(&mut session).len();
        let before = Instant::now();
        drop(session.input.take());
        assert!(ended(&mut session, before, Duration::from_secs(20)).success());
        let said: Vec<String> = session.lines.iter().collect();
        let ending = said.iter().filter(|line| line.contains("the server is ending")).count();
        assert!(ending > 0 && said.len() <= sent, "{said:?}");
    });
}

#[cfg(unix)]
#[test]
fn a_second_signal_ends_the_process_whatever_it_waits_for() {
    let place = Place::new();
    place.done(&["remember", "a", "--summary", "s", "--body", "b"]);
    let mut session = place.open(&["--lock-wait", "100", "mcp"], Era::Initialize);
    let other = other(&place);
    locked(&other, || {
        send_writes(&mut session);
        session.ask("ping", json!({}));
        let before = Instant::now();
        // Two that come at once are one to the process.
        while session.child.try_wait().expect("a process of ours").is_none() {
            assert!(before.elapsed() < DEADLINE / 4, "it did not end");
            terminate(&session);
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    assert_eq!(place.done(&["recall", "a"]).trim_end(), "b");
}

#[test]
fn an_id_is_taken_until_the_call_that_was_given_up_has_ended() {
    let place = Place::new();
    let mut session = place.serve();
    let other = other(&place);
    locked(&other, || {
        let arguments = json!({"key": "k", "summary": "s", "body": "b"});
        let (id, request) =
            session.request("tools/call", json!({"name": "memory_remember", "arguments": arguments}));
        session.send(&request);
        session.ask("ping", json!({}));
        let params = json!({"requestId": id});
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        // It works on, so its answer could be taken for that of another.
        session.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        let answer = session.hear();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32600)), "{answer}");
    });
    // Its own answer does not come.
    assert_eq!(session.remember("after", "b"), "saved after");
}
