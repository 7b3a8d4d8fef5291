//! Every byte of every file of the log, without the fold: one accumulated report.
//!
//! It takes no lock and changes nothing. Damage is a finding, not an error, and what stands behind it is looked
//! at all the same; an I/O error is an error. It gives the same verdict about an end as opening does: what
//! nobody promised is unclean, and unclean is no failure. A file is read piece by piece up to the first place
//! at which no sound frame stands; what is behind that place is held in memory as a whole.

mod file;

pub(super) use file::{faults, promise_max};

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::found::Found;
use super::intent::{self, INTENT};
use super::promise::{self, DURABLE};
use super::recover::looks_like_store;
use super::retention::{self, RETENTION};
use super::settle::QUARANTINE;
use crate::codec::intent::Intent;
use crate::codec::segment::Durable;
use crate::codec::wire::Malformed;
use crate::disk::{Access, Disk, File};
use crate::error::{Damage, Error, Result};
use crate::position::{Frame, SegmentId};
use crate::segment::LOG_DIR;
use file::Walker;

/// What was looked at, and all that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Files of the log.
    pub segments: usize,
    /// Commits that check out.
    pub frames: u64,
    /// Deltas in them.
    pub deltas: u64,
    /// Bytes of the files of the log, reserved space included; all of them were read.
    pub bytes: u64,
    /// The last frame that checks out.
    pub last: Frame,
    /// What DURABLE promises; `None` if it is missing, torn or of another store.
    pub durable: Option<Frame>,
    /// What is not as it should be, in the order of the log, then what lies beside it.
    pub findings: Vec<Finding>,
}

impl Verification {
    /// Whether nothing is damaged. An unclean end is no damage.
    pub fn is_whole(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Damage)
    }
}

/// What a finding means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing, and as it may be: quarantined bytes, a name that is not of the log, a lost range.
    Note,
    /// Left by a crash and lost to nobody: the next opening for writing mends it.
    Unclean,
    /// Bytes that are not what was written.
    Damage,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file as a path in the store, such as `log/00000000000000000001.seg` or `DURABLE`.
    pub file: String,
    /// Where in the file: the beginning of the frame or header concerned.
    pub offset: u64,
    /// The frame concerned: the one that is not there, or that holds the fault. Of a header, the file's first;
    /// beside the log, 0.
    pub frame: Frame,
    /// What does not check out; its offset is the exact byte.
    pub reason: Malformed,
}

impl Severity {
    /// The severity's name: `note`, `unclean` or `damage`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Unclean => "unclean",
            Severity::Damage => "damage",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { severity, file, offset, frame, reason } = self;
        write!(f, "{}: {file} at byte {offset}", severity.name())?;
        if *frame > Frame::ZERO {
            write!(f, ", frame {frame}")?;
        }
        write!(f, ": {reason}")
    }
}

/// Reads every byte of the log and of what lies beside it, and reports.
///
/// # Errors
/// [`Error::NoSuchStore`]; [`Error::NotAStore`]; [`Error::NewerFormat`]; [`Error::Io`].
pub fn verify(disk: &dyn Disk) -> Result<Verification> {
    if !looks_like_store(disk)? {
        return Err(Error::NoSuchStore { path: disk.root().to_path_buf() });
    }
    let report = look(disk)?;
    // A writer may have been at it: what is damaged still is when it is read again.
    if report.is_whole() { Ok(report) } else { look(disk) }
}

/// One look at everything.
pub(super) fn look(disk: &dyn Disk) -> Result<Verification> {
    let mut beside = Vec::new();
    let intent = read_intent(disk, &mut beside)?;
    // The promise is read before the frames: what it covers is in the log already.
    let promised = read_durable(disk, &mut beside)?;
    let found = Found::look_through(disk, intent.as_ref())?;
    let mut walker = Walker::new(promised);
    let count = found.files.len();
    for (i, (id, name)) in found.files.iter().enumerate() {
        walker.file(*id, name, i + 1 == count, disk)?;
    }
    let mut report = walker.end(&mut beside);
    let files: BTreeSet<&str> = found.files.iter().map(|(_, name)| name.as_str()).collect();
    other_names(disk, &files, intent.as_ref(), &mut beside)?;
    quarantined(disk, &mut beside)?;
    if let Err(reason) = retention::examine(disk)? {
        // No frame depends on it, and it can be set again.
        beside.push(self::beside(Severity::Note, RETENTION, reason));
    }
    report.findings.append(&mut beside);
    Ok(report)
}

