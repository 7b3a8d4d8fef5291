//! Checkpoints: saved states that spare an opening, or a look into the past, the fold from the beginning.
//!
//! Owns the files in `checkpoints/`: writing one, finding those that serve, and choosing which to keep. A checkpoint
//! is a cache: one that is missing, damaged, foreign or of another version costs time and never an answer, so
//! nothing that goes wrong while one is read is an error. Does not know when one is due, nor who holds the lock.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use super::Known;
use crate::codec::checkpoint::{
    BLOCKS_START, CHECKPOINT_HEADER_BYTES, CheckpointHeader, Stamp, encode_contents,
};
use crate::disk::{Access, Disk, File, Map};
use crate::error::{Error, Result};
use crate::log::Files;
use crate::position::Frame;
use crate::view::State;
use crate::view::saved::{BlockSink, Blocks, FOLD_VERSION};

/// The directory of checkpoints.
pub const CHECKPOINTS: &str = "checkpoints";
/// The least log between two checkpoints, and the longest way back from a young frame: 64 MiB.
pub const DISTANCE_BYTES: u64 = 64 << 20;
/// How much is read or written at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// The checkpoints of a store.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    disk: Arc<dyn Disk>,
    map: bool,
}

/// A checkpoint whose header serves; the rest of it was not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name in the directory.
    pub name: String,
    /// The last frame that was folded.
    pub frame: Frame,
    /// Bytes of the log up to the end of that frame.
    pub log_bytes: u64,
    /// How long the checkpoint is.
    pub bytes: u64,
}

/// A checkpoint under construction, under a temporary name.
#[derive(Debug)]
pub struct Draft {
    name: String,
    file: Arc<dyn File>,
}

impl Checkpoints {
    /// The checkpoints on a disk; `map` says whether they are mapped or read into memory.
    pub fn new(disk: Arc<dyn Disk>, map: bool) -> Checkpoints {
        Checkpoints { disk, map }
    }

    /// Those whose header serves, by frame.
    pub fn list(&self) -> Vec<Listed> {
        let names = self.disk.list(CHECKPOINTS).unwrap_or_default();
        let mut listed: Vec<Listed> = names
            .into_iter()
            .filter(|name| name.ends_with(SUFFIX))
            .filter_map(|name| self.look(name))
            .collect();
        listed.sort_by_key(|checkpoint| checkpoint.frame);
        listed
    }

    fn look(&self, name: String) -> Option<Listed> {
        let file = self.disk.open(&path(&name), Access::Read).ok()?;
        let CheckpointHeader { frame, log_bytes, length: bytes, .. } = header(&*file)?;
        Some(Listed { name, frame, log_bytes, bytes })
    }

    /// The state that a checkpoint holds, and the stamp of the log that it belongs to. None if its digest is
    /// wrong, its version another one, or it cannot be read.
    pub fn load(&self, listed: &Listed) -> Option<(State, Stamp)> {
        let loaded = self.try_load(&listed.name);
        if loaded.is_none() {
            tracing::warn!(name = listed.name, "a checkpoint does not serve");
        }
        loaded
    }

    fn try_load(&self, name: &str) -> Option<(State, Stamp)> {
        let file = self.disk.open(&path(name), Access::Read).ok()?;
        let header = header(&*file)?;
        let blocks = self.blocks(&*file, &header)?;
        let at = usize::try_from(header.contents_offset).ok()?;
        let contents = match &blocks {
            Held::Read(bytes) => bytes.get(at..)?.to_vec(),
            Held::Mapped(_) => read(&*file, header.contents_offset, header.length)?,
        };
        let (stamp, directory) = header.contents(&contents).ok()?;
        let state = State::load(directory, &blocks).ok()?;
        Some((state, stamp))
    }

    /// The state of the newest checkpoint of this log that is later than one frame and not later than another.
    ///
    /// # Errors
    /// [`Error::Io`]: the log cannot be read.
    pub fn before(&self, files: &Files, after: Frame, frame: Frame) -> Result<Option<Known>> {
        let within = |listed: &Listed| after < listed.frame && listed.frame <= frame;
        for listed in self.list().into_iter().rev().filter(within) {
            if let Some((state, stamp)) = self.load(&listed)
                && files.agree_with(&stamp)?
            {
                return Ok(Some(Known::saved(state, &stamp)));
            }
        }
        Ok(None)
    }

