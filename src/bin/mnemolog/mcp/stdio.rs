//! Messages over standard input and output, one JSON-RPC message a line.
//!
//! Owns what `rmcp`'s own transport lacks: an answer to whatever comes, also to a line that is no message or too long;
//! and backpressure. A request is read only while there is room for it, and its room is free again when its answer is
//! written, so a client that asks and never reads makes the server wait, not grow.
//!
//! Invariants: a line holds at most [`LINE_BYTES_MAX`]. Requests that are not answered yet number at most
//! [`ROOM`] and their lines hold some [`ROOM`] MiB. No id is under way twice. An answer is written whole or not at all.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, JsonRpcMessage, NumberOrString, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{QuitReason, ServerInitializeError, serve_server};
use rmcp::transport::Transport;
use rmcp::{RoleServer, transport};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::server::Server;
use crate::output;
use crate::render;

/// The most bytes of one line: a body of 32 MiB, the most that a store takes by default, and what stands around it.
pub(super) const LINE_BYTES_MAX: usize = 40 * 1024 * 1024;

/// How many requests may be under way; one counts once more for each [`UNIT_BYTES`] of its line.
pub(super) const ROOM: usize = 64;
pub(super) const UNIT_BYTES: usize = 1024 * 1024;

/// What a line buffer may keep between lines.
const LINE_BYTES_KEPT: usize = 64 * 1024;

/// Serves until the end of standard input, or until the process is told to end.
///
/// # Errors
/// The first message was none that a session can begin with.
pub(super) async fn serve(server: &Server) -> Result<()> {
    let (input, out) = transport::stdio_pipes();
    let lines = Lines::new(input, out);
    let running = tokio::select! {
        running = serve_server(server.clone(), lines) => running,
        () = told_to_end() => return Ok(()),
    };
    let running = match running {
        Ok(running) => running,
        // The client went away before it began.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
            output::note(render::mcp::NOT_BEGUN);
            return Ok(());
        }
        Err(error) => return Err(anyhow::Error::new(error).context("the session did not begin")),
    };
    let ending = running.cancellation_token();
    let mut waiting = std::pin::pin!(running.waiting());
    let quit = tokio::select! {
        quit = &mut waiting => quit,
        () = told_to_end() => {
            ending.cancel();
            waiting.await
        }
    };
    match quit? {
        QuitReason::JoinError(error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Waits until the process is interrupted or terminated.
pub(super) async fn told_to_end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    // Where no signal can be waited for, none ends the wait.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The transport.
struct Lines<R, W> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// The rest of a line that was too long is passed over.
    passing_over: bool,
    /// Room for the message that is read next.
    permit: Option<OwnedSemaphorePermit>,
    /// A message that was read, and how much more room it needs.
    arrived: Option<(Arrived, u32)>,
    shared: Arc<Shared<W>>,
}

struct Shared<W> {
    room: Arc<Semaphore>,
    /// The requests that are not answered, each with its room.
    under_way: Mutex<HashMap<RequestId, OwnedSemaphorePermit>>,
    out: tokio::sync::Mutex<W>,
    /// Nobody reads the answers any more.
    unread: Notify,
}

/// What a line was.
enum Arrived {
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing that a session can go on with; the answer to it.
    Refused(Box<ServerJsonRpcMessage>),
}

impl<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send + 'static> Lines<R, W> {
    fn new(read: R, write: W) -> Lines<R, W> {
        let shared = Shared {
            room: Arc::new(Semaphore::new(ROOM)),
            under_way: Mutex::default(),
            out: tokio::sync::Mutex::new(write),
            unread: Notify::new(),
        };
        Lines {
            read: BufReader::with_capacity(LINE_BYTES_KEPT, read),
            line: Vec::new(),
            passing_over: false,
            permit: None,
            arrived: None,
            shared: Arc::new(shared),
        }
    }

    /// The next message. It may be dropped at any wait and called again: nothing that was read is lost.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.permit.is_none() {
                self.permit = Some(Arc::clone(&self.shared.room).acquire_owned().await.ok()?);
            }
            if self.arrived.is_none() {
                let arrived = match self.read_line().await? {
                    Line::TooLong => Arrived::refused(None, too_long()),
                    Line::Whole => match parsed(trimmed(&self.line)) {
                        Some(arrived) => arrived,
                        None => {
                            self.line.clear();
                            continue;
                        }
                    },
                };
                let more = u32::try_from(self.line.len() / UNIT_BYTES).unwrap_or(u32::MAX);
                self.arrived = Some((arrived, more));
                self.line.clear();
                self.line.shrink_to(LINE_BYTES_KEPT);
            }
            if let Some((_, more)) = self.arrived.as_mut().filter(|(_, more)| *more > 0) {
                let room = Arc::clone(&self.shared.room).acquire_many_owned(*more).await.ok()?;
                *more = 0;
                if let Some(permit) = &mut self.permit {
                    permit.merge(room);
                }
            }
            let (Some((arrived, _)), Some(permit)) = (self.arrived.take(), self.permit.take()) else {
                continue;
            };
            if let Some(message) = self.admitted(arrived, permit) {
                return Some(message);
            }
        }
    }

    /// A message that the session goes on with. Whatever else came is answered here.
    fn admitted(&self, arrived: Arrived, permit: OwnedSemaphorePermit) -> Option<ClientJsonRpcMessage> {
        let answer = match arrived {
            Arrived::Refused(answer) => *answer,
            Arrived::Message(message) => {
                match &*message {
                    JsonRpcMessage::Request(request) => {
                        let mut under_way = self.shared.under_way();
                        if !under_way.contains_key(&request.id) {
                            under_way.insert(request.id.clone(), permit);
                            return Some(*message);
                        }
                        let sentence = "a request with this id is under way; give each its own";
                        let error = ErrorData::invalid_request(sentence, None);
                        ServerJsonRpcMessage::error(error, Some(request.id.clone()))
                    }
                    JsonRpcMessage::Notification(notification) => {
                        if let ClientNotification::CancelledNotification(cancelled) =
                            &notification.notification
                            && let Some(id) = &cancelled.params.request_id
                        {
                            // It is not answered any more.
                            self.shared.under_way().remove(id);
                        }
                        return Some(*message);
                    }
                    _ => return Some(*message),
                }
            }
        };
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move { shared.write(answer, Some(permit)).await });
        None
    }

    /// Reads on in the current line. None: the end, or what was read last was not a whole line.
    async fn read_line(&mut self) -> Option<Line> {
        loop {
            let buffer = tokio::select! {
                buffer = self.read.fill_buf() => buffer.ok()?,
                () = self.shared.unread.notified() => return None,
            };
            if buffer.is_empty() {
                return None;
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |end| end + 1);
            let fits = self.line.len() + taken <= LINE_BYTES_MAX;
            if !self.passing_over && fits {
                self.line.extend_from_slice(buffer.get(..taken).unwrap_or_default());
            }
            self.read.consume(taken);
            if !self.passing_over && !fits {
                self.line = Vec::new();
                self.passing_over = end.is_none();
                return Some(Line::TooLong);
            }
            match (end.is_some(), self.passing_over) {
                (true, true) => self.passing_over = false,
                (true, false) => return Some(Line::Whole),
                (false, _) => {}
            }
        }
    }
}

