//! Deltas that own what they say, and random ones over small domains, so that histories meet themselves.

use std::borrow::Cow;

use mnemolog::codec::delta::{Body, Class, Config, HandleKind, Identity, Note, Op, Push, Record, Upsert};
use proptest::prelude::*;

/// An operation that owns its parts.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Remember { key: String, summary: Option<String>, body: String, json: bool },
    Forget { key: String },
    Upsert { id: String, text: String, metadata: String, embedding: Vec<f32> },
    Delete { id: String },
    Record { key: String, value: String, timestamp_ms: i64 },
    Push { label: String, content: String, tokens: u32 },
    Clear(HandleKind),
    Embedder(Option<(String, u32)>),
    Max(Option<u64>),
    Budget(Option<u64>),
    Erased { kind: HandleKind, class: Class, tokens: u32 },
    Snapshot { head: Box<Change>, items: Vec<Change>, continues: bool },
}

impl Change {
    pub(crate) fn kind(&self) -> HandleKind {
        match self {
            Change::Remember { .. } | Change::Forget { .. } => HandleKind::Notes,
            Change::Upsert { .. } | Change::Delete { .. } | Change::Embedder(_) => HandleKind::Vector,
            Change::Record { .. } | Change::Max(_) => HandleKind::Episodic,
            Change::Push { .. } | Change::Budget(_) => HandleKind::Working,
            Change::Clear(kind) | Change::Erased { kind, .. } => *kind,
            Change::Snapshot { head, .. } => head.kind(),
        }
    }

    /// The operations of the delta: one, or a head and its items.
    pub(crate) fn ops(&self) -> Vec<Op<'_>> {
        match self {
            Change::Snapshot { head, items, continues } => {
                let (items_len, continues) = (items.len() as u64, *continues);
                let mut ops = vec![Op::Snapshot { config: head.config(), items: items_len, continues }];
                ops.extend(items.iter().map(Change::op));
                ops
            }
            other => vec![other.op()],
        }
    }

    fn op(&self) -> Op<'_> {
        match self {
            Change::Remember { key, summary, body, json } => {
                let body = if *json { Body::Json(body) } else { Body::Text(body) };
                Op::Remember(Note { key, summary: summary.as_deref(), body })
            }
            Change::Forget { key } => Op::Forget { key },
            Change::Upsert { id, text, metadata, embedding } => {
                Op::Upsert(Upsert { id, text, metadata, embedding: Cow::Borrowed(embedding) })
            }
            Change::Delete { id } => Op::Delete { id },
            Change::Record { key, value, timestamp_ms } => {
                Op::Record(Record { key, value, timestamp_ms: *timestamp_ms })
            }
            Change::Push { label, content, tokens } => Op::Push(Push { label, content, tokens: *tokens }),
            Change::Clear(kind) => Op::Clear(*kind),
            Change::Embedder(_) | Change::Max(_) | Change::Budget(_) => Op::Configure(self.config()),
            Change::Erased { kind, class, tokens } => {
                Op::Erased { kind: *kind, class: *class, tokens: *tokens }
            }
            Change::Snapshot { .. } => unreachable!("a snapshot is no item"),
        }
    }

    /// A configuration; for the head of a snapshot of notes, any change of notes stands for theirs.
    fn config(&self) -> Config<'_> {
        match self {
            Change::Embedder(identity) => Config::Vector(identity.as_ref().map(|(name, dim)| Identity {
                name: Cow::Borrowed(name),
                model: Cow::Borrowed("m"),
                dim: *dim,
            })),
            Change::Max(max) => Config::Episodic(*max),
            Change::Budget(budget) => Config::Working(*budget),
            _ => Config::Notes,
        }
    }
}

pub(crate) fn any_key() -> impl Strategy<Value = String> {
    let keys = ["", "a", "b", "B", "a/b", "a/c", "a-/a", "z", "é", "a/b/c", "/", "  "];
    proptest::sample::select(keys.to_vec()).prop_map(str::to_owned)
}

fn any_text() -> impl Strategy<Value = String> {
    let texts = ["", " ", "Ada", "two\nlines", "服务器", "Straße", "the ADA of old"];
    proptest::sample::select(texts.to_vec()).prop_map(str::to_owned)
}

