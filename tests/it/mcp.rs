//! The server for the Model Context Protocol, as real processes that are spoken to in bytes.
//!
//! A session is a process of the program and the lines that it was sent and that it said. Nothing here waits for time
//! to pass: only for lines, for processes that end, and for deadlines that fail a test.

mod config;
mod damage;
mod faults;
mod field;
mod http;
mod offers;
mod protocol;
mod resources;
mod sharing;
mod waits;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::{Place, Run};

/// When a test gives up on a process.
const DEADLINE: Duration = Duration::from_secs(120);

/// The version of the protocol that needs no handshake.
const STATELESS: &str = "2026-07-28";

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    /// It begins with `initialize`.
    Initialize,
    /// It names the version in each request.
    Stateless,
}

/// A server over standard input and output, and its client.
struct Session {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    err: JoinHandle<String>,
    era: Era,
    sent: u64,
}

impl Place {
    /// Starts a server, and says nothing to it yet.
    fn start(&self, args: &[&str], era: Era) -> Session {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (sender, lines) = channel();
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            let mut line = String::new();
            // A line that a killed process did not end was not said.
            while out.read_line(&mut line).is_ok_and(|n| n > 0) && line.ends_with('\n') {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let mut err = child.stderr.take().expect("a pipe");
        let err = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        let input = child.stdin.take();
        Session { child, input, lines, err, era, sent: 0 }
    }

    /// Starts a server and begins a session.
    fn open(&self, args: &[&str], era: Era) -> Session {
        let mut session = self.start(args, era);
        session.begin();
        session
    }

    fn serve(&self) -> Session {
        self.open(&["mcp"], Era::Initialize)
    }
}

impl Session {
    fn begin(&mut self) {
        if self.era == Era::Initialize {
            let params = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "tester", "version": "1"},
            });
            let result = self.result("initialize", params);
            assert_eq!(result["protocolVersion"], "2025-11-25", "{result}");
            self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
    }

    /// Sends a message as a line.
    fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("the server reads");
    }

    /// A request with an id of its own, as this era has it.
    fn request(&mut self, method: &str, mut params: Value) -> (u64, Value) {
        self.sent += 1;
        if self.era == Era::Stateless {
            params["_meta"] = stateless();
        }
        (self.sent, json!({"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params}))
    }

    /// The next message, waiting for it.
    fn hear(&self) -> Value {
        let line = self.lines.recv_timeout(DEADLINE).expect("a line within the deadline");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Sends a request and waits for its answer, the only one that is under way.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let (id, request) = self.request(method, params);
        self.send(&request);
        let answer = self.hear();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(id)), "{answer}");
        answer
    }

    fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The code and the sentence of an error.
    fn error(&mut self, method: &str, params: Value) -> (i64, String) {
        let answer = self.ask(method, params);
        assert!(answer.get("result").is_none(), "{method}: {answer}");
        let error = &answer["error"];
        (error["code"].as_i64().expect("a code"), error["message"].as_str().expect("a sentence").to_owned())
    }

    /// Calls a tool; its whole result.
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool that must succeed; its text.
    fn text(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        text_of(&result)
    }

    /// Calls a tool that must fail; its text.
    fn failure(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        assert!(result.get("structuredContent").is_none(), "{tool}: {result}");
        text_of(&result)
    }

    fn remember(&mut self, key: &str, body: &str) -> String {
        self.text("memory_remember", json!({"key": key, "summary": format!("about {key}"), "body": body}))
    }

    fn recall(&mut self, key: &str) -> String {
        self.text("memory_recall", json!({"key": key}))
    }

    /// Ends the input, and waits until the server ended well: what it still said, and what it said to people.
    fn end(mut self) -> (Vec<String>, String) {
        drop(self.input.take());
        let status = self.wait();
        assert!(status.success(), "the server ended with {status}");
        let err =
            std::mem::replace(&mut self.err, std::thread::spawn(String::new)).join().expect("its errors");
        (self.lines.iter().collect(), err)
    }

    /// SIGKILL; the lines that it had said.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
        self.lines.iter().collect()
    }

    fn wait(&mut self) -> std::process::ExitStatus {
        let until = Instant::now() + DEADLINE;
        loop {
            match self.child.try_wait().expect("a process of ours") {
                Some(status) => return status,
                None if Instant::now() > until => panic!("the server did not end"),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a request names that needs no handshake.
fn stateless() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn text_of(result: &Value) -> String {
    let content = result["content"].as_array().expect("content");
    assert_eq!(content.len(), 1, "{result}");
    content[0]["text"].as_str().expect("a text").to_owned()
}
