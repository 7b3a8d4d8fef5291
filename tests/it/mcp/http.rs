//! The server over HTTP: who is let in, and that both eras are served to whoever is.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{DEADLINE, Place, Run, STATELESS};

/// A server over HTTP.
struct Served {
    child: Child,
    address: String,
    token: String,
}

/// An answer: its status, its head, its body.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Served {
    fn start(place: &Place, args: &[&str]) -> Served {
        let args: Vec<&str> = ["mcp", "--http", "127.0.0.1:0"].iter().chain(args).copied().collect();
        let mut child =
            place.command(&args).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut after = |word: &str| {
            let line = lines.next().expect("a line").expect("UTF-8");
            line.split_once(word).unwrap_or_else(|| panic!("{word}: {line}")).1.to_owned()
        };
        let address = after("http://").trim_end_matches("/mcp").to_owned();
        let token =
            if args.contains(&"--token") { "secret".to_owned() } else { after("the token of this run is ") };
        Served { child, address, token }
    }

    /// Sends a request as it is, and reads the answer to its end.
    fn send(&self, head: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        let length = body.len();
        write!(stream, "{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
            .expect("it reads");
        answer(stream)
    }

    /// Begins a request, and does not end it.
    fn begin(&self, more: &str, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        let head = self.head("\r\nMCP-Protocol-Version: 2025-11-25");
        write!(stream, "{head}\r\n{more}\r\nConnection: close\r\n\r\n").expect("it reads");
        stream.write_all(body).expect("it reads");
        stream
    }

    fn head(&self, more: &str) -> String {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
                Accept: application/json, text/event-stream{more}",
            self.address, self.token
        )
    }

    /// A request of a client that began with `initialize`.
    fn ask(&self, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = self.send(&self.head("\r\nMCP-Protocol-Version: 2025-11-25"), &message.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).expect("JSON")
    }

    /// A request of a client without a handshake.
    fn ask_stateless(&self, method: &str, name: &str, params: Value) -> Value {
        let answer = self.send_stateless(method, name, params);
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).expect("JSON")
    }

    fn send_stateless(&self, method: &str, name: &str, mut params: Value) -> Answer {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let name = if name.is_empty() { String::new() } else { format!("\r\nMcp-Name: {name}") };
        let more = format!("\r\nMCP-Protocol-Version: {STATELESS}\r\nMcp-Method: {method}{name}");
        self.send(&self.head(&more), &message.to_string())
    }
}

/// Reads an answer to its end.
fn answer(mut stream: TcpStream) -> Answer {
    let mut text = Vec::new();
    // A body that the server did not read is answered all the same, and then the connection is reset.
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn list() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).to_string()
}

#[test]
fn both_eras_are_served_without_a_session() {
    let place = Place::new();
    let served = Served::start(&place, &[]);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    assert_eq!(served.ask("initialize", params)["result"]["serverInfo"]["name"], "mnemolog");
    let note = json!({"name": "memory_remember", "arguments": {"key": "a", "summary": "s", "body": "1"}});
    assert_eq!(served.ask("tools/call", note)["result"]["isError"], false);
    // Who names the version in each request begins no session.
    let begins = served.send_stateless("initialize", "", json!({}));
    assert_eq!((begins.status, begins.body.contains("-32601")), (404, true), "{begins:?}");
    let found = served.ask_stateless("server/discover", "", json!({}));
    assert!(
        found["result"]["supportedVersions"].as_array().is_some_and(|all| all.contains(&json!(STATELESS)))
    );
    let recall = json!({"name": "memory_recall", "arguments": {"key": "a"}});
    let result = served.ask_stateless("tools/call", "memory_recall", recall)["result"].clone();
    assert_eq!(
        (&result["structuredContent"]["body"], &result["resultType"]),
        (&json!("1"), &json!("complete"))
    );
    // Another process sees it at once, and the other way round.
    assert_eq!(place.done(&["recall", "a"]).trim_end(), "1");
    place.done(&["remember", "a", "--summary", "s", "--body", "2"]);
    let recall = json!({"name": "memory_recall", "arguments": {"key": "a"}});
    assert_eq!(served.ask("tools/call", recall)["result"]["structuredContent"]["body"], "2");
}

