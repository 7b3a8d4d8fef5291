//! From the text of a line to its type.

use std::borrow::Cow;

use super::fields::{Field, Fields};
use super::reason::{LineReason, has_class};
use super::{Args, EntryArgs, EpisodeArgs, Line, NoteArgs, NoteText, RowArgs};
use crate::codec::delta::{Class, Config, HandleKind, Identity, Origin};
use crate::position::{Frame, Time};
use crate::store::name::{WorkspacePath, shadowed};

/// The name that the notes of every workspace have.
const NOTES_NAME: &str = "memory";

type Parsed<T> = Result<T, LineReason>;

pub(super) fn line(text: &str) -> Parsed<Line<'static>> {
    let mut fields = Fields::parse(text, "the line", "a line")?;
    let frame = fields.optional("frame").map(frame).transpose()?;
    let time = fields.optional("time").map(time).transpose()?;
    let origin = fields.optional("origin").map(origin).transpose()?;
    let base = fields.optional("base").map_or(Ok(false), Field::boolean)?;
    let kind = kind(fields.required("handle_kind")?)?;
    let id = fields.required("handle_id")?.text()?;
    let op = fields.required("op")?.text()?;
    // What was erased with its whole handle has no id any more.
    let id = if id.is_empty() && op == "erased" { id } else { handle_id(kind, id)? };
    let args = args(kind, &op, fields.required("args")?)?;
    fields.end()?;
    let whole = matches!(args, Args::Snapshot { .. } | Args::Erased { class: Class::Snapshot, .. });
    if base && !whole {
        return Err(LineReason::NotInBase);
    }
    Ok(Line { frame, time, origin, base, kind, id: id.into(), args })
}

/// The frame that a line names, also where the rest of it is wrong.
pub(in crate::interchange) fn frame_of(text: &str) -> Option<Frame> {
    frame(Fields::parse(text, "the line", "a line").ok()?.optional("frame")?).ok()
}

fn frame(field: Field<'_>) -> Parsed<Frame> {
    let expected = "a whole number from 1";
    match field.number(expected)? {
        0 => Err(field.wrong(expected)),
        number => Ok(Frame(number)),
    }
}

fn time(field: Field<'_>) -> Parsed<Time> {
    Ok(field.text()?.parse()?)
}

fn origin(field: Field<'_>) -> Parsed<Origin> {
    let mut fields = field.object("the origin")?;
    let mut text = |name| fields.optional(name).map(Field::text).transpose();
    let origin = Origin { agent: text("agent")?, session: text("session")?, tool: text("tool")? };
    fields.end()?;
    Ok(origin)
}

fn kind(field: Field<'_>) -> Parsed<HandleKind> {
    let found = field.text()?;
    let kind = HandleKind::ALL.into_iter().find(|kind| kind.name() == found);
    kind.ok_or(LineReason::UnknownKind { found })
}

/// A handle id is a valid workspace path and name, as they stand.
fn handle_id(kind: HandleKind, id: String) -> Parsed<String> {
    // A table that is being embedded anew has another one beside it, which a dump shows like any other.
    let chosen = shadowed(&id).filter(|_| kind == HandleKind::Vector).unwrap_or(&id);
    let (workspace, name) = match chosen.rsplit_once('/') {
        Some((path, name)) => (WorkspacePath::parse(path)?, name),
        None => (WorkspacePath::root(), chosen),
    };
    workspace.handle(name)?;
    if kind == HandleKind::Notes && name != NOTES_NAME {
        return Err(LineReason::NotesName { found: name.to_owned() });
    }
    Ok(id)
}