enum Line {
    Whole,
    TooLong,
}

impl<W: AsyncWrite + Unpin> Shared<W> {
    async fn write(
        &self,
        message: ServerJsonRpcMessage,
        room: Option<OwnedSemaphorePermit>,
    ) -> io::Result<()> {
        let mut line = serde_json::to_vec(&message)?;
        drop(message);
        line.push(b'\n');
        let mut out = self.out.lock().await;
        let written = match out.write_all(&line).await {
            Ok(()) => out.flush().await,
            failed => failed,
        };
        if written.is_err() {
            self.unread.notify_one();
        }
        drop(room);
        written
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<RequestId, OwnedSemaphorePermit>> {
        // Nothing panics while it is held.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(&mut self, item: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let id = match &item {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        let room = id.and_then(|id| self.shared.under_way().remove(id));
        let shared = Arc::clone(&self.shared);
        async move { shared.write(item, room).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.next().await
    }

    async fn close(&mut self) -> io::Result<()> {
        // Not waiting for an answer that nobody reads: what is written next would wait behind it for ever.
        Ok(())
    }
}

impl Arrived {
    fn refused(id: Option<RequestId>, error: ErrorData) -> Arrived {
        Arrived::Refused(Box::new(ServerJsonRpcMessage::error(error, id)))
    }
}

fn too_long() -> ErrorData {
    let sentence = format!("a message is at most {LINE_BYTES_MAX} bytes long; this one was passed over");
    ErrorData::invalid_request(sentence, None)
}

/// The line without its end, and without the mark that some programs begin a text with.
fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    line.trim_ascii()
}

/// What a line is; none if there is nothing to answer: it is empty, or a notification that nobody knows.
fn parsed(line: &[u8]) -> Option<Arrived> {
    if line.is_empty() {
        return None;
    }
    if let Ok(message) = serde_json::from_slice::<ClientJsonRpcMessage>(line) {
        return Some(Arrived::Message(Box::new(message)));
    }
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return Some(Arrived::refused(None, ErrorData::parse_error("the line is no JSON", None)));
    };
    let id = match value.get("id") {
        Some(Value::String(id)) => Some(NumberOrString::String(id.as_str().into())),
        Some(Value::Number(id)) => id.as_i64().map(NumberOrString::Number),
        _ => None,
    };
    let is_notification = value.get("method").is_some_and(Value::is_string) && value.get("id").is_none();
    if is_notification {
        return None;
    }
    let sentence =
        "the message is none of JSON-RPC 2.0: a request has `jsonrpc`, `id`, `method` and `params`";
    Some(Arrived::refused(id, ErrorData::invalid_request(sentence, None)))
}