#[test]
fn the_history_names_the_client_that_began_and_the_one_that_needs_no_beginning() {
    let place = Place::new();
    let served = Served::start(&place, &[]);
    let name = "wanderer ünï/2";
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}});
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let began = served.send(&served.head(""), &begin);
    let id = began.head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
    });
    let id = id.expect("an id");
    let call = |key: &str| {
        let arguments = json!({"key": key, "summary": "s", "body": "b"});
        json!({"name": "memory_remember", "arguments": arguments})
    };
    let later = |more: &str, key: &str| {
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call(key)});
        let head = served.head(&format!("\r\nMCP-Protocol-Version: 2025-11-25{more}"));
        let answer = served.send(&head, &message.to_string());
        assert!(answer.status == 200 && answer.body.contains("saved"), "{answer:?}");
        assert!(!answer.head.to_ascii_lowercase().contains("mcp-session-id"), "{answer:?}");
    };
    later(&format!("\r\nMcp-Session-Id: {id}"), "began");
    later("", "unknown");
    later("\r\nMcp-Session-Id: of-another-server", "unknown");
    served.ask_stateless("tools/call", "memory_remember", call("stateless"));
    let agent = |key: &str| {
        let versions = place.done(&["--json", "history", key]);
        let version: Value = serde_json::from_str(versions.lines().next().expect("a version")).expect("JSON");
        version["origin"]["agent"].clone()
    };
    assert_eq!((agent("began"), agent("stateless")), (json!(name), json!("tester")));
    assert_eq!(agent("unknown"), Value::Null);
}

#[test]
fn whoever_does_not_bring_the_token_is_told_nothing() {
    let place = Place::new();
    let served = Served::start(&place, &[]);
    assert_eq!(served.token.len(), 64, "{}", served.token);
    let with = |header: &str| {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}{header}\r\nContent-Type: application/json\r\n\
            Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25",
            served.address
        );
        served.send(&head, &list())
    };
    let wrong = "f".repeat(64);
    for header in [
        String::new(),
        "\r\nAuthorization: Bearer".to_owned(),
        "\r\nAuthorization: Bearer ".to_owned(),
        format!("\r\nAuthorization: Bearer {wrong}"),
        format!("\r\nAuthorization: Bearer {}0", served.token),
        format!("\r\nAuthorization: Bearer {}", &served.token[..63]),
        format!("\r\nAuthorization: Basic {}", served.token),
        format!("\r\nAuthorization: {}", served.token),
    ] {
        let answer = with(&header);
        assert_eq!(answer.status, 401, "{header}: {answer:?}");
        assert!(answer.head.to_ascii_lowercase().contains("www-authenticate: bearer"), "{answer:?}");
        assert!(!answer.body.contains(&served.token) && !answer.body.contains("memory_"), "{answer:?}");
    }
    assert_eq!(with(&format!("\r\nAuthorization: bearer {}", served.token)).status, 200);
}

#[test]
fn pages_of_elsewhere_are_refused_and_those_of_this_machine_are_not() {
    let place = Place::new();
    let served = Served::start(&place, &["--allow-origin", "https://app.example:443"]);
    let from = |more: &str| {
        served.send(&served.head(&format!("\r\nMCP-Protocol-Version: 2025-11-25{more}")), &list()).status
    };
    for origin in
        ["https://evil.example", "http://localhost.evil.example", "null", "https://app.example:8443"]
    {
        assert_eq!(from(&format!("\r\nOrigin: {origin}")), 403, "{origin}");
    }
    for origin in ["http://localhost:5173", "http://127.0.0.1:80", "https://app.example"] {
        assert_eq!(from(&format!("\r\nOrigin: {origin}")), 200, "{origin}");
    }
    let rebound = served
        .head("\r\nMCP-Protocol-Version: 2025-11-25")
        .replace(&format!("Host: {}", served.address), "Host: evil.example");
    assert_eq!(served.send(&rebound, &list()).status, 403);
}

#[test]
fn only_addresses_of_this_machine_are_served() {
    let place = Place::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "example.com:80", "8080", "localhost"] {
        let Run { code, out, err } = place.run(&["mcp", "--http", address]);
        assert!(code != 0 && out.is_empty() && err.contains("127.0.0.1:8765"), "{address}: {err}");
    }
    assert!(!place.store().exists(), "nothing was opened");
    let Run { code, err, .. } = place.run(&["mcp", "--http", "127.0.0.1:0", "--token", ""]);
    assert!(code != 0 && err.contains("token"), "{err}");
    let Run { code, err, .. } = place.run(&["mcp", "--allow-origin", "http://x"]);
    assert!(code != 0 && err.contains("--http"), "{err}");
}

