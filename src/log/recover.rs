//! Opening: found files → a checked log → a usable one.
//!
//! Frames are checked one by one with positioned reads. Where the first does not check out, the verdict (in
//! `settle`) says whether the end is unclean or the log damaged. An I/O error is never taken for either.

use std::sync::Arc;
use std::time::Duration;

use super::catchup::{self, Place};
use super::commit::Tail;
use super::found::Found;
use super::promise::{self, DURABLE};
use super::settle::{self, Verdict};
use super::unproven::Unproven;
use super::{Files, Index, Met, Start, intent};
use crate::codec::checkpoint::Stamp;
use crate::codec::frame::{CheckedFrame, FrameKind, LostRange, Seal};
use crate::codec::segment::{Durable, FRAMES_START, StoreId};
use crate::codec::wire::Malformed;
use crate::disk::{Access, Disk, File, Lock, LockError};
use crate::error::{Damage, Error, Evidence, Recovery, Result};
use crate::position::{Frame, Position, SegmentId, Time};
use crate::segment::{Chain, LOG_DIR, Opened, Segment, SegmentOptions, Step, Walk};

/// The names that a store's directory may hold.
pub const ROOT_NAMES: [&str; 9] = [
    "LOCK",
    "DURABLE",
    "RETENTION",
    "RETENTION.tmp",
    "INTENT",
    "INTENT.tmp",
    "log",
    "checkpoints",
    "quarantine",
];

/// What a log is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Appending: takes the lock, creates what is not there, mends an unclean end.
    Write {
        /// How long to wait for the lock.
        lock_wait: Duration,
        /// Whether a network filesystem is accepted.
        allow_network: bool,
        /// The clock at opening, for the header of a first segment.
        now: Time,
    },
    /// Reading: takes no lock, changes nothing, serves what checks out.
    Read,
}

/// What opening hands each frame to: the fold.
pub trait Fold {
    /// Opening begins, perhaps again: forget what was folded.
    fn begin(&mut self);

    /// A place behind which to go on, where the state at it is known: the fold holds that state then. Asked again
    /// if the log is not the one that the stamp names. None says that nothing is known, and that the fold holds
    /// nothing.
    fn resume(&mut self) -> Option<Stamp> {
        None
    }

    /// The next frame that holds deltas (`commit` or `base`); it was checked wholly.
    fn frame(&mut self, met: &Met<'_>);

    /// The place behind the commit that was just folded, for whoever wants to keep the state there.
    fn behind(&mut self, _: &dyn Fn() -> Start) {}
}

/// A log that can be used.
#[derive(Debug)]
pub struct Opening {
    /// The store's id.
    pub store: StoreId,
    /// Its files.
    pub files: Files,
    /// Where frames stand.
    pub index: Index,
    /// What was found and mended.
    pub recovery: Recovery,
    /// The highest frame known durable.
    pub durable: Frame,
    /// The time of the last frame.
    pub time: Time,
    /// Where a later look goes on.
    pub place: Place,
    /// For the writer: where to go on, the lock, and DURABLE.
    pub(super) writing: Option<Writing>,
}

/// What only a writer needs.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) tail: Tail,
    pub(super) lock: Lock,
    pub(super) durable_file: Arc<dyn File>,
}

/// Whether a directory looks like a store: it is one if the log has a file or there is a promise.
///
/// # Errors
/// [`Error::Io`]; [`Error::NotAStore`] if it holds other things and no log.
pub fn looks_like_store(disk: &dyn Disk) -> Result<bool> {
    let list = |dir: &str| match disk.list(dir) {
        Ok(names) => Ok(names),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(Error::io("listing", disk.root().join(dir), e)),
    };
    let names = list("")?;
    let in_log = if names.iter().any(|n| n == LOG_DIR) { list(LOG_DIR)? } else { Vec::new() };
    if names.iter().any(|n| n == DURABLE) || in_log.iter().any(|n| SegmentId::from_file_name(n).is_some()) {
        return Ok(true);
    }
    match names.into_iter().find(|name| !ROOT_NAMES.contains(&name.as_str())) {
        Some(found) => Err(Error::NotAStore { path: disk.root().to_path_buf(), found }),
        None => Ok(false),
    }
}

