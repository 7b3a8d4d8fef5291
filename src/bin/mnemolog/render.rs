//! What people read: every text of the command line that the library does not write itself.
//!
//! It formats and does nothing else: no reading, no writing, no decisions. Names and texts from the store are
//! folded to one line where a line of ours holds them, so that none can forge another line or move a cursor.

pub(crate) mod tail;
pub(crate) mod changes;
pub(crate) mod compact;
mod erased;
pub(crate) mod imported;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod tour;

pub(crate) use erased::erased;

use std::path::Path;

use mnemolog::error::{Damage, Recovery};
use mnemolog::{Error, Time};

use crate::answer::{EpisodeAnswer, HandleAnswer, HitAnswer, RowAnswer};
use crate::info::Info;
use crate::load::{Loaded, Refused};
use crate::repair::Answer as Repair;
use crate::replay::{Replay, StepAnswer};
use crate::verify::Report;

/// What stands in the place of a note's body that cannot be read.
pub(crate) const DAMAGED_BODY: &str = "(damaged: run verify)";

/// A search without a result.
pub(crate) const NO_MATCHES: &str = "(no matches)";

/// A ring without an episode that was asked for.
pub(crate) const NO_EPISODES: &str = "(no episodes)";

/// Said before waiting for a person to type.
pub(crate) const READING_STDIN: &str = "reading the body from standard input; end it with Ctrl-D";

/// A row or note was saved.
pub(crate) fn saved(key: &str) -> String {
    format!("saved {}", line(key))
}

/// A row was deleted.
pub(crate) fn deleted(id: &str) -> String {
    format!("deleted {} (its history stays until erased)", line(id))
}

/// There is no such row.
pub(crate) fn absent(id: &str) -> String {
    format!("nothing is saved under {}", line(id))
}

/// An episode was recorded.
pub(crate) fn recorded(key: &str) -> String {
    format!("recorded {}", line(key))
}

/// A handle was emptied.
pub(crate) fn cleared(name: &str) -> String {
    format!("cleared {name} (its history stays until erased)")
}

/// A ring got its size.
pub(crate) fn ring(name: &str, max: u64) -> String {
    format!("{name} holds at most {}", count(max, "episode"))
}

/// A scratchpad got its budget.
pub(crate) fn budget(name: &str, tokens: u64) -> String {
    format!("{name} has a budget of {}", count(tokens, "token"))
}

/// An entry was added to a scratchpad.
pub(crate) fn pushed(label: &str, tokens: u64, budget: u64) -> String {
    format!("pushed {} ({tokens} of {budget} tokens used)", line(label))
}

/// A row that a search found.
pub(crate) fn hit(hit: &HitAnswer) -> String {
    let metadata = if hit.metadata.get() == "{}" { "" } else { hit.metadata.get() };
    format!("{:+.4}  {}  {}  {metadata}", hit.score, line(&hit.id), line(&hit.text)).trim_end().to_owned()
}

/// A row in full.
pub(crate) fn row(row: &RowAnswer) -> String {
    let RowAnswer { text, metadata, embedding, frame, .. } = row;
    format!("{text}\n\nmetadata   {metadata}\nembedding  {} floats\nframe      {frame}", embedding.len())
}

/// An episode.
pub(crate) fn episode(episode: &EpisodeAnswer) -> String {
    let EpisodeAnswer { key, value, timestamp_ms, .. } = episode;
    let time = u64::try_from(*timestamp_ms).ok().and_then(|ms| Time::from_micros(ms.checked_mul(1000)?));
    let time = time.map_or_else(|| format!("{timestamp_ms} ms"), |time| time.to_string());
    format!("{time}  {}  {value}", line(key))
}