fn any_json() -> impl Strategy<Value = String> {
    let values = [r#"{"n":1}"#, r#"{"n":1.0,"tag":"a"}"#, r#"{"tag":"b"}"#, "{}", "null", "[1,2]", "12.50"];
    proptest::sample::select(values.to_vec()).prop_map(str::to_owned)
}

fn any_embedding() -> impl Strategy<Value = Vec<f32>> {
    let float = proptest::sample::select(vec![0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-40, f32::MAX]);
    let wild = proptest::sample::select(vec![f32::NAN, f32::INFINITY, 1.0]);
    prop_oneof![
        8 => proptest::collection::vec(float.clone(), 2),
        2 => proptest::collection::vec(float, 0..4),
        1 => proptest::collection::vec(wild, 2),
    ]
}

/// What puts something into a handle of the kind, erased or not.
fn any_item(kind: HandleKind) -> BoxedStrategy<Change> {
    let erased = move |tokens: std::ops::Range<u32>| {
        tokens.prop_map(move |tokens| Change::Erased { kind, class: Class::Put, tokens })
    };
    match kind {
        HandleKind::Notes => prop_oneof![
            8 => (any_key(), proptest::option::of(any_text()), any_text())
                .prop_map(|(key, summary, body)| Change::Remember { key, summary, body, json: false }),
            2 => (any_key(), any_json())
                .prop_map(|(key, body)| Change::Remember { key, summary: None, body, json: true }),
            1 => erased(0..1),
        ]
        .boxed(),
        HandleKind::Vector => prop_oneof![
            8 => (any_key(), any_text(), any_json(), any_embedding())
                .prop_map(|(id, text, metadata, embedding)| Change::Upsert { id, text, metadata, embedding }),
            1 => erased(0..1),
        ]
        .boxed(),
        HandleKind::Episodic => prop_oneof![
            6 => (any_key(), any_json(), any::<i64>())
                .prop_map(|(key, value, timestamp_ms)| Change::Record { key, value, timestamp_ms }),
            1 => erased(0..1),
        ]
        .boxed(),
        HandleKind::Working => prop_oneof![
            6 => (any_key(), any_text(), 0..40u32)
                .prop_map(|(label, content, tokens)| Change::Push { label, content, tokens }),
            1 => erased(0..40),
        ]
        .boxed(),
    }
}

fn any_config(kind: HandleKind) -> BoxedStrategy<Change> {
    match kind {
        HandleKind::Notes => Just(Change::Forget { key: String::new() }).boxed(),
        HandleKind::Vector => proptest::option::of(("[xy]", 0..4u32)).prop_map(Change::Embedder).boxed(),
        HandleKind::Episodic => proptest::option::of(0..5u64).prop_map(Change::Max).boxed(),
        HandleKind::Working => proptest::option::of(0..100u64).prop_map(Change::Budget).boxed(),
    }
}

fn any_removal(kind: HandleKind) -> BoxedStrategy<Change> {
    let erased = move |class| Just(Change::Erased { kind, class, tokens: 0 });
    match kind {
        HandleKind::Notes => prop_oneof![
            4 => any_key().prop_map(|key| Change::Forget { key }),
            1 => erased(Class::Remove),
        ]
        .boxed(),
        HandleKind::Vector => prop_oneof![
            4 => any_key().prop_map(|id| Change::Delete { id }),
            1 => Just(Change::Clear(kind)),
            1 => erased(Class::Remove),
        ]
        .boxed(),
        HandleKind::Episodic | HandleKind::Working => Just(Change::Clear(kind)).boxed(),
    }
}

fn any_snapshot(kind: HandleKind) -> impl Strategy<Value = Change> {
    (any_config(kind), proptest::collection::vec(any_item(kind), 0..5), any::<bool>())
        .prop_map(|(head, items, continues)| Change::Snapshot { head: Box::new(head), items, continues })
}

/// Any delta of any kind, for one of two handles.
pub(crate) fn any_change() -> impl Strategy<Value = (&'static str, Change)> {
    let change = proptest::sample::select(HandleKind::ALL.to_vec()).prop_flat_map(|kind| {
        prop_oneof![
            12 => any_item(kind),
            2 => any_removal(kind),
            2 => any_config(kind),
            1 => any_snapshot(kind),
        ]
    });
    (proptest::sample::select(vec!["core/x", "y"]), change)
}
