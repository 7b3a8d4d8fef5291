//! Carrying out a change of several files that was stated in INTENT.
//!
//! Whoever takes the lock and finds INTENT finishes it before anything else, so that the change has either
//! happened wholly or not begun. Nothing is built here: all new files lie under their temporary names.

use crate::codec::intent::{Intent, Move};
use crate::codec::segment::{BadHeader, FORMAT_VERSION, SegmentHeader, StoreId};
use crate::codec::wire::Malformed;
use crate::disk::{Access, Disk};
use crate::error::{Damage, Error, Evidence, Result};
use crate::position::{Frame, SegmentId};
use crate::segment::LOG_DIR;

/// The name of the file that states a change.
pub(super) const INTENT: &str = "INTENT";

/// Reads INTENT, if there is one.
///
/// # Errors
/// [`Error::Io`]; [`Error::NewerFormat`]; [`Error::Damaged`] for one that does not check out: its rename
/// follows its sync, so a crash cannot tear it.
pub(super) fn read(disk: &dyn Disk) -> Result<Option<Intent>> {
    let path = disk.root().join(INTENT);
    let file = match disk.open(INTENT, Access::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io("opening", path, e)),
    };
    let len = file.len().map_err(|e| Error::io("reading the size of", &path, e))?;
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(1 << 30)];
    let read = file.read_at(0, &mut bytes).map_err(|e| Error::io("reading", &path, e))?;
    match Intent::decode(bytes.get(..read).unwrap_or_default()) {
        Ok(intent) => match store_of_log(disk)?.filter(|store| *store != intent.store) {
            Some(store) => {
                let reason = Malformed::new("store id", 16, store, intent.store);
                Err(damage(disk, INTENT, reason))
            }
            None => Ok(Some(intent)),
        },
        Err(BadHeader::Newer { version }) => {
            Err(Error::NewerFormat { path, found: version, known: FORMAT_VERSION })
        }
        Err(BadHeader::Malformed(reason)) => Err(damage(disk, INTENT, reason)),
    }
}

/// The store that the files of the log belong to: the first says it whose header serves. None if none does.
fn store_of_log(disk: &dyn Disk) -> Result<Option<StoreId>> {
    let names = match disk.list(LOG_DIR) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|e| Error::io("listing", disk.root().join(LOG_DIR), e))?,
    };
    for name in names.iter().filter(|name| SegmentId::from_file_name(name).is_some()) {
        match header_of(disk, &format!("{LOG_DIR}/{name}")) {
            Ok(Some(Ok(header))) => return Ok(Some(header.store)),
            // Replaced since, damaged, or newer: whoever opens it says so.
            Ok(_) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// The header of a file of the log; none if there is no such file.
fn header_of(disk: &dyn Disk, path: &str) -> Result<Option<std::result::Result<SegmentHeader, BadHeader>>> {
    let display = disk.root().join(path);
    let file = match disk.open(path, Access::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|e| Error::io("opening", &display, e))?,
    };
    let mut head = vec![0; 4096];
    let len = file.read_at(0, &mut head).map_err(|e| Error::io("reading", &display, e))?;
    Ok(Some(SegmentHeader::decode_either(head.get(..len).unwrap_or_default())))
}

/// Whether INTENT is there, whole or not: cheaper than to find that out by opening it, and asked with every commit among many
/// writers.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn stands(disk: &dyn Disk) -> Result<bool> {
    match disk.id(INTENT) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io("examining", disk.root().join(INTENT), e)),
    }
}

/// INTENT as a reader takes it, who finishes nothing: the change under way, to be read through, and what speaks
/// against it. One that does not check out is not read through, and files are then taken as they are named.
///
/// # Errors
/// [`Error::Io`]; [`Error::NewerFormat`].
pub(super) fn read_through(disk: &dyn Disk) -> Result<(Option<Intent>, Option<Damage>)> {
    let unsound = |e, intent| match e {
        Error::Damaged(damage) => Ok((intent, Some(*damage))),
        other => Err(other),
    };
    let intent = match read(disk) {
        Ok(Some(intent)) => intent,
        Ok(None) => return Ok((None, None)),
        Err(e) => return unsound(e, None),
    };
    for Move { temporary, target, salt } in &intent.moves {
        if disk.id(&format!("{LOG_DIR}/{temporary}")).is_ok() {
            continue;
        }
        if let Err(e) = has_salt(disk, &format!("{LOG_DIR}/{target}"), target, intent.store, *salt) {
            return unsound(e, Some(intent));
        }
    }
    Ok((Some(intent), None))
}

fn damage(disk: &dyn Disk, name: &str, reason: Malformed) -> Error {
    let (path, segment) = (disk.root().to_path_buf(), name.to_owned());
    Damage { path, segment, offset: 0, frame: Frame::ZERO, reason, evidence: Evidence::Header }.into()
}

/// Finishes an INTENT; the lock is held. Answers whether there was one.
///
/// # Errors
/// As [`read`]; what the disk answers. INTENT stays then, and the next opening goes on with it.
pub(super) fn finish(disk: &dyn Disk) -> Result<bool> {
    let Some(intent) = read(disk)? else { return Ok(false) };
    apply(disk, &intent)?;
    Ok(true)
}

/// What follows once an INTENT stands: the same for whoever stated it and for whoever finds it.
///
/// # Errors
/// As [`finish`].
pub(super) fn apply(disk: &dyn Disk, intent: &Intent) -> Result<()> {
    let io = |doing, path: String| move |e| Error::io(doing, path, e);
    let sync =
        |dir: &str| disk.sync_dir(dir).map_err(io("syncing", disk.root().join(dir).display().to_string()));
    sync("")?;
    for change in &intent.moves {
        let (temporary, target) =
            (format!("{LOG_DIR}/{}", change.temporary), format!("{LOG_DIR}/{}", change.target));
        match disk.rename(&temporary, &target) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                has_salt(disk, &target, &change.target, intent.store, change.salt)?;
            }
            Err(e) => return Err(Error::io("renaming", disk.root().join(&temporary), e)),
        }
    }
    for drop in &intent.drops {
        remove(disk, &format!("{}/{}", drop.directory, drop.name))?;
    }
    let present = disk.list("").map_err(|e| Error::io("listing", disk.root(), e))?;
    for dir in [LOG_DIR, "checkpoints", "quarantine"] {
        if present.iter().any(|name| name == dir) {
            sync(dir)?;
        }
    }
    remove(disk, INTENT)?;
    sync("")
}

/// Removes a file that may be gone already.
pub(super) fn remove(disk: &dyn Disk, path: &str) -> Result<()> {
    match disk.remove(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("removing", disk.root().join(path), e))
        }
        _ => Ok(()),
    }
}

fn has_salt(disk: &dyn Disk, path: &str, name: &str, store: StoreId, salt: u64) -> Result<()> {
    let Some(header) = header_of(disk, path)? else {
        let reason = Malformed::new("file", 0, "the file that INTENT states, under either name", "none");
        return Err(damage(disk, name, reason));
    };
    match header {
        Ok(header) if header.salt == salt && header.store == store => Ok(()),
        Ok(header) => {
            let reason = Malformed::new("salt", 0, format!("{salt:#x}"), format!("{:#x}", header.salt));
            Err(damage(disk, name, reason))
        }
        Err(BadHeader::Malformed(reason)) => Err(damage(disk, name, reason)),
        Err(BadHeader::Newer { version }) => {
            let path = disk.root().join(path);
            Err(Error::NewerFormat { path, found: version, known: FORMAT_VERSION })
        }
    }
}