/// A store in numbers.
pub(crate) fn info(info: &Info) -> String {
    let Info { store, store_id, format, frame, durable, segments, bytes, used, .. } = info;
    let time = info.time.as_deref().map_or_else(String::new, |time| format!(", written {time}"));
    let files = count(*segments as u64, "file");
    let mut text = format!(
        "store     {store}\nid        {store_id}\nformat    {format}\nframe     {frame}{time}\n\
         durable   {durable}\nlog       {files}, {bytes} bytes reserved, {used} in use"
    );
    if info.oldest > 0 {
        text.push_str(&format!("\noldest    frame {}; what was before is compacted", info.oldest));
    }
    if let Some(policy) = &info.policy {
        text.push_str(&format!("\npolicy    {policy} of history are kept"));
    }
    if let Some(newest) = info.checkpoints.last() {
        let (number, bytes) = (count(info.checkpoints.len() as u64, "checkpoint"), newest.bytes);
        text.push_str(&format!(
            "\nsaved     {number}, the newest of frame {} in {bytes} bytes",
            newest.frame
        ));
    }
    if let Some(damage) = &info.damage {
        text.push_str(&format!("\ndamage    {damage}"));
    }
    if info.unclean_bytes > 0 {
        let bytes = info.unclean_bytes;
        text.push_str(&format!("\nend       unclean: {bytes} bytes that the next write sets aside"));
    }
    if info.handles.is_empty() {
        return text;
    }
    let at = if info.at == info.frame { String::new() } else { format!(" at frame {}", info.at) };
    text.push_str(&format!("\n\nin use{at}:"));
    for handle in &info.handles {
        let what = match handle.kind {
            "notes" => "note",
            "vector" => "row",
            "episodic" => "episode",
            _ => "entry",
        };
        text.push_str(&format!(
            "\n  {:<9} {:<24} {}",
            handle.kind,
            handle.id,
            count(handle.len as u64, what)
        ));
    }
    text
}

/// What `checkpoint` made.
pub(crate) fn checkpoint(answer: &crate::checkpoint::Answer) -> String {
    let Some(newest) = answer.checkpoints.last() else {
        return "the store is empty, and there is nothing to save".to_owned();
    };
    let number = count(answer.checkpoints.len() as u64, "checkpoint");
    format!("saved frame {} in {} bytes ({number} in all)", answer.frame, newest.bytes)
}

/// One frame of a replay.
pub(crate) fn step(step: &StepAnswer) -> String {
    let StepAnswer { frame, time, deltas, digest } = step;
    format!("{frame:>8}  {time}  {:<10}  {digest}", count(*deltas as u64, "delta"))
}

/// A replay in short.
pub(crate) fn replay(replay: &Replay) -> String {
    let Replay { frame, frames, deltas, digest, .. } = replay;
    let mut text = format!("frame    {frame}\nframes   {frames}");
    if let (Some(first), Some(last)) = (&replay.first_time, &replay.time) {
        text.push_str(&format!(", from {first} to {last}"));
    }
    let kinds: Vec<_> =
        replay.deltas_per_kind.iter().map(|(kind, deltas)| format!("{kind} {deltas}")).collect();
    text.push_str(&format!("\ndeltas   {deltas}: {}", kinds.join(", ")));
    for of in &replay.deltas_per_handle {
        let handle = replay.handles.iter().find(|handle| handle.kind == of.kind && handle.id == of.id);
        let now = handle.map_or_else(|| "empty".to_owned(), now);
        let deltas = count(of.deltas, "delta");
        text.push_str(&format!("\n  {:<9} {:<24} {deltas:<12} {now}", of.kind, of.id));
    }
    text.push_str(&format!("\ndigest   {digest}"));
    text
}

fn now(handle: &HandleAnswer) -> String {
    format!("{:>6} there, {}", handle.len, handle.digest)
}

/// What was loaded.
pub(crate) fn loaded(loaded: &Loaded) -> String {
    let (lines, frames) = (count(loaded.lines, "line"), count(loaded.frames, "frame"));
    let mut text = format!("loaded {lines} as {frames}");
    if let (Some(first), Some(last)) = (loaded.first, loaded.last) {
        text.push_str(&format!(" ({first} to {last})"));
    }
    if loaded.embedded > 0 {
        text.push_str(&format!(", {} computed", count(loaded.embedded, "embedding")));
    }
    if loaded.renumbered {
        text.push_str("\nframes were renumbered: the store was not empty, or the numbers did not run on");
    }
    if loaded.raised_times > 0 {
        let frames = count(loaded.raised_times, "frame");
        text.push_str(&format!("\n{frames} had an older time than the one before, and got that one's"));
    }
    if !loaded.refused.is_empty() {
        text.push_str(&format!("\nrefused {}", count(loaded.refused.len() as u64, "line")));
    }
    text
}

/// The files in front of one that failed stay loaded.
pub(crate) fn loaded_before(loaded: &Loaded) -> String {
    let (files, frames) = (count(loaded.files as u64, "file"), count(loaded.frames, "frame"));
    format!("{files} before it had been loaded already: {frames}")
}

/// A line that was refused.
pub(crate) fn refused(refused: &Refused) -> String {
    format!("{}: line {}: {}", line(&refused.file), refused.line, refused.reason)
}

