//! Lines out of a store: the log delta by delta, with the bodies that stand there.
//!
//! Invariant: the order is that of the log, and a line says all that its delta holds, so that loading gives the
//! same fold. An erased snapshot head has lost the number of its items, and they are nothing any more: its line is
//! theirs too.

use std::convert::Infallible;
use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::line::{Args, Line};
use crate::codec::delta::{Envelope, Origin};
use crate::codec::frame::FrameKind;
use crate::codec::payload::Deltas;
use crate::codec::snapshot;
use crate::error::{Error, Result};
use crate::log::{Cursor, Files, Met};
use crate::position::{Frame, Time};
use crate::replay::{self, LogBodies};
use crate::store::{Store, TailFrame};
use crate::view::{Bodies, HandleId, State};

/// How far a dump goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct DumpOptions {
    /// The last frame; that of the store where none is given.
    pub up_to: Option<Frame>,
}

/// What was dumped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpReport {
    /// Commits.
    pub frames: u64,
    /// Lines, those of a base included.
    pub lines: u64,
    /// The last commit; frame 0 if there was none.
    pub last: Frame,
}

/// What ended a dump early.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] Error),
    /// The lines cannot be written.
    #[error("the lines could not be written ({0}); see to where they go and dump again")]
    Output(#[from] io::Error),
}

/// Whether an event changes a part of its handle or is its whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An operation.
    Patch,
    /// The whole state of a handle: one that stands in the log, or that at the end.
    Snapshot,
}

/// A line with its place in a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Event<'a> {
    /// Counts the events of a replay from 0.
    pub index: u64,
    /// What it is.
    pub kind: EventKind,
    /// The delta.
    pub line: Line<'a>,
}

impl Event<'_> {
    /// Writes the event as compact JSON, without a line break: `index`, `event` and `source`, then the line.
    ///
    /// # Errors
    /// What `out` answers.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(out, self).map_err(io::Error::from)
    }
}

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("index", &self.index)?;
        let event = match self.kind {
            EventKind::Patch => "Patch",
            EventKind::Snapshot => "Snapshot",
        };
        map.serialize_entry("event", event)?;
        map.serialize_entry("source", &format_args!("memory:{}", self.line.kind.name()))?;
        self.line.entries(&mut map)?;
        map.end()
    }
}

/// Writes every delta of the log as a line.
///
/// # Errors
/// [`DumpError::Store`]: no such frame, or a frame that cannot be read. [`DumpError::Output`]: `out` fails. What
/// was written until then stands.
pub fn dump(store: &Store, out: &mut dyn Write, options: DumpOptions) -> Result<DumpReport, DumpError> {
    let mut report = DumpReport::default();
    let mut text = Vec::new();
    let last = options.up_to.unwrap_or_else(|| store.appended());
    let files = store.inner().files_for(last)?;
    walk::<DumpError>(&files, last, &mut |met, bodies| {
        if met.frame.header.kind == FrameKind::Commit {
            report.frames += 1;
            report.last = met.frame.header.number;
        }
        lines::<DumpError>(met, bodies, &mut |line| {
            report.lines += 1;
            text.clear();
            line.write_to(&mut text)?;
            text.push(b'\n');
            Ok(out.write_all(&text)?)
        })
    })?;
    out.flush()?;
    Ok(report)
}

/// Tells a replay: one event for each delta up to a frame (the last one where none is given), then one
/// [`EventKind::Snapshot`] for each handle as it is there. Either part alone is enough to build the state again.
///
/// # Errors
/// As [`Store::at`]; whatever `tell` answers.
pub fn events<E: From<Error>>(
    store: &Store,
    up_to: Option<Frame>,
    tell: &mut dyn FnMut(&Event<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let last = up_to.unwrap_or_else(|| store.appended());
    let mut state = State::default();
    let mut telling = Telling { index: 0, tell };
    let files = store.inner().files_for(last)?;
    walk(&files, last, &mut |met, bodies| {
        replay::fold(&files, &mut state, met)?;
        lines(met, bodies, &mut |line| {
            let kind = match line.args {
                Args::Snapshot { .. } => EventKind::Snapshot,
                _ => EventKind::Patch,
            };
            telling.next(kind, line)
        })
    })?;
    let bodies = LogBodies::new(&files);
    for handle in state.handles() {
        let bytes = state.snapshot(&handle, &bodies)?;
        telling.next(EventKind::Snapshot, whole(&state, &handle, &bytes)?)?;
    }
    Ok(())
}

/// Numbers the events.
struct Telling<'t, E> {
    index: u64,
    tell: &'t mut dyn FnMut(&Event<'_>) -> Result<(), E>,
}

