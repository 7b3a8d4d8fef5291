//! What a text that a client sends is as a message, however it came.
//!
//! Owns the errors about what is none, and about parameters that a method does not take. An error names the request that
//! it is about, as long as its id can be found: a client that is answered without it waits for ever.
//!
//! Invariant: whatever the bytes are, there is an answer, or it is a notification that nobody knows.

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, JsonRpcRequest,
    NumberOrString, RequestId, RequestMetaObject, ServerJsonRpcMessage,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The most bytes of a message: a body of 32 MiB, the most that a store takes by default, and what stands around it.
pub(super) const BYTES_MAX: usize = 40 * 1024 * 1024;

/// What came.
pub(super) enum Arrived {
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing that a session can go on with; the answer to it.
    Refused(Box<ServerJsonRpcMessage>),
}

/// The methods of a session, which there are none of in later versions.
const SESSION_METHODS: [&str; 2] = ["initialize", "ping"];

/// The other methods that this server serves.
const METHODS: [&str; 9] = [
    "completion/complete",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "tools/call",
    "tools/list",
];

/// A field of the parameters.
struct Field {
    name: &'static str,
    is_object: bool,
    is_needed: bool,
}

/// Where a client without a handshake names its version.
const META: &str = "`params._meta` must name io.modelcontextprotocol/protocolVersion, \
    io.modelcontextprotocol/clientInfo and io.modelcontextprotocol/clientCapabilities";

impl Arrived {
    pub(super) fn refused(id: Option<RequestId>, error: ErrorData) -> Arrived {
        Arrived::Refused(Box::new(ServerJsonRpcMessage::error(error, id)))
    }
}

/// A message is too long to be read.
pub(super) fn too_long() -> ErrorData {
    let sentence = format!("a message is at most {BYTES_MAX} bytes long; this one was passed over");
    ErrorData::invalid_request(sentence, None)
}

/// What a text is; none if there is nothing to answer: it is empty, or a notification that nobody knows.
pub(super) fn parsed(text: &[u8]) -> Option<Arrived> {
    let text = trimmed(text);
    if text.is_empty() {
        return None;
    }
    if let Ok(message) = serde_json::from_slice::<ClientJsonRpcMessage>(text) {
        return Some(match unbegun(&message) {
            None => Arrived::Message(Box::new(message)),
            Some((id, error)) => Arrived::refused(Some(id), error),
        });
    }
    let value = match serde_json::from_slice::<Value>(text) {
        Ok(value) => value,
        Err(error) => return unread(text, &error),
    };
    if value.get("method").is_some_and(Value::is_string) && value.get("id").is_none() {
        return None;
    }
    let sentence =
        "the message is none of JSON-RPC 2.0: a request has `jsonrpc`, `id`, `method` and `params`";
    Some(Arrived::refused(value.get("id").and_then(id_of), ErrorData::invalid_request(sentence, None)))
}

/// What is wrong with a request that is none of those which the server knows.
pub(super) fn unknown(method: &str, params: Option<&Value>, in_session: bool) -> ErrorData {
    if METHODS.contains(&method) || (in_session && SESSION_METHODS.contains(&method)) {
        return ErrorData::invalid_params(wrong_shape(method, params), None);
    }
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {method:.100}"), None)
}

/// The text without the white space around it, and without the mark that some programs begin a text with.
fn trimmed(text: &[u8]) -> &[u8] {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    text.trim_ascii()
}

/// JSON that holds a number or a text which no value of this program can hold; or no JSON at all.
fn unread(text: &[u8], why: &serde_json::Error) -> Option<Arrived> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
        #[serde(borrow)]
        method: Option<&'a RawValue>,
    }
    let Ok(Envelope { id, method }) = serde_json::from_slice(text) else {
        return Some(Arrived::refused(None, ErrorData::parse_error("the message is no JSON", None)));
    };
    if id.is_none() && method.is_some() {
        return None;
    }
    let id = id.and_then(|id| id_of(&serde_json::from_str(id.get()).ok()?));
    let sentence = format!("the message holds what cannot be read: {why}");
    Some(Arrived::refused(id, ErrorData::invalid_request(sentence, None)))
}

fn id_of(id: &Value) -> Option<RequestId> {
    match id {
        Value::String(id) => Some(NumberOrString::String(id.as_str().into())),
        Value::Number(id) => id.as_i64().map(NumberOrString::Number),
        _ => None,
    }
}

/// A session that does not begin, because its parameters are wrong. `rmcp` would take it for a request of a client that
/// begins none, and ask for what such a one brings. One that does bring it begins none: there is no such method for it.
fn unbegun(message: &ClientJsonRpcMessage) -> Option<(RequestId, ErrorData)> {
    let JsonRpcMessage::Request(JsonRpcRequest {
        id, request: ClientRequest::CustomRequest(request), ..
    }) = message
    else {
        return None;
    };
    let meta = request.extensions.get::<RequestMetaObject>();
    let names_version = meta.is_some_and(|meta| meta.protocol_version().is_some());
    let begins = request.method == "initialize" && !names_version;
    begins.then(|| (id.clone(), unknown(&request.method, request.params.as_ref(), true)))
}

/// Which parameter is wrong, and what it should be.
fn wrong_shape(method: &str, params: Option<&Value>) -> String {
    let text = |name| Field { name, is_object: false, is_needed: true };
    let object = |name| Field { name, is_object: true, is_needed: true };
    let optional = |field| Field { is_needed: false, ..field };
    let fields = match method {
        "initialize" => vec![text("protocolVersion"), object("capabilities"), object("clientInfo")],
        "tools/call" | "prompts/get" => vec![text("name"), optional(object("arguments"))],
        "resources/read" => vec![text("uri")],
        "completion/complete" => vec![object("ref"), object("argument"), optional(object("context"))],
        "server/discover" => vec![object("_meta")],
        _ => vec![optional(text("cursor"))],
    };
    let wrong = match params {
        None => "there are no `params`".to_owned(),
        Some(Value::Object(params)) => fields
            .iter()
            .find_map(|field| match params.get(field.name) {
                None | Some(Value::Null) => {
                    field.is_needed.then(|| format!("`params.{}` is missing", field.name))
                }
                Some(Value::Object(_)) if field.is_object => None,
                Some(Value::String(_)) if !field.is_object => None,
                Some(_) => Some(format!("`params.{}` is {}", field.name, kind(field))),
            })
            .unwrap_or_else(|| {
                "a field of `params` is not of the shape that the protocol gives it".to_owned()
            }),
        Some(_) => "`params` must be an object".to_owned(),
    };
    let takes: Vec<String> = fields.iter().filter(|f| f.is_needed).map(|f| format!("`{}`", f.name)).collect();
    match method {
        "server/discover" => format!("{method}: {wrong}; {META}"),
        _ if takes.is_empty() => format!("{method}: {wrong}"),
        _ => format!("{method}: {wrong}; it needs {}", takes.join(", ")),
    }
}

fn kind(field: &Field) -> &'static str {
    if field.is_object { "no object" } else { "no string" }
}
