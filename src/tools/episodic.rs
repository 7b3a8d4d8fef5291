//! The tools of the episodes: record, recent, search.

use serde_json::{Map, Value, json};

use super::answer::{Answer, Lines, ToolError, clipped, insert_json, part};
use super::params::Param;
use super::{Call, EXACT_TEXT, Hints, Spec, boolean, count, frame, list, object, text};
use crate::codec::json::Json;
use crate::error::Error;
use crate::position::Time;
use crate::view::episodic::Episode;
use crate::view::text::fold_line;

const SHOWN: usize = 10;
const SHOWN_MAX: u64 = 100;

const RING: Param =
    Param::text("name", "Which ring of episodes: lower-case letters, digits, - and _. `main` by default.")
        .optional();
const LIMIT: Param = Param::count("limit", 1, SHOWN_MAX, "The most episodes, 10 by default.");

const RECORD: &[Param] = &[
    Param::text(
        "key",
        "What kind of episode it is, such as tool/build or turn/42: episodes are found by the beginning of \
            their key.",
    ),
    Param::json(
        "value",
        "What happened, as any JSON value. Send a number of 16 digits or more as a string, unless it is a 64-bit integer.",
    ),
    RING,
];
const OFFSET: Param = Param::count(
    "offset",
    0,
    u64::MAX,
    "How many episodes to pass over, after an answer that was cut. 0 by default.",
);
const RECENT: &[Param] = &[LIMIT, OFFSET, RING, Param::AT];
const SEARCH: &[Param] = &[
    Param::text("prefix", "How the key begins. The empty text is the beginning of every key."),
    LIMIT,
    OFFSET,
    RING,
    Param::AT,
];

pub(super) fn specs() -> Vec<Spec> {
    vec![
        Spec {
            name: "episodic_record",
            title: "Record an episode",
            about: "Records that something happened now, with any JSON value, behind all that was recorded \
                before. Use it for a log of turns, tool results or events, whose order matters; use \
                memory_remember for facts. Beyond the size of the ring, if it has one, the oldest go. \
                Answers `recorded KEY`.",
            embeds: false,
            params: RECORD,
            output: object(
                &["key", "name"],
                json!({"key": text("The key."), "name": text("The ring."), "frame": frame()}),
            ),
            hints: Hints::ADDS,
            run: record,
        },
        Spec {
            name: "episodic_recent",
            title: "Latest episodes",
            about: "Reads the latest episodes, newest first. Use it to see what happened last, also in \
                earlier sessions.",
            embeds: false,
            params: RECENT,
            output: episodes_schema("The episodes, newest first."),
            hints: Hints::READS,
            run: recent,
        },
        Spec {
            name: "episodic_search",
            title: "Episodes by key",
            about: "Reads the episodes whose key begins with a text, oldest first. Use it when you know \
                the kind of episode.",
            embeds: false,
            params: SEARCH,
            output: episodes_schema("The episodes, oldest first."),
            hints: Hints::READS,
            run: search,
        },
    ]
}

fn episodes_schema(description: &str) -> Value {
    let episode = json!({
        "key": text("The key."),
        "value": {"description": "What was recorded; if `cut`, the beginning of its JSON text as a string. Not \
            there if `value_text` is."},
        "value_text": text(EXACT_TEXT),
        "cut": boolean("There and true if the value was too long for an answer."),
        "timestamp_ms": {"type": "integer", "description": "When it happened, in milliseconds since 1970."},
        "frame": count("The frame that recorded it."),
        "time": text("The time of that frame, RFC 3339."),
    });
    let required = ["key", "timestamp_ms", "frame", "time"];
    object(
        &["name", "episodes", "total", "left_out"],
        json!({
            "name": text("The ring."),
            "episodes": list(description, &required, episode),
            "total": count("How many episodes there are that were asked for, shown or not."),
            "left_out": count("How many of them come behind those in `episodes`."),
        }),
    )
}

fn record(call: &Call<'_>) -> Result<Answer, ToolError> {
    let (key, name) = (call.args.text("key"), call.args.handle());
    let value = Json::from_value(call.args.json("value")).map_err(Error::from)?;
    call.workspace.episodic(name)?.record(key, &value)?;
    let text = format!("recorded {}", fold_line(key));
    Ok(Answer { text, structured: call.with_frame(json!({"key": key, "name": name})) })
}

fn recent(call: &Call<'_>) -> Result<Answer, ToolError> {
    let (name, offset) = (call.args.handle(), call.args.size("offset", 0));
    let ring = call.workspace.episodic(name)?;
    let (episodes, total) = ring.recent_from(offset, call.args.size("limit", SHOWN))?;
    Ok(answer("episodic_recent", name, offset, &episodes, total))
}

fn search(call: &Call<'_>) -> Result<Answer, ToolError> {
    let (name, offset) = (call.args.handle(), call.args.size("offset", 0));
    let (prefix, limit) = (call.args.text("prefix"), call.args.size("limit", SHOWN));
    let (episodes, total) = call.workspace.episodic(name)?.search_from(prefix, offset, limit)?;
    Ok(answer("episodic_search", name, offset, &episodes, total))
}

fn answer(tool: &str, name: &str, offset: usize, episodes: &[Episode], total: usize) -> Answer {
    let (mut lines, mut values) = (Lines::default(), Vec::new());
    for episode in episodes {
        let value = clipped(episode.value.as_str());
        let line = format!("- {} {}: {}", happened(episode), fold_line(&episode.key), fold_line(&value));
        if !lines.push(&line) {
            break;
        }
        values.push(episode_value(episode));
    }
    let rest = |end: usize| format!("call {tool} with offset {end} for the rest");
    let (left_out, told) = part("episodes", offset, values.len(), total, rest);
    let text = lines.finish(if total == 0 { "(no episodes)" } else { "(no episodes there)" }, told);
    let structured = json!({"name": name, "episodes": values, "total": total, "left_out": left_out});
    Answer { text, structured }
}

fn episode_value(episode: &Episode) -> Value {
    let mut fields = Map::new();
    fields.insert("key".to_owned(), episode.key.clone().into());
    insert_json(&mut fields, "value", &episode.value);
    fields.insert("timestamp_ms".to_owned(), episode.timestamp_ms.into());
    fields.insert("frame".to_owned(), episode.frame.0.into());
    fields.insert("time".to_owned(), episode.time.to_string().into());
    Value::Object(fields)
}

/// When it happened, or when it was recorded if no calendar has that time.
fn happened(episode: &Episode) -> Time {
    let micros = u64::try_from(episode.timestamp_ms).ok().and_then(|ms| ms.checked_mul(1000));
    micros.and_then(Time::from_micros).unwrap_or(episode.time)
}
