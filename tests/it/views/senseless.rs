//! Deltas that decode and make no sense for their handle change nothing: no read, no chain, no snapshot.

use std::borrow::Cow;

use mnemolog::codec::delta::{Body, Class, Config, HandleKind, Identity, Note, Op, Push, Record, Upsert};
use mnemolog::position::{Frame, Last, Place, Position};
use mnemolog::view::{EpisodicView, NotesView, VectorView, View, WorkingView};

use super::log::{World, time_of};

const NOTE: Op<'_> = Op::Remember(Note { key: "k", summary: None, body: Body::Text("b") });
const EPISODE: Op<'_> = Op::Record(Record { key: "k", value: "1", timestamp_ms: 5 });
const ENTRY: Op<'_> = Op::Push(Push { label: "l", content: "c", tokens: 6 });

fn row<'a>(id: &'a str, embedding: &'a [f32]) -> Op<'a> {
    Op::Upsert(Upsert { id, text: "t", metadata: "{}", embedding: Cow::Borrowed(embedding) })
}

fn embedder(dim: u32) -> Config<'static> {
    Config::Vector(Some(Identity { name: Cow::Borrowed("e"), model: Cow::Borrowed("m"), dim }))
}

fn erased(kind: HandleKind, class: Class) -> Op<'static> {
    Op::Erased { kind, class, tokens: 0 }
}

/// One of each operation for each kind of handle.
fn every_op() -> Vec<Op<'static>> {
    let mut ops = vec![NOTE, EPISODE, ENTRY, row("id", &[1.0, 2.0])];
    ops.extend([Op::Forget { key: "k" }, Op::Delete { id: "id" }]);
    for config in [Config::Notes, embedder(2), Config::Episodic(Some(1)), Config::Working(Some(1))] {
        ops.extend([Op::Clear(config.kind()), Op::Configure(config.clone())]);
        ops.extend(
            [Class::Put, Class::Remove, Class::Clear, Class::Configure, Class::Snapshot, Class::Origin]
                .map(|class| erased(config.kind(), class)),
        );
        ops.push(Op::Snapshot { config: config.clone(), items: 0, continues: false });
        ops.push(Op::Snapshot { config, items: 0, continues: true });
    }
    ops
}

/// Applies `op` to the handle `id` without an envelope, and says if its bytes or any chain changed.
fn changes(world: &World, id: &str, op: &Op<'_>) -> bool {
    let mut after = world.clone();
    let frame = world.state.frame().next().unwrap();
    let place = Place { last: Last { frame, index: 0 }, at: Position { segment: 0, offset: u32::MAX } };
    after.state.apply(place, time_of(frame), id, op);
    let chains = |world: &World| {
        let of = |kind| ["k", "id", "other"].map(|key| world.state.last(kind, id, key));
        (of(HandleKind::Notes), of(HandleKind::Vector))
    };
    let snapshots = |world: &World| HandleKind::ALL.map(|kind| world.snapshot(kind, id));
    chains(&after) != chains(world) || snapshots(&after) != snapshots(world)
}

fn check_ignored<V: View>(kind: HandleKind, full: &World, view: impl Fn(&World) -> V) {
    for op in every_op().into_iter().filter(|op| op.kind() != kind) {
        let mut after = view(full);
        let place =
            Place { last: Last { frame: Frame(9), index: 0 }, at: Position { segment: 0, offset: u32::MAX } };
        after.apply(place, time_of(Frame(9)), &op);
        let before = view(full).snapshot(&full.log).unwrap();
        assert_eq!(after.snapshot(&full.log).unwrap(), before, "{op:?} on {}", kind.name());
    }
}

#[test]
fn a_delta_of_another_kind_changes_no_view() {
    let mut full = World::default();
    for op in [NOTE, EPISODE, ENTRY, row("id", &[1.0, 2.0])] {
        full.commit("h", &[op]);
    }
    check_ignored::<NotesView>(HandleKind::Notes, &full, |w| w.state.notes("h").unwrap().clone());
    check_ignored::<VectorView>(HandleKind::Vector, &full, |w| w.state.vectors("h").unwrap().clone());
    check_ignored::<EpisodicView>(HandleKind::Episodic, &full, |w| w.state.episodic("h").unwrap().clone());
    check_ignored::<WorkingView>(HandleKind::Working, &full, |w| w.state.working("h").unwrap().clone());
}

#[test]
fn a_row_that_cannot_be_one_changes_nothing() {
    let mut world = World::default();
    for embedding in [&[][..], &[f32::NAN], &[f32::INFINITY, 1.0], &[1.0, f32::NEG_INFINITY]] {
        assert!(!changes(&world, "h", &row("id", embedding)), "{embedding:?} in an empty table");
    }
    world.commit("h", &[row("id", &[1.0, 2.0])]);
    for embedding in [&[][..], &[1.0], &[1.0, 2.0, 3.0], &[f32::NAN, 1.0]] {
        assert!(!changes(&world, "h", &row("id", embedding)), "{embedding:?} over a row");
        assert!(!changes(&world, "h", &row("other", embedding)), "{embedding:?} beside a row");
    }
    assert!(changes(&world, "h", &row("other", &[3.0, 4.0])), "a row that fits is taken");
}

#[test]
fn an_embedder_of_another_width_than_the_rows_changes_nothing() {
    let mut world = World::default();
    for dim in [0, 65_537, u32::MAX] {
        assert!(!changes(&world, "h", &Op::Configure(embedder(dim))), "{dim} in an empty table");
    }
    assert!(changes(&world, "h", &Op::Configure(embedder(65_536))));
    world.commit("h", &[row("id", &[1.0, 2.0])]);
    assert!(!changes(&world, "h", &Op::Configure(embedder(3))));
    let head = Op::Snapshot { config: embedder(3), items: 0, continues: true };
    assert!(!changes(&world, "h", &head), "a head that continues");
    assert!(changes(&world, "h", &Op::Configure(embedder(2))));
}

#[test]
fn an_erased_delta_folds_to_nothing_or_to_a_placeholder() {
    let mut world = World::default();
    for op in [NOTE, EPISODE, ENTRY, row("id", &[1.0, 2.0])] {
        world.commit("h", &[op]);
    }
    for kind in HandleKind::ALL {
        for class in [Class::Put, Class::Remove, Class::Clear, Class::Configure, Class::Snapshot] {
            let placeholder =
                class == Class::Put && matches!(kind, HandleKind::Episodic | HandleKind::Working);
            let found = changes(&world, "h", &erased(kind, class));
            assert_eq!(found, placeholder, "{} of {}", class.name(), kind.name());
        }
    }
}

#[test]
fn configuring_or_clearing_notes_changes_nothing() {
    let mut world = World::default();
    world.commit("h", &[NOTE]);
    assert!(!changes(&world, "h", &Op::Clear(HandleKind::Notes)));
    assert!(!changes(&world, "h", &Op::Configure(Config::Notes)));
    assert!(!changes(&world, "h", &Op::Snapshot { config: Config::Notes, items: 0, continues: true }));
    assert!(changes(&world, "h", &Op::Snapshot { config: Config::Notes, items: 0, continues: false }));
}

#[test]
fn views_can_be_shared_between_threads() {
    fn check<T: Send + Sync + Clone + 'static>() {}
    check::<mnemolog::view::State>();
}