    /// The whole file, its digest found right. A map is read by position for that, so that it takes no memory.
    fn blocks(&self, file: &dyn File, header: &CheckpointHeader) -> Option<Held> {
        let length = header.length;
        let map = if self.map { file.map(length).ok()? } else { None };
        let Some(map) = map else {
            let bytes = Bytes::from(read(file, 0, length)?);
            let covered = bytes.get(BLOCKS_START as usize..)?;
            return (xxhash_rust::xxh3::xxh3_128(covered) == header.digest).then_some(Held::Read(bytes));
        };
        let (mut hash, mut at) = (Xxh3::new(), BLOCKS_START);
        let mut buffer = vec![0; CHUNK_BYTES];
        while at < length {
            let want = usize::try_from(length - at).unwrap_or(usize::MAX).min(buffer.len());
            let chunk = buffer.get_mut(..want)?;
            if file.read_at(at, chunk).ok()? < want {
                return None;
            }
            hash.update(chunk);
            at += want as u64;
        }
        map.publish(length);
        let whole = map.published() == length && hash.digest128() == header.digest;
        whole.then(|| Held::Mapped(Bytes::from_owner(Mapped(map))))
    }

    /// Makes an empty file for a checkpoint of a frame. The lock is held. None if another process is building that
    /// checkpoint, or has.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; [`Error::Io`].
    pub fn begin(&self, frame: Frame) -> Result<Option<Draft>> {
        self.disk
            .create_dir(CHECKPOINTS)
            .and_then(|()| self.disk.sync_dir(""))
            .map_err(|e| self.io("creating", CHECKPOINTS, e))?;
        match self.disk.id(&path(&final_name(frame))) {
            Ok(_) => return Ok(None),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(self.io("examining", &path(&final_name(frame)), e)),
        }
        let name = format!("{:020}.tmp", frame.0);
        match self.disk.open(&path(&name), Access::Create) {
            Ok(file) => Ok(Some(Draft { name, file })),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(e) => Err(self.io("creating", &path(&name), e)),
        }
    }

    /// Writes a checkpoint, durably. The lock need not be held.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; [`Error::Io`].
    pub fn fill(&self, draft: &Draft, state: &State, stamp: &Stamp, log_bytes: u64) -> Result<()> {
        let io = |doing| {
            let path = self.disk.root().join(path(&draft.name));
            move |e| Error::io(doing, path, e)
        };
        let mut sink = Sink {
            file: &*draft.file,
            written: BLOCKS_START,
            buffer: Vec::new(),
            hash: Xxh3::new(),
            error: &io,
        };
        let directory = state.save(&mut sink)?;
        let contents = encode_contents(stamp, &directory).map_err(|reason| Error::Invalid {
            what: reason.what,
            found: reason.found,
            expected: "a stamp",
        })?;
        let contents_offset = sink.put(&contents)?;
        let (digest, written) = sink.finish()?;
        let contents_length = contents.len() as u64;
        let header = CheckpointHeader {
            store: stamp.store,
            fold_version: FOLD_VERSION,
            frame: Frame(stamp.place.number),
            log_bytes,
            contents_offset,
            contents_length,
            length: written,
            digest,
        };
        draft.file.write_at(0, &header.encode()).map_err(io("writing"))?;
        draft.file.sync_data().map_err(io("syncing"))
    }

    /// Gives a checkpoint its name; the lock is held, and the log is the one that it was made from. Answers false if
    /// somebody removed it meanwhile.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn publish(&self, draft: &Draft, frame: Frame) -> Result<bool> {
        let (temporary, target) = (path(&draft.name), path(&final_name(frame)));
        let id = draft.file.id().map_err(|e| self.io("examining", &temporary, e))?;
        match self.disk.id(&temporary) {
            Ok(there) if there == id => {}
            Ok(_) => return Ok(false),
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(self.io("examining", &temporary, e)),
        }
        self.disk.rename(&temporary, &target).map_err(|e| self.io("renaming", &temporary, e))?;
        self.disk.sync_dir(CHECKPOINTS).map_err(|e| self.io("syncing", CHECKPOINTS, e))?;
        Ok(true)
    }

    /// Removes a draft that will not be published, unless its name is another file's by now. The lock is held.
    pub fn discard(&self, draft: &Draft) {
        let temporary = path(&draft.name);
        if draft.file.id().ok() == self.disk.id(&temporary).ok() {
            self.remove(&draft.name);
        }
    }

    /// Removes checkpoints; one that cannot be removed stays, and is in nobody's way. The lock is held.
    pub fn remove_all(&self, names: &[String]) {
        names.iter().for_each(|name| self.remove(name));
    }

    fn remove(&self, name: &str) {
        if let Err(cause) = self.disk.remove(&path(name)) {
            tracing::warn!(name, %cause, "a checkpoint stays that is not needed");
        }
    }

    fn io(&self, doing: &'static str, path: &str, e: std::io::Error) -> Error {
        Error::io(doing, PathBuf::from(self.disk.root()).join(path), e)
    }
}