impl<E> Telling<'_, E> {
    fn next(&mut self, kind: EventKind, line: Line<'_>) -> Result<(), E> {
        let index = self.index;
        self.index += 1;
        (self.tell)(&Event { index, kind, line })
    }
}

/// The snapshot of a handle as a line.
fn whole<'a>(state: &State, handle: &'a HandleId, bytes: &'a [u8]) -> Result<Line<'a>> {
    let mut ops = snapshot::decode(bytes, handle.kind)?.into_iter().map(Args::of);
    let mut args = ops.next().unwrap_or(Args::Clear);
    if let Args::Snapshot { items, .. } = &mut args {
        items.extend(ops);
    }
    let (frame, time) = (Some(state.frame()), Some(state.time()));
    Ok(Line { frame, time, origin: None, base: false, kind: handle.kind, id: (&*handle.id).into(), args })
}

/// Visits the frames that hold deltas, up to `last`.
fn walk<E: From<Error>>(
    files: &Files,
    last: Frame,
    visit: &mut dyn FnMut(&Met<'_>, &LogBodies) -> Result<(), E>,
) -> Result<(), E> {
    let bodies = LogBodies::new(files);
    let mut stopped = Ok(());
    replay::each_frame(files, Cursor::START, &mut |met| {
        let header = &met.frame.header;
        if header.number > last {
            return Ok(false);
        }
        if matches!(header.kind, FrameKind::Commit | FrameKind::Base) {
            stopped = visit(&met, &bodies);
        }
        // Nothing behind the last frame is looked at: damage there is none of this dump's business.
        Ok(stopped.is_ok() && (header.number < last || header.kind != FrameKind::Commit))
    })?;
    stopped
}

/// The lines of one frame. A snapshot's items stand in the line of their head.
fn lines<E: From<Error>>(
    met: &Met<'_>,
    bodies: &LogBodies,
    emit: &mut dyn FnMut(Line<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let header = &met.frame.header;
    let corrupt = |reason| bodies.corrupt(met.at, header.number, reason);
    let deltas = Deltas::of(&met.frame).map_err(corrupt)?;
    let stamp = Stamp {
        frame: header.number,
        time: header.time,
        origin: deltas.origin().cloned(),
        base: header.kind == FrameKind::Base,
    };
    let envelopes = deltas.map(|delta| delta.map(|delta| delta.envelope).map_err(corrupt));
    stamp.lines(envelopes.map(|envelope| envelope.map_err(E::from)), emit)
}

/// What the lines of a frame share.
struct Stamp {
    frame: Frame,
    time: Time,
    origin: Option<Origin>,
    base: bool,
}

impl Stamp {
    fn lines<'a, E>(
        &self,
        envelopes: impl Iterator<Item = Result<Envelope<'a>, E>>,
        emit: &mut dyn FnMut(Line<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut current = None;
        for envelope in envelopes {
            let Envelope { id, item, op, .. } = envelope?;
            if let (true, Some(Line { args: Args::Snapshot { items, .. }, .. })) = (item, &mut current) {
                items.push(Args::of(op));
                continue;
            }
            let next = Line {
                frame: Some(self.frame),
                time: Some(self.time),
                origin: self.origin.clone(),
                base: self.base,
                kind: op.kind(),
                id: id.into(),
                args: Args::of(op),
            };
            if let Some(line) = current.replace(next) {
                emit(line)?;
            }
        }
        current.map_or(Ok(()), emit)
    }
}

impl TailFrame {
    /// The frame as lines, those that a dump has for it.
    pub fn lines(&self) -> Vec<Line<'_>> {
        let (frame, time, origin) = (self.frame(), self.time(), self.origin().cloned());
        let mut lines = Vec::with_capacity(self.len());
        let collected = Stamp { frame, time, origin, base: false }.lines(
            self.envelopes().map(Ok::<_, Infallible>),
            &mut |line| {
                lines.push(line);
                Ok(())
            },
        );
        match collected {
            Ok(()) => lines,
        }
    }
}