/// A text as one line of at most 100 code points.
pub(crate) fn fitted(text: &str) -> String {
    let folded = line(text);
    match folded.char_indices().nth(100) {
        None => folded,
        Some((end, _)) => format!("{}…", folded.get(..end).unwrap_or_default().trim_end()),
    }
}

/// What verifying found.
pub(crate) fn verified(report: &Report) -> String {
    let files = count(report.segments as u64, "file");
    let (frames, deltas) = (count(report.frames, "frame"), count(report.deltas, "delta"));
    let mut text = format!("read     every byte of {files}: {} bytes, {frames}, {deltas}", report.bytes);
    if let Some(durable) = report.durable {
        text.push_str(&format!("\ndurable  frame {durable} is promised, frame {} is there", report.frame));
    }
    if let Some(digest) = &report.digest {
        text.push_str(&format!("\ndigest   {digest}, from opening and from folding once more"));
    }
    for found in &report.findings {
        text.push_str(&format!("\n{}", line(&found.text)));
    }
    text.push_str(if report.whole { "\nwhole" } else { "\nDAMAGED" });
    text
}

/// What a repair did.
pub(crate) fn repaired(repair: &Repair) -> String {
    if !repair.repaired {
        return "nothing is damaged, nothing was changed".to_owned();
    }
    let mut text: String = repair.findings.iter().map(|found| line(&found.text) + "\n").collect();
    for file in &repair.files {
        text.push_str(&match &file.copy {
            Some(copy) => format!("rebuilt  {}, which is kept as {}\n", file.file, copy),
            None => format!("rebuilt  {}, which was missing\n", file.file),
        });
        if file.cut_bytes > 0 {
            let bytes = count(file.cut_bytes, "byte");
            text.push_str(&format!("cut      {bytes} from its end that were never acknowledged\n"));
        }
    }
    for range in &repair.lost {
        let frames = count(range.last - range.first + 1, "frame");
        text.push_str(&format!("lost     {frames}: {} to {}\n", range.first, range.last));
    }
    if repair.lost.is_empty() {
        text.push_str("lost     no frame\n");
    }
    text + "repaired"
}

/// A checkpoint that costs time and no answer.
pub(crate) const CHECKPOINT_UNUSED: &str = "it does not serve any more; it can be deleted";

/// A checkpoint that would give answers that the log does not.
pub(crate) const CHECKPOINT_DIFFERS: &str =
    "its state is not the one that the log folds to; delete the file, and please report this";

/// Two ways to the same state came to two states.
pub(crate) fn digests_differ(live: &str, folded: &str) -> String {
    format!("the state has digest {live}, and folding the log again gives {folded}; please report this")
}

/// What opening for writing mended, one sentence each.
pub(crate) fn mended(recovery: &Recovery, store: &Path) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(cut) = &recovery.cut {
        let kept = match &cut.quarantine {
            Some(name) => format!("a copy is in {}", store.join("quarantine").join(name).display()),
            None => "nothing of them was kept".to_owned(),
        };
        sentences.push(format!(
            "the store had not been closed cleanly: {} that were never acknowledged were cut from log/{} at byte \
             {}; {kept}",
            count(cut.len_bytes, "byte"),
            cut.segment,
            cut.offset
        ));
    }
    // Bytes written again in place are no repair: whoever opens for writing does that to an end without a promise.
    if recovery.finished_intent {
        sentences.push("a change of the store that had been interrupted was finished".to_owned());
    }
    sentences
}

/// A read goes on before the damage.
pub(crate) fn damage_while_reading(damage: &Damage) -> String {
    let last = damage.frame.previous();
    format!("only frames up to {last} are served, because the store is damaged: {damage}")
}

/// The store did not end in order.
pub(crate) fn unclean_close(cause: &Error) -> String {
    format!("what was written is saved, but the store could not be closed cleanly: {cause}")
}

/// Bytes from outside that are not text.
pub(crate) fn not_utf8(offset: usize) -> String {
    format!("standard input is not UTF-8 text: byte {offset} is wrong; convert it first, nothing was saved")
}

/// A number and what it counts.
pub(crate) fn count(n: u64, what: &str) -> String {
    match (n, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{n} {stem}ies"),
        (_, None) => format!("{n} {what}s"),
    }
}

/// A text as one line: every run of white space and control characters is one space.
pub(crate) fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            gap = true;
            continue;
        }
        if gap {
            out.push(' ');
            gap = false;
        }
        out.push(c);
    }
    if gap {
        out.push(' ');
    }
    out
}
