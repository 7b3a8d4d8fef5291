//! `mcp`: the memory as a server for the Model Context Protocol, and its place in the clients' configurations.
//!
//! Owns the verb's options, how the store is opened for a server, and how the server ends: with every call that was
//! taken answered or given up, and the store closed. `server` speaks the protocol, `stdio` and `http` carry it.
//!
//! Invariants: nothing but protocol goes to standard output; what people should know goes to standard error.

mod config;
mod http;
mod memory;
mod message;
mod place;
mod prompts;
mod resources;
mod server;
mod stdio;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use mnemolog::tools::{Choice, Toolbox};
use mnemolog::{Options, Store};

use crate::context::{AtArg, Context};
use crate::exit::{Exit, Refusal};
use crate::output;
use crate::render;
use memory::Memory;
use server::Server;

/// The verb.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    verb: Option<Verb>,

    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print what a client's configuration needs, or write it there
    Config(config::Config),
}

/// What is served, and how.
#[derive(Debug, Args)]
struct Serve {
    #[command(flatten)]
    offer: Offer,

    /// Serve over HTTP at this address instead of standard input and output; loopback only, such as 127.0.0.1:8765
    #[arg(long, value_name = "ADDR", value_parser = http::loopback)]
    http: Option<SocketAddr>,

    #[command(flatten)]
    door: http::DoorArgs,
}

/// What a client is offered.
#[derive(Clone, Debug, Default, Args)]
struct Offer {
    /// Open the store for reading, and offer only the tools that read
    #[arg(long)]
    read_only: bool,

    /// Offer only these tools
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    tools: Vec<String>,

    /// Who writes, as the history shows it [default: the name that the client gives itself]
    #[arg(long, value_name = "NAME")]
    origin: Option<String>,
}

/// Runs the verb.
pub(crate) fn run(args: &Mcp, context: &Context) -> Result<Exit> {
    match &args.verb {
        Some(Verb::Config(config)) => config::run(config, context),
        None => serve(&args.serve, context),
    }
}

fn serve(args: &Serve, context: &Context) -> Result<Exit> {
    let door = args.http.map(|address| http::Door::new(address, &args.door)).transpose()?;
    if door.is_none() && args.door.is_given() {
        let sentence = "--token-file and --allow-origin are for --http";
        return Err(Refusal::new(Exit::Usage, sentence).into());
    }
    let (store, memory) = open(&args.offer, context)?;
    let server = Server::new(memory, context.lock_wait());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .max_blocking_threads(server::THREADS_MAX + 4)
        .build()
        .context("the server cannot start")?;
    let store_path: PathBuf = context.store_path().into();
    let workspace = context.workspace().as_str();
    let served = runtime.block_on(async {
        tokio::spawn(told_twice());
        let served = match door {
            None => {
                output::note(&render::mcp::serving(&store_path, workspace, "standard input and output"));
                stdio::serve(&server).await
            }
            Some(door) => door.serve(&server, &store_path, workspace).await,
        };
        server.finish().await;
        served
    });
    if let Err(cause) = store.close() {
        output::note(&render::unclean_close(&cause));
    }
    // A read of standard input that is under way cannot be given up; it ends with the process.
    runtime.shutdown_background();
    served.map(|()| Exit::Done)
}

/// Ends the process when it is told to end for the second time. What was acknowledged is durable, and the store takes
/// that end for what it is.
async fn told_twice() {
    stdio::told_to_end().await;
    stdio::told_to_end().await;
    std::process::exit(Exit::Refused as i32);
}

/// Opens the store in the way that the offer asks for.
fn open(offer: &Offer, context: &Context) -> Result<(Store, Memory)> {
    let (store, workspace) = if offer.read_only {
        let reading = context.read(AtArg::default())?;
        (reading.store, reading.workspace)
    } else {
        let writing = context.write_with(Options::new())?;
        (writing.store, writing.workspace)
    };
    let mut tools = Toolbox::new(&workspace);
    if offer.read_only {
        tools = chosen(tools, Choice::ReadOnly)?;
    }
    if !offer.tools.is_empty() {
        tools = chosen(tools, Choice::Names(offer.tools.clone()))?;
    }
    let memory = Memory::new(store.clone(), workspace, tools, offer.origin.clone())?;
    Ok((store, memory))
}

fn chosen(tools: Toolbox, choice: Choice) -> Result<Toolbox> {
    tools.only(choice).map_err(|unknown| Refusal::new(Exit::Usage, unknown.to_string()).into())
}
