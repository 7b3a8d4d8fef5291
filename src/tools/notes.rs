//! The tools of the notes: remember, recall, forget, list, search, history, restore.
//!
//! Their texts are those of the library. A long body is answered in parts; summaries are shown as in the
//! index, so that no listing floods a prompt.

use serde_json::{Map, Value, json};

use super::answer::{Answer, Lines, Mark, ToolError, clip, part};
use super::params::{Moment, Param};
use super::{ANSWER_MAX, Call, Hints, Spec, boolean, count, frame, list, object, text};
use crate::error::Error;
use crate::handle::{Forgotten, Restored};
use crate::position::Frame;
use crate::view::View;
use crate::view::history::Version;
use crate::view::notes::Note;
use crate::view::text as sentences;

/// How many versions a history shows unless it is asked for more.
const VERSIONS_SHOWN: usize = 10;
const VERSIONS_SHOWN_MAX: u64 = 100;

const KEY: Param = Param::text(
    "key",
    "The note's key: any text. Use short paths such as user/name or project/build, so that related notes \
        stand together.",
);

const REMEMBER: &[Param] = &[
    KEY,
    Param::text(
        "summary",
        "One line, shown in every list of the notes: say what the note holds. 120 characters are shown.",
    ),
    Param::text("body", "The note in full, kept as it is."),
    Param::count(
        "if_frame",
        0,
        u64::MAX,
        "Save only if the note is still the one that memory_recall answered with this `frame`; 0 if there \
            must be none yet. Leave it out to save in any case.",
    ),
];

const RECALL: &[Param] = &[
    KEY,
    Param::count(
        "offset",
        0,
        u64::MAX,
        "Where to begin in a body that was answered in part, in characters. 0 by default.",
    ),
    Param::AT,
];

const LIST: &[Param] = &[
    Param::count(
        "offset",
        0,
        u64::MAX,
        "How many notes to pass over, after a list that was cut. 0 by default.",
    ),
    Param::AT,
];

const SEARCH: &[Param] = &[
    Param::text(
        "pattern",
        "The text to look for, as it stands: no wildcards. Case does not count. One word finds more than a \
            sentence.",
    ),
    Param::AT,
];

const HISTORY: &[Param] =
    &[KEY, Param::count("limit", 1, VERSIONS_SHOWN_MAX, "The most versions, 10 by default."), Param::AT];

const RESTORE: &[Param] = &[
    KEY,
    Param::moment(
        "to",
        "The state to bring back: the number of a frame from memory_history, or a time as RFC 3339.",
    ),
];

pub(super) fn specs() -> Vec<Spec> {
    let mut specs = writing();
    specs.extend(reading());
    specs
}

fn writing() -> Vec<Spec> {
    let frame = frame();
    vec![
        Spec {
            name: "memory_remember",
            title: "Save a note",
            about: "Saves a note under a key for later conversations, or overwrites the one that is there; \
                earlier versions stay in its history. Use it for what will matter again: facts about the \
                user, decisions, states of work. Answers `saved KEY`.",
            embeds: false,
            params: REMEMBER,
            output: object(&["key"], json!({"key": text("The note's key."), "frame": frame})),
            hints: Hints::OVERWRITES,
            run: remember,
        },
        Spec {
            name: "memory_forget",
            title: "Delete a note",
            about: "Deletes a note from now on; its history stays, and memory_restore brings it back. Use \
                it for what is wrong or of no use any more. Answers `forgot KEY …`, or that nothing is \
                saved under the key.",
            embeds: false,
            params: &[KEY],
            output: object(
                &["key", "found"],
                json!({
                    "key": text("The note's key."),
                    "found": boolean("Whether there was a note."),
                    "frame": frame,
                }),
            ),
            hints: Hints::CHANGES,
            run: forget,
        },
        Spec {
            name: "memory_restore",
            title: "Bring a note back",
            about: "Brings one note back to its state at an earlier frame or time: saves it as it was \
                then, or deletes it if it was not there. History stays, so this can be undone in the same \
                way. Answers what was done, or that nothing is saved under the key, then or now.",
            embeds: false,
            params: RESTORE,
            output: object(
                &["key", "to", "done"],
                json!({
                    "key": text("The note's key."),
                    "to": count("The frame that it was brought back to."),
                    "done": {"type": "string", "enum": ["saved", "removed", "unchanged", "absent"]},
                    "frame": frame,
                }),
            ),
            hints: Hints::CHANGES,
            run: restore,
        },
    ]
}

