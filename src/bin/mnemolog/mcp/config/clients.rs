//! The clients: where each keeps its configuration, and what an entry is there.
//!
//! Owns what each client documents of its file. Touches no file.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::ValueEnum;

/// A program that an agent runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code, for this user
    ClaudeCode,
    /// Cursor, for this user
    Cursor,
    /// Visual Studio Code, for this user
    #[value(name = "vscode")]
    VsCode,
    /// Codex
    Codex,
}

/// Where an entry belongs.
pub(super) struct Place {
    /// The file that the client reads.
    pub(super) file: PathBuf,
    /// The name under which the servers stand in it.
    pub(super) servers: &'static str,
    /// What the file is written in.
    pub(super) language: Language,
    /// Whether an entry says how the server is reached.
    pub(super) is_typed: bool,
}

/// What a file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// JSON, with comments and trailing commas where the client takes them.
    Json,
    Toml,
}

impl Client {
    /// Its name on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Where an entry belongs.
    ///
    /// # Errors
    /// No home directory is known.
    pub(super) fn place(self) -> Result<Place> {
        let json =
            |file: PathBuf, servers, is_typed| Place { file, servers, language: Language::Json, is_typed };
        Ok(match self {
            Client::ClaudeDesktop => {
                json(applications()?.join("Claude/claude_desktop_config.json"), "mcpServers", false)
            }
            Client::ClaudeCode => {
                let directory = set("CLAUDE_CONFIG_DIR").map_or_else(home, Ok)?;
                json(directory.join(".claude.json"), "mcpServers", true)
            }
            Client::Cursor => json(home()?.join(".cursor/mcp.json"), "mcpServers", false),
            Client::VsCode => json(applications()?.join("Code/User/mcp.json"), "servers", true),
            Client::Codex => {
                let directory =
                    set("CODEX_HOME").map_or_else(|| home().map(|home| home.join(".codex")), Ok)?;
                let file = directory.join("config.toml");
                Place { file, servers: "mcp_servers", language: Language::Toml, is_typed: false }
            }
        })
    }
}

/// Where applications of the desktop keep what is the user's.
fn applications() -> Result<PathBuf> {
    if cfg!(target_os = "macos") {
        return Ok(home()?.join("Library/Application Support"));
    }
    if cfg!(windows) {
        return set("APPDATA").map_or_else(|| home().map(|home| home.join("AppData/Roaming")), Ok);
    }
    set("XDG_CONFIG_HOME").map_or_else(|| home().map(|home| home.join(".config")), Ok)
}

fn home() -> Result<PathBuf> {
    etcetera::home_dir().context("no home directory is known; name the configuration with --file")
}

/// A directory that the environment names.
fn set(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
