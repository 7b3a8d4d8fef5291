//! Reading lines and putting those of one frame together.

use std::collections::HashMap;
use std::io::BufRead;
use std::mem;

use super::{Draft, LoadError, LoadOptions, Loaded};
use crate::codec::json::BadJson;
use crate::interchange::line::numbered::Numbered;
use crate::interchange::line::parse::frame_of;
use crate::interchange::line::reason::{LineError, LineReason};
use crate::interchange::line::{Args, Line};
use crate::position::{Frame, Time};
use crate::store::Inner;
use crate::view::working::{approx_tokens, entry_tokens};

/// A line of the input, good or bad.
struct Entry {
    number: u64,
    frame: Option<Frame>,
    line: Result<Line<'static>, LineReason>,
}

/// The frames of the input, in its order; what is wrong with one stands in it.
///
/// # Errors
/// [`LoadError::Input`]. [`LoadError::Refused`] at the first bad line, unless told to keep going.
pub(super) fn drafts(
    inner: &Inner,
    input: &mut dyn BufRead,
    options: LoadOptions,
) -> Result<Vec<Draft>, LoadError> {
    let mut grouping = Grouping::default();
    let mut lines = Numbered::new(input);
    while let Some((number, text)) = lines.next().map_err(LoadError::Input)? {
        let entry = entry(number, text, inner.options().clock.now(), options.trust_times);
        match entry.line {
            Err(reason) if !options.keep_going => {
                return Err(LoadError::Refused(LineError { line: number, reason }));
            }
            _ => grouping.add(inner, entry),
        }
    }
    Ok(grouping.end(inner))
}

fn entry(number: u64, bytes: &[u8], now: Time, trust_times: bool) -> Entry {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            let reason = LineReason::NotUtf8 { at: e.valid_up_to().saturating_add(1) };
            return Entry { number, frame: None, line: Err(reason) };
        }
    };
    let line = Line::parse(text).and_then(|line| {
        let timely = if trust_times { Ok(()) } else { line.check_time(now) };
        timely.map(|()| line)
    });
    let frame = match &line {
        Ok(line) => line.frame,
        Err(LineReason::Json(BadJson::Syntax(_))) => None,
        Err(_) => frame_of(text),
    };
    Entry { number, frame, line }
}

/// Frames put together so far.
#[derive(Default)]
struct Grouping {
    done: Vec<Draft>,
    /// Bad lines whose frame is not known: they belong to the frame that goes on behind them, or to none.
    held: Vec<Entry>,
}

impl Grouping {
    fn add(&mut self, inner: &Inner, entry: Entry) {
        if entry.frame.is_none() && entry.line.is_err() {
            return self.held.push(entry);
        }
        let held = mem::take(&mut self.held);
        match self.done.last_mut().filter(|draft| joins(draft, &entry)) {
            Some(draft) => held.into_iter().chain([entry]).for_each(|entry| draft.add(entry)),
            None => {
                for entry in held.into_iter().chain([entry]) {
                    let mut draft = Draft::new(&entry, inner.options().clock.now());
                    draft.add(entry);
                    self.done.push(draft);
                }
            }
        }
    }

    fn end(mut self, inner: &Inner) -> Vec<Draft> {
        for entry in self.held {
            let mut draft = Draft::new(&entry, inner.options().clock.now());
            draft.add(entry);
            self.done.push(draft);
        }
        self.done.iter_mut().for_each(Draft::complete);
        self.done
    }
}

/// Lines that follow each other and name the same frame are one commit.
fn joins(draft: &Draft, entry: &Entry) -> bool {
    let base = entry.line.as_ref().map_or(draft.base, |line| line.base);
    entry.frame.is_some() && draft.frame == entry.frame && draft.base == base
}

impl Draft {
    fn new(first: &Entry, now: Time) -> Draft {
        Draft {
            frame: first.frame,
            base: first.line.as_ref().is_ok_and(|line| line.base),
            time: None,
            stamp: now,
            origin: None,
            lines: Vec::new(),
            parts: HashMap::new(),
            refused: Vec::new(),
            bytes: 0,
        }
    }

    fn add(&mut self, entry: Entry) {
        let Entry { number, line, .. } = entry;
        match line.and_then(|line| self.agree(line)) {
            Ok(line) if line.base => self.add_base(number, line),
            Ok(line) => self.push(number, line),
            Err(reason) => self.refuse(number, reason),
        }
    }

    fn push(&mut self, number: u64, line: Line<'static>) {
        self.lines.push(Loaded { number, line, identify: false, embedded: Vec::new() });
    }

    /// A further part of a handle's state goes on behind the part before it.
    fn add_base(&mut self, number: u64, mut line: Line<'static>) {
        let place = *self.parts.entry((line.kind, line.id.clone())).or_insert(self.lines.len());
        match (self.lines.get_mut(place).map(|part| &mut part.line.args), &mut line.args) {
            (Some(Args::Snapshot { items, .. }), Args::Snapshot { items: more, .. }) => items.append(more),
            _ => self.push(number, line),
        }
    }

    /// Takes over what the line says of its frame.
    fn agree(&mut self, mut line: Line<'static>) -> Result<Line<'static>, LineReason> {
        let frame = self.frame.unwrap_or_default();
        if self.base {
            // A base may be of several frames, each with its time; it is as of the last.
            self.time = self.time.max(line.time);
        } else if line.time.is_some_and(|time| *self.time.get_or_insert(time) != time) {
            return Err(LineReason::Conflict { frame, what: "time" });
        }
        if let Some(origin) = line.origin.take()
            && *self.origin.get_or_insert_with(|| origin.clone()) != origin
        {
            return Err(LineReason::Conflict { frame, what: "origin" });
        }
        Ok(line)
    }

    /// Stamps and computes what was left out, embeddings excepted.
    fn complete(&mut self) {
        self.stamp = self.time.unwrap_or(self.stamp);
        let now_ms = self.stamp.as_millis();
        for Loaded { line, .. } in &mut self.lines {
            complete(&mut line.args, now_ms);
        }
    }
}

fn complete(args: &mut Args<'_>, now_ms: i64) {
    match args {
        Args::Record(episode) => {
            episode.timestamp_ms.get_or_insert(now_ms);
        }
        Args::Push(entry) => {
            let cost = || entry_tokens(approx_tokens(&entry.label), approx_tokens(&entry.content));
            entry.tokens.get_or_insert_with(cost);
        }
        Args::Snapshot { items, .. } => items.iter_mut().for_each(|item| complete(item, now_ms)),
        _ => {}
    }
}
