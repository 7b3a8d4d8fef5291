//! A tool through the server against the same tool in the library and an empty round trip, on 100,000 notes.
//!
//! The server is a process, spoken to over its standard input and output, one call at a time. The last column is what
//! the protocol may cost: the 99th percentile through the server by the sum of those of the library and of a `ping`.
//! Library, ping and server take turns within a run, because machines are noisy.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use mnemolog::tools::Toolbox;
use mnemolog::{Options, Store, Writers};
use serde_json::{Value, json};

const NOTES: usize = 100_000;
const PER_FRAME: usize = 5_000;

/// A call, and how often it is made.
struct Kind {
    tool: &'static str,
    arguments: fn(usize) -> Value,
    calls: usize,
}

const KINDS: [Kind; 3] = [
    Kind { tool: "memory_recall", arguments: |n| json!({"key": key(n * 7_919 % NOTES)}), calls: 5_000 },
    Kind {
        tool: "memory_search",
        arguments: |n| json!({"pattern": format!("word{} ", n * 7_919 % NOTES)}),
        calls: 200,
    },
    Kind { tool: "memory_search", arguments: |_| json!({"pattern": "note"}), calls: 200 },
];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("store");
    fill(&path)?;
    let store = Options::new().writers(Writers::Many).open(&path)?;
    let tools = Toolbox::new(&store.root());
    let mut server = Command::new(env!("CARGO_BIN_EXE_mnemolog"))
        .args(["--store".as_ref(), path.as_os_str(), "mcp".as_ref()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut client = Client {
        input: server.stdin.take().ok_or("no pipe")?,
        out: BufReader::new(server.stdout.take().ok_or("no pipe")?),
        line: String::new(),
    };
    let begin = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
    client.ask("initialize", begin)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "| call | | p50 | p99 |\n|---|---|---|---|")?;
    for kind in &KINDS {
        let [mut library, mut ping, mut through] = [const { Vec::new() }; 3];
        for n in 0..kind.calls {
            let arguments = (kind.arguments)(n);
            library.push(time(|| {
                tools.call(kind.tool, &arguments)?;
                Ok(())
            })?);
            ping.push(time(|| client.ask("ping", json!({})))?);
            through
                .push(time(|| client.ask("tools/call", json!({"name": kind.tool, "arguments": arguments})))?);
        }
        let shown = (kind.arguments)(1);
        let mut p99 = Vec::new();
        for (name, times) in [("library", &mut library), ("ping", &mut ping), ("server", &mut through)] {
            times.sort();
            let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
            writeln!(out, "| {} `{shown}` | {name} | {:.1?} | {:.1?} |", kind.tool, at(50), at(99))?;
            p99.push(at(99).as_secs_f64());
        }
        if let [library, ping, server] = p99.as_slice() {
            writeln!(out, "| | server / (library + ping) | | {:.2} |", server / (library + ping))?;
        }
    }
    drop(client);
    server.wait()?;
    Ok(())
}

fn fill(path: &Path) -> Result<()> {
    let store = Store::open(path)?;
    for first in (0..NOTES).step_by(PER_FRAME) {
        store.root().exclusive(|tx| -> mnemolog::Result<()> {
            let notes = tx.notes();
            for n in first..first + PER_FRAME {
                let body =
                    format!("This note holds word{n} and some more text, as long as a note often is. ")
                        .repeat(5);
                notes.remember(&key(n), "a summary of the usual length, about one line of a list", &body)?;
            }
            Ok(())
        })?;
    }
    Ok(store.close()?)
}

fn key(n: usize) -> String {
    format!("project/{}/note-{n}", n % 100)
}

fn time(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed())
}

struct Client {
    input: ChildStdin,
    out: BufReader<ChildStdout>,
    line: String,
}

impl Client {
    fn ask(&mut self, method: &str, params: Value) -> Result<()> {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.input.write_all(format!("{message}\n").as_bytes())?;
        self.line.clear();
        self.out.read_line(&mut self.line)?;
        if self.line.is_empty() || self.line.contains("\"isError\":true") || self.line.contains("\"error\":")
        {
            return Err(format!("{method}: {}", self.line).into());
        }
        Ok(())
    }
}
