//! `history`, `restore`, `rollback`, and the same for rows: what became of something, and the way back.

use anyhow::Result;
use mnemolog::view::history::Version;
use mnemolog::view::notes::Note;
use mnemolog::view::vectors::VectorRow;
use mnemolog::{Error, Frame, History, Origin, Restored};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::answer::{NoteAnswer, RowAnswer, Sought, Written};
use crate::context::{At, AtArg, Context};
use crate::exit::Exit;
use crate::render;

/// What of a history is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Shown {
    /// The most versions, newest first [default: all]
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    at: AtArg,
}

/// Where to.
#[derive(Debug, clap::Args)]
pub(crate) struct RollbackArgs {
    /// The moment to go back to: a frame, or a time (RFC 3339)
    #[arg(value_name = "FRAME|TIME")]
    to: At,
}

/// One version of a note or a row.
#[derive(Debug, Serialize)]
pub(crate) struct VersionAnswer {
    /// The key or id.
    pub(crate) key: String,
    pub(crate) frame: u64,
    pub(crate) time: String,
    /// `remember`, `forget`, `upsert`, `delete`, or `clear` of the whole table.
    pub(crate) op: &'static str,
    /// `delta`; `snapshot` if it came with the whole handle, `base` if history before it was dropped.
    pub(crate) by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<OriginAnswer>,
    /// Of a note; null if it has none, and after a removal.
    pub(crate) summary: Option<String>,
    /// Of a note.
    pub(crate) body: Option<Box<RawValue>>,
    /// Of a row.
    pub(crate) text: Option<String>,
    /// Of a row.
    pub(crate) metadata: Option<Box<RawValue>>,
    /// Of a row.
    pub(crate) embedding: Option<Vec<f32>>,
    /// What a person reads.
    #[serde(skip)]
    pub(crate) shown: Option<String>,
}

/// Who wrote a frame.
#[derive(Debug, Serialize)]
pub(crate) struct OriginAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
}

/// What a rollback did.
#[derive(Serialize)]
struct RolledBackAnswer<'a> {
    workspace: &'a str,
    to: u64,
    /// The new frame; null if nothing was written.
    frame: Option<u64>,
    deltas: usize,
    /// The sentence for people.
    text: String,
}

/// Prints the versions of a note.
pub(crate) fn of_note(context: &Context, key: &str, shown: &Shown) -> Result<Exit> {
    let versions = context.read(shown.at)?.workspace.notes().history(key);
    print(context, key, shown, versions, |answer, note: Note| {
        let note = NoteAnswer::new(note)?;
        (answer.summary, answer.body, answer.shown) = (note.summary, Some(note.body), Some(note.text));
        Ok(())
    })
}

/// Prints the versions of a row.
pub(crate) fn of_row(context: &Context, name: &str, id: &str, shown: &Shown) -> Result<Exit> {
    let versions = context.read(shown.at)?.workspace.vectors(name)?.history(id);
    print(context, id, shown, versions, |answer, row: VectorRow| {
        let row = RowAnswer::new(row)?;
        answer.shown = Some(render::changes::row_text(&row));
        (answer.text, answer.metadata) = (Some(row.text), Some(row.metadata));
        answer.embedding = Some(row.embedding);
        Ok(())
    })
}

fn print<T>(
    context: &Context,
    key: &str,
    shown: &Shown,
    versions: History<T>,
    fill: impl Fn(&mut VersionAnswer, T) -> Result<()>,
) -> Result<Exit>
where
    History<T>: Iterator<Item = mnemolog::Result<Version<T>>>,
{
    let styled = context.out.is_styled();
    let mut count = 0;
    for version in versions.take(shown.limit.unwrap_or(usize::MAX)) {
        let version = match version {
            Ok(version) => version,
            // The rest was dropped on purpose: what is left has been shown.
            Err(error @ Error::Compacted { .. }) if count > 0 => {
                context.out.note(&error.to_string());
                break;
            }
            Err(error) => return Err(error.into()),
        };
        let (mut answer, content) = VersionAnswer::new(key, version);
        if let Some(content) = content {
            fill(&mut answer, content)?;
        }
        let first = count == 0;
        context.out.answer(&answer, |answer| render::changes::version(answer, first, styled))?;
        count += 1;
    }
    if count > 0 || shown.limit == Some(0) {
        return Ok(Exit::Done);
    }
    let text = render::changes::no_history(key);
    context.out.answer(&Sought { key, found: false, text }, |answer| answer.text.clone())?;
    Ok(Exit::Refused)
}

/// Brings a note back.
pub(crate) fn restore_note(context: &Context, key: &str, to: At) -> Result<Exit> {
    let writing = context.write_existing()?;
    let [frame] = context.frames(&writing.store, [to])?;
    let restored = writing.workspace.notes().restore(key, frame)?;
    let written = writing.store.appended();
    writing.close(&context.out);
    told(context, key, frame, restored, written)
}

/// Brings a row back.
pub(crate) fn restore_row(context: &Context, name: &str, id: &str, to: At) -> Result<Exit> {
    context.check_handle(name)?;
    let writing = context.write_existing()?;
    let [frame] = context.frames(&writing.store, [to])?;
    let restored = writing.workspace.vectors(name)?.restore(id, frame)?;
    let written = writing.store.appended();
    writing.close(&context.out);
    told(context, id, frame, restored, written)
}

fn told(context: &Context, key: &str, to: Frame, restored: Restored, written: Frame) -> Result<Exit> {
    let text = render::changes::restored(key, to, restored);
    if restored == Restored::WasAbsent {
        context.out.answer(&Sought { key, found: false, text }, |answer| answer.text.clone())?;
        return Ok(Exit::Refused);
    }
    let answer = Written::new(key, written, text);
    context.out.answer(&answer, |answer| answer.text.clone())?;
    Ok(Exit::Done)
}

/// Brings the workspace back.
pub(crate) fn rollback(args: &RollbackArgs, context: &Context) -> Result<Exit> {
    let writing = context.write_existing()?;
    let [to] = context.frames(&writing.store, [args.to])?;
    let back = writing.workspace.rollback(to)?;
    let workspace = writing.workspace.path().as_str().to_owned();
    writing.close(&context.out);
    let (frame, deltas) = (back.frame.map(|frame| frame.0), back.deltas);
    let text = render::changes::rolled_back(&workspace, to, &back);
    let answer = RolledBackAnswer { workspace: &workspace, to: to.0, frame, deltas, text };
    context.out.answer(&answer, |answer| answer.text.clone())?;
    Ok(Exit::Done)
}

impl VersionAnswer {
    fn new<T>(key: &str, version: Version<T>) -> (VersionAnswer, Option<T>) {
        let Version { frame, time, origin, operation, by, content } = version;
        let answer = VersionAnswer {
            key: key.to_owned(),
            frame: frame.0,
            time: time.to_string(),
            op: operation.name(),
            by: by.name(),
            origin: origin.map(OriginAnswer::from),
            summary: None,
            body: None,
            text: None,
            metadata: None,
            embedding: None,
            shown: None,
        };
        (answer, content)
    }
}

impl From<Origin> for OriginAnswer {
    fn from(Origin { agent, session, tool }: Origin) -> OriginAnswer {
        OriginAnswer { agent, session, tool }
    }
}