fn reading() -> Vec<Spec> {
    vec![
        Spec {
            name: "memory_recall",
            title: "Read a note",
            about: "Reads one note in full, by its exact key. Use it when a list, a search or an index \
                names a note that matters now. Answers the body, or that nothing is saved under the key.",
            embeds: false,
            params: RECALL,
            output: recall_schema(),
            hints: Hints::READS,
            run: recall,
        },
        Spec {
            name: "memory_list",
            title: "List the notes",
            about: "Lists every note as a `- key: summary` line. Use it at the start of a session, or when \
                you do not know what is saved. Answers `(no memories)` if nothing is.",
            embeds: false,
            params: LIST,
            output: list_schema(),
            hints: Hints::READS,
            run: list_notes,
        },
        Spec {
            name: "memory_search",
            title: "Search the notes",
            about: "Finds the notes that hold a text in key, summary or body, whatever its case. Use it \
                when you know a word of what you look for and not the key. Answers at most 8 matches with \
                an excerpt each, and how many there are; memory_recall reads one in full.",
            embeds: false,
            params: SEARCH,
            output: object(
                &["matches", "total", "left_out"],
                json!({
                    "matches": list("The first, shallow keys first.", &["key", "summary", "excerpt"], json!({
                        "key": text("The key."),
                        "summary": text("The summary as one line of at most 120 characters."),
                        "excerpt": text("The body around the first place where the text stands, as one \
                            line."),
                    })),
                    "total": count("How many notes match."),
                    "left_out": count("How many of them are not in `matches`."),
                }),
            ),
            hints: Hints::READS,
            run: search,
        },
        Spec {
            name: "memory_history",
            title: "Versions of a note",
            about: "Lists the versions of one note, newest first, also of a deleted one: frame, time, who \
                wrote it, what was done, summary and the beginning of the body. Use it to see what was \
                known earlier; memory_recall with `at` reads an old version in full and memory_restore \
                brings it back.",
            embeds: false,
            params: HISTORY,
            output: history_schema(),
            hints: Hints::READS,
            run: history,
        },
    ]
}

fn list_schema() -> Value {
    let note = json!({
        "key": text("The key."),
        "summary": text("The summary as one line of at most 120 characters."),
    });
    object(
        &["notes", "total", "left_out"],
        json!({
            "notes": list("The notes, shallow keys first.", &["key", "summary"], note),
            "total": count("How many notes there are."),
            "left_out": count("How many of them come behind those in `notes`."),
        }),
    )
}

fn recall_schema() -> Value {
    object(
        &["key", "found"],
        json!({
            "key": text("The key."),
            "found": boolean("Whether there is such a note. Everything else is only there if so."),
            "summary": text("The summary as one line of at most 120 characters."),
            "body": text("The body, or the part of it from `offset` on. A body that is JSON is its text."),
            "offset": count("Where `body` begins, in characters."),
            "left_out": count("How many characters come behind `body`; memory_recall with a larger \
                `offset` reads them."),
            "frame": count("The frame that saved it."),
            "time": text("The time of that frame, RFC 3339."),
        }),
    )
}

fn history_schema() -> Value {
    let version = json!({
        "frame": count("The frame that made this version."),
        "time": text("The time of that frame, RFC 3339."),
        "op": {"type": "string", "enum": ["remember", "forget"]},
        "by": {"type": "string", "enum": ["delta", "snapshot", "base"], "description": "delta: a change of \
            its own; snapshot: it came with all notes; base: history before it was dropped."},
        "agent": text("Which agent wrote it, if that is known."),
        "session": text("In which session."),
        "tool": text("With which tool."),
        "summary": text("The summary as one line of at most 120 characters."),
        "excerpt": text("The beginning of the body, as one line."),
    });
    let versions = list("The versions, newest first.", &["frame", "time", "op", "by"], version);
    let more = boolean("Whether older versions are left out.");
    object(&["key", "versions", "more"], json!({"key": text("The key."), "versions": versions, "more": more}))
}

fn remember(call: &Call<'_>) -> Result<Answer, ToolError> {
    let (key, summary, body) = (call.args.text("key"), call.args.text("summary"), call.args.text("body"));
    let notes = call.workspace.notes();
    let text = match call.args.count("if_frame") {
        None => notes.remember(key, summary, body)?,
        Some(frame) => notes.remember_if(key, Some(Frame(frame)), summary, body)?,
    };
    Ok(Answer { text, structured: call.with_frame(json!({"key": key})) })
}

