//! `reembed`: the vectors of a table made anew by another embedder.

use anyhow::Result;
use mnemolog::codec::delta::EMBEDDING_WIDTH_MAX;
use mnemolog::{Reembedding, StubEmbedder};
use serde::Serialize;

use crate::answer::Sought;
use crate::context::Context;
use crate::exit::Exit;
use crate::{output, render};

/// Which table, and by what.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The table
    #[arg(value_name = "NAME")]
    name: String,
    /// How many floats the stub embedder makes (word overlap only, not semantic); more of them tell more words apart
    #[arg(
        long,
        value_name = "N",
        default_value_t = StubEmbedder::DEFAULT_DIM as u32,
        value_parser = clap::value_parser!(u32).range(1..=EMBEDDING_WIDTH_MAX as i64)
    )]
    dim: u32,
    /// Forget what an earlier, interrupted run has embedded, and embed nothing
    #[arg(long, conflicts_with = "dim")]
    abandon: bool,
}

/// What was done.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// Rows of the table.
    pub(crate) rows: usize,
    /// Texts embedded now; the others had been by an earlier run.
    pub(crate) embedded: usize,
    /// The embedder before: null if there was none.
    pub(crate) before: Option<String>,
    /// The embedder now.
    pub(crate) after: String,
    /// False if the table had this embedder's vectors already.
    pub(crate) switched: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    context.check_handle(&args.name)?;
    let writing = context.write_existing()?;
    let table = writing.workspace.vectors(&args.name)?;
    if args.abandon {
        let abandoned = table.abandon_reembed();
        writing.close(&context.out);
        abandoned?;
        return Ok(Exit::Done);
    }
    if table.is_empty() && table.identity().is_none() {
        writing.close(&context.out);
        let answer = Sought { key: &args.name, found: false, text: render::imported::no_table(&args.name) };
        context.out.answer(&answer, |answer| answer.text.clone())?;
        return Ok(Exit::Refused);
    }
    let bar = output::progress("reembed", Some(table.len() as u64));
    let embedder = StubEmbedder::with_dim(args.dim as usize);
    let done = table.reembed(&embedder, &mut |Reembedding { done, total }| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    writing.close(&context.out);
    let done = done?;
    let answer = Answer {
        rows: done.rows,
        embedded: done.embedded,
        before: done.before_text(),
        after: done.after_text(),
        switched: done.switched,
    };
    context.out.answer(&answer, render::imported::reembedded)?;
    Ok(Exit::Done)
}