/// Whether the log has grown enough behind the last checkpoint for the next one. `last` is where in the log that one
/// is, and how long it is; one that is farther than the log is long belongs to what was dropped since. A quarter of the
/// way is left for what is appended while that one is written.
pub fn is_due(last: Option<(u64, u64)>, log_bytes: u64, distance: u64) -> bool {
    let (at, size) = last.filter(|(at, _)| *at <= log_bytes).unwrap_or_default();
    log_bytes.saturating_sub(at) >= distance.max(size / 4) / 4 * 3
}

/// How many bytes of log may lie between a checkpoint of this size and a frame of this age in bytes, so that the
/// checkpoint serves the frame: the greatest of `distance`, a quarter of the checkpoint, and an eighth of the age.
pub fn reach(checkpoint_bytes: u64, age_bytes: u64, distance: u64) -> u64 {
    distance.max(checkpoint_bytes / 4).max(age_bytes / 8)
}

/// The names of those checkpoints that every frame behind them can do without, in a log of `log_bytes`: from the
/// one before, or from the beginning of the log, it is not farther than [`reach`] says. `listed` is by frame.
pub fn redundant(listed: &[Listed], log_bytes: u64, distance: u64) -> Vec<String> {
    let mut names = Vec::new();
    let (mut at, mut size) = (0, 0);
    let mut rest = listed.iter().peekable();
    while let Some(checkpoint) = rest.next() {
        // The farthest frame that it serves is the last one before the next checkpoint.
        let needed = rest.peek().is_none_or(|next| {
            next.log_bytes.saturating_sub(at)
                > reach(size, log_bytes.saturating_sub(next.log_bytes), distance)
        });
        if needed {
            (at, size) = (checkpoint.log_bytes, checkpoint.bytes);
        } else {
            names.push(checkpoint.name.clone());
        }
    }
    names
}

/// How names of checkpoints end.
const SUFFIX: &str = ".checkpoint";

fn final_name(frame: Frame) -> String {
    format!("{:020}{SUFFIX}", frame.0)
}

fn path(name: &str) -> String {
    format!("{CHECKPOINTS}/{name}")
}

fn header(file: &dyn File) -> Option<CheckpointHeader> {
    let bytes = read(file, 0, CHECKPOINT_HEADER_BYTES as u64)?;
    let header = CheckpointHeader::decode(&bytes).ok()?;
    (header.fold_version == FOLD_VERSION && file.len().ok()? == header.length).then_some(header)
}

/// The bytes from one offset to another; none if the file ends before, or cannot be read.
fn read(file: &dyn File, from: u64, to: u64) -> Option<Vec<u8>> {
    if to > file.len().ok()? {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(to.checked_sub(from)?).ok()?];
    (file.read_at(from, &mut bytes).ok()? == bytes.len()).then_some(bytes)
}

/// A whole checkpoint, in a map or in memory.
enum Held {
    Mapped(Bytes),
    Read(Bytes),
}

impl Blocks for Held {
    fn get(&self, offset: u64, len: u64) -> Option<Bytes> {
        let (Held::Mapped(bytes) | Held::Read(bytes)) = self;
        let (from, to) = (usize::try_from(offset).ok()?, usize::try_from(offset.checked_add(len)?).ok()?);
        (to <= bytes.len()).then(|| bytes.slice(from..to))
    }
}

/// A map that is published to its end.
struct Mapped(Map);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.0.slice(0, self.0.published()).unwrap_or_default()
    }
}

/// Writes blocks one behind another, and hashes them on the way.
struct Sink<'s, E> {
    file: &'s dyn File,
    /// Where the buffer will stand.
    written: u64,
    buffer: Vec<u8>,
    hash: Xxh3,
    error: &'s E,
}

impl<E: Fn(&'static str) -> F, F: FnOnce(std::io::Error) -> Error> Sink<'_, E> {
    fn write_out(&mut self) -> Result<()> {
        self.hash.update(&self.buffer);
        self.file.write_at(self.written, &self.buffer).map_err((self.error)("writing"))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// The digest of all that was put, and where it ends.
    fn finish(mut self) -> Result<(u128, u64)> {
        self.write_out()?;
        Ok((self.hash.digest128(), self.written))
    }
}

impl<E: Fn(&'static str) -> F, F: FnOnce(std::io::Error) -> Error> BlockSink for Sink<'_, E> {
    fn put(&mut self, block: &[u8]) -> Result<u64> {
        let end = self.written + self.buffer.len() as u64;
        let at = end.next_multiple_of(8);
        self.buffer.resize(self.buffer.len() + (at - end) as usize, 0);
        self.buffer.extend_from_slice(block);
        if self.buffer.len() >= CHUNK_BYTES {
            self.write_out()?;
        }
        Ok(at)
    }
}
