//! Clients that misbehave: the server answers with the right error or ends, never panics, never grows without bound.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{DEADLINE, Era, Place, Session, stateless};

/// The memory that a server holds at most, in KiB, whatever a client does.
#[cfg(target_os = "linux")]
const RESIDENT_MAX_KIB: u64 = 300 * 1024;

/// A field of the process's status, in KiB.
#[cfg(target_os = "linux")]
fn memory_kib(session: &Session, field: &str) -> u64 {
    status_kib(session.child.id(), field)
}

#[cfg(target_os = "linux")]
fn status_kib(process: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
}

/// A server whose answers nobody reads.
struct Unread {
    child: std::process::Child,
    lines: std::sync::mpsc::SyncSender<String>,
    sent: usize,
}

impl Unread {
    fn start(place: &Place) -> Unread {
        let mut child = place.command(&["mcp"]);
        child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = child.stderr(std::process::Stdio::null()).spawn().expect("the program starts");
        let mut input = child.stdin.take().expect("a pipe");
        let (lines, queue) = std::sync::mpsc::sync_channel::<String>(0);
        // Ends with the server, whose input it may be stuck at.
        std::thread::spawn(move || queue.iter().all(|lines| input.write_all(lines.as_bytes()).is_ok()));
        Unread { child, lines, sent: 0 }
    }

    fn begin(&mut self) {
        let begin = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let begin = json!({"jsonrpc": "2.0", "id": "begin", "method": "initialize", "params": begin});
        assert!(self.send(&format!("{begin}\n")));
    }

