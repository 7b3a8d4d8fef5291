//! How frames of a tail, and forks, look to people: one line a change, the frame's number, time and writer beside
//! its first.

use mnemolog::codec::delta::{Config, Origin};
use mnemolog::interchange::{Args, NoteText};
use mnemolog::{TailFrame, Time};

use super::{count, fitted, line};
use crate::fork::Answer;
use crate::repair::Lost;

/// A frame.
pub(crate) fn frame(frame: &TailFrame) -> String {
    let mut out = String::new();
    let mut head = head(frame.frame().0, frame.time());
    let who = frame.origin().map(who).filter(|who| !who.is_empty());
    for (i, change) in frame.lines().iter().enumerate() {
        let (kind, id, op) = (change.kind.name(), line(&change.id), change.args.op_name());
        let text = format!("{head}  {kind:<9} {id:<24} {op:<9} {}", what(&change.args));
        out.push_str(text.trim_end());
        if let Some(who) = who.as_ref().filter(|_| i == 0) {
            out.push_str(&format!("  ({who})"));
        }
        out.push('\n');
        head = " ".repeat(head.chars().count());
    }
    out
}

fn head(frame: u64, time: Time) -> String {
    format!("{frame:>8}  {time}")
}

/// Frames that are gone.
pub(crate) fn lost(lost: &Lost) -> String {
    let frames = count(lost.last - lost.first + 1, "frame");
    format!("{:>8}  {frames} lost, {} to {}, given up by a repair", "-", lost.first, lost.last)
}

/// A fork.
pub(crate) fn forked(fork: &Answer) -> String {
    let Answer { store, store_id, frame, segments, used } = fork;
    let files = count(*segments as u64, "file");
    format!(
        "forked as of frame {frame}\nstore     {store}\nid        {store_id}\nlog       {files}, {used} bytes"
    )
}

fn who(origin: &Origin) -> String {
    let part = |name: &str, value: &Option<String>| value.as_ref().map(|v| format!("{name} {}", line(v)));
    let parts = [part("agent", &origin.agent), part("session", &origin.session), part("tool", &origin.tool)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What an operation is about, in short.
fn what(args: &Args<'_>) -> String {
    let pair = |key: &str, text: &str| match (key, text) {
        (key, "") => fitted(key),
        (key, text) => fitted(&format!("{key}: {text}")),
    };
    match args {
        Args::Remember(note) => {
            let (NoteText::Text(body) | NoteText::Json(body)) = &note.body;
            pair(&note.key, note.summary.as_deref().filter(|s| !s.trim().is_empty()).unwrap_or(body))
        }
        Args::Upsert(row) => pair(&row.id, &row.text),
        Args::Record(episode) => pair(&episode.key, &episode.value),
        Args::Push(entry) => pair(&entry.label, &entry.content),
        Args::Forget { key } => fitted(key),
        Args::Delete { id } => fitted(id),
        Args::Clear => String::new(),
        Args::Configure(config) => configured(config),
        Args::Snapshot { items, .. } => count(items.len() as u64, "item"),
        Args::Erased { class, .. } => format!("{}, content erased", class.name()),
    }
}

fn configured(config: &Config<'_>) -> String {
    match config {
        Config::Notes => String::new(),
        Config::Vector(Some(embedder)) => {
            let of = count(u64::from(embedder.dim), "float");
            let model = Some(&embedder.model).filter(|model| **model != embedder.name);
            let model = model.map_or_else(String::new, |model| format!(" {model}"));
            fitted(&format!("embedder {}{model}, {of}", embedder.name))
        }
        Config::Episodic(Some(max)) => format!("at most {}", count(*max, "episode")),
        Config::Working(Some(budget)) => format!("budget {}", count(*budget, "token")),
        Config::Vector(None) | Config::Episodic(None) | Config::Working(None) => "unset".to_owned(),
    }
}
