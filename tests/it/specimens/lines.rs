//! What our own reader makes of a store, as the lines that `read_log.py --frames` prints.
//!
//! The store is opened through the log, as everything else opens it. Lines are compared as canonical JSON,
//! digits included; embeddings are compared as the bits of their floats, whatever their digits.

use std::path::Path;
use std::sync::Arc;

use mnemolog::codec::delta::{Body, Config, Note, Op, Origin, Push, Record, Upsert};
use mnemolog::codec::frame::{CheckedFrame, FrameKind, LostRange, Seal};
use mnemolog::codec::json::Json;
use mnemolog::codec::payload::Deltas;
use mnemolog::codec::segment::FRAMES_START;
use mnemolog::disk::{Disk, FileDisk};
use mnemolog::error::Error;
use mnemolog::log::{self, Fold, Met, Mode};
use mnemolog::segment::{Segment, SegmentOptions, Step, Walk};

struct Ignore;

impl Fold for Ignore {
    fn begin(&mut self) {}
    fn frame(&mut self, _: &Met<'_>) {}
}

/// Every line of a store, the verdict last.
pub(super) fn of_store(root: &Path) -> Vec<String> {
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(root).unwrap());
    let options = SegmentOptions { segment_bytes: 1 << 20, map: false };
    let opening = match log::open(&disk, options, Mode::Read, &mut Ignore) {
        Ok(opening) => opening,
        Err(Error::NewerFormat { path, found, .. }) => {
            let file = path.file_name().unwrap().to_str().unwrap();
            return vec![end("newer", file, &[("version", found.to_string())])];
        }
        Err(Error::Damaged(damage)) => {
            return vec![damaged(&damage)];
        }
        Err(other) => panic!("{}: {other}", root.display()),
    };
    let files = opening.files.now();
    let mut lines: Vec<String> = files.iter().flat_map(|segment| of_segment(segment)).collect();
    let frame = ("frame", opening.index.last().to_string());
    lines.push(match (&opening.recovery.damage, &opening.recovery.cut) {
        (Some(damage), _) => damaged(damage),
        (None, Some(cut)) => end("unclean", &cut.segment, &[("offset", cut.offset.to_string()), frame]),
        (None, None) => {
            let last = files.last().unwrap();
            end("clean", &last.id().to_string(), &[("offset", last.published().to_string()), frame])
        }
    });
    lines
}

fn damaged(damage: &mnemolog::error::Damage) -> String {
    let fields = [
        ("offset", damage.offset.to_string()),
        ("frame", damage.frame.to_string()),
        ("what", text(damage.reason.what)),
    ];
    end("damaged", &damage.segment, &fields)
}

fn end(verdict: &str, file: &str, fields: &[(&str, String)]) -> String {
    let mut all = vec![("end", text(verdict)), ("file", text(file))];
    all.extend_from_slice(fields);
    object(&all)
}

fn of_segment(segment: &Segment) -> Vec<String> {
    let mut lines = Vec::new();
    let name = segment.id().to_string();
    let mut walk = Walk::new(segment, FRAMES_START, segment.published());
    loop {
        match walk.step().unwrap() {
            Step::Frame { frame, .. } => of_frame(&name, &frame, &mut lines),
            Step::End => return lines,
            Step::Bad(bad) => panic!("{name}: {bad} below the published length"),
        }
    }
}

fn of_frame(file: &str, frame: &CheckedFrame<'_>, lines: &mut Vec<String>) {
    let h = &frame.header;
    let mut fields = vec![
        ("file", text(file)),
        ("offset", h.own_offset.to_string()),
        ("kind", text(h.kind.name())),
        ("number", h.number.to_string()),
        ("time", text(&h.time.to_string())),
        ("durable", h.durable.to_string()),
        ("writer", h.writer.to_string()),
        ("deltas", h.delta_count.to_string()),
    ];
    match h.kind {
        FrameKind::Commit | FrameKind::Base => {
            lines.push(object(&fields));
            of_deltas(frame, lines);
            return;
        }
        FrameKind::Close => {}
        FrameKind::Seal => {
            let seal = Seal::decode(frame.payload, 0).unwrap();
            fields.push(("frames", seal.frames.to_string()));
            fields.push(("digest", text(&format!("{:032x}", seal.digest))));
            fields.push(("nonce", seal.nonce.to_string()));
        }
        FrameKind::Lost => {
            let range = LostRange::decode(frame.payload, 0).unwrap();
            fields.extend([("first", range.first.to_string()), ("last", range.last.to_string())]);
        }
    }
    lines.push(object(&fields));
}

/// A snapshot whose items are being met.
struct Open<'a> {
    fields: Vec<(&'a str, String)>,
    config: String,
    items: Vec<String>,
}

impl Open<'_> {
    fn line(mut self) -> String {
        let args = format!(r#"{{"config":{},"items":[{}]}}"#, self.config, self.items.join(","));
        self.fields.push(("args", args));
        object(&self.fields)
    }
}