/// Opens a log.
///
/// # Errors
/// [`Error::NoSuchStore`] when reading where nothing is; [`Error::NotAStore`]; [`Error::Locked`];
/// [`Error::NewerFormat`]; [`Error::NetworkFilesystem`]; [`Error::Damaged`] when writing (a reader is served
/// up to the damage instead, and finds it in the report); [`Error::DiskFull`] when an unclean end cannot be
/// kept; [`Error::Io`].
pub fn open(
    disk: &Arc<dyn Disk>,
    options: SegmentOptions,
    mode: Mode,
    fold: &mut dyn Fold,
) -> Result<Opening> {
    match mode {
        Mode::Write { lock_wait, allow_network, now } => {
            open_for_writing(disk, options, lock_wait, allow_network, now, fold)
        }
        Mode::Read => open_for_reading(&**disk, options, fold),
    }
}

fn open_for_writing(
    disk: &Arc<dyn Disk>,
    options: SegmentOptions,
    lock_wait: Duration,
    allow_network: bool,
    now: Time,
    fold: &mut dyn Fold,
) -> Result<Opening> {
    let root = disk.root().to_path_buf();
    let io = |doing| move |e| Error::io(doing, &root, e);
    if !looks_like_store(&**disk)? {
        refuse_network(&**disk, allow_network)?;
        disk.create_dir("").map_err(io("creating"))?;
    }
    refuse_network(&**disk, allow_network)?;
    let lock = disk.lock(lock_wait).map_err(|e| lock_error(&**disk, e))?;
    // What a builder left that died. One that lives notices, and builds its checkpoint another time.
    settle::remove_temporaries(&**disk, &["checkpoints"])?;
    open_locked(disk, options, lock, now, fold)
}

/// Opens a log for writing; the lock is held.
///
/// # Errors
/// As [`open`].
pub(super) fn open_locked(
    disk: &Arc<dyn Disk>,
    options: SegmentOptions,
    lock: Lock,
    now: Time,
    fold: &mut dyn Fold,
) -> Result<Opening> {
    let finished_intent = intent::finish(&**disk)?;
    settle::remove_temporaries(&**disk, &["", LOG_DIR])?;
    let promised = promise::read(&**disk)?;
    let mut found = Found::look(&**disk, Access::Write)?;
    let made = found.files.is_empty();
    if made {
        let first = SegmentId::Segment { first: Frame(1) };
        if let Some(missing) = all_missing(&**disk, promised.as_ref()) {
            return Err(missing);
        }
        settle::complete_creation(&**disk, first, options, now)?;
        found = Found::look(&**disk, Access::Write)?;
    }
    let checked = found.check(&**disk, options, promised, fold)?;
    if !made && checked.chain.number == Frame::ZERO {
        // Its creator may have died before that, and who goes on with it tells others its id.
        settle::sync_names(&**disk)?;
    }
    settle::settle(disk, checked, lock, finished_intent)
}

/// The damage that a log without a file is, if one was promised.
fn all_missing(disk: &dyn Disk, promised: Option<&Durable>) -> Option<Error> {
    let durable = promised.filter(|durable| durable.frame > Frame::ZERO)?;
    let first = SegmentId::Segment { first: Frame(1) }.to_string();
    let reason = Malformed::new("segment file", 0, "the first segment", "no file");
    Some(damage(disk, &first, 0, Frame(1), reason, Evidence::Durable(durable.frame)))
}

pub(super) fn refuse_network(disk: &dyn Disk, allow: bool) -> Result<()> {
    let kind = disk.network().map_err(|e| Error::io("examining", disk.root(), e))?;
    match kind {
        Some(kind) if !allow => Err(Error::NetworkFilesystem { path: disk.root().to_path_buf(), kind }),
        _ => Ok(()),
    }
}

pub(super) fn lock_error(disk: &dyn Disk, e: LockError) -> Error {
    match e {
        LockError::Held { holder } => {
            let (pid, host) = holder.map(|h| (h.pid, h.host)).unzip();
            Error::Locked { path: disk.root().to_path_buf(), pid, host }
        }
        LockError::Io(e) => Error::io("locking", disk.root().join(crate::disk::LOCK), e),
    }
}

/// How often a reader looks before it says damaged: a writer may be in the middle of something.
const DAMAGED_LOOKS: usize = 3;
/// How often a reader starts over because files were replaced under it. Each time a whole change came between.
const LOOKS: usize = 16;

