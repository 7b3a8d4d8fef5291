//! A fork: another store whose log is this one's up to a frame.
//!
//! Every file is built anew with the fork's own store id and salts, so no bytes are shared, and neither store can be
//! taken for the other. Numbers, times, promises, writers and lost ranges stay. All files come into being as one
//! change through INTENT: a crash leaves no store or the whole one, which whoever opens it for writing completes. It
//! does not know what frames say.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use super::build::Build;
use super::change::Change;
use super::promise::{self, DURABLE};
use super::recover::{ROOT_NAMES, lock_error, refuse_network};
use super::{Files, intent, settle};
use crate::codec::frame::{FrameKind, Seal};
use crate::codec::segment::{Durable, FRAMES_START, SegmentHeader, StoreId};
use crate::codec::wire::Malformed;
use crate::disk::{Disk, LOCK};
use crate::error::{Error, Result};
use crate::position::{Frame, SegmentId, Time};
use crate::segment::{Chain, GROWTH_MIN_BYTES, LOG_DIR, Segment, Step, Walk};

/// A store that was made as a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forked {
    /// The fork's id.
    pub store: StoreId,
    /// Its last frame.
    pub frame: Frame,
    /// Files of its log.
    pub files: usize,
    /// Bytes of headers and frames in them.
    pub bytes: u64,
}

/// Makes a store on another disk out of the frames of these files up to one that they hold, durably. The root of
/// that disk may be missing, or empty but for what an interrupted creation left. Holds the new store's lock meanwhile,
/// and takes as much memory as the largest file of the log.
///
/// # Errors
/// [`Error::StoreExists`]; [`Error::NotAStore`]: other files are there; [`Error::Locked`];
/// [`Error::NetworkFilesystem`]; [`Error::Corrupt`]: a frame rotted; [`Error::DiskFull`]: there is no store then, and
/// what was made for it is gone as far as the disk lets us. [`Error::Io`]: the same, unless all was stated already:
/// then the store is there, and whoever opens it for writing completes it.
pub fn fork(files: &Files, frame: Frame, target: &dyn Disk, allow_network: bool) -> Result<Forked> {
    let before = names(target, "")?;
    check_vacant(target)?;
    refuse_network(target, allow_network)?;
    target.create_dir("").map_err(|e| Error::io("creating", target.root(), e))?;
    let _lock = target.lock(Duration::ZERO).map_err(|e| lock_error(target, e))?;
    // Somebody may have been faster.
    check_vacant(target)?;
    let made = build(&files.now(), frame, target);
    if made.is_err() {
        clear(target, before.as_deref());
    }
    made
}

/// The names in a directory; none if it is absent.
pub(super) fn names(disk: &dyn Disk, dir: &str) -> Result<Option<Vec<String>>> {
    match disk.list(dir) {
        Ok(names) => Ok(Some(names)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("listing", disk.root().join(dir), e)),
    }
}

/// Whether a store may come to be here: there is none, and nothing of anyone else's.
fn check_vacant(disk: &dyn Disk) -> Result<()> {
    let Some(root) = names(disk, "")? else { return Ok(()) };
    let path = disk.root().to_path_buf();
    if is_stated(disk)? || promise::read(disk)?.is_some() {
        return Err(Error::StoreExists { path });
    }
    match root.into_iter().find(|name| !ROOT_NAMES.contains(&name.as_str())) {
        Some(found) => Err(Error::NotAStore { path, found }),
        None => Ok(()),
    }
}

/// Whether the log has a file, or a change that will give it one.
pub(super) fn is_stated(disk: &dyn Disk) -> Result<bool> {
    if intent::read(disk)?.is_some() {
        return Ok(true);
    }
    let log = if names(disk, "")?.is_some_and(|root| root.iter().any(|name| name == LOG_DIR)) {
        names(disk, LOG_DIR)?
    } else {
        None
    };
    Ok(log.into_iter().flatten().any(|name| SegmentId::from_file_name(&name).is_some()))
}