fn beside(severity: Severity, file: impl Into<String>, reason: Malformed) -> Finding {
    Finding { severity, file: file.into(), offset: 0, frame: Frame::ZERO, reason }
}

pub(super) fn read_whole(disk: &dyn Disk, path: &str) -> Result<Vec<u8>> {
    read_up_to(disk, path, u64::MAX)
}

fn open(disk: &dyn Disk, path: &str) -> Result<(Arc<dyn File>, u64)> {
    let display = || disk.root().join(path);
    let file = disk.open(path, Access::Read).map_err(|e| Error::io("opening", display(), e))?;
    let len = file.len().map_err(|e| Error::io("reading the size of", display(), e))?;
    Ok((file, len))
}

fn file_len(disk: &dyn Disk, path: &str) -> Result<u64> {
    open(disk, path).map(|(_, len)| len)
}

/// The beginning of a file, at most so many bytes of it.
fn read_up_to(disk: &dyn Disk, path: &str, most: u64) -> Result<Vec<u8>> {
    let display = || disk.root().join(path);
    let (file, len) = open(disk, path)?;
    let len = len.min(most);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    let read = file.read_at(0, &mut bytes).map_err(|e| Error::io("reading", display(), e))?;
    bytes.truncate(read);
    Ok(bytes)
}

fn read_intent(disk: &dyn Disk, findings: &mut Vec<Finding>) -> Result<Option<Intent>> {
    let (intent, unsound) = intent::read_through(disk)?;
    if let Some(Damage { segment, reason, .. }) = unsound {
        let file = if segment == INTENT { segment } else { format!("{LOG_DIR}/{segment}") };
        findings.push(beside(Severity::Damage, file, reason));
    }
    if intent.is_some() {
        let reason = Malformed::new("INTENT", 0, "no change under way", "one that was not finished");
        findings.push(beside(Severity::Unclean, INTENT, reason));
    }
    Ok(intent)
}

/// The promise; one that is missing or torn is none.
fn read_durable(disk: &dyn Disk, findings: &mut Vec<Finding>) -> Result<Option<Durable>> {
    match promise::examine(disk)? {
        Ok(durable) => Ok(Some(durable)),
        Err(reason) => {
            findings.push(beside(Severity::Unclean, DURABLE, reason));
            Ok(None)
        }
    }
}

/// Names in `log/` that are no part of the log.
fn other_names(
    disk: &dyn Disk,
    files: &BTreeSet<&str>,
    intent: Option<&Intent>,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    for name in list(disk, LOG_DIR)? {
        // What a change under way drops or replaces is still there and is accounted for by INTENT.
        let intended = intent.is_some() && SegmentId::from_file_name(&name).is_some();
        if files.contains(name.as_str()) || intended {
            continue;
        }
        let (severity, found) = if name.ends_with(".tmp") {
            (Severity::Unclean, "a temporary file")
        } else {
            (Severity::Note, "another name")
        };
        let reason = Malformed::new("file name", 0, "a file of the log", found);
        findings.push(beside(severity, format!("{LOG_DIR}/{name}"), reason));
    }
    Ok(())
}

fn quarantined(disk: &dyn Disk, findings: &mut Vec<Finding>) -> Result<()> {
    for name in list(disk, QUARANTINE)? {
        let path = format!("{QUARANTINE}/{name}");
        let len = file_len(disk, &path)?;
        let reason = Malformed::new("quarantine", 0, "nothing set aside", format!("{len} bytes"));
        findings.push(beside(Severity::Note, path, reason));
    }
    Ok(())
}

fn list(disk: &dyn Disk, dir: &str) -> Result<Vec<String>> {
    match disk.list(dir) {
        Ok(names) => Ok(names),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(Error::io("listing", disk.root().join(dir), e)),
    }
}
