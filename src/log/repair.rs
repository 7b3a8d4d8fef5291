//! Repair: a damaged log becomes a whole one that says what it lost.
//!
//! It acts only when asked, under the lock. Every damaged file is copied whole into `quarantine/` and rebuilt with
//! a new salt: what is intact keeps its number, time, promise and writer, `lost` stands over what is gone, up to
//! every promise, and the lineage is as it was. Files that are missing between others, or were promised, are
//! built anew around such a range. All of that is one change through INTENT: a crash leaves the old damage or the
//! finished repair. No later segment is ever deleted, and no number is given a second time.
//!
//! An unclean end is no damage: opening mends it. Only in a file that is rebuilt anyway it is left out, and its
//! bytes are in the copy. A base from which frames are missing is not repaired: `lost` cannot say which part of a
//! state is gone.

mod salvage;
mod sequence;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::found::Found;
use super::intent::{self, INTENT};
use super::promise;
use super::recover::{damage, lock_error, looks_like_store, refuse_network};
use super::settle;
use super::verify::{self, Finding, Severity, read_whole};
use crate::codec::frame::{FrameKind, LostRange, Seed, decode};
use crate::codec::segment::{BadHeader, Durable, FORMAT_VERSION, FRAMES_START, SegmentHeader, StoreId};
use crate::disk::{Access, Disk};
use crate::error::{Error, Evidence, Result};
use crate::position::{Frame, SegmentId, Time};
use crate::segment::{LOG_DIR, Search};
use sequence::Sequence;

/// What a repair found and did. Nothing was done where nothing is damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The damage that was found, as `verify` reports it.
    pub damage: Vec<Finding>,
    /// The frames that are gone by this repair, in order. Ranges that an earlier one gave up are not among them,
    /// unless their `lost` frame was itself destroyed.
    pub lost: Vec<LostRange>,
    /// The files that were built anew or taken out of the log.
    pub rewritten: Vec<Rewritten>,
    /// The last number that was given: the next commit gets the one after it.
    pub last: Frame,
    /// True if a change of several files was found under way and finished.
    pub finished_intent: bool,
}

/// One file that a repair changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The file as a path in the store.
    pub file: String,
    /// The copy of what it was, by its name in `quarantine/`; none for a file that was missing.
    pub quarantine: Option<String>,
    /// Bytes of an unclean end that were left out: nobody was told that they were saved.
    pub cut_bytes: u64,
}

/// Repairs a damaged log, and does nothing to one that is whole. Takes the lock for as long as it runs, and reads
/// every byte of the log at least once, a file at a time. `now` is the time for the headers of files that are new.
///
/// # Errors
/// [`Error::NoSuchStore`]; [`Error::NotAStore`]; [`Error::NewerFormat`]; [`Error::NetworkFilesystem`];
/// [`Error::Locked`]; [`Error::DiskFull`]: nothing was changed. [`Error::Damaged`] where a base has lost frames:
/// nothing was changed. [`Error::Io`]: the damage is as it was, or the repair is stated and is finished by
/// whoever takes the lock next.
pub fn repair(disk: &Arc<dyn Disk>, lock_wait: Duration, allow_network: bool, now: Time) -> Result<Repaired> {
    let disk = &**disk;
    if !looks_like_store(disk)? {
        return Err(Error::NoSuchStore { path: disk.root().to_path_buf() });
    }
    refuse_network(disk, allow_network)?;
    let _lock = disk.lock(lock_wait).map_err(|e| lock_error(disk, e))?;
    let mut repaired = Repaired::default();
    finish_intent(disk, &mut repaired)?;
    settle::remove_temporaries(disk, &["", LOG_DIR])?;
    let report = verify::look(disk)?;
    repaired.last = report.last;
    if report.is_whole() {
        return Ok(repaired);
    }
    let found = report.findings.into_iter().filter(|finding| finding.severity == Severity::Damage);
    repaired.damage.extend(found);
    disk.create_dir(LOG_DIR).map_err(|e| Error::io("creating", disk.root().join(LOG_DIR), e))?;
    let durable = promise::read(disk)?;
    let files = Files::look(disk, durable)?;
    let promised = durable.filter(|d| d.store == files.store).map_or(Frame::ZERO, |d| d.frame);
    Sequence::begin(disk, files.store, promised, now, &mut repaired)?.repair(files)?;
    match verify::look(disk)?.findings.into_iter().find(|f| f.severity == Severity::Damage) {
        None => Ok(repaired),
        Some(left) => {
            let name = left.file.strip_prefix("log/").unwrap_or(&left.file);
            Err(damage(disk, name, left.offset, left.frame, left.reason, Evidence::Changed))
        }
    }
}

