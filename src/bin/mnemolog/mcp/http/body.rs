//! The body of a request: how much of it is read, for how long, and what is answered to one that is no message.
//!
//! Owns the room that large bodies share. One of up to [`UNIT_BYTES`] takes none of it, so that whoever sends much, or
//! nothing for long, holds up nobody who sends little.

use std::convert::Infallible;
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use rmcp::model::{ErrorData, ServerJsonRpcMessage};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::mcp::message::{self, Arrived, BYTES_MAX};

/// How many units of room there are, and how many bytes one is.
pub(super) const ROOM: usize = 64;
const UNIT_BYTES: usize = 1024 * 1024;

/// How long a client may take over a body.
const BODY_WAIT: Duration = Duration::from_secs(10);

/// How long a large body waits for others.
const ROOM_WAIT: Duration = Duration::from_secs(5);

/// An answer's body.
pub(super) type Body = BoxBody<Bytes, Infallible>;

/// A body that was read, and the room that it takes.
pub(super) struct Read<'r> {
    pub(super) bytes: Bytes,
    pub(super) room: Option<SemaphorePermit<'r>>,
}

/// Why a body was not read, and what is answered.
pub(super) struct Refused(StatusCode, &'static str);

impl Refused {
    pub(super) fn answer(&self) -> Response<Body> {
        refusal(self.0, self.1)
    }
}

/// Reads a body of the length that the client says it has, or up to the most if it says none.
///
/// # Errors
/// The answer to one that is too long, or comes too slowly, or finds no room.
pub(super) async fn read(
    body: Incoming,
    announced: Option<usize>,
    room: &Semaphore,
) -> Result<Read<'_>, Refused> {
    let most = announced.unwrap_or(BYTES_MAX);
    if most > BYTES_MAX {
        return Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, "a message is at most 40 MiB long"));
    }
    let read = tokio::time::timeout(BODY_WAIT, collect(body, most, room)).await;
    read.unwrap_or_else(|_| {
        Err(Refused(StatusCode::REQUEST_TIMEOUT, "the body did not come within 10 seconds"))
    })
}

async fn collect(mut body: Incoming, most: usize, room: &Semaphore) -> Result<Read<'_>, Refused> {
    let (mut bytes, mut held) = (Vec::new(), None);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Err(Refused(StatusCode::BAD_REQUEST, "the body did not come whole"));
        };
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > BYTES_MAX {
            return Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, "a message is at most 40 MiB long"));
        }
        if length > UNIT_BYTES && held.is_none() {
            let units = u32::try_from(most.max(length) / UNIT_BYTES + 1).unwrap_or(u32::MAX);
            let acquired = tokio::time::timeout(ROOM_WAIT, room.acquire_many(units)).await;
            let Ok(Ok(permit)) = acquired else {
                let sentence = "other large messages are being read; the same request may succeed later";
                return Err(Refused(StatusCode::SERVICE_UNAVAILABLE, sentence));
            };
            held = Some(permit);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Read { bytes: bytes.into(), room: held })
}

/// The answer to a body that is no message, if it is none and is said to be JSON.
pub(super) fn unfit(headers: &HeaderMap, bytes: &Bytes) -> Option<Response<Body>> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = kind.split_once(';').map_or(kind, |(kind, _)| kind).trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return None;
    }
    let error = match message::parsed(bytes) {
        Some(Arrived::Message(_)) => return None,
        Some(Arrived::Refused(error)) => *error,
        None if bytes.trim_ascii().is_empty() => {
            ServerJsonRpcMessage::error(ErrorData::parse_error("the body is empty", None), None)
        }
        // A notification that nobody knows has no answer.
        None => return Some(refusal(StatusCode::ACCEPTED, "")),
    };
    let mut answer = Response::new(Full::from(serde_json::to_vec(&error).unwrap_or_default()).boxed());
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Some(answer)
}

/// An answer that is a sentence.
pub(super) fn refusal(status: StatusCode, sentence: &'static str) -> Response<Body> {
    let mut answer = Response::new(Full::new(Bytes::from_static(sentence.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
}