fn args(kind: HandleKind, op: &str, field: Field<'_>) -> Parsed<Args<'static>> {
    match (kind, op) {
        (HandleKind::Notes, "remember") => put(kind, field.object("remember")?),
        (HandleKind::Vector, "upsert") => put(kind, field.object("upsert")?),
        (HandleKind::Episodic, "record") => put(kind, field.object("record")?),
        (HandleKind::Working, "push") => put(kind, field.object("push")?),
        (HandleKind::Notes, "forget") => {
            let mut fields = field.object("forget")?;
            let key = fields.required("key")?.text()?.into();
            fields.end().map(|()| Args::Forget { key })
        }
        (HandleKind::Vector, "delete") => {
            let mut fields = field.object("delete")?;
            let id = fields.required("id")?.text()?.into();
            fields.end().map(|()| Args::Delete { id })
        }
        (HandleKind::Vector | HandleKind::Episodic | HandleKind::Working, "clear") => {
            field.object("clear")?.end().map(|()| Args::Clear)
        }
        (HandleKind::Vector | HandleKind::Episodic | HandleKind::Working, "configure") => {
            config(kind, field.object("configure")?).map(Args::Configure)
        }
        (_, "snapshot") => snapshot(kind, field),
        (_, "erased") => erased(kind, field, has_class),
        _ => Err(LineReason::UnknownOp { kind, found: op.to_owned() }),
    }
}

/// The arguments of the operation that puts something into a handle of the kind.
fn put(kind: HandleKind, mut fields: Fields<'_>) -> Parsed<Args<'static>> {
    let args = match kind {
        HandleKind::Notes => Args::Remember(NoteArgs {
            key: fields.required("key")?.text()?.into(),
            summary: fields.optional("summary").map(Field::text).transpose()?.map(Cow::from),
            body: note_text(fields.required("body")?)?,
        }),
        HandleKind::Vector => Args::Upsert(RowArgs {
            id: fields.required("id")?.text()?.into(),
            text: fields.required("text")?.text()?.into(),
            metadata: fields.take("metadata").map_or(Ok("{}".to_owned()), Field::json)?.into(),
            embedding: fields.optional("embedding").map(Field::floats).transpose()?.map(Cow::from),
        }),
        HandleKind::Episodic => Args::Record(EpisodeArgs {
            key: fields.required("key")?.text()?.into(),
            value: fields.required("value")?.json()?.into(),
            timestamp_ms: fields
                .optional("timestamp_ms")
                .map(|field| field.number("a whole number of milliseconds in 64 bits"))
                .transpose()?,
        }),
        HandleKind::Working => Args::Push(EntryArgs {
            label: fields.required("label")?.text()?.into(),
            content: fields.required("content")?.text()?.into(),
            tokens: fields.optional("tokens").map(tokens).transpose()?,
        }),
    };
    fields.end().map(|()| args)
}

fn note_text(field: Field<'_>) -> Parsed<NoteText<'static>> {
    if field.is_string() {
        return Ok(NoteText::Text(field.text()?.into()));
    }
    Ok(NoteText::Json(field.json()?.into()))
}

fn tokens(field: Field<'_>) -> Parsed<u32> {
    field.number("a whole number from 0 to 4,294,967,295")
}

/// A configuration; its one field may be null, and must be there.
fn config(kind: HandleKind, mut fields: Fields<'_>) -> Parsed<Config<'static>> {
    let count = |field: Field<'_>| match field.is_null() {
        true => Ok(None),
        false => field.number("a whole number, or null").map(Some),
    };
    let config = match kind {
        HandleKind::Notes => Config::Notes,
        HandleKind::Vector => {
            let field = fields.required("embedder")?;
            Config::Vector(if field.is_null() { None } else { Some(identity(field)?) })
        }
        HandleKind::Episodic => Config::Episodic(count(fields.required("max")?)?),
        HandleKind::Working => Config::Working(count(fields.required("budget")?)?),
    };
    fields.end().map(|()| config)
}

fn identity(field: Field<'_>) -> Parsed<Identity<'static>> {
    let mut fields = field.object("the embedder")?;
    let identity = Identity {
        name: fields.required("name")?.text()?.into(),
        model: fields.required("model")?.text()?.into(),
        dim: fields.required("dim")?.number("a whole number from 1 to 65,536")?,
    };
    fields.end().map(|()| identity)
}

fn snapshot(kind: HandleKind, field: Field<'_>) -> Parsed<Args<'static>> {
    let mut fields = field.object("snapshot")?;
    let config = config(kind, fields.required("config")?.object("the configuration")?)?;
    let items = fields.required("items")?.array()?.into_iter().map(|field| item(kind, field));
    let items = items.collect::<Parsed<Vec<_>>>()?;
    fields.end().map(|()| Args::Snapshot { config, items })
}

fn item(kind: HandleKind, field: Field<'_>) -> Parsed<Args<'static>> {
    let mut fields = field.object("an item")?;
    let Some(field) = fields.take("erased") else { return put(kind, fields) };
    fields.end()?;
    erased(kind, field, |_, class| class == Class::Put)
}

fn erased(
    kind: HandleKind,
    field: Field<'_>,
    allowed: impl Fn(HandleKind, Class) -> bool,
) -> Parsed<Args<'static>> {
    let mut fields = field.object("erased")?;
    let found = fields.required("class")?.text()?;
    let class = Class::ALL.into_iter().find(|class| class.name() == found && allowed(kind, *class));
    let class = class.ok_or(LineReason::UnknownClass { kind, found })?;
    let field = fields.optional("tokens");
    let cost = field.map_or(Ok(0), tokens)?;
    if let Some(field) = field
        && cost != 0
        && (kind, class) != (HandleKind::Working, Class::Put)
    {
        return Err(field.wrong("0, since only a scratchpad entry has a cost"));
    }
    fields.end().map(|()| Args::Erased { class, tokens: cost })
}