/// Takes away what a fork or first backup that failed has made, unless it was stated: then it is a store.
pub(super) fn clear(disk: &dyn Disk, before: Option<&[String]>) {
    let mine = |name: &str| !before.is_some_and(|names| names.iter().any(|before| before == name));
    if !matches!(is_stated(disk), Ok(false)) {
        return;
    }
    let mut left = settle::remove_temporaries(disk, &["", LOG_DIR]).is_err();
    let mut done = |removed: std::io::Result<()>| {
        left |= removed.is_err_and(|e| e.kind() != ErrorKind::NotFound);
    };
    for name in [DURABLE, LOCK] {
        if mine(name) {
            done(disk.remove(name));
        }
    }
    if mine(LOG_DIR) {
        done(disk.remove_dir(LOG_DIR));
    }
    if before.is_none() {
        done(disk.remove_dir(""));
    }
    if left {
        tracing::warn!(root = %disk.root().display(), "not all of a copy that failed could be removed");
    }
}

fn build(files: &[Arc<Segment>], frame: Frame, target: &dyn Disk) -> Result<Forked> {
    settle::remove_temporaries(target, &["", LOG_DIR])?;
    let io = |doing, path: &str| {
        let path = target.root().join(path);
        move |e| Error::io(doing, path, e)
    };
    target.create_dir(LOG_DIR).map_err(io("creating", LOG_DIR))?;
    // Not a promise yet: the room for one is taken before anything is stated.
    let durable_file = settle::durable_file(target)?;
    target.sync_dir("").map_err(io("syncing", ""))?;
    let store = StoreId(settle::random_bytes(target)?);
    let mut copy = Copy {
        target,
        last: frame,
        change: Change::begin(target, store)?,
        chain: Chain::start(Frame::ZERO, Time::ZERO),
        promise: Durable { store, frame, segment: Frame(1), offset: FRAMES_START },
        forked: Forked { store, frame, files: 0, bytes: 0 },
    };
    let bases = files.iter().take_while(|segment| segment.id().is_base()).count();
    // There is always a segment, also one without a frame: a log neither is empty nor ends in a base.
    let segments = files.iter().skip(bases).filter(|s| s.id().first() <= frame).count().max(1);
    let count = (bases + segments).min(files.len());
    for (i, segment) in files.iter().take(count).enumerate() {
        copy.file(segment, i + 1 == count)?;
    }
    copy.change.commit()?;
    durable_file.write_at(0, &copy.promise.encode()).map_err(io("writing", DURABLE))?;
    durable_file.sync_data().map_err(io("syncing", DURABLE))?;
    Ok(copy.forked)
}

/// A fork under construction.
struct Copy<'d> {
    target: &'d dyn Disk,
    /// The last frame that goes along.
    last: Frame,
    change: Change<'d>,
    /// Where the files so far end.
    chain: Chain,
    promise: Durable,
    forked: Forked,
}

impl Copy<'_> {
    /// Builds one file anew. The last one ends with the last frame, and with a marker that vouches for it.
    fn file(&mut self, segment: &Segment, last: bool) -> Result<()> {
        let id = segment.id();
        let header = SegmentHeader { store: self.forked.store, ..segment.header().clone() };
        let mut build =
            Build::begin(self.target, header, self.chain.number.max(id.first().previous()), self.chain.time)?;
        let mut walk = Walk::new(segment, FRAMES_START, segment.published());
        let mut frames = 0;
        while !last || build.chain().number < self.last {
            let at = walk.offset();
            match walk.step()? {
                Step::Frame { frame, .. } if frame.header.kind == FrameKind::Seal => {
                    let seal = Seal::decode(frame.payload, at);
                    let nonce = seal.map_err(|reason| segment.corrupt(frame.header.number, reason))?.nonce;
                    build.seal(nonce, Some(&frame.header))?;
                    break;
                }
                Step::Frame { frame, .. } => {
                    build.copy(&frame)?;
                    frames += 1;
                }
                Step::End if !last => break,
                Step::End => {
                    let reason = Malformed::new("frame", at, format_args!("frame {}", self.last), "zeros");
                    return Err(segment.corrupt(self.last, reason));
                }
                Step::Bad(reason) => return Err(segment.corrupt(self.last, reason)),
            }
        }
        if last && frames > 0 {
            build.close()?;
        }
        let reserved = if last { GROWTH_MIN_BYTES } else { 0 };
        self.change.build(id.to_string(), build.salt(), build.bytes(), reserved)?;
        self.chain = Chain { previous_crc: 0, ..build.chain().clone() };
        let len = build.bytes().len() as u64;
        (self.promise.segment, self.promise.offset) = (id.first(), len);
        self.forked.files += 1;
        self.forked.bytes += len;
        Ok(())
    }
}
