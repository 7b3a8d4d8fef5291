//! Random histories over all kinds of delta: state and oracle agree, snapshots are all that later folds depend
//! on, and a clone never changes.

use std::collections::BTreeMap;

use mnemolog::codec::delta::HandleKind;
use mnemolog::position::Frame;
use mnemolog::view::{HandleId, State, View, notes::NoteBody};
use proptest::prelude::*;

use super::change::{Change, any_change, any_key};
use super::log::{Buffer, World, handle, time_of};
use super::oracle::Handles;

pub(crate) type Oracle = BTreeMap<&'static str, Handles>;
pub(crate) type History = Vec<(&'static str, Change)>;

const IDS: [&str; 2] = ["core/x", "y"];

pub(crate) fn any_history() -> impl Strategy<Value = History> {
    proptest::collection::vec(any_change(), 0..60)
}

fn play(world: &mut World, history: &History) -> Oracle {
    let mut oracle = Oracle::new();
    play_on(world, history, &mut oracle);
    oracle
}

/// The same, on a world that has a history.
pub(crate) fn play_on(world: &mut World, history: &History, oracle: &mut Oracle) {
    for (id, change) in history {
        let frame = world.commit(id, &change.ops());
        oracle.entry(id).or_default().apply(frame, change);
    }
}

pub(crate) fn agree(state: &State, log: &Buffer, oracle: &Oracle) {
    for id in IDS {
        let handles = oracle.get(id).cloned().unwrap_or_default();
        agree_on_notes(state, log, id, &handles);
        agree_on_rows(state, log, id, &handles);
        agree_on_ring(state, log, id, &handles);
        agree_on_entries(state, id, &handles);
        assert_eq!(state.cleared(id), handles.cleared, "the last clear of {id}");
        for kind in [HandleKind::Notes, HandleKind::Vector] {
            for key in ["", "a", "b", "B", "a/b", "a/c", "a-/a", "z", "é", "a/b/c", "/", "  ", "never"] {
                let last = handles.chains.get(&(kind, key.to_owned())).copied().unwrap_or_default();
                assert_eq!(state.last(kind, id, key), last, "the chain of {key:?} in {id}");
            }
        }
    }
}

fn agree_on_notes(state: &State, log: &Buffer, id: &str, oracle: &Handles) {
    let view = state.notes(id).cloned().unwrap_or_default();
    assert_eq!(view.keys().collect::<Vec<_>>(), oracle.keys_in_order());
    assert_eq!(view.len(), oracle.notes.len());
    for (key, saved) in &oracle.notes {
        let note = view.get(key, log).unwrap().unwrap();
        assert_eq!((&note.key, &note.summary, note.body.as_str()), (key, &saved.summary, &*saved.body));
        assert_eq!(matches!(note.body, NoteBody::Json(_)), saved.json);
        assert_eq!((note.frame, note.time), (saved.frame, time_of(saved.frame)));
    }
    let named = |key: &&str| {
        let saved = &oracle.notes[*key];
        let texts = [*key, saved.summary.as_deref().unwrap_or_default(), &saved.body];
        texts.iter().any(|text| text.to_lowercase().contains("ada"))
    };
    let expected: Vec<&str> = oracle.keys_in_order().into_iter().filter(named).collect();
    let found = view.find("aDa", log).unwrap();
    assert_eq!(found.iter().map(|m| m.key.as_str()).collect::<Vec<_>>(), expected);
    assert_eq!(view.find("", log).unwrap().len(), oracle.notes.len());
}

fn agree_on_rows(state: &State, log: &Buffer, id: &str, oracle: &Handles) {
    let view = state.vectors(id).cloned().unwrap_or_default();
    let ids: Vec<&str> = view.heads().map(|head| head.id).collect();
    assert_eq!(ids, oracle.rows.keys().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((view.len(), view.dim()), (oracle.rows.len(), oracle.dim()));
    let embedder = view.identity().map(|identity| (identity.name.to_string(), identity.dim));
    assert_eq!(embedder, oracle.embedder);
    for (id, expected) in &oracle.rows {
        let row = view.get(id, log).unwrap().unwrap();
        assert_eq!((&row.id, &row.text, row.metadata.as_str()), (id, &expected.text, &*expected.metadata));
        let bits = |floats: &[f32]| floats.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!((bits(&row.embedding), row.frame), (bits(&expected.embedding), expected.frame));
    }
}

fn agree_on_ring(state: &State, log: &Buffer, id: &str, oracle: &Handles) {
    let view = state.episodic(id).cloned().unwrap_or_default();
    let expected: Vec<_> = oracle.ring.iter().flatten().collect();
    assert_eq!((view.len(), view.max()), (expected.len(), oracle.max));
    let mut recent = view.recent(usize::MAX, log).unwrap();
    assert_eq!(view.recent(2, log).unwrap(), recent[..recent.len().min(2)]);
    recent.reverse();
    assert_eq!(recent.len(), expected.len());
    for (found, expected) in recent.iter().zip(&expected) {
        assert_eq!((&found.key, found.value.as_str()), (&expected.key, &*expected.value));
        assert_eq!((found.timestamp_ms, found.frame), (expected.timestamp_ms, expected.frame));
        assert_eq!(found.time, time_of(expected.frame));
    }
    let a: Vec<_> = recent.into_iter().filter(|episode| episode.key.starts_with('a')).collect();
    assert_eq!(view.search_by_key("a", log).unwrap(), a);
}

fn agree_on_entries(state: &State, id: &str, oracle: &Handles) {
    let view = state.working(id).cloned().unwrap_or_default();
    let found: Vec<_> = view
        .entries()
        .map(|entry| (entry.tokens, entry.label.to_owned(), entry.content.to_owned()))
        .collect();
    let expected: Vec<_> = oracle
        .entries
        .iter()
        .filter_map(|(tokens, said)| said.clone().map(|(label, content)| (*tokens, label, content)))
        .collect();
    assert_eq!(found, expected);
    assert_eq!((view.len(), view.current_tokens()), (expected.len(), oracle.tokens()));
    assert_eq!(view.configured_budget(), oracle.budget);
}

fn all_handles() -> Vec<HandleId> {
    HandleKind::ALL.into_iter().flat_map(|kind| IDS.map(|id| handle(kind, id))).collect()
}

pub(crate) fn snapshots(world: &World) -> Vec<Vec<u8>> {
    all_handles().iter().map(|handle| world.state.snapshot(handle, &world.log).unwrap()).collect()
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_fold_agrees_with_the_oracle(history in any_history()) {
        let mut world = World::default();
        let oracle = play(&mut world, &history);
        agree(&world.state, &world.log, &oracle);
        prop_assert_eq!(world.state.frame(), Frame(history.len() as u64));
        let used = all_handles().into_iter().filter(|handle| {
            let unused = World::default().snapshot(handle.kind, "unused");
            world.snapshot(handle.kind, &handle.id) != unused
        });
        prop_assert_eq!(world.state.handles().collect::<Vec<_>>(), used.collect::<Vec<_>>());
    }

    #[test]
    fn a_clone_is_not_changed_by_later_deltas(history in any_history(), cut in 0..60usize) {
        let mut world = World::default();
        let (early, late) = history.split_at(cut.min(history.len()));
        let oracle = play(&mut world, &early.to_vec());
        let past = world.state.clone();
        play(&mut world, &late.to_vec());
        agree(&past, &world.log, &oracle);
        prop_assert_eq!(past.frame(), Frame(early.len() as u64));
    }

    #[test]
    fn a_snapshot_is_all_that_later_folds_depend_on(early in any_history(), late in any_history()) {
        let mut world = World::default();
        play(&mut world, &early);
        let before = snapshots(&world);
        prop_assert_eq!(&snapshots(&world), &before, "a snapshot taken twice");
        let mut restored = World::default();
        for (handle, bytes) in all_handles().iter().zip(&before) {
            restored.restore(handle.kind, &handle.id, bytes);
        }
        prop_assert_eq!(&snapshots(&restored), &before, "a snapshot brought into a fresh state");
        play(&mut world, &late);
        play(&mut restored, &late);
        prop_assert_eq!(snapshots(&restored), snapshots(&world), "the same deltas later");
    }

    #[test]
    fn a_snapshot_does_not_hold_frames_times_or_places(history in any_history()) {
        let mut world = World::default();
        let mut elsewhere = World::beginning_at(4096, 33);
        play(&mut world, &history);
        play(&mut elsewhere, &history);
        prop_assert_eq!(snapshots(&world), snapshots(&elsewhere));
        let digest = |world: &World| world.state.handle_digests(&world.log).unwrap();
        prop_assert_eq!(digest(&world), digest(&elsewhere));
    }

    #[test]
    fn a_digest_is_that_of_the_stated_bytes(history in any_history()) {
        let mut world = World::default();
        play(&mut world, &history);
        let mut bytes = Vec::new();
        let mut each = Vec::new();
        let unused = |kind| World::default().snapshot(kind, "unused");
        for handle in all_handles() {
            let snapshot = world.snapshot(handle.kind, &handle.id);
            if snapshot == unused(handle.kind) {
                continue;
            }
            let tag = 1 + HandleKind::ALL.iter().position(|kind| *kind == handle.kind).unwrap() as u8;
            bytes.push(tag);
            bytes.extend((handle.id.len() as u64).to_le_bytes());
            bytes.extend(handle.id.bytes());
            bytes.extend((snapshot.len() as u64).to_le_bytes());
            bytes.extend(&snapshot);
            each.push((handle, xxhash_rust::xxh3::xxh3_128(&snapshot)));
        }
        let (whole, found) = world.state.handle_digests(&world.log).unwrap();
        prop_assert_eq!(whole, xxhash_rust::xxh3::xxh3_128(&bytes));
        prop_assert_eq!(world.state.digest(&world.log).unwrap(), whole);
        let lens: Vec<usize> = found.iter().map(|found| found.len).collect();
        let expected: Vec<usize> = each.iter().map(|(handle, _)| world.state.len_of(handle)).collect();
        prop_assert_eq!(lens, expected);
        let found: Vec<_> = found.into_iter().map(|found| (found.handle, found.digest)).collect();
        prop_assert_eq!(found, each);
    }

    #[test]
    fn notes_are_found_by_the_key_they_were_given(keys in proptest::collection::vec(any_key(), 0..40)) {
        let mut world = World::default();
        for key in &keys {
            let body = format!("body of {key}");
            let change = Change::Remember { key: key.clone(), summary: None, body, json: false };
            world.commit("y", &change.ops());
        }
        for key in &keys {
            let view = world.state.notes("y").unwrap();
            prop_assert_eq!(view.recall(key, &world.log), format!("body of {key}"));
        }
    }
}
