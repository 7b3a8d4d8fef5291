//! The integration tests: one binary, one module per file.

#[cfg(feature = "cli")]
mod checkpoints;
#[cfg(feature = "cli")]
mod cli;
mod back;
mod compact;
mod backup;
mod conversations;
mod corpora;
mod diff;
mod disk;
mod embed;
mod erase;
mod examples;
mod field;
mod format;
mod flips;
mod fork;
mod fuzzing;
mod glance;
mod log;
#[cfg(feature = "mcp")]
mod mcp;
mod handles;
mod history;
mod interchange;
mod names;
mod payload;
mod power;
mod promises;
#[cfg(feature = "cli")]
mod place;
#[cfg(unix)]
mod processes;
mod scan;
mod search;
mod store;
mod shared;
mod simulation;
mod specimens;
mod support;
mod tail;
mod threads;
mod tidy;
mod tools;
mod views;
mod machine;
mod model;
mod damage;
mod repair;
mod reembed;
mod replay;