pub(super) fn open_for_reading(
    disk: &dyn Disk,
    options: SegmentOptions,
    fold: &mut dyn Fold,
) -> Result<Opening> {
    let mut damaged = 0;
    for _ in 0..LOOKS {
        if !looks_like_store(disk)? {
            return Err(Error::NoSuchStore { path: disk.root().to_path_buf() });
        }
        let (intent, unsound) = intent::read_through(disk)?;
        // The promise is read before the frames: what it covers is in the log already.
        let promised = promise::read(disk)?;
        let found = Found::look_through(disk, intent.as_ref())?;
        if found.files.is_empty() {
            let none = || Error::NoSuchStore { path: disk.root().to_path_buf() };
            let missing = unsound.map(Error::from).or(all_missing(disk, promised.as_ref()));
            return Err(missing.unwrap_or_else(none));
        }
        let listed = found.files.clone();
        let checked = match found.check(disk, options, promised, fold) {
            Err(e) if catchup::is_gone(&e) => continue,
            checked => checked?,
        };
        let verdict = match settle::verdict(disk, &checked)? {
            Verdict::Clean => Verdict::Clean,
            // A writer was at it: what stands there now is for the next look.
            _ if checked.stands_now()? => Verdict::Clean,
            other => other,
        };
        let verdict = match (verdict, unsound) {
            (Verdict::Damaged(damage), _) => Verdict::Damaged(damage),
            // Each file was checked, and so was that they follow one another; that they are all from before the
            // change or all from after it, nobody can say.
            (_, Some(damage)) => {
                Verdict::Damaged(Damage { frame: checked.chain.number.next().unwrap_or_default(), ..damage })
            }
            (verdict, None) => verdict,
        };
        // A change of several files keeps names: files from before it and after it must not be taken together.
        if intent::read_through(disk)?.0 != intent || !catchup::all_there(disk, &checked.segments, &listed)? {
            continue;
        }
        let is_damaged = matches!(verdict, Verdict::Damaged(_));
        damaged += usize::from(is_damaged);
        if !is_damaged || damaged >= DAMAGED_LOOKS {
            return Ok(settle::serve(checked, verdict));
        }
    }
    let replaced = std::io::Error::other("its files were replaced again and again meanwhile");
    Err(Error::io("reading", disk.root().join(LOG_DIR), replaced))
}

pub(super) fn damage(
    disk: &dyn Disk,
    segment: &str,
    offset: u64,
    frame: Frame,
    reason: Malformed,
    evidence: Evidence,
) -> Error {
    let (path, segment) = (disk.root().to_path_buf(), segment.to_owned());
    Damage { path, segment, offset, frame, reason, evidence }.into()
}

/// What is missing at the end of a file: what, what was expected, what was found.
type Missing = (&'static str, &'static str, &'static str);

const NO_SEAL: Missing = ("segment", "a seal", "zeros");

/// Where checking stopped short of a clean end.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) name: String,
    pub(super) offset: u64,
    pub(super) reason: Malformed,
    /// Set where the place itself says that this is damage.
    pub(super) evidence: Option<Evidence>,
}

/// A log whose frames were checked up to a place.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) store: StoreId,
    pub(super) chain: Chain,
    /// The nonce of the seal, where the last file ends in one.
    pub(super) sealed: Option<u64>,
    pub(super) nonce: u64,
    /// Where the checked frames of the last file end.
    pub(super) end: u64,
    pub(super) frames: u64,
    pub(super) commits: u64,
    pub(super) last_kind: Option<FrameKind>,
    /// Where the last frame of the last file stands.
    pub(super) last_at: Option<u64>,
    pub(super) stop: Option<Stop>,
    pub(super) promised: Option<Durable>,
    /// The highest promise of a frame or of DURABLE.
    pub(super) promise: Frame,
    /// The last commit to take in, and no marker behind it; none takes in all there is.
    pub(super) until: Option<Frame>,
    /// A commit stands behind that one, or a file that may hold some.
    pub(super) more: bool,
    pub(super) unproven: Unproven,
    pub(super) index: Index,
}

impl Checked {
    pub(super) fn new(promised: Option<Durable>) -> Checked {
        Checked {
            segments: Vec::new(),
            store: StoreId::default(),
            chain: Chain::start(Frame::ZERO, Time::ZERO),
            sealed: None,
            nonce: 0,
            end: FRAMES_START,
            frames: 0,
            commits: 0,
            last_kind: None,
            last_at: None,
            stop: None,
            promise: promised.map_or(Frame::ZERO, |d| d.frame),
            promised,
            until: None,
            more: false,
            unproven: Unproven::default(),
            index: Index::default(),
        }
    }

    /// A log that was checked up to a place in the last of these files.
    pub(super) fn at(place: Place, segments: Vec<Arc<Segment>>, promised: Option<Durable>) -> Checked {
        Checked {
            segments,
            store: place.store,
            nonce: place.sealed.unwrap_or_default(),
            unproven: Unproven::starting_at(place.end),
            chain: place.chain,
            sealed: place.sealed,
            end: place.end,
            frames: place.frames,
            commits: place.commits,
            last_kind: place.last_kind,
            last_at: place.last_at,
            ..Checked::new(promised)
        }
    }