fn of_deltas(frame: &CheckedFrame<'_>, lines: &mut Vec<String>) {
    let deltas = Deltas::of(frame).unwrap();
    let origin = deltas.origin().map(of_origin);
    let mut open: Option<Open<'_>> = None;
    for delta in deltas {
        let envelope = delta.unwrap().envelope;
        let (op, args) = of_op(&envelope.op);
        if envelope.item {
            let args = if op == "erased" { object(&[("erased", args)]) } else { args };
            // Behind an erased head there is nothing to collect.
            if let Some(open) = &mut open {
                open.items.push(args);
            }
            continue;
        }
        lines.extend(open.take().map(Open::line));
        let h = &frame.header;
        let mut fields = vec![("frame", h.number.to_string()), ("time", text(&h.time.to_string()))];
        fields.extend(origin.clone().map(|origin| ("origin", origin)));
        fields.extend((h.kind == FrameKind::Base).then(|| ("base", "true".into())));
        fields.push(("handle_kind", text(envelope.op.kind().name())));
        fields.push(("handle_id", text(envelope.id)));
        fields.push(("op", text(op)));
        if let Op::Snapshot { .. } = envelope.op {
            open = Some(Open { fields, config: args, items: Vec::new() });
        } else {
            fields.push(("args", args));
            lines.push(object(&fields));
        }
    }
    lines.extend(open.map(Open::line));
}

fn of_origin(origin: &Origin) -> String {
    let fields = [("agent", &origin.agent), ("session", &origin.session), ("tool", &origin.tool)];
    let fields: Vec<_> =
        fields.into_iter().filter_map(|(name, value)| Some((name, text(value.as_ref()?)))).collect();
    object(&fields)
}

/// The operation's name and its args; of a snapshot only the configuration.
fn of_op(op: &Op<'_>) -> (&'static str, String) {
    match op {
        Op::Remember(Note { key, summary, body }) => {
            let body = match body {
                Body::Text(body) => text(body),
                Body::Json(json) => (*json).to_owned(),
            };
            let mut fields = vec![("key", text(key))];
            fields.extend(summary.map(|summary| ("summary", text(summary))));
            fields.push(("body", body));
            ("remember", object(&fields))
        }
        Op::Forget { key } => ("forget", object(&[("key", text(key))])),
        Op::Upsert(Upsert { id, text: content, metadata, embedding }) => {
            // Floats that are not finite become null here, like everywhere in serde_json.
            let floats: Vec<String> =
                embedding.iter().map(|x| serde_json::to_string(&f64::from(*x)).unwrap()).collect();
            let embedding = format!("[{}]", floats.join(","));
            let metadata = (*metadata).to_owned();
            let fields =
                [("id", text(id)), ("text", text(content)), ("metadata", metadata), ("embedding", embedding)];
            ("upsert", object(&fields))
        }
        Op::Delete { id } => ("delete", object(&[("id", text(id))])),
        Op::Record(Record { key, value, timestamp_ms }) => {
            let fields = [
                ("key", text(key)),
                ("value", (*value).to_owned()),
                ("timestamp_ms", timestamp_ms.to_string()),
            ];
            ("record", object(&fields))
        }
        Op::Push(Push { label, content, tokens }) => {
            let fields = [("label", text(label)), ("content", text(content)), ("tokens", tokens.to_string())];
            ("push", object(&fields))
        }
        Op::Clear(_) => ("clear", object(&[])),
        Op::Configure(config) => ("configure", of_config(config)),
        Op::Snapshot { config, .. } => ("snapshot", of_config(config)),
        Op::Erased { class, tokens, .. } => {
            let mut fields = vec![("class", text(class.name()))];
            fields.extend((*tokens > 0).then(|| ("tokens", tokens.to_string())));
            ("erased", object(&fields))
        }
    }
}

fn of_config(config: &Config<'_>) -> String {
    let number = |value: &Option<u64>| value.map_or("null".into(), |n| n.to_string());
    match config {
        Config::Notes => object(&[]),
        Config::Vector(None) => object(&[("embedder", "null".into())]),
        Config::Vector(Some(identity)) => {
            let fields = [
                ("name", text(&identity.name)),
                ("model", text(&identity.model)),
                ("dim", identity.dim.to_string()),
            ];
            object(&[("embedder", object(&fields))])
        }
        Config::Episodic(max) => object(&[("max", number(max))]),
        Config::Working(budget) => object(&[("budget", number(budget))]),
    }
}

fn text(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{}:{value}", text(name))).collect();
    format!("{{{}}}", fields.join(","))
}

/// Whether the JSON texts of a line are JSON and its embeddings finite.
pub(super) fn is_sound(line: &str) -> bool {
    let finite = |part: &str| !part.split(']').next().unwrap_or_default().contains("null");
    Json::parse(line).is_ok() && line.split(r#""embedding":["#).skip(1).all(finite)
}

/// A line in a form in which equal lines are equal: canonical JSON without its embeddings, and their bits.
pub(super) fn normal(line: &str) -> (String, Vec<u32>) {
    let canonical = Json::parse(line).unwrap_or_else(|e| panic!("{e}: {line}")).to_string();
    // A quote inside a string is escaped, so this is found in the structure only.
    let mut parts = canonical.split(r#""embedding":["#);
    let (mut rest, mut bits) = (parts.next().unwrap().to_owned(), Vec::new());
    for part in parts {
        let (floats, behind) = part.split_once(']').unwrap();
        let floats = floats.split(',').filter(|float| !float.is_empty());
        bits.extend(floats.map(|float| (float.parse::<f64>().unwrap() as f32).to_bits()));
        rest.push_str(r#""embedding":["#);
        rest.push_str(behind);
    }
    (rest, bits)
}
