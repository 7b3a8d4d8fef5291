//! What a server serves: a store, one workspace of it, and the tools over that workspace for each agent.
//!
//! Owns who is named in the history, and that a read sees what other processes wrote. Knows no protocol. Every call
//! here blocks.
//!
//! Invariant: what is kept per agent is bounded, whatever names clients give themselves.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};
use mnemolog::error::Damage;
use mnemolog::tools::{Answer, FileVerb, Tool, ToolError, Toolbox};
use mnemolog::{Error, Notes, Origin, Store, Workspace};
use serde_json::Value;

use super::place::{At, Place};
use crate::{context, render};

/// The tool that has the notes as files, which reads or writes by its command.
pub(super) const FILES: &str = "memory";

/// How many agents' tools are kept ready.
const AGENTS_MAX: usize = 32;

/// How much of a client's name the history keeps, in code points.
pub(super) const AGENT_CODE_POINTS_MAX: usize = 100;

/// A store as it is served.
pub(super) struct Memory {
    store: Store,
    workspace: Workspace,
    tools: Toolbox,
    agent: Option<String>,
    session: String,
    by_agent: Mutex<HashMap<String, Toolbox>>,
}

/// The notes at a moment, in one workspace.
pub(super) struct Looked {
    pub(super) notes: Notes,
    /// Why what is read may not be all.
    pub(super) damage: Option<Box<Damage>>,
}

impl Looked {
    /// A text behind which stands, if the store is damaged, a line that says so, as behind what a tool answers.
    pub(super) fn told(&self, mut text: String) -> String {
        if let Some(sentence) = self.damage_told() {
            text.push('\n');
            text.push_str(&sentence);
        }
        text
    }

    /// That the store is damaged, if it is.
    pub(super) fn damage_told(&self) -> Option<String> {
        self.damage.as_deref().map(render::mcp::damaged)
    }
}

impl Memory {
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn new(
        store: Store,
        workspace: Workspace,
        tools: Toolbox,
        agent: Option<String>,
    ) -> Result<Memory> {
        let session = u64::from_le_bytes(random()?);
        Ok(Memory {
            store,
            workspace,
            tools,
            agent: agent.map(|name| name.chars().take(AGENT_CODE_POINTS_MAX).collect()),
            session: format!("{session:016x}"),
            by_agent: Mutex::default(),
        })
    }

    /// The tools that are offered.
    pub(super) fn tools(&self) -> &[Tool] {
        self.tools.tools()
    }

    /// Whether a tool of this name is offered.
    pub(super) fn offers(&self, tool: &str) -> bool {
        self.tools().iter().any(|offered| offered.name == tool)
    }

    /// Whether a call may write. One that does waits for others that do.
    pub(super) fn writes(&self, tool: &str, arguments: &Value) -> bool {
        let is_view = tool == FILES && arguments.get("command").is_some_and(|c| c == FileVerb::View.name());
        let reads = |offered: &Tool| offered.name != tool || offered.hints.read_only;
        !is_view && !self.tools().iter().all(reads)
    }

    /// The workspace's path; empty for the root.
    pub(super) fn workspace(&self) -> &str {
        self.workspace.path().as_str()
    }

    /// Calls a tool for a client that gives itself a name. A write waits for others until a moment at the most.
    ///
    /// # Errors
    /// As [`Toolbox::call`].
    pub(super) fn call(
        &self,
        client: &str,
        tool: &str,
        arguments: &Value,
        until: Instant,
    ) -> Result<Answer, ToolError> {
        self.tools_of(client)?.with_deadline(until).call(tool, arguments)
    }

    /// The notes now, or at a moment, with what other processes wrote. Where the store was damaged when it was opened
    /// for reading, with what stands before the damage.
    ///
    /// # Errors
    /// As [`Store::refresh`] and [`Workspace::at`].
    pub(super) fn look(&self, at: Option<At>) -> Result<Looked, Error> {
        let damage = match self.store.refresh() {
            // There is nothing to look for then, and reads go on.
            Ok(_) | Err(Error::Closed | Error::Poisoned { .. }) => None,
            Err(Error::Damaged(damage)) if self.store.recovery().damage.is_some() => Some(damage),
            Err(error) => return Err(error),
        };
        let workspace = match at {
            None => self.workspace.clone(),
            Some(context::At::Frame(frame)) => self.workspace.at(frame)?,
            Some(context::At::Time(time)) => self.workspace.at_time(time)?,
        };
        Ok(Looked { notes: workspace.notes(), damage })
    }

    /// The URI of a note of the workspace.
    pub(super) fn uri(&self, key: &str) -> String {
        Place::note(key).uri(self.workspace())
    }

    fn tools_of(&self, client: &str) -> Result<Toolbox, ToolError> {
        let client: String = client.chars().take(AGENT_CODE_POINTS_MAX).collect();
        let agent = self.agent.clone().unwrap_or(client);
        if let Some(tools) = self.agents().get(&agent) {
            return Ok(tools.clone());
        }
        let origin = Origin {
            agent: Some(agent.clone()).filter(|agent| !agent.is_empty()),
            session: Some(self.session.clone()),
            tool: None,
        };
        let tools = self.tools.with_origin(origin)?;
        let mut agents = self.agents();
        if agents.len() >= AGENTS_MAX {
            agents.clear();
        }
        agents.insert(agent, tools.clone());
        Ok(tools)
    }

    fn agents(&self) -> MutexGuard<'_, HashMap<String, Toolbox>> {
        // Nothing panics while it is held, and the map is whole at every moment.
        self.by_agent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Random bytes.
///
/// # Errors
/// The system has none.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).context("the system has no random numbers")?;
    Ok(bytes)
}