    /// Goes on behind the place where it is: in the last file, unless that is sealed, then in those behind it.
    pub(super) fn go_on(
        &mut self,
        found: Found,
        disk: &dyn Disk,
        options: SegmentOptions,
        fold: &mut dyn Fold,
    ) -> Result<()> {
        let known = self.segments.len();
        let last = self.segments.last().map(|segment| segment.id().to_string());
        if self.sealed.is_none() {
            self.resume(fold)?;
        }
        let files: Vec<_> = found.files.into_iter().skip(known).collect();
        let name = last.filter(|_| self.sealed.is_none() && !files.is_empty());
        match name {
            Some(name) => self.stop_before_the_last(name, NO_SEAL),
            None => self.extend(Found { files, ..found }, disk, options, fold)?,
        }
        Ok(())
    }

    /// Only the last file of a log may be without a seal, and a base is never the last.
    fn stop_before_the_last(&mut self, name: String, (what, expected, found): Missing) {
        let reason = self.stop.take().map(|stop| stop.reason);
        let reason = reason.unwrap_or_else(|| Malformed::new(what, self.end, expected, found));
        self.stop = Some(Stop { name, offset: self.end, reason, evidence: Some(Evidence::NotLast) });
    }

    /// Checks further files, in order, up to the first frame that does not check out.
    pub(super) fn extend(
        &mut self,
        found: Found,
        disk: &dyn Disk,
        options: SegmentOptions,
        fold: &mut dyn Fold,
    ) -> Result<()> {
        let count = found.files.len();
        for (i, (id, name)) in found.files.into_iter().enumerate() {
            let last = i + 1 == count;
            let access = if last { found.access } else { Access::Read };
            let segment = match Segment::open(disk, &name, id, access, options)? {
                Opened::Segment(segment) => segment,
                Opened::BadHeader(reason) => {
                    self.stop = Some(Stop { name, offset: 0, reason, evidence: Some(Evidence::Header) });
                    break;
                }
            };
            if let Err(reason) = self.enter(&segment, self.segments.len()) {
                self.stop = Some(Stop { name, offset: 0, reason, evidence: Some(Evidence::Lineage) });
                break;
            }
            self.walk(Arc::new(segment), FRAMES_START, fold)?;
            if self.is_enough() {
                break;
            }
            let missing = match (self.sealed, last) {
                (None, false) => Some(NO_SEAL),
                (_, true) if id.is_base() => Some(("log", "a segment behind the base", "its end")),
                _ => None,
            };
            if let Some(missing) = missing {
                self.stop_before_the_last(name, missing);
                break;
            }
        }
        Ok(())
    }

    /// Goes on behind a place that was checked before: in the file that was the last one then.
    pub(super) fn resume(&mut self, fold: &mut dyn Fold) -> Result<()> {
        match self.segments.pop() {
            Some(last) => self.walk(last, self.end, fold),
            None => Ok(()),
        }
    }

    /// Holds a file's header against its name and the file before it.
    fn enter(&mut self, segment: &Segment, ordinal: usize) -> Result<(), Malformed> {
        let header = segment.header();
        let bad = |what, expected: &dyn std::fmt::Display, found: &dyn std::fmt::Display| {
            Err(Malformed::new(what, 0, expected, found))
        };
        if ordinal == 0 {
            self.store = header.store;
            if self.promised.is_some_and(|d| d.store != header.store) {
                // Another store's promise says nothing about this log.
                (self.promised, self.promise) = (None, Frame::ZERO);
            }
        }
        if header.store != self.store {
            return bad("store id", &self.store, &header.store);
        }
        if header.first != segment.id().first() {
            return bad("first frame", &segment.id().first(), &header.first);
        }
        if header.previous_nonce != self.nonce {
            let hex = |n: u64| format!("{n:#018x}");
            return bad("previous nonce", &hex(self.nonce), &hex(header.previous_nonce));
        }
        match segment.id() {
            SegmentId::Base { first, part } => {
                if part as usize != ordinal + 1 || (ordinal > 0 && first.previous() != self.chain.number) {
                    return bad("base part", &(ordinal + 1), &part);
                }
                self.chain.number = first.previous();
                self.index.base(first.previous());
            }
            SegmentId::Segment { first } if Some(first) != self.chain.number.next() => {
                let expected = self.chain.number.next().unwrap_or_default();
                return bad("first frame", &expected, &first);
            }
            SegmentId::Segment { .. } => {}
        }
        self.chain = Chain::start(self.chain.number, self.chain.time);
        (self.sealed, self.end, self.frames, self.commits, self.last_kind) = (None, FRAMES_START, 0, 0, None);
        self.last_at = None;
        self.unproven = Unproven::starting_at(FRAMES_START);
        Ok(())
    }

