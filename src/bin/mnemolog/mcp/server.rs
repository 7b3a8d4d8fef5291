//! The protocol: what a client asks, handed to the memory, and what the memory answers, as the protocol has it.
//!
//! Owns what the server says of itself, which error is whose, and how many calls work at once. `rmcp` speaks both
//! eras of the protocol: clients that begin with `initialize`, and those that name the version in each request.
//!
//! Invariants: calls of the store block, so before one runs, the thread hands on what else it carries to another, and at
//! most [`THREADS_MAX`] run at a time. A read waits for no write. A write waits a bounded time for its turn, whoever is
//! before it, in this process or another. A result that says it is an error has no structured content. Lists are always
//! in the same order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::http::request::Parts;
use mnemolog::tools::{self, ToolError, ToolErrorKind};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams,
    CompleteResult, ContentBlock, CustomRequest, CustomResult, DiscoverResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, Implementation, InitializeRequestParams, InitializeResult,
    JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::http::Sender;
use super::memory::Memory;
use super::stdio::GivenUp;
use super::{message, prompts, resources};

/// The most reads, and the most writes, that work at the same time.
const READS_MAX: u32 = 32;
const WRITES_MAX: u32 = 32;

/// The most threads that calls block.
pub(super) const THREADS_MAX: usize = (READS_MAX + WRITES_MAX) as usize;

/// The least time that a write has for its turn, however short the wait for other processes is: the writes before it
/// take some.
const TURN_LEAST: Duration = Duration::from_secs(2);

/// How much longer than a write may wait the end waits for the calls that are at work.
const END_MORE: Duration = Duration::from_secs(2);

/// For how long a client may keep what is the same as long as the server runs.
const FIXED_TTL_MS: u64 = 300_000;

/// One memory, served to any number of clients. Cheap to clone.
#[derive(Clone)]
pub(super) struct Server {
    memory: Arc<Memory>,
    tools: Arc<[Tool]>,
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    /// How long a write waits for its turn, in this process and for others.
    patience: Duration,
    /// Whether no further call begins.
    ending: Arc<watch::Sender<bool>>,
}

/// What a call does.
#[derive(Clone, Copy)]
enum Does {
    Read,
    /// Waits for its turn until then.
    Write(Instant),
}

/// Why a call did not run, or did not end.
enum NotDone {
    Ending,
    GivenUp,
    Busy,
    Panicked,
}

impl Server {
    /// A server whose writes wait so long for other processes.
    pub(super) fn new(memory: Memory, lock_wait: Duration) -> Server {
        let tools = memory.tools().iter().map(told).collect();
        Server {
            memory: Arc::new(memory),
            tools,
            reads: Arc::new(Semaphore::new(READS_MAX as usize)),
            writes: Arc::new(Semaphore::new(WRITES_MAX as usize)),
            patience: lock_wait.max(TURN_LEAST),
            ending: Arc::new(watch::Sender::new(false)),
        }
    }

    /// No further call begins; those that wait for their turn fail at once.
    pub(super) fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Ends, and waits for the calls that are at work, for as long as a call may take to find that it cannot be done.
    pub(super) async fn finish(&self) {
        self.end();
        let all = async {
            let _reads = self.reads.acquire_many(READS_MAX).await;
            let _writes = self.writes.acquire_many(WRITES_MAX).await;
        };
        // One that works on after that ends with the process, as with one that is killed.
        let _ = tokio::time::timeout(self.patience.saturating_add(END_MORE), all).await;
    }

    /// Waits for a turn: until the end, until the client gives up, and no longer than a write may wait.
    async fn turn(
        &self,
        context: &RequestContext<RoleServer>,
        does: Does,
    ) -> Result<OwnedSemaphorePermit, NotDone> {
        let room = Arc::clone(if let Does::Read = does { &self.reads } else { &self.writes });
        let mut ending = self.ending.subscribe();
        let given_up = async {
            match context.extensions.get::<GivenUp>() {
                Some(given_up) => given_up.wait().await,
                None => std::future::pending().await,
            }
        };
        let too_late = async {
            match does {
                Does::Read => std::future::pending().await,
                Does::Write(until) => tokio::time::sleep_until(until.into()).await,
            }
        };
        tokio::select! {
            biased;
            _ = ending.wait_for(|ending| *ending) => Err(NotDone::Ending),
            () = given_up => Err(NotDone::GivenUp),
            () = context.ct.cancelled() => Err(NotDone::GivenUp),
            permit = room.acquire_owned() => permit.map_err(|_| NotDone::Ending),
            () = too_late => Err(NotDone::Busy),
        }
    }

    /// Runs what reads.
    async fn read<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl FnOnce(&Memory) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        Ok(self.run(context, Does::Read, work).await?)
    }

    /// Runs what blocks, unless the client gives the request up before its turn.
    async fn run<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        does: Does,
        work: impl FnOnce(&Memory) -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let permit = self.turn(context, does).await?;
        let memory = Arc::clone(&self.memory);
        // The way to another thread and back took three times as long as a recall. Here the other thread comes to the
        // messages instead, and has nothing to do where the call was quick.
        let work = std::panic::AssertUnwindSafe(|| work(&memory));
        let answer = tokio::task::block_in_place(|| std::panic::catch_unwind(work));
        drop(permit);
        answer.map_err(|_| NotDone::Panicked)
    }
}

