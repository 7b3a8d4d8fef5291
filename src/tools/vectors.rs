//! The tools of the vector tables: upsert, search, delete.

use serde_json::{Map, Value, json};

use super::answer::{Answer, Lines, ToolError, clipped, insert_json};
use super::params::Param;
use super::{Call, EXACT_TEXT, Hints, Spec, boolean, count, frame, list, object, text};
use crate::codec::json::Json;
use crate::error::Error;
use crate::view::text::{absent, fold_line};
use crate::view::vectors::Hit;
use crate::view::vectors::filter::Filter;

const SHOWN: usize = 5;
const SHOWN_MAX: u64 = 50;

const TABLE: Param =
    Param::text("name", "Which table: lower-case letters, digits, - and _. `main` by default.").optional();
const ID: Param = Param::text("id", "The row's id: any text.");

const UPSERT: &[Param] = &[
    ID,
    Param::text(
        "text",
        "The text to be found by similarity. A few sentences are found better than a long document.",
    ),
    Param::object(
        "metadata",
        "A JSON object stored with the text; its fields can be filtered on. Send a number of 16 digits or more as a \
            string, unless it is a 64-bit integer.",
    ),
    TABLE,
];
const SEARCH: &[Param] = &[
    Param::text("query", "What the texts should be similar to."),
    Param::count("k", 1, SHOWN_MAX, "The most texts, 5 by default."),
    Param::object("filter", "Only rows whose metadata has each of these fields with an equal value."),
    TABLE,
    Param::AT,
];
const DELETE: &[Param] = &[ID, TABLE];

pub(super) fn specs() -> Vec<Spec> {
    let hit = json!({
        "id": text("The row's id."),
        "score": {"type": "number", "description": "The cosine to the query, from -1 to 1; higher is \
            nearer."},
        "text": text("The text; of one too long for an answer, the beginning, which says so."),
        "metadata": {"description": "What was stored with it; if `cut`, the beginning of its JSON text as a \
            string. Not there if `metadata_text` is."},
        "metadata_text": text(EXACT_TEXT),
        "cut": boolean("There and true if the metadata was too long for an answer."),
    });
    let hits = list("The rows, best first.", &["id", "score", "text"], hit);
    let (table, id) = (text("The table."), text("The row's id."));
    vec![
        Spec {
            name: "vector_upsert",
            title: "Store a text",
            about: "Stores a text under an id so that vector_search finds it by similarity, or overwrites \
                the row that is there. Use it for passages of documents and other material to look things \
                up in; use memory_remember for facts. Answers `stored ID`.",
            embeds: true,
            params: UPSERT,
            output: object(&["id", "name"], json!({"id": id, "name": table, "frame": frame()})),
            hints: Hints::OVERWRITES,
            run: upsert,
        },
        Spec {
            name: "vector_search",
            title: "Search texts",
            about: "Finds the stored texts that are most similar to a query, best first, with their scores \
                and metadata.",
            embeds: true,
            params: SEARCH,
            output: object(
                &["name", "hits", "rows", "left_out"],
                json!({
                    "name": table,
                    "hits": hits,
                    "rows": count("How many rows the table has."),
                    "left_out": count("How many of the best k are not in `hits`, because they are too long \
                        together."),
                }),
            ),
            hints: Hints::READS,
            run: search,
        },
        Spec {
            name: "vector_delete",
            title: "Delete a text",
            about: "Deletes a stored text by its id, from now on. Answers `deleted ID`, or that nothing is \
                saved under the id.",
            embeds: false,
            params: DELETE,
            output: object(
                &["id", "name", "found"],
                json!({
                    "id": id,
                    "name": table,
                    "found": boolean("Whether there was such a row."),
                    "frame": frame(),
                }),
            ),
            hints: Hints::CHANGES,
            run: delete,
        },
    ]
}

fn upsert(call: &Call<'_>) -> Result<Answer, ToolError> {
    let (id, name) = (call.args.text("id"), call.args.handle());
    let metadata = call.args.object("metadata").map_or_else(|| Ok(Json::object()), Json::from_value);
    call.workspace.vectors(name)?.upsert(id, call.args.text("text"), &metadata.map_err(Error::from)?)?;
    let text = format!("stored {}", fold_line(id));
    Ok(Answer { text, structured: call.with_frame(json!({"id": id, "name": name})) })
}

fn delete(call: &Call<'_>) -> Result<Answer, ToolError> {
    let (id, name) = (call.args.text("id"), call.args.handle());
    let (found, text) = match call.workspace.vectors(name)?.delete(id) {
        Ok(()) => (true, format!("deleted {}", fold_line(id))),
        Err(Error::NotFound { .. }) => (false, absent(id)),
        Err(error) => return Err(error.into()),
    };
    Ok(Answer { text, structured: call.with_frame(json!({"id": id, "name": name, "found": found})) })
}

fn search(call: &Call<'_>) -> Result<Answer, ToolError> {
    let name = call.args.handle();
    let filter = call.args.object("filter").map(Json::from_value).transpose().map_err(Error::from)?;
    let filter = filter.as_ref().map(Filter::parse).transpose()?;
    let table = call.workspace.vectors(name)?;
    let found = table.search_where(call.args.text("query"), call.args.size("k", SHOWN), filter.as_ref())?;
    let (mut lines, mut hits) = (Lines::default(), Vec::new());
    for hit in &found {
        let text = clipped(&hit.text);
        if !lines.push(&line(hit, &text)) {
            break;
        }
        hits.push(hit_value(hit, &text));
    }
    let left_out = found.len().saturating_sub(hits.len());
    let told = (left_out > 0).then(|| {
        format!(
            "({left_out} more are left out, because they are too long together — call vector_search \
            with a smaller k or a filter.)"
        )
    });
    let text = lines.finish("(no texts found)", told);
    let rows = table.len();
    Ok(Answer { text, structured: json!({"name": name, "hits": hits, "rows": rows, "left_out": left_out}) })
}

fn hit_value(hit: &Hit, text: &str) -> Value {
    let mut fields = Map::new();
    fields.insert("id".to_owned(), hit.id.as_str().into());
    fields.insert("score".to_owned(), short(hit.score));
    fields.insert("text".to_owned(), text.into());
    insert_json(&mut fields, "metadata", &hit.metadata);
    Value::Object(fields)
}

fn line(hit: &Hit, text: &str) -> String {
    let metadata = match hit.metadata.as_str() {
        "{}" | "null" => String::new(),
        metadata => format!(", {}", fold_line(&clipped(metadata))),
    };
    format!("- {} (score {:.3}{metadata}): {}", fold_line(&hit.id), hit.score, fold_line(text))
}

/// The score in as few digits as tell it from every other `f32`.
fn short(score: f32) -> Value {
    score.to_string().parse().map_or(Value::Null, |score: f64| json!(score))
}