    /// Checks the frames of one file from a place on; publishes them.
    fn walk(&mut self, segment: Arc<Segment>, from: u64, fold: &mut dyn Fold) -> Result<()> {
        let ordinal = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        let base = segment.id().is_base();
        let mut walk = Walk::new(&segment, from, segment.size()?);
        self.stop = loop {
            let at = walk.offset();
            let stop = |reason| Stop { name: segment.id().to_string(), offset: at, reason, evidence: None };
            match walk.step()? {
                Step::End => break None,
                Step::Bad(reason) => break Some(stop(reason)),
                Step::Frame { frame, .. } if self.is_passed_by(&frame) => {}
                Step::Frame { frame, .. } if self.is_beyond(&frame) => break None,
                Step::Frame { offset, frame, bytes } => {
                    if let Err(reason) = self.follow(&frame, offset, base) {
                        break Some(stop(reason));
                    }
                    self.end = offset + bytes.len() as u64;
                    self.last_at = Some(offset);
                    self.unproven.add(bytes, frame.header.kind, frame.header.number, self.end);
                    self.promise = self.promise.max(frame.header.durable);
                    self.unproven.prove(self.promise);
                    let at = Position { segment: ordinal, offset: u32::try_from(offset).unwrap_or(u32::MAX) };
                    let (number, time) = (frame.header.number, frame.header.time);
                    match frame.header.kind {
                        FrameKind::Commit => {
                            self.index.commit(number, time, at);
                            fold.frame(&Met { at, frame });
                            fold.behind(&|| self.start(ordinal));
                        }
                        FrameKind::Base => fold.frame(&Met { at, frame }),
                        FrameKind::Lost => {
                            if let Ok(range) = LostRange::decode(frame.payload, offset) {
                                self.index.lose(range);
                            }
                        }
                        FrameKind::Seal => break None,
                        FrameKind::Close => {}
                    }
                }
            }
        };
        drop(walk);
        segment.publish(self.end);
        self.segments.push(segment);
        Ok(())
    }

    /// The place behind the last checked frame, in the file with this ordinal.
    fn start(&self, ordinal: u32) -> Start {
        let before: u64 = self.segments.iter().map(|segment| segment.published()).sum();
        Start { ordinal, place: Place::of(self), log_bytes: before + self.end }
    }

    /// Looks once more at the place where the last file ended: whether the next frame stands there by now.
    fn stands_now(&self) -> Result<bool> {
        let Some(segment) = self.segments.last().filter(|_| self.sealed.is_none()) else { return Ok(false) };
        if self.stop.as_ref().is_some_and(|stop| stop.evidence.is_some()) {
            return Ok(false);
        }
        match Walk::new(segment, self.end, segment.size()?).step()? {
            Step::Frame { offset, frame, .. } => Ok(self.next(&frame, offset).is_ok()),
            Step::End | Step::Bad(_) => Ok(false),
        }
    }

    /// Takes a frame into the chain, or says why it does not belong there.
    fn follow(&mut self, frame: &CheckedFrame<'_>, offset: u64, base: bool) -> Result<(), Malformed> {
        let kind = frame.header.kind;
        let fits = match kind {
            FrameKind::Seal => true,
            FrameKind::Base => base,
            _ => !base,
        };
        if !fits {
            return Err(Malformed::new("frame kind", offset, "a kind of this file", kind.name()));
        }
        let (chain, seal) = self.next(frame, offset)?;
        self.chain = chain;
        if let Some(seal) = seal {
            (self.sealed, self.nonce) = (Some(seal.nonce), seal.nonce);
        }
        self.frames += 1;
        self.commits += u64::from(matches!(kind, FrameKind::Commit | FrameKind::Lost));
        self.last_kind = Some(kind);
        Ok(())
    }

    /// The chain behind a frame, and what it says if it is a seal. A frame that is refused leaves no trace: what
    /// is written in its place continues the frame before it.
    fn next(&self, frame: &CheckedFrame<'_>, offset: u64) -> Result<(Chain, Option<Seal>), Malformed> {
        let mut chain = self.chain.clone();
        chain.follow(frame, offset)?;
        if frame.header.kind != FrameKind::Seal {
            return Ok((chain, None));
        }
        let seal = Seal::decode(frame.payload, offset)?;
        if seal.frames != self.frames {
            return Err(Malformed::new("sealed frames", offset, self.frames, seal.frames));
        }
        Ok((chain, Some(seal)))
    }
}
