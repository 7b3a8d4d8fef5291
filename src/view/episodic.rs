//! Episodes: a ring in the order they were recorded. Keys may repeat.
//!
//! Owns the ring's size and eviction. Keys stand in memory, values in the log. Does not know the clock: the
//! time of an episode stands in the delta, and order is the order of recording, whatever the times say.
//!
//! Invariant: the ring holds at most `max` places; the placeholder of an erased episode occupies one, so that
//! erasing brings nothing back that was evicted and evicts nothing that was not.

use std::sync::Arc;

use imbl::Vector;

use super::saved::{self, Loader, Saved, SavedPosition, Saver};
use super::{Bodies, View, read};
use crate::codec::delta::{Class, Config, HandleKind, Op, Record};
use crate::codec::json::Json;
use crate::codec::wire::Malformed;
use crate::error::Result;
use crate::position::{Frame, Last, Place, Position, Time};

/// The state of a ring of episodes.
#[derive(Clone, Debug, Default)]
pub struct EpisodicView {
    /// None is the placeholder of an erased episode.
    ring: Vector<Option<Entry>>,
    placeholders: usize,
    max: Option<u64>,
    /// The delta that emptied the ring last.
    begun: Last,
}

/// One episode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Episode {
    /// Its key.
    pub key: String,
    /// What happened.
    pub value: Json,
    /// Milliseconds since the Unix epoch, as the caller or the clock said.
    pub timestamp_ms: i64,
    /// The commit that recorded it, or brought it in a snapshot.
    pub frame: Frame,
    /// That commit's time.
    pub time: Time,
}

/// An episode whose value was not read.
#[derive(Clone, Copy, Debug)]
pub(super) struct EpisodeHead<'a>(&'a Entry);

#[derive(Clone, Debug)]
struct Entry {
    key: Arc<str>,
    timestamp_ms: i64,
    frame: Frame,
    index: u32,
    time: Time,
    at: Position,
}

impl EpisodicView {
    /// The last `n` episodes, newest first; erased ones are absent.
    ///
    /// # Errors
    /// A value cannot be read.
    pub fn recent(&self, n: usize, bodies: &dyn Bodies) -> Result<Vec<Episode>> {
        self.recent_from(0, n, bodies)
    }

    /// As [`EpisodicView::recent`], the `max` behind the newest `skip`. Reads only those.
    ///
    /// # Errors
    /// A value cannot be read.
    pub(crate) fn recent_from(&self, skip: usize, max: usize, bodies: &dyn Bodies) -> Result<Vec<Episode>> {
        let newest = self.ring.iter().rev().flatten();
        newest.skip(skip).take(max).map(|entry| entry.read(bodies)).collect()
    }

    /// Every episode whose key begins with `prefix`, in the order of recording; erased ones are absent.
    ///
    /// # Errors
    /// A value cannot be read.
    pub fn search_by_key(&self, prefix: &str, bodies: &dyn Bodies) -> Result<Vec<Episode>> {
        let found = self.ring.iter().flatten().filter(|entry| entry.key.starts_with(prefix));
        found.map(|entry| entry.read(bodies)).collect()
    }

    /// As [`EpisodicView::search_by_key`], the `max` behind the first `skip`, and how many there are in all. Reads
    /// only those.
    ///
    /// # Errors
    /// A value cannot be read.
    pub(crate) fn search_from(
        &self,
        prefix: &str,
        skip: usize,
        max: usize,
        bodies: &dyn Bodies,
    ) -> Result<(Vec<Episode>, usize)> {
        let found = || self.ring.iter().flatten().filter(|entry| entry.key.starts_with(prefix));
        let read: Result<Vec<Episode>> =
            found().skip(skip).take(max).map(|entry| entry.read(bodies)).collect();
        Ok((read?, found().count()))
    }

    /// The most episodes that the ring holds, at least 1; none if it is unbounded.
    pub fn max(&self) -> Option<u64> {
        self.max
    }

    /// Every episode without its value, oldest first; erased ones are absent.
    pub(super) fn heads(&self) -> impl Iterator<Item = EpisodeHead<'_>> {
        self.ring.iter().flatten().map(EpisodeHead)
    }

    /// The delta that emptied the ring last: rings that it is the same of hold one run of episodes.
    pub(super) fn begun(&self) -> Last {
        self.begun
    }

    /// Names what one more episode would push out, oldest first; erased ones are not named.
    pub(super) fn evicted_by_one_more(&self, evicted: &mut Vec<Last>) {
        let more = self.ring.len() as u64 + 1;
        let over = self.max.map_or(0, |max| more.saturating_sub(max));
        let oldest = self.ring.iter().take(usize::try_from(over).unwrap_or(usize::MAX)).flatten();
        evicted.extend(oldest.map(|entry| Last { frame: entry.frame, index: entry.index }));
    }

    fn push(&mut self, entry: Option<Entry>) {
        self.placeholders += usize::from(entry.is_none());
        self.ring.push_back(entry);
        self.evict();
    }

    fn evict(&mut self) {
        while self.max.is_some_and(|max| self.ring.len() as u64 > max) {
            let Some(oldest) = self.ring.pop_front() else { return };
            self.placeholders -= usize::from(oldest.is_none());
        }
    }

    fn configure(&mut self, config: &Config<'_>) {
        if let Config::Episodic(max) = config {
            self.max = max.map(|episodes| episodes.max(1));
            self.evict();
        }
    }
}