/// Finishes an INTENT. One that does not check out, or whose files do not, cannot be finished: it is set aside, and
/// the files are taken as they are.
fn finish_intent(disk: &dyn Disk, repaired: &mut Repaired) -> Result<()> {
    match intent::finish(disk) {
        Ok(finished) => {
            repaired.finished_intent = finished;
            Ok(())
        }
        Err(Error::Damaged(damage)) => {
            let bytes = read_whole(disk, INTENT)?;
            let name = format!("{INTENT}.{:016x}", settle::random(disk)?);
            settle::keep(disk, &name, &bytes)?;
            intent::remove(disk, INTENT)?;
            disk.sync_dir("").map_err(|e| Error::io("syncing", disk.root(), e))?;
            let (severity, offset, frame) = (Severity::Damage, damage.offset, damage.frame);
            let finding = Finding { severity, file: INTENT.to_owned(), offset, frame, reason: damage.reason };
            repaired.damage.push(finding);
            let file = INTENT.to_owned();
            repaired.rewritten.push(Rewritten { file, quarantine: Some(name), cut_bytes: 0 });
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// A file of the log as the directory names it, before its frames are looked through.
#[derive(Debug)]
struct Known {
    /// Which file it is: what its first frame says, else its header, else its name.
    id: SegmentId,
    name: String,
    /// Its header, where either copy serves.
    header: Option<SegmentHeader>,
    /// What begins its checksums; without headers a frame tells it, and where none does, nothing can be checked.
    seed: Option<Seed>,
    /// The time of its first frame that is whole.
    time: Option<Time>,
}

/// The files of a damaged log.
#[derive(Debug)]
struct Files {
    store: StoreId,
    /// In the order of the log; no two are the same.
    files: Vec<Known>,
    /// Names of files that claim to be one of those.
    doubles: Vec<String>,
}

impl Files {
    fn look(disk: &dyn Disk, durable: Option<Durable>) -> Result<Files> {
        let mut by_id: BTreeMap<SegmentId, Known> = BTreeMap::new();
        let mut doubles = Vec::new();
        let mut stores: BTreeMap<[u8; 16], usize> = durable.iter().map(|d| (d.store.0, 1)).collect();
        for (id, name) in Found::look(disk, Access::Read)?.files {
            let known = Known::look(disk, id, name)?;
            if let Some(header) = &known.header {
                *stores.entry(header.store.0).or_default() += 1;
            }
            match by_id.get(&known.id) {
                // The one that has its own name stays.
                Some(other) if other.name == other.id.to_string() => doubles.push(known.name),
                _ => doubles.extend(by_id.insert(known.id, known).map(|other| other.name)),
            }
        }
        // Headers and promise vote; a store that nothing names any more gets a new name.
        let voted = stores
            .into_iter()
            .max_by_key(|(store, votes)| (*votes, durable.is_some_and(|d| d.store.0 == *store)));
        let store = match voted {
            Some((store, _)) => StoreId(store),
            None => StoreId(settle::random_bytes(disk)?),
        };
        Ok(Files { store, files: by_id.into_values().collect(), doubles })
    }

    /// Refuses bases that are not the beginning of this log.
    fn check_bases(&self) -> Option<&Known> {
        let bases = self.files.iter().take_while(|file| file.id.is_base()).count();
        let first = self.files.iter().find(|file| file.id.is_base())?.id.first();
        let wrong = |(i, file): (usize, &Known)| match file.id {
            SegmentId::Base { first: f, part } => f != first || part as usize != i + 1,
            SegmentId::Segment { first: f } => i == bases && f < first,
        };
        self.files.iter().enumerate().find(|(i, file)| wrong((*i, file))).map(|(_, file)| file)
    }

    fn names(&self) -> BTreeSet<String> {
        self.files.iter().map(|file| file.id.to_string()).collect()
    }
}

impl Known {
    fn look(disk: &dyn Disk, named: SegmentId, name: String) -> Result<Known> {
        let path = format!("{LOG_DIR}/{name}");
        let bytes = read_whole(disk, &path)?;
        let header = match SegmentHeader::decode_either(bytes.get(..FRAMES_START as usize).unwrap_or(&bytes))
        {
            Ok(header) => Some(header),
            Err(BadHeader::Malformed(_)) => None,
            Err(BadHeader::Newer { version: found }) => {
                let path = disk.root().join(path);
                return Err(Error::NewerFormat { path, found, known: FORMAT_VERSION });
            }
        };
        let seed = match &header {
            Some(header) => Some(Seed::new(header.salt)),
            None => salvage::seed_of(&bytes),
        };
        let told = seed.as_ref().and_then(|seed| first_number(&bytes, seed));
        let first = told.or(header.as_ref().map(|header| header.first)).filter(|first| *first > Frame::ZERO);
        let id = match (named, first) {
            (SegmentId::Segment { .. }, Some(first)) => SegmentId::Segment { first },
            _ => named,
        };
        let frames = bytes.get(FRAMES_START as usize..).unwrap_or_default();
        let whole = seed
            .as_ref()
            .and_then(|seed| Search::new(frames, FRAMES_START, seed).frame(FRAMES_START, |_| true));
        let time = whole.map(|(_, frame)| frame.header.time);
        Ok(Known { id, name, header, seed, time })
    }
}

/// The number that the first frame of a segment takes.
fn first_number(bytes: &[u8], seed: &Seed) -> Option<Frame> {
    let frame = decode(bytes.get(FRAMES_START as usize..)?, FRAMES_START, seed).ok()?;
    match frame.header.kind {
        FrameKind::Commit => Some(frame.header.number),
        FrameKind::Lost => salvage::first_lost(&frame),
        FrameKind::Close | FrameKind::Seal | FrameKind::Base => None,
    }
}