#[test]
fn a_token_comes_from_a_flag_or_from_a_file() {
    let place = Place::new();
    let served = Served::start(&place, &["--token", "secret"]);
    assert!(served.ask("tools/list", json!({}))["result"]["tools"].is_array());
    drop(served);
    std::fs::write(place.root().join("token"), "from-a-file\n").expect("a file");
    let mut command = place.command(&["mcp", "--http", "127.0.0.1:0", "--token-file", "token"]);
    let mut child = command.stderr(Stdio::piped()).stdin(Stdio::null()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stderr.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let address =
        line.trim_end().split_once("http://").expect("an address").1.trim_end_matches("/mcp").to_owned();
    let served = Served { child, address, token: "from-a-file".to_owned() };
    assert!(served.ask("tools/list", json!({}))["result"]["tools"].is_array());
}

#[test]
fn what_is_no_request_has_an_answer() {
    let place = Place::new();
    let served = Served::start(&place, &[]);
    let head = served.head("\r\nMCP-Protocol-Version: 2025-11-25");
    let unread = "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\",\"params\":{\"n\":1e400}}";
    for (body, code, id) in [
        ("", -32700, Value::Null),
        ("garbage", -32700, Value::Null),
        ("[]", -32600, Value::Null),
        ("{\"jsonrpc\":\"2.0\"}", -32600, Value::Null),
        ("{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"ping\"}", -32600, json!(7)),
        (unread, -32600, json!("x")),
    ] {
        let answer = served.send(&head, body);
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert!(answer.head.to_ascii_lowercase().contains("content-type: application/json"), "{answer:?}");
        let error: Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!((&error["error"]["code"], &error["id"]), (&json!(code), &id), "{body}: {answer:?}");
    }
    assert_eq!(served.send(&head.replace("application/json\r\n", "text/plain\r\n"), "garbage").status, 415);
    assert_eq!(served.send(&head.replace("POST", "GET"), "").status, 405);
    assert_eq!(served.send(&head.replace("/mcp", "/"), &list()).status, 404);
    let mut stream = TcpStream::connect(&served.address).expect("it listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    // A body that is said to be too long is refused without being read.
    write!(stream, "{head}\r\nContent-Length: 50000000\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 413");
    assert!(served.ask("tools/list", json!({}))["result"]["tools"].is_array(), "and the next is served");
}

#[test]
fn uploads_that_stall_hold_up_nobody_and_are_given_up() {
    let place = Place::new();
    let served = Served::start(&place, &[]);
    let part = vec![b' '; 2 * 1024 * 1024];
    let since = Instant::now();
    // Two that are said to be as large as may be, one of which says nothing of its length, and one that says nothing.
    let stalled = [
        served.begin("Content-Length: 41943040", &part),
        served.begin("Transfer-Encoding: chunked", &[b"200000\r\n", &part[..], b"\r\n"].concat()),
        served.begin("Content-Length: 100", b""),
    ];
    for _ in 0..5 {
        assert!(served.ask("tools/list", json!({}))["result"]["tools"].is_array());
    }
    // There is room for one of the large ones.
    let mut answered: Vec<u16> = stalled.into_iter().map(|stream| answer(stream).status).collect();
    answered[..2].sort_unstable();
    assert_eq!(answered, [408, 503, 408]);
    assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
    // And now there is room for a large one that comes.
    let body = "x".repeat(30_000_000);
    let note = json!({"name": "memory_remember", "arguments": {"key": "a", "summary": "s", "body": body}});
    assert_eq!(served.ask("tools/call", note)["result"]["isError"], false);
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    let place = Place::new();
    let served = Served::start(&place, &[]);
    let mut silent: Vec<TcpStream> = Vec::new();
    for _ in 0..2 {
        let since = Instant::now();
        silent.extend((0..64).map(|_| TcpStream::connect(&served.address).expect("it listens")));
        assert!(served.ask("tools/list", json!({}))["result"]["tools"].is_array());
        // The head of a request has ten seconds.
        assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
    }
}
