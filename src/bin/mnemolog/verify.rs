//! `verify`: every byte of the store, and whether what is folded from it is what a fresh opening shows.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use mnemolog::disk::FileDisk;
use mnemolog::log::{self, Finding, Severity};
use mnemolog::{Error, Frame, Store};
use serde::Serialize;

use crate::answer::hex;
use crate::context::Context;
use crate::exit::{Exit, exit_for_store};
use crate::{output, render};

/// What was looked at, and all that was found.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) store: String,
    /// True if nothing is damaged; an unclean end is no damage.
    pub(crate) whole: bool,
    /// The last frame that checks out, and how many commits and deltas do.
    pub(crate) frame: u64,
    pub(crate) frames: u64,
    pub(crate) deltas: u64,
    /// What DURABLE promises; null where it is missing or does not check out.
    pub(crate) durable: Option<u64>,
    /// Files of the log, and their bytes, all of which were read.
    pub(crate) segments: usize,
    pub(crate) bytes: u64,
    /// Of the state that can be read; null where none can.
    pub(crate) digest: Option<String>,
    pub(crate) findings: Vec<Found>,
}

/// One thing that is not as it should be.
#[derive(Serialize)]
pub(crate) struct Found {
    /// `damage`, `unclean` (the next write mends it) or `note`.
    pub(crate) severity: &'static str,
    /// A path in the store; null for what concerns the state.
    pub(crate) file: Option<String>,
    pub(crate) offset: Option<u64>,
    pub(crate) frame: Option<u64>,
    /// The finding as a sentence.
    pub(crate) text: String,
}

/// Runs the verb.
pub(crate) fn run(context: &Context) -> Result<Exit> {
    let bar = output::progress("verify", None);
    let report = report(context.store_path());
    bar.finish_and_clear();
    let report = report?;
    context.out.answer(&report, render::verified)?;
    Ok(if report.whole { Exit::Done } else { Exit::Damaged })
}

/// Reads every byte of the store at a path, opens it, and folds it again.
pub(crate) fn report(path: &Path) -> Result<Report> {
    let disk = FileDisk::new(path).map_err(|e| Error::io("finding", path, e))?;
    let read = log::verify(&disk)?;
    let mut findings: Vec<Found> = read.findings.iter().map(Found::from).collect();
    let digest = match digests(path, &mut findings) {
        Ok(live) => Some(hex(live)),
        Err(error) if exit_for_store(&error) == Exit::Damaged => {
            findings.push(Found::of_state(error.to_string()));
            None
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Report {
        store: path.display().to_string(),
        whole: findings.iter().all(|found| found.severity != Severity::Damage.name()),
        frame: read.last.0,
        frames: read.frames,
        deltas: read.deltas,
        durable: read.durable.map(|frame| frame.0),
        segments: read.segments,
        bytes: read.bytes,
        digest,
        findings,
    })
}

/// The digest of the state that opening shows, which is held against one that is folded from the beginning; and so is
/// the state of every checkpoint.
fn digests(path: &Path, findings: &mut Vec<Found>) -> Result<u128, Error> {
    let store = Store::open_read_only(path)?;
    let saved: BTreeMap<Frame, String> =
        store.checkpoints().into_iter().map(|listed| (listed.frame, listed.name)).collect();
    let folded = store.replay(store.appended(), &mut |step| {
        let Some(name) = saved.get(&step.frame()) else { return Ok(()) };
        let past = store.at(step.frame())?;
        let (file, frame) = (format!("checkpoints/{name}"), step.frame());
        if past.folded() > 0 {
            findings.push(Found::of_checkpoint(Severity::Note, file, frame, render::CHECKPOINT_UNUSED));
        } else if past.digest()? != step.digest()? {
            findings.push(Found::of_checkpoint(Severity::Damage, file, frame, render::CHECKPOINT_DIFFERS));
        }
        Ok(())
    })?;
    let (live, folded) = (store.digest()?, folded.digest()?);
    if live != folded {
        findings.push(Found::of_state(render::digests_differ(&hex(live), &hex(folded))));
    }
    Ok(live)
}

impl From<&Finding> for Found {
    fn from(finding: &Finding) -> Found {
        Found {
            severity: finding.severity.name(),
            file: Some(finding.file.clone()),
            offset: Some(finding.offset),
            frame: Some(finding.frame.0),
            text: finding.to_string(),
        }
    }
}

impl Found {
    fn of_checkpoint(severity: Severity, file: String, frame: Frame, what: &str) -> Found {
        let text = format!("{}: {file}, frame {frame}: {what}", severity.name());
        Found { severity: severity.name(), file: Some(file), offset: None, frame: Some(frame.0), text }
    }

    fn of_state(text: String) -> Found {
        let severity = Severity::Damage.name();
        Found { severity, file: None, offset: None, frame: None, text: format!("{severity}: {text}") }
    }
}