impl Episode {
    /// What an operation records, by a frame and its time; none if it records nothing. `offset` is where it stands.
    ///
    /// # Errors
    /// JSON that is none.
    pub(super) fn of(
        op: &Op<'_>,
        (frame, time): (Frame, Time),
        offset: u64,
    ) -> Result<Option<Episode>, Malformed> {
        let Op::Record(Record { key, value, timestamp_ms }) = op else { return Ok(None) };
        let value = super::json("episode value", offset, value)?;
        Ok(Some(Episode { key: (*key).to_owned(), value, timestamp_ms: *timestamp_ms, frame, time }))
    }
}

impl View for EpisodicView {
    fn apply(&mut self, place: Place, time: Time, op: &Op<'_>) {
        match op {
            Op::Record(Record { key, timestamp_ms, .. }) => {
                let (timestamp_ms, Last { frame, index }, at) = (*timestamp_ms, place.last, place.at);
                self.push(Some(Entry { key: Arc::from(*key), timestamp_ms, frame, index, time, at }));
            }
            Op::Erased { kind: HandleKind::Episodic, class: Class::Put, .. } => self.push(None),
            Op::Clear(HandleKind::Episodic) => {
                *self = EpisodicView { max: self.max, begun: place.last, ..EpisodicView::default() };
            }
            Op::Configure(config) => self.configure(config),
            Op::Snapshot { config: config @ Config::Episodic(_), continues, .. } => {
                if !continues {
                    *self = EpisodicView { begun: place.last, ..EpisodicView::default() };
                }
                self.configure(config);
            }
            _ => {}
        }
    }

    fn snapshot_head(&self) -> (Config<'static>, usize) {
        (Config::Episodic(self.max), self.ring.len())
    }

    fn items(&self, bodies: &dyn Bodies, item: &mut dyn FnMut(Last, &Op<'_>) -> Result<()>) -> Result<()> {
        let none = Last::default();
        self.ring.iter().try_for_each(|entry| match entry {
            Some(entry) => entry.with(bodies, |record| Ok(item(none, &Op::Record(record.clone()))))?,
            None => item(none, &Op::Erased { kind: HandleKind::Episodic, class: Class::Put, tokens: 0 }),
        })
    }

    fn len(&self) -> usize {
        self.ring.len() - self.placeholders
    }

    fn is_unused(&self) -> bool {
        self.ring.is_empty() && self.max.is_none()
    }
}

/// An episode as it is saved: key, its time as said, frame, index, commit time, position.
type SavedEpisode<'a> = (&'a str, i64, u64, u32, u64, SavedPosition);

impl Saved for EpisodicView {
    fn save(&self, saver: &mut Saver<'_>) -> Result<()> {
        saver.say(&(self.max, saved::last(self.begun)))?;
        saver.items(self.ring.iter().map(|entry| {
            entry.as_ref().map(|Entry { key, timestamp_ms, frame, index, time, at }| -> SavedEpisode<'_> {
                (key, *timestamp_ms, frame.0, *index, time.as_micros(), saved::position(*at))
            })
        }))
    }

    fn load(loader: &mut Loader<'_>) -> Result<Self, Malformed> {
        let (max, begun) = loader.take("ring size and beginning")?;
        let mut view = EpisodicView { max, begun: saved::last_of(begun), ..EpisodicView::default() };
        loader.items("saved episodes", |bytes| {
            let (episode, rest): (Option<SavedEpisode<'_>>, _) = saved::item("saved episode", bytes)?;
            let entry = episode.map(|(key, timestamp_ms, frame, index, time, at)| {
                let (frame, time, at) = (Frame(frame), saved::time_of(time)?, saved::position_of(at));
                Ok(Entry { key: Arc::from(key), timestamp_ms, frame, index, time, at })
            });
            view.push(entry.transpose()?);
            Ok(rest)
        })?;
        Ok(view)
    }
}

impl EpisodeHead<'_> {
    /// Where its envelope stands.
    pub(super) fn at(&self) -> Position {
        self.0.at
    }

    pub(super) fn read(&self, bodies: &dyn Bodies) -> Result<Episode> {
        self.0.read(bodies)
    }
}

impl Entry {
    fn read(&self, bodies: &dyn Bodies) -> Result<Episode> {
        let value = self
            .with(bodies, |record| super::json("episode value", u64::from(self.at.offset), record.value))?;
        let Entry { timestamp_ms, frame, time, .. } = *self;
        Ok(Episode { key: self.key.to_string(), value, timestamp_ms, frame, time })
    }

    fn with<R>(
        &self,
        bodies: &dyn Bodies,
        take: impl FnOnce(&Record<'_>) -> Result<R, Malformed>,
    ) -> Result<R> {
        read(bodies, (self.at, self.frame), "this episode", |op| match op {
            Op::Record(record) if record.key == &*self.key => take(record).map(Some),
            _ => Ok(None),
        })
    }
}