fn forget(call: &Call<'_>) -> Result<Answer, ToolError> {
    let key = call.args.text("key");
    let (found, text) = match call.workspace.notes().forget(key)? {
        Forgotten::Forgot(text) => (true, text),
        Forgotten::WasAbsent(text) => (false, text),
    };
    Ok(Answer { text, structured: call.with_frame(json!({"key": key, "found": found})) })
}

fn restore(call: &Call<'_>) -> Result<Answer, ToolError> {
    let key = call.args.text("key");
    let to = match call.args.moment("to")? {
        Some(Moment::Frame(frame)) => frame,
        Some(Moment::Time(time)) => call.workspace.source().frame_at(time)?,
        None => return Err(ToolError::bad("memory_restore needs `to`, a frame or a time".to_owned())),
    };
    let shown = sentences::fold_line(key);
    let (done, text) = match call.workspace.notes().restore(key, to)? {
        Restored::Saved => ("saved", format!("restored {shown} as it was at frame {to}")),
        Restored::Removed => {
            ("removed", format!("forgot {shown}, which was not there at frame {to} (its history stays)"))
        }
        Restored::Unchanged => {
            ("unchanged", format!("{shown} is as it was at frame {to}; nothing was written"))
        }
        Restored::WasAbsent => {
            let absent = sentences::absent(key);
            ("absent", format!("{absent}, and nothing was at frame {to}; nothing was written"))
        }
    };
    Ok(Answer { text, structured: call.with_frame(json!({"key": key, "to": to.0, "done": done})) })
}

fn recall(call: &Call<'_>) -> Result<Answer, ToolError> {
    let key = call.args.text("key");
    let Some(note) = call.workspace.notes().get(key)? else {
        return Ok(Answer { text: sentences::absent(key), structured: json!({"key": key, "found": false}) });
    };
    let body = note.body.as_str();
    let offset = call.args.size("offset", 0);
    let (before, _) = clip(body, offset);
    let (part, left_out) = clip(body.get(before.len()..).unwrap_or_default(), ANSWER_MAX);
    let end = offset.saturating_add(part.chars().count());
    let mut text = part.to_owned();
    if left_out > 0 {
        text.push_str(&format!(
            "\n(showing characters {offset} to {end} of {} — call memory_recall with offset {end} for the \
                rest.)",
            end.saturating_add(left_out)
        ));
    } else if part.is_empty() && offset > 0 {
        text = format!("(the body of {} ends before character {offset})", sentences::fold_line(key));
    }
    let structured = json!({
        "key": key,
        "found": true,
        "summary": sentences::shown_summary(note.summary.as_deref()),
        "body": part,
        "offset": offset,
        "left_out": left_out,
        "frame": note.frame.0,
        "time": note.time.to_string(),
    });
    Ok(Answer { text, structured })
}

fn list_notes(call: &Call<'_>) -> Result<Answer, ToolError> {
    let offset = call.args.size("offset", 0);
    let (mut lines, mut notes) = (Lines::default(), Vec::new());
    let total = call.workspace.notes().look(|view, _| {
        for head in view.heads().skip(offset) {
            if !lines.push(&sentences::summary_line(head.key, head.summary)) {
                break;
            }
            notes.push(json!({"key": head.key, "summary": sentences::shown_summary(head.summary)}));
        }
        view.len()
    });
    let rest = |end: usize| format!("call memory_list with offset {end} for the rest, or memory_search");
    let (left_out, told) = part("notes", offset, notes.len(), total, rest);
    let nothing = if total == 0 { sentences::NO_MEMORIES } else { "(no notes there)" };
    let text = lines.finish(nothing, told);
    Ok(Answer { text, structured: json!({"notes": notes, "total": total, "left_out": left_out}) })
}

fn search(call: &Call<'_>) -> Result<Answer, ToolError> {
    let pattern = call.args.text("pattern");
    let max = sentences::MATCHES_SHOWN_MAX;
    let mut found =
        call.workspace.notes().look(|view, reading| view.search_shown(pattern, max, &reading.bodies));
    let mut lines = Lines::default();
    // Keys may be long, and are never fitted.
    let fit = found.matches.iter().take_while(|m| lines.push(&format!("{}{}", m.key, m.excerpt))).count();
    found.matches.truncate(fit);
    let matches: Vec<Value> = found
        .matches
        .iter()
        .map(|m| {
            let summary = sentences::shown_summary(m.summary.as_deref());
            json!({"key": m.key, "summary": summary, "excerpt": m.excerpt})
        })
        .collect();
    let left_out = found.total.saturating_sub(matches.len());
    let structured = json!({"matches": matches, "total": found.total, "left_out": left_out});
    Ok(Answer { text: found.text(), structured })
}

