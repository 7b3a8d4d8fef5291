//! The tools of the scratchpad: push, render.

use serde_json::{Value, json};

use super::answer::{Answer, Lines, ToolError, clipped};
use super::params::Param;
use super::{Call, Hints, Spec, count, frame, list, object, text};
use crate::view::View;
use crate::view::text::fold_line;
use crate::view::working::WorkingEntry;

const HEAD: &str = "## Working Memory";

const PAD: Param =
    Param::text("name", "Which scratchpad: lower-case letters, digits, - and _. `main` by default.")
        .optional();

const PUSH: &[Param] = &[
    Param::text("label", "What the entry is, in a word or two, such as plan or open question."),
    Param::text("content", "What you want to have before you."),
    PAD,
];
const RENDER: &[Param] = &[PAD, Param::AT];

pub(super) fn specs() -> Vec<Spec> {
    let (pad, tokens) = (text("The scratchpad."), count("What all entries cost together, in tokens."));
    let budget = count("The budget in tokens.");
    vec![
        Spec {
            name: "working_push",
            title: "Add to the scratchpad",
            about: "Adds an entry to the scratchpad, which holds what you are busy with now: plans, open \
                questions, intermediate results. It has a budget of tokens, and the oldest entries go when \
                it is full; use memory_remember for what must stay. Answers what the scratchpad costs now.",
            embeds: false,
            params: PUSH,
            output: object(
                &["label", "name", "entries", "tokens", "budget"],
                json!({
                    "label": text("The label."),
                    "name": pad,
                    "entries": count("How many entries there are now."),
                    "tokens": tokens,
                    "budget": budget,
                    "frame": frame(),
                }),
            ),
            hints: Hints::ADDS,
            run: push,
        },
        Spec {
            name: "working_render",
            title: "Read the scratchpad",
            about: "Reads the scratchpad, oldest entry first. Use it to go on with work after a break.",
            embeds: false,
            params: RENDER,
            output: object(
                &["name", "entries", "left_out", "tokens", "budget"],
                json!({
                    "name": pad,
                    "entries": list("The entries, oldest first.", &["label", "content", "tokens"], json!({
                        "label": text("The label."),
                        "content": text("The entry; of one too long for an answer, the beginning, which \
                            says so."),
                        "tokens": count("What it costs, in tokens."),
                    })),
                    "left_out": count("How many older entries are left out."),
                    "tokens": tokens,
                    "budget": budget,
                }),
            ),
            hints: Hints::READS,
            run: render,
        },
    ]
}

fn push(call: &Call<'_>) -> Result<Answer, ToolError> {
    let (label, name) = (call.args.text("label"), call.args.handle());
    let pad = call.workspace.working(name)?;
    pad.push(label, call.args.text("content"))?;
    let (entries, tokens, budget) = pad.look(|view| (view.len(), view.current_tokens(), view.budget()));
    let text = format!("added {}; the scratchpad costs {tokens} of {budget} tokens", fold_line(label));
    let structured =
        json!({"label": label, "name": name, "entries": entries, "tokens": tokens, "budget": budget});
    Ok(Answer { text, structured: call.with_frame(structured) })
}

fn render(call: &Call<'_>) -> Result<Answer, ToolError> {
    let name = call.args.handle();
    let pad = call.workspace.working(name)?;
    let (all, tokens, budget) = pad.look(|view| {
        let entry = |e: WorkingEntry<'_>| (e.label.to_owned(), e.content.to_owned(), e.tokens);
        (view.entries().map(entry).collect::<Vec<_>>(), view.current_tokens(), view.budget())
    });
    // The newest entries stay, as they do in the scratchpad itself.
    let mut fitting = Lines::default();
    let mut shown: Vec<(String, Value)> = Vec::new();
    for (label, content, tokens) in all.iter().rev() {
        let content = clipped(content);
        let line = format!("- **{}**: {}", fold_line(label), fold_line(&content));
        if !fitting.push(&line) {
            break;
        }
        shown.push((line, json!({"label": label, "content": content, "tokens": tokens})));
    }
    let left_out = all.len().saturating_sub(shown.len());
    let (lines, entries): (Vec<String>, Vec<Value>) = shown.into_iter().rev().unzip();
    let text = match (lines.is_empty(), left_out) {
        (true, _) => "(the scratchpad is empty)".to_owned(),
        (false, 0) => format!("{HEAD}\n{}", lines.join("\n")),
        (false, _) => format!("{HEAD}\n{}\n({left_out} older entries are left out.)", lines.join("\n")),
    };
    let structured = json!({
        "name": name, "entries": entries, "left_out": left_out, "tokens": tokens, "budget": budget,
    });
    Ok(Answer { text, structured })
}
