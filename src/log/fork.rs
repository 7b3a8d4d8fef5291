//! A fork: another store whose log is this one's up to a frame.
//!
//! Every file is built anew with the fork's own store id and salts, so no bytes are shared, and neither store can be
//! taken for the other. Numbers, times, promises, writers and lost ranges stay. All files come into being as one
//! change through INTENT: a crash leaves no store or the whole one, which whoever opens it for writing completes. It
//! does not know what frames say.

use std::sync::Arc;
use std::time::Duration;

use super::build::Build;
use super::change::Change;
use super::recover::ROOT_NAMES;
use super::target::{self, Target, is_stated, names};
use super::{Files, promise, settle};
use crate::codec::frame::{FrameKind, Seal};
use crate::codec::segment::{Durable, FRAMES_START, SegmentHeader, StoreId};
use crate::codec::wire::Malformed;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::position::{Frame, Time};
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
    check_vacant(target)?;
    let taken = Target::take(target, Duration::ZERO, allow_network)?;
    // Somebody may have been faster.
    check_vacant(target)?;
    taken.fill(true, || build(&files.now(), frame, target))
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

fn build(files: &[Arc<Segment>], frame: Frame, target: &dyn Disk) -> Result<Forked> {
    settle::remove_temporaries(target, &["", LOG_DIR])?;
    let room = target::prepare(target)?;
    let store = StoreId(settle::random_bytes(target)?);
    let mut copy = Copy {
        target,
        last: frame,
        change: Change::begin(target, store)?,
        chain: Chain::start(Frame::ZERO, Time::ZERO),
        promise: Durable { store, frame, segment: Frame(1), offset: FRAMES_START, copied: false },
        forked: Forked { store, frame, files: 0, bytes: 0 },
    };
    let files = target::up_to(files, frame);
    for (i, segment) in files.iter().enumerate() {
        copy.file(segment, i + 1 == files.len())?;
    }
    copy.change.commit()?;
    target::promise(target, &*room, &copy.promise)?;
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