    /// Sends lines, or answers that the server has not read those before for a second; there is no event for that.
    fn send(&mut self, lines: &str) -> bool {
        let (mut lines, since) = (lines.to_owned(), Instant::now());
        self.sent += lines.len();
        while let Err(error) = self.lines.try_send(lines) {
            let std::sync::mpsc::TrySendError::Full(unsent) = error else { return false };
            if since.elapsed() > Duration::from_secs(1) {
                return false;
            }
            lines = unsent;
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    #[cfg(target_os = "linux")]
    fn peak_kib(&self) -> u64 {
        status_kib(self.child.id(), "VmHWM")
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The session still works.
fn check_alive(session: &mut Session) {
    assert_eq!(session.remember("alive", "yes"), "saved alive");
    assert_eq!(session.recall("alive"), "yes");
}

#[test]
fn what_is_no_message_is_answered_and_the_session_goes_on() {
    let place = Place::new();
    let mut session = place.serve();
    let deep =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{}", "[".repeat(100_000));
    let lines: [(&[u8], i64); 8] = [
        (b"garbage", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"{\"jsonrpc\":", -32700),
        (deep.as_bytes(), -32700),
        (b"[]", -32600),
        (b"42", -32600),
        (b"{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"ping\"}", -32600),
        (b"{\"id\":8}", -32600),
    ];
    for (line, code) in lines {
        session.send_bytes(&[line, b"\n"].concat());
        let answer = session.hear();
        assert_eq!(answer["error"]["code"], code, "{}: {answer}", String::from_utf8_lossy(line));
    }
    // Nothing is answered to nothing, nor to a notification that nobody knows.
    session.send_bytes(b"\n \r\n{\"jsonrpc\":\"2.0\",\"method\":\"$/progress\",\"params\":{}}\n");
    check_alive(&mut session);
    let (said, err) = session.end();
    assert!(said.is_empty() && !err.contains("panicked"), "{said:?} {err}");
}

#[test]
fn an_error_names_the_request_that_it_is_about() {
    let place = Place::new();
    let mut session = place.serve();
    session.send_bytes(b"{\"jsonrpc\":\"1.0\",\"id\":\"x\",\"method\":\"ping\"}\n");
    assert_eq!(session.hear()["id"], "x");
}

#[test]
fn a_request_that_no_program_can_hold_is_refused_under_its_id() {
    let place = Place::new();
    let mut session = place.serve();
    let with = |id: &str, value: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":\
                {{\"name\":\"episodic_record\",\"arguments\":{{\"name\":\"t\",\"key\":\"k\",\"value\":{value}}}}}}}\n"
        )
    };
    for (id, value, why) in [
        ("5", "1e400", "number out of range"),
        ("\"x\"", "\"\\ud800\"", "hex escape"),
        ("6", "[-1e999]", "number"),
    ] {
        session.send_bytes(with(id, value).as_bytes());
        let answer = session.hear();
        assert_eq!(answer["id"], serde_json::from_str::<Value>(id).expect("JSON"), "{answer}");
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains(why)), "{answer}");
    }
    session.send_bytes(b"{\"jsonrpc\":\"2.0\",\"method\":\"$/progress\",\"params\":1e400}\n");
    check_alive(&mut session);
}

#[test]
fn parameters_that_are_missing_are_named() {
    let place = Place::new();
    let mut session = place.start(&["mcp"], Era::Initialize);
    let ask = |session: &mut Session, method: &str, params: Option<Value>| {
        let mut request = json!({"jsonrpc": "2.0", "id": "x", "method": method});
        if let Some(params) = params {
            request["params"] = params;
        }
        session.send(&request);
        let answer = session.hear();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("x"), &json!(-32602)), "{answer}");
        answer["error"]["message"].as_str().expect("a sentence").to_owned()
    };
    for params in [None, Some(json!({"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}))] {
        let sentence = ask(&mut session, "initialize", params);
        assert!(sentence.contains("protocolVersion") && !sentence.contains("_meta"), "{sentence}");
    }
    session.begin();
    let sentence = ask(&mut session, "server/discover", None);
    assert!(
        sentence.contains("`params._meta` must name io.modelcontextprotocol/protocolVersion"),
        "{sentence}"
    );
    let sentence = ask(&mut session, "tools/call", Some(json!({"name": "memory_list", "arguments": "x"})));
    assert!(sentence.contains("`params.arguments` is no object"), "{sentence}");
    let sentence = ask(&mut session, "resources/read", Some(json!({})));
    assert!(sentence.contains("`params.uri` is missing"), "{sentence}");
    check_alive(&mut session);
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_is_full_ends_the_server_with_a_sentence_for_people() {
    let place = Place::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let mut child = place.command(&["mcp"]);
    child.stdin(std::process::Stdio::piped()).stdout(full).stderr(std::process::Stdio::piped());
    let mut child = child.spawn().expect("the program starts");
    let begin = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin});
    let mut input = child.stdin.take().expect("a pipe");
    writeln!(input, "{request}").expect("it reads");
    let ended = child.wait_with_output().expect("it ends");
    drop(input);
    let err = String::from_utf8(ended.stderr).expect("UTF-8");
    assert_eq!(ended.status.code(), Some(5), "{err}");
    let sentence = err.lines().last().expect("a sentence");
    assert!(sentence.contains("standard output cannot be written") && !err.contains("::"), "{err}");
}

#[test]
fn half_a_line_at_the_end_is_no_message() {
    let place = Place::new();
    let mut session = place.serve();
    let (_, request) = session.request("tools/call", json!({"name": "memory_list", "arguments": {}}));
    session.send_bytes(&request.to_string().as_bytes()[..40]);
    let (said, err) = session.end();
    assert!(said.is_empty() && !err.contains("panicked"), "{said:?} {err}");
}

#[test]
fn unknown_names_and_wrong_types_have_their_errors() {
    for era in [Era::Initialize, Era::Stateless] {
        let place = Place::new();
        let mut session = place.open(&["mcp"], era);
        assert_eq!(session.error("memory/dance", json!({})).0, -32601);
        assert_eq!(session.error("resources/subscribe", json!({"uri": "memory:///a"})).0, -32601);
        let (code, sentence) = session.error("tools/call", json!({"name": "memory_dance", "arguments": {}}));
        assert!(code == -32602 && sentence.contains("memory_dance"), "{sentence}");
        for params in [
            json!({"name": 5, "arguments": {}}),
            json!({"name": "memory_list", "arguments": [1]}),
            json!({"name": "memory_list", "arguments": "x"}),
            json!({"arguments": {}}),
        ] {
            assert_eq!(session.error("tools/call", params.clone()).0, -32602, "{params}");
        }
        assert_eq!(session.error("resources/read", json!({"uri": 1})).0, -32602);
        for arguments in [
            json!({"key": 5}),
            json!({}),
            json!({"key": "a", "colour": "red"}),
            json!({"key": "a", "at": -1}),
            json!({"key": "a", "at": "yesterday"}),
            json!({"key": "a", "at": 99}),
        ] {
            let text = session.failure("memory_recall", arguments.clone());
            assert!(
                text.contains("call")
                    || text.contains("needs")
                    || text.contains("takes")
                    || text.contains("ask"),
                "{arguments}: {text}"
            );
        }
        check_alive(&mut session);
    }
}

#[test]
fn an_id_that_is_under_way_is_not_taken_twice() {
    let place = Place::new();
    let mut session = place.serve();
    let call = |key: &str| {
        let arguments = json!({"key": key, "summary": "s", "body": "b"});
        let params = json!({"name": "memory_remember", "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": params})
    };
    let lines: String = (0..20).map(|n| format!("{}\n", call(&n.to_string()))).collect();
    session.send_bytes(lines.as_bytes());
    let mut saved = 0;
    for _ in 0..20 {
        let answer = session.hear();
        match answer["error"]["code"].as_i64() {
            None => saved += 1,
            Some(code) => assert_eq!(code, -32600, "{answer}"),
        }
    }
    let list = session.call("memory_list", json!({}));
    assert_eq!(list["structuredContent"]["total"], saved, "what was refused was not done, and the rest was");
}

#[test]
fn a_request_that_is_given_up_frees_its_place() {
    let place = Place::new();
    let mut session = place.serve();
    let mut lines = String::new();
    let arguments = json!({"key": "k", "summary": "s", "body": "b"});
    for _ in 0..200 {
        let call = json!({"name": "memory_remember", "arguments": arguments});
        let (id, request) = session.request("tools/call", call);
        let params = json!({"requestId": id, "reason": "changed my mind"});
        lines.push_str(&format!("{request}\n"));
        lines.push_str(&format!(
            "{}\n",
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        ));
    }
    // None of them is answered before it is given up, because all wait for this process.
    let other = mnemolog::Options::new().writers(mnemolog::Writers::Many).open(place.store()).expect("opens");
    other
        .root()
        .exclusive(|_| {
            session.send_bytes(lines.as_bytes());
            session.ask("ping", json!({}));
            Ok::<_, mnemolog::Error>(())
        })
        .expect("an empty section");
    check_alive(&mut session);
}

#[test]
fn a_line_of_50_mb_is_refused_and_costs_no_more_than_a_buffer() {
    let place = Place::new();
    let mut session = place.serve();
    check_alive(&mut session);
    let body = "x".repeat(50_000_000);
    let (_, request) = session.request(
        "tools/call",
        json!({"name": "memory_remember", "arguments": {"key": "k", "summary": "s", "body": body}}),
    );
    session.send(&request);
    assert_eq!(session.hear()["error"]["code"], -32600);
    check_alive(&mut session);
    #[cfg(target_os = "linux")]
    {
        let peak = memory_kib(&session, "VmHWM");
        println!("resident at most {peak} KiB for a line of 50 MB");
        assert!(peak < RESIDENT_MAX_KIB, "{peak} KiB");
    }
}

#[test]
fn ten_thousand_calls_whose_answers_nobody_reads_make_the_server_wait() {
    const CALLS: usize = 10_000;
    let place = Place::new();
    place.done(&["remember", "long", "--summary", "s", "--body", &"x".repeat(30_000)]);
    let mut child = place.command(&["mcp"]);
    child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = child.stderr(std::process::Stdio::null()).spawn().expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    let out = child.stdout.take().expect("a pipe");
    // Nobody reads `out` before the writer is stuck or done.
    let written = Arc::new(AtomicUsize::new(0));
    let progress = Arc::clone(&written);
    let writer = std::thread::spawn(move || {
        let begin = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        writeln!(
            input,
            "{}",
            json!({"jsonrpc": "2.0", "id": "begin", "method": "initialize", "params": begin})
        )
        .expect("it reads");
        for id in 0..CALLS {
            let params = json!({"name": "memory_recall", "arguments": {"key": "long"}});
            writeln!(
                input,
                "{}",
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
            )
            .expect("it reads");
            progress.fetch_add(1, Ordering::Relaxed);
        }
    });
    let status = || {
        let path = format!("/proc/{}/status", child.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map(str::to_owned);
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default()
    };
    // Stuck is who has not moved for a second; there is no event for that.
    let (mut last, mut since) = (usize::MAX, Instant::now());
    while !writer.is_finished() && since.elapsed() < Duration::from_secs(1) {
        let now = written.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let (stuck_at, peak) = (written.load(Ordering::Relaxed), status());
    println!("of {CALLS} calls {stuck_at} were taken before an answer was read; resident at most {peak} KiB");
    assert!(stuck_at < CALLS, "the server took every call");
    let mut seen = vec![false; CALLS];
    let lines = std::io::BufRead::lines(std::io::BufReader::new(out));
    for line in lines.take(CALLS + 1) {
        let answer: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        if let Some(id) = answer["id"].as_u64() {
            assert!(!std::mem::replace(&mut seen[id as usize], true), "answered twice: {id}");
            assert_eq!(answer["result"]["isError"], false);
        }
    }
    writer.join().expect("it wrote all");
    assert!(seen.iter().all(|seen| *seen), "every call is answered");
    let until = Instant::now() + DEADLINE;
    while child.try_wait().expect("a process of ours").is_none() {
        assert!(Instant::now() < until, "the server did not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    #[cfg(target_os = "linux")]
    assert!(peak < RESIDENT_MAX_KIB, "{peak} KiB");
}

#[test]
fn requests_that_are_given_up_cost_no_memory_though_nobody_reads() {
    const ROUNDS: usize = 1_500;
    const AT_ONCE: usize = 32;
    let place = Place::new();
    place.done(&["remember", "long", "--summary", "s", "--body", &"x".repeat(40_000)]);
    for era in [Era::Initialize, Era::Stateless] {
        let mut session = Unread::start(&place);
        let mut call = json!({"name": "memory_recall", "arguments": {"key": "long"}});
        match era {
            Era::Initialize => session.begin(),
            Era::Stateless => call["_meta"] = stateless(),
        }
        for round in 0..ROUNDS {
            let ids = || round * AT_ONCE..(round + 1) * AT_ONCE;
            let calls =
                ids().map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call}));
            let cancels = ids().map(|id| {
                let params = json!({"requestId": id});
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            });
            if !session.send(&calls.chain(cancels).map(|line| format!("{line}\n")).collect::<String>()) {
                break;
            }
        }
        #[cfg(target_os = "linux")]
        {
            let peak = session.peak_kib();
            println!("{era:?}: at most {peak} KiB after {} bytes of calls and cancels", session.sent);
            // The program takes 20 MiB, and the answers that there is room for take 80 KB each.
            assert!(peak < 45 * 1024, "{era:?}: {peak} KiB");
        }
    }
}

#[test]
fn a_server_whose_client_died_ends_by_itself() {
    let place = Place::new();
    let mut session = place.serve();
    session.remember("a", "1");
    // The client dies: both ends of its pipes close, with a call under way and half a line written.
    let (_, request) = session.request(
        "tools/call",
        json!({"name": "memory_remember", "arguments": {"key": "b", "summary": "s", "body": "2"}}),
    );
    session.send(&request);
    session.send_bytes(b"{\"jsonrpc\"");
    drop(std::mem::replace(&mut session.lines, std::sync::mpsc::channel().1));
    drop(session.input.take());
    assert!(session.wait().success());
    assert_eq!(place.serve().recall("a"), "1");
}
