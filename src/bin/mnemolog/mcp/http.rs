//! The server over HTTP, for clients on this machine that know a token.
//!
//! Owns the door: the address, which must be loopback; the token, which every request must bring; the bounds on
//! connections and on what they send. `rmcp` speaks streamable HTTP behind it, without sessions, so nothing is kept
//! between two requests: a client that begins is given an id that holds the name it gives itself, and brings it with
//! every later request. `rmcp` also holds the `Host` and the `Origin` of a request against what may be there, so that no
//! page in a browser can call.
//!
//! Invariant: before the token is checked, nothing of a request's body is read. No client holds up another for longer
//! than the bounds that `connections` and `body` name.

mod body;
mod connections;

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderValue, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::memory;
use super::message::BYTES_MAX;
use super::server::Server;
use super::stdio::told_to_end;
use crate::exit::{Exit, Refusal};
use crate::output;
use crate::render;
use body::{Body, ROOM, refusal};
use connections::{CONNECTIONS_MAX, Connection, Connections};

/// Where a client that began brings its id.
const SESSION_ID: &str = "mcp-session-id";

/// The one path that there is.
const PATH: &str = "/mcp";

/// How long a client may take over the head of a request.
const HEAD_WAIT: Duration = Duration::from_secs(10);

/// How long requests that are under way have when the server ends.
const END_WAIT: Duration = Duration::from_secs(5);

/// Pages of this machine, on any port, and what runs without one.
const LOOPBACK_ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// How the door is locked.
#[derive(Debug, Args)]
pub(super) struct DoorArgs {
    /// With --http: the token that clients must bring [default: one that is made and told on standard error]
    #[arg(long, value_name = "TOKEN", env = "MNEMOLOG_MCP_TOKEN", hide_env_values = true)]
    token: Option<String>,

    /// With --http: read the token from this file
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,

    /// With --http: pages from here may call, too, such as https://app.example.com:443
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
}

/// A door that is not open yet.
pub(super) struct Door {
    address: SocketAddr,
    token: String,
    /// Whether somebody has to be told the token.
    is_made: bool,
    origins: Vec<String>,
}

type Service = StreamableHttpService<Server, NeverSessionManager>;

/// Who sends a request: a part of its head, for whoever answers it.
#[derive(Clone, Debug, Default)]
pub(super) struct Sender(Arc<Said>);

#[derive(Debug, Default)]
struct Said {
    /// The name in the id that the request brings.
    name: Option<String>,
    /// The name that it begins with.
    begins: OnceLock<String>,
}

/// What a connection needs.
struct Guard {
    token: String,
    service: Service,
    /// For large bodies.
    room: Semaphore,
    /// One for each request that may be under way.
    under_way: Semaphore,
}

impl DoorArgs {
    /// Whether anything was said on the command line that only a door understands. A token in the environment is
    /// there for every command.
    pub(super) fn is_given(&self) -> bool {
        self.token_file.is_some() || !self.allow_origin.is_empty()
    }
}

/// An address that only this machine reaches.
pub(super) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let expected =
        "expected an address of this machine and a port, such as 127.0.0.1:8765, [::1]:8765 or 127.0.0.1:0";
    let address = match text.strip_prefix("localhost:") {
        Some(port) => {
            (IpAddr::V4(Ipv4Addr::LOCALHOST), port.parse().map_err(|_| expected)?).to_socket_addrs()
        }
        None => text.parse::<SocketAddr>().map_err(|_| expected)?.to_socket_addrs(),
    };
    let address = address.ok().and_then(|mut all| all.next()).ok_or(expected)?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(format!("{} can be reached from other machines; {expected}", address.ip()))
}

impl Door {
    /// # Errors
    /// A token that is empty or cannot stand in a header; the file cannot be read; no random numbers.
    pub(super) fn new(address: SocketAddr, args: &DoorArgs) -> Result<Door> {
        let (token, is_made) = match (&args.token, &args.token_file) {
            (Some(token), _) => (token.clone(), false),
            (None, Some(file)) => {
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("the token cannot be read from {}", file.display()))?;
                (text.trim().to_owned(), false)
            }
            (None, None) => {
                let bytes: [u8; 32] = memory::random()?;
                (bytes.iter().map(|byte| format!("{byte:02x}")).collect(), true)
            }
        };
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let sentence = "the token must be printable ASCII without spaces, and not empty";
            return Err(Refusal::new(Exit::Usage, sentence).into());
        }
        let origins = LOOPBACK_ORIGINS.map(String::from).into_iter().chain(args.allow_origin.iter().cloned());
        Ok(Door { address, token, is_made, origins: origins.collect() })
    }

    /// Opens the door, and serves until the process is told to end.
    ///
    /// # Errors
    /// The address cannot be taken.
    pub(super) async fn serve(self, server: &Server, store: &Path, workspace: &str) -> Result<()> {
        let listener = TcpListener::bind(self.address)
            .await
            .with_context(|| format!("{} cannot be served", self.address))?;
        let address = listener.local_addr().context("the address that is served is unknown")?;
        output::note(&render::mcp::serving(store, workspace, &format!("http://{address}{PATH}")));
        if self.is_made {
            output::note(&render::mcp::token(&self.token));
        }
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(BYTES_MAX)
            .with_allowed_origins(self.origins)
            .enforce_origin_validation();
        let ending = config.cancellation_token.clone();
        let served = server.clone();
        let service = Service::new(move || Ok(served.clone()), Arc::default(), config);
        let (room, under_way) = (Semaphore::new(ROOM), Semaphore::new(CONNECTIONS_MAX));
        let guard = Arc::new(Guard { token: self.token, service, room, under_way });
        let connections = Arc::new(Connections::new());
        let mut end = std::pin::pin!(told_to_end());
        loop {
            let accepted = tokio::select! {
                accepted = accept(&listener, &connections) => accepted,
                () = &mut end => break,
            };
            if let Some((stream, connection)) = accepted {
                tokio::spawn(Arc::clone(&guard).serve(stream, connection));
            }
        }
        server.end();
        let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(END_WAIT, guard.under_way.acquire_many(all)).await;
        ending.cancel();
        Ok(())
    }
}