fn history(call: &Call<'_>) -> Result<Answer, ToolError> {
    let key = call.args.text("key");
    let mut shown = Versions::default();
    let mut told = None;
    for version in call.workspace.notes().history(key) {
        match version {
            Ok(version) => {
                told = shown.push(&version, call.args.size("limit", VERSIONS_SHOWN));
                if told.is_some() {
                    break;
                }
            }
            // What is left of the history has been shown; the rest was dropped on purpose, or lost.
            Err(error @ (Error::Compacted { .. } | Error::Lost { .. })) if !shown.values.is_empty() => {
                told = Some(format!("({error})"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let nothing = format!("nothing was ever saved under {}", sentences::fold_line(key));
    let Versions { lines, values, more, .. } = shown;
    let text = lines.finish(&nothing, told);
    Ok(Answer { text, structured: json!({"key": key, "versions": values, "more": more}) })
}

/// The versions that an answer shows, newest first. One frame may have made several: since `at` names frames, those
/// that are left out can only be asked for if they begin with another frame.
#[derive(Default)]
struct Versions {
    lines: Lines,
    values: Vec<Value>,
    /// The frame of the last one.
    oldest: Frame,
    /// Where the versions of that frame begin, and which frame comes before it here.
    begin: Option<(Mark, usize, Frame)>,
    more: bool,
}

impl Versions {
    /// Adds a version, or answers what is left out.
    fn push(&mut self, version: &Version<Note>, limit: usize) -> Option<String> {
        let goes_on = version.frame == self.oldest;
        if !goes_on && self.values.len() >= limit {
            return Some(self.end());
        }
        if !goes_on {
            self.begin = Some((self.lines.mark(), self.values.len(), self.oldest));
        }
        if self.lines.push(&version_lines(version)) {
            self.oldest = version.frame;
            self.values.push(version_value(version));
            return None;
        }
        match self.begin {
            Some((mark, count, newer)) if goes_on && count > 0 => {
                self.lines.back_to(mark);
                self.values.truncate(count);
                self.oldest = newer;
            }
            _ if goes_on => {
                self.more = true;
                let (frame, before) = (self.oldest, self.oldest.previous());
                return Some(format!(
                    "(more versions of frame {frame} are left out, and older ones — call memory_history with at \
                        {before} for the older ones.)"
                ));
            }
            _ => {}
        }
        Some(self.end())
    }

    fn end(&mut self) -> String {
        self.more = true;
        let before = self.oldest.previous();
        format!("(older versions are left out — call memory_history with at {before} for them.)")
    }
}

fn version_lines(version: &Version<Note>) -> String {
    let mut line = format!("- frame {}, {}, {}", version.frame, version.time, version.operation.name());
    for (name, part) in origin(version) {
        line.push_str(&format!(", {name} {}", sentences::fold_line(part)));
    }
    if let Some(note) = &version.content {
        let summary = sentences::shown_summary(note.summary.as_deref());
        line.push_str(&format!(": {summary}\n  {}", sentences::excerpt(note.body.as_str(), None)));
    }
    line
}

fn version_value(version: &Version<Note>) -> Value {
    let mut fields = Map::new();
    fields.insert("frame".to_owned(), version.frame.0.into());
    fields.insert("time".to_owned(), version.time.to_string().into());
    fields.insert("op".to_owned(), version.operation.name().into());
    fields.insert("by".to_owned(), version.by.name().into());
    for (name, part) in origin(version) {
        fields.insert(name.to_owned(), part.into());
    }
    if let Some(note) = &version.content {
        let summary = sentences::shown_summary(note.summary.as_deref());
        fields.insert("summary".to_owned(), summary.into_owned().into());
        fields.insert("excerpt".to_owned(), sentences::excerpt(note.body.as_str(), None).into());
    }
    Value::Object(fields)
}

fn origin(version: &Version<Note>) -> impl Iterator<Item = (&'static str, &str)> {
    let origin = version.origin.as_ref();
    [
        ("agent", origin.and_then(|o| o.agent.as_deref())),
        ("session", origin.and_then(|o| o.session.as_deref())),
        ("tool", origin.and_then(|o| o.tool.as_deref())),
    ]
    .into_iter()
    .filter_map(|(name, part)| Some((name, part?)))
}
