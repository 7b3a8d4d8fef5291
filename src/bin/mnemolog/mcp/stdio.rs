//! Messages over standard input and output, one JSON-RPC message a line.
//!
//! Owns what `rmcp`'s own transport lacks: an answer to whatever comes, also to a line that is no message or too long;
//! and backpressure. A request is read only while there is room for it, and its room is free again when its answer is
//! written, so a client that asks and never reads makes the server wait, not grow.
//!
//! Invariants: a line holds at most [`BYTES_MAX`]. Requests that are not done with yet, which a request that its client
//! gave up is when its call has ended, number at most [`ROOM`] and their lines hold some [`ROOM`] MiB. No id is under way
//! twice. An answer is written whole or not at all.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, GetExtensions, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{QuitReason, ServerInitializeError, serve_server};
use rmcp::transport::Transport;
use rmcp::{RoleServer, transport};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::message::{self, Arrived, BYTES_MAX};
use super::server::Server;
use crate::exit::{Exit, Refusal};
use crate::output;
use crate::render;

/// How many requests may be under way; one counts once more for each [`UNIT_BYTES`] of its line.
const ROOM: usize = 64;
const UNIT_BYTES: usize = 1024 * 1024;

/// How long calls that wait for their turn still have when the input has ended: whoever sent them may read on.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// What a line buffer may keep between lines.
const LINE_BYTES_KEPT: usize = 64 * 1024;

/// Serves until the end of standard input, or until the process is told to end.
///
/// # Errors
/// The session did not begin; an answer could not be written.
pub(super) async fn serve(server: &Server) -> Result<()> {
    let (input, out) = transport::stdio_pipes();
    let lines = Lines::new(input, out);
    let shared = Arc::clone(&lines.shared);
    let served = session(server, lines, &shared).await;
    match shared.failure() {
        // Whoever closes the pipe has seen enough.
        Some(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            Err(cause).context("the session ended, because standard output cannot be written")
        }
        Some(_) => Ok(()),
        None => served,
    }
}

/// One session, from its first message to its end.
async fn session<R, W>(server: &Server, lines: Lines<R, W>, shared: &Shared<W>) -> Result<()>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
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
        Err(ServerInitializeError::InitializeFailed(error)) => {
            let sentence = format!("the session did not begin: {}", error.message);
            return Err(Refusal::new(Exit::Refused, sentence).into());
        }
        Err(_) => return Err(Refusal::new(Exit::Refused, "the session did not begin").into()),
    };
    let ending = running.cancellation_token();
    let mut waiting = std::pin::pin!(running.waiting());
    let quit = tokio::select! {
        quit = &mut waiting => quit,
        () = last_turn(shared) => {
            server.end();
            ending.cancel();
            waiting.await
        }
    };
    match quit? {
        QuitReason::JoinError(error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Waits until no further call begins.
async fn last_turn<W>(shared: &Shared<W>) {
    let input_ended = async {
        shared.ended.notified().await;
        tokio::time::sleep(LAST_WAIT).await;
    };
    tokio::select! {
        () = told_to_end() => {}
        () = input_ended => {}
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
    under_way: Mutex<HashMap<RequestId, UnderWay>>,
    out: tokio::sync::Mutex<W>,
    /// Nobody reads the answers any more.
    unread: Notify,
    /// Why, if it was a failure.
    failed: Mutex<Option<io::Error>>,
    /// Nothing comes any more.
    ended: Notify,
}

/// A request that is not done with.
struct UnderWay {
    room: OwnedSemaphorePermit,
    given_up: GivenUp,
    is_given_up: bool,
}

/// Tells the call of one request that its client gave the request up: a part of the request, for whoever answers it.
#[derive(Clone, Default)]
pub(super) struct GivenUp(Arc<Notify>);

impl GivenUp {
    /// Waits until the client gives the request up. One may wait.
    pub(super) async fn wait(&self) {
        self.0.notified().await;
    }
}

impl<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send + 'static> Lines<R, W> {
    fn new(read: R, write: W) -> Lines<R, W> {
        let shared = Shared {
            room: Arc::new(Semaphore::new(ROOM)),
            under_way: Mutex::default(),
            out: tokio::sync::Mutex::new(write),
            unread: Notify::new(),
            failed: Mutex::default(),
            ended: Notify::new(),
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
                    Line::TooLong => Arrived::refused(None, message::too_long()),
                    Line::Whole => match message::parsed(&self.line) {
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
            Arrived::Message(mut message) => {
                match &mut *message {
                    JsonRpcMessage::Request(request) => {
                        let mut under_way = self.shared.under_way();
                        if !under_way.contains_key(&request.id) {
                            let given_up = GivenUp::default();
                            request.request.extensions_mut().insert(given_up.clone());
                            let this = UnderWay { room: permit, given_up, is_given_up: false };
                            under_way.insert(request.id.clone(), this);
                            return Some(*message);
                        }
                        let sentence = "a request with this id is under way; give each its own";
                        let error = ErrorData::invalid_request(sentence, None);
                        ServerJsonRpcMessage::error(error, Some(request.id.clone()))
                    }
                    JsonRpcMessage::Notification(notification) => {
                        if let ClientNotification::CancelledNotification(cancelled) =
                            &notification.notification
                        {
                            // `rmcp` is not told: it would forget the request while its call still works, and its
                            // room and its id would be free too early.
                            if let Some(id) = &cancelled.params.request_id {
                                self.shared.give_up(id);
                            }
                            return None;
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
            let fits = self.line.len() + taken <= BYTES_MAX;
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
        drop(room);
        let Err(cause) = written else { return Ok(()) };
        let kind = cause.kind();
        // The first failure is why; those behind it follow from it.
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(cause);
        self.unread.notify_one();
        Err(kind.into())
    }
}

impl<W> Shared<W> {
    /// The client does not wait for the answer any more. It gets none, and the call ends if it has not begun.
    fn give_up(&self, id: &RequestId) {
        if let Some(request) = self.under_way().get_mut(id) {
            request.is_given_up = true;
            request.given_up.0.notify_one();
        }
    }

    /// Why answers cannot be written, if that came up.
    fn failure(&self) -> Option<io::Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<RequestId, UnderWay>> {
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
        let request = id.and_then(|id| self.shared.under_way().remove(id));
        let shared = Arc::clone(&self.shared);
        async move {
            match request {
                Some(UnderWay { is_given_up: true, .. }) => Ok(()),
                request => shared.write(item, request.map(|request| request.room)).await,
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = self.next().await;
        if message.is_none() {
            self.shared.ended.notify_one();
        }
        message
    }

    async fn close(&mut self) -> io::Result<()> {
        // Not waiting for an answer that nobody reads: what is written next would wait behind it for ever.
        Ok(())
    }
}