async fn accept(listener: &TcpListener, connections: &Arc<Connections>) -> Option<(TcpStream, Connection)> {
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, connections.admit().await?)),
        Err(_) => {
            // Out of descriptors, most likely: those that are open have to end first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

impl Guard {
    async fn serve(self: Arc<Guard>, stream: TcpStream, connection: Connection) {
        let service =
            service_fn(async |request| Ok::<_, Infallible>(self.answer(request, &connection).await));
        let serving = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WAIT)
            .serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            // A client that goes away has had what it wanted.
            _ = serving => {}
            () = connection.told_to_go() => {}
        }
    }

    async fn answer(&self, request: Request<Incoming>, connection: &Connection) -> Response<Body> {
        if request.uri().path() != PATH {
            return refusal(StatusCode::NOT_FOUND, "there is nothing here; the server is at /mcp");
        }
        if !self.admits(request.headers().get(AUTHORIZATION)) {
            let mut answer =
                refusal(StatusCode::UNAUTHORIZED, "this needs the server's token: Authorization: Bearer …");
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return answer;
        }
        connection.is_known();
        let Ok(_under_way) = self.under_way.acquire().await else {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "the server is ending");
        };
        let (head, body) = request.into_parts();
        // What is answered to other methods does not depend on their bodies.
        let has_message = head.method == Method::POST;
        let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let read = if has_message { Some(body::read(body, length, &self.room).await) } else { None };
        let (bytes, _room) = match read.transpose() {
            Ok(read) => read.map_or_else(Default::default, |read| (read.bytes, read.room)),
            Err(refused) => return refused.answer(),
        };
        if let Some(answer) = has_message.then(|| body::unfit(&head.headers, &bytes)).flatten() {
            return answer;
        }
        self.hand_on(Request::from_parts(head, Full::new(bytes))).await
    }

    /// Lets `rmcp` answer.
    async fn hand_on(&self, mut request: Request<Full<Bytes>>) -> Response<Body> {
        let id = request.headers_mut().remove(SESSION_ID);
        let sender = Sender::new(id.as_ref().and_then(|id| id.to_str().ok()));
        request.extensions_mut().insert(sender.clone());
        let mut answer = self.service.handle(request).await;
        if let Some(id) = sender.session_id().and_then(|id| HeaderValue::try_from(id).ok()) {
            answer.headers_mut().insert(SESSION_ID, id);
        }
        answer
    }

    /// Whether the header brings the token. How long that takes says nothing of where they differ.
    fn admits(&self, header: Option<&HeaderValue>) -> bool {
        let Some((scheme, given)) = header.and_then(|header| header.to_str().ok()?.split_once(' ')) else {
            return false;
        };
        let (given, token) = (given.trim().as_bytes(), self.token.as_bytes());
        let differ = given.iter().zip(token).fold(0, |differ, (a, b)| differ | (a ^ b));
        scheme.eq_ignore_ascii_case("bearer") && given.len() == token.len() && differ == 0
    }
}

impl Sender {
    fn new(id: Option<&str>) -> Sender {
        let name = id.and_then(|id| {
            let (_, name) = id.split_once('.')?;
            percent_decode_str(name).decode_utf8().ok().map(Cow::into_owned)
        });
        Sender(Arc::new(Said { name, begins: OnceLock::new() }))
    }

    /// The name that the sender gave itself when it began.
    pub(super) fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Begins with a name.
    pub(super) fn begin(&self, name: &str) {
        // A request begins once; a second name in it changes nothing.
        let _ = self.0.begins.set(name.chars().take(memory::AGENT_CODE_POINTS_MAX).collect());
    }

    /// The id for a sender that begins: random, and the name behind it.
    fn session_id(&self) -> Option<String> {
        let name = self.0.begins.get()?;
        let random = u128::from_le_bytes(memory::random().ok()?);
        Some(format!("{random:032x}.{}", utf8_percent_encode(name, NON_ALPHANUMERIC)))
    }
}
