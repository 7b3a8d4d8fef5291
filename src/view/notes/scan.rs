//! Searching all notes at once: through the whole log, wherever a note's bytes stand in it.
//!
//! The log is looked through as bytes. Where the pattern occurs among them, the frame around it is decoded, and what it
//! says of notes that are still the saved ones is matched as text. No note is looked up that holds nothing, and none is
//! read out of its turn. The answer is that of reading one note after another.

use std::sync::{Mutex, PoisonError};

use super::{Match, NotesView, Shown, occurrence};
use crate::codec::delta::{Note, Op};
use crate::codec::frame::FrameKind;
use crate::codec::payload::Deltas;
use crate::codec::run::Run;
use crate::codec::wire::Malformed;
use crate::position::Position;
use crate::view::text::pattern::{Pattern, Scanner};
use crate::view::text::{self, compare_keys};
use crate::view::{Bodies, View};

/// While the log has less than so many bytes for each note, going through all of it takes less time than reading
/// note by note: about a microsecond each, in which 4 KiB are gone through.
const BYTES_PER_NOTE: u64 = 4096;

/// What a search has found so far.
#[derive(Debug)]
struct Found {
    /// At least the first matches.
    shown: Shown,
    /// How many of the first are asked for.
    max: usize,
}

/// The first `max` notes that hold the pattern, and how many do. None: it has to be found out note by note, because
/// that takes less time, or because something in the log is not as it was.
pub(super) fn scan(view: &NotesView, pattern: &Pattern, max: usize, bodies: &dyn Bodies) -> Option<Shown> {
    let scanner = pattern.scanner()?;
    let worth = (view.len() as u64).saturating_mul(BYTES_PER_NOTE);
    if bodies.scan_bytes().is_none_or(|bytes| bytes > worth) {
        return None;
    }
    // A note that is left out because a frame does not decode would never be missed.
    let found = Mutex::new(Some(Found { shown: Shown { matches: Vec::new(), total: 0 }, max }));
    let whole = bodies.scan(&|segment, run| {
        if look(view, pattern, scanner, segment, run, &found).is_err() {
            *found.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner).filter(|_| whole)?;
    found.cut();
    Some(found.shown)
}

fn look(
    view: &NotesView,
    pattern: &Pattern,
    scanner: Scanner<'_>,
    segment: u32,
    run: &Run<'_>,
    found: &Mutex<Option<Found>>,
) -> Result<(), Malformed> {
    let mut from = 0;
    while let Some(place) = scanner.find(run.bytes(), from)
        && let Some((frame, next)) = run.frame_at(place)
    {
        from = next;
        if !matches!(frame.header.kind, FrameKind::Commit | FrameKind::Base) {
            continue;
        }
        for delta in Deltas::of(&frame)? {
            let delta = delta?;
            let Op::Remember(note) = &delta.envelope.op else { continue };
            let Some(occurrence) = occurrence(note, pattern) else { continue };
            let at = Position { segment, offset: u32::try_from(delta.offset).unwrap_or(u32::MAX) };
            // Other versions, and notes of others, stand elsewhere.
            if view.head(note.key).is_some_and(|head| head.at == at)
                && let Some(found) = &mut *found.lock().unwrap_or_else(PoisonError::into_inner)
            {
                found.add(note, occurrence);
            }
        }
    }
    Ok(())
}

impl Found {
    fn add(&mut self, note: &Note<'_>, occurrence: Option<usize>) {
        self.shown.total += 1;
        if self.shown.matches.len() >= self.max.saturating_mul(2) {
            self.cut();
        }
        let excerpt = text::excerpt(note.body.as_str(), occurrence);
        let summary = note.summary.map(str::to_owned);
        self.shown.matches.push(Match { key: note.key.to_owned(), summary, excerpt });
    }

    /// Keeps the first.
    fn cut(&mut self) {
        self.shown.matches.sort_unstable_by(|a, b| compare_keys(&a.key, &b.key));
        self.shown.matches.truncate(self.max);
    }
}