impl NotDone {
    fn sentence(&self) -> &'static str {
        match self {
            NotDone::Ending => "the server is ending; the call was not done",
            NotDone::GivenUp => "the request was cancelled before its turn; it was not done",
            NotDone::Busy => {
                "many writes wait already, because another program holds the store; this one was not done, and the \
                    same call may succeed later"
            }
            NotDone::Panicked => "the call failed inside the server; it may have been done",
        }
    }
}

impl From<NotDone> for ErrorData {
    fn from(why: NotDone) -> ErrorData {
        ErrorData::internal_error(why.sentence(), None)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .enable_completions()
            .build();
        let own = Implementation::new("mnemolog", env!("CARGO_PKG_VERSION")).with_title("mnemolog");
        ServerConfig::new(capabilities)
            .with_server_info(own)
            .with_instructions(prompts::instructions(&self.memory))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if let Some(sender) = sender(&context) {
            sender.begin(&request.client_info.name);
        }
        let result = self.negotiate_initialize(&request);
        context.peer.set_peer_info(request);
        result
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info()).with_ttl_ms(FIXED_TTL_MS))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let list = ListToolsResult::with_all_items(self.tools.to_vec());
        Ok(list.with_ttl_ms(FIXED_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = name_of(&context);
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        let until = Instant::now() + self.patience;
        let writes = self.memory.writes(&request.name, &arguments);
        let does = if writes { Does::Write(until) } else { Does::Read };
        let call = move |memory: &Memory| memory.call(&client, &request.name, &arguments, until);
        let answer = match self.run(&context, does, call).await {
            Err(busy @ NotDone::Busy) => {
                // For the model, which may try again; an error of the protocol is for the client.
                return Ok(CallToolResult::error(vec![ContentBlock::text(busy.sentence())]).into());
            }
            answer => answer?,
        };
        match answer {
            Ok(answer) => {
                let mut result = CallToolResult::success(vec![ContentBlock::text(answer.text)]);
                result.structured_content = Some(answer.structured);
                Ok(result.into())
            }
            Err(ToolError { kind: ToolErrorKind::UnknownTool, text, .. }) => {
                Err(ErrorData::invalid_params(text, None))
            }
            Err(error) => Ok(CallToolResult::error(vec![ContentBlock::text(error.text)]).into()),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        self.read(&context, move |memory| resources::list(memory, cursor.as_deref())).await?
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let list = ListResourceTemplatesResult::with_all_items(resources::templates(&self.memory));
        Ok(list.with_ttl_ms(FIXED_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = self.read(&context, move |memory| resources::read(memory, &request.uri)).await??;
        Ok(ReadResourceResult::new(contents).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let list = ListPromptsResult::with_all_items(prompts::list(&self.memory));
        Ok(list.with_ttl_ms(FIXED_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let args = request.arguments.unwrap_or_default();
        let prompt = self.read(&context, move |memory| prompts::get(memory, &request.name, &args)).await??;
        Ok(prompt.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let work = move |memory: &Memory| {
            resources::complete(memory, &request.r#ref, &request.argument, request.context.as_ref())
        };
        Ok(CompleteResult::new(self.read(&context, work).await??))
    }

    /// What rmcp could not read as any request that it knows: an unknown method, or a known one with parameters of
    /// the wrong shape.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let in_session = context.protocol_version().is_none_or(|version| version.has_initialize());
        Err(message::unknown(&request.method, request.params.as_ref(), in_session))
    }
}

/// The name that the client gives itself, in the request or when it began; empty if it gives none.
fn name_of(context: &RequestContext<RoleServer>) -> String {
    let info = match sender(context) {
        // What `rmcp` knows of the session is made up there: over HTTP it has none.
        Some(_) => context.meta.client_info(),
        None => context.client_info(),
    };
    let began = || sender(context)?.name().map(str::to_owned);
    info.map(|info| info.name).or_else(began).unwrap_or_default()
}

/// Who sent the request, over HTTP.
fn sender(context: &RequestContext<RoleServer>) -> Option<&Sender> {
    context.extensions.get::<Parts>()?.extensions.get()
}

/// A tool as the protocol tells of it.
fn told(tool: &tools::Tool) -> Tool {
    let hints = tool.hints;
    let annotations = ToolAnnotations::with_title(tool.title)
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent)
        .open_world(hints.open_world);
    Tool::new(tool.name, tool.description.clone(), object(&tool.input_schema))
        .with_title(tool.title)
        .with_raw_output_schema(object(&tool.output_schema))
        .with_annotations(annotations)
}

fn object(schema: &Value) -> Arc<JsonObject> {
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}
