//! Rings and scratchpads that went on between two frames: what they lost and got, from the frames between alone.

use mnemolog::{Durability, Error, Frame, Json, Options, Result, Store, Workspace};

use super::shown;
use crate::model::Rng;

fn null() -> Json {
    Json::parse("null").expect("JSON")
}

/// A list before and after, as texts, oldest first.
type Lists = [(&'static str, Vec<String>, Vec<String>); 2];

fn lists(store: &Store, a: Frame, b: Frame) -> Result<Lists> {
    let (a, b) = (store.at(a)?.workspace("core")?, store.at(b)?.workspace("core")?);
    let turns = |ws: &Workspace| {
        let episodes = ws.episodic("turns")?.search_by_key("")?;
        Ok::<_, Error>(episodes.iter().map(|e| format!("{} {}", e.key, e.value)).collect::<Vec<_>>())
    };
    let pad = |ws: &Workspace| {
        let entries = ws.working("pad")?.entries();
        Ok::<_, Error>(
            entries.iter().map(|(label, content, _)| format!("{label} {content}")).collect::<Vec<_>>(),
        )
    };
    Ok([("episodic", turns(&a)?, turns(&b)?), ("working", pad(&a)?, pad(&b)?)])
}

/// What a comparison says a handle of this kind lost and got.
fn told(store: &Store, a: Frame, b: Frame, kind: &str) -> Result<(Vec<String>, Vec<String>)> {
    let diff = store.diff(a, b)?;
    let items = diff.handles.iter().filter(|h| h.handle.kind.name() == kind).flat_map(|h| &h.items);
    let (mut lost, mut got) = (Vec::new(), Vec::new());
    for item in items {
        let content = |content: &Option<mnemolog::view::diff::Content>| {
            content.as_ref().map(|content| format!("{} {}", item.item, content.text()))
        };
        lost.extend(content(&item.before));
        got.extend(content(&item.after));
    }
    Ok((lost, got))
}

#[test]
fn what_a_comparison_says_leads_from_one_frame_to_the_other() -> Result<()> {
    let (mut on, mut emptied) = (0, 0);
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let store = Store::in_memory()?;
        let ws = store.workspace("core")?;
        // Behind which frames each kind was emptied.
        let mut empties: [Vec<Frame>; 2] = Default::default();
        while store.appended() < Frame(24) {
            match rng.below(12) {
                0 => {
                    ws.episodic("turns")?.clear()?;
                    empties[0].push(store.appended());
                }
                1 => {
                    let pad = ws.working("pad")?;
                    pad.restore_bytes(&pad.snapshot_bytes()?)?;
                    empties[1].push(store.appended());
                }
                2 => ws.exclusive(|tx| {
                    let (turns, pad) = (tx.episodic("turns")?, tx.working("pad")?);
                    (0..3).try_for_each(|n| turns.record(&n.to_string(), &null()))?;
                    (0..3).try_for_each(|n| pad.push(&n.to_string(), "one of several in a frame"))
                })?,
                _ => record_or_push(&mut rng, &ws)?,
            }
        }
        for _ in 0..60 {
            let (a, b) = (Frame(rng.below(25)), Frame(rng.below(25)));
            let range = a.min(b).next().unwrap()..=a.max(b);
            for ((kind, before, after), empties) in lists(&store, a, b)?.into_iter().zip(&empties) {
                let (lost, got) = told(&store, a, b, kind)?;
                let at =
                    format!("seed {seed}, {kind}, {a} to {b}: {before:?} to {after:?}, -{lost:?} +{got:?}");
                if empties.iter().any(|frame| range.contains(frame)) {
                    // Compared by content: as many of each come out as went in.
                    let count = |lists: [&Vec<String>; 2]| {
                        let mut all: Vec<String> = lists.into_iter().flatten().cloned().collect();
                        all.sort();
                        all
                    };
                    assert_eq!(count([&before, &got]), count([&after, &lost]), "{at}");
                    emptied += 1;
                } else if a <= b {
                    assert_eq!(before[..lost.len()], lost, "{at}");
                    assert_eq!([&before[lost.len()..], &got[..]].concat(), after, "{at}");
                    on += usize::from(!lost.is_empty());
                } else {
                    assert_eq!(after[..got.len()], got, "{at}");
                    assert_eq!([&after[got.len()..], &lost[..]].concat(), before, "{at}");
                }
            }
        }
    }
    assert!(on > 500 && emptied > 500, "{on} went on, {emptied} were emptied");
    Ok(())
}

/// Most of the time one item more; else a bound is set.
fn record_or_push(rng: &mut Rng, ws: &Workspace) -> Result<()> {
    let key = ["a", "b"][rng.below(2) as usize];
    let text = ["one", "two words, and more"][rng.below(2) as usize];
    match rng.below(10) {
        0 => drop(ws.episodic("turns")?.with_max(rng.below(4) + 1)?),
        1 => drop(ws.working("pad")?.with_budget(rng.below(30))?),
        2..6 => ws.episodic("turns")?.record(key, &Json::string(text))?,
        _ => ws.working("pad")?.push(key, text)?,
    }
    Ok(())
}

#[test]
fn only_the_frames_between_and_what_was_evicted_are_read() -> Result<()> {
    let store = Store::in_memory()?;
    let turns = store.root().episodic("turns")?.with_max(100)?;
    let pad = store.root().working("pad")?.with_budget(600)?;
    for n in 0..150 {
        turns.record(&n.to_string(), &null())?;
        pad.push("a label", "what it says")?;
    }
    let begin = store.appended().0;
    (150..155).try_for_each(|n| turns.record(&n.to_string(), &null()))?;
    // As much as five others cost.
    pad.push("long", &"four".repeat(41))?;
    (0..4).try_for_each(|_| pad.push("a label", "what it says"))?;
    for n in 155..300 {
        turns.record(&n.to_string(), &null())?;
        pad.push("a label", "what it says")?;
    }
    for (a, b, kind, removed) in [(begin, begin + 10, "removed", 5 + 9), (begin + 10, begin, "added", 5 + 9)]
    {
        let before = store.reads();
        let lines = shown(&store, a, b);
        let after = store.reads();
        assert_eq!(lines.iter().filter(|line| line.contains(kind)).count(), removed, "{lines:#?}");
        assert_eq!(lines.len(), removed + 10);
        assert_eq!(after.frames - before.frames, 10 + removed as u64, "ten frames, and what they evicted");
        assert_eq!(after.envelopes, before.envelopes);
    }
    Ok(())
}

#[test]
fn what_came_and_went_in_between_is_no_difference() -> Result<()> {
    let store = Store::in_memory()?;
    let turns = store.root().episodic("turns")?.with_max(1)?;
    for key in ["a", "b", "c"] {
        turns.record(key, &null())?;
    }
    assert_eq!(
        shown(&store, 2, 4),
        ["episodic turns: removed a null > -", "episodic turns: added c - > null"]
    );
    Ok(())
}

#[test]
fn erased_and_compacted_items_are_compared_all_the_same() -> Result<()> {
    let store = Store::in_memory()?;
    let turns = store.root().episodic("turns")?.with_max(3)?;
    for key in ["a", "b", "c", "d", "e", "f", "g"] {
        turns.record(key, &null())?;
    }
    let gone = |lines: &[String]| lines.iter().filter(|line| line.contains("removed")).count();
    assert_eq!(gone(&shown(&store, 4, 6)), 2, "a and b were evicted by d and e");
    // An evicted one: it is in nobody's list any more. One that evicted: it does not say so any more.
    turns.erase("a")?;
    assert_eq!(shown(&store, 4, 6)[0], "episodic turns: removed b null > -");
    assert_eq!(gone(&shown(&store, 4, 6)), 1);
    turns.erase("e")?;
    let lines = shown(&store, 4, 6);
    assert_eq!(lines, ["episodic turns: removed b null > -", "episodic turns: added d - > null"]);
    // Frame 6 to 8: f and g evict c and d, which only the base holds now.
    store.compact(Frame(6), false)?;
    let lines = shown(&store, 6, 8);
    assert_eq!(gone(&lines), 2, "{lines:?}");
    turns.erase_all()?;
    assert_eq!(shown(&store, 6, 8), [""; 0]);
    Ok(())
}

#[test]
fn a_checkpoint_keeps_what_evictions_are_told_by() -> Result<()> {
    let disk = std::sync::Arc::new(mnemolog::disk::MemoryDisk::new());
    let open = || Options::new().durability(Durability::Os).open_on(disk.clone());
    let store = open()?;
    let fill = |store: &Store, from: u64| -> Result<()> {
        let (turns, pad) = (store.root().episodic("turns")?, store.root().working("pad")?);
        (from..from + 3).try_for_each(|n| {
            turns.record(&n.to_string(), &null())?;
            pad.push(&n.to_string(), "")
        })
    };
    store.root().episodic("turns")?.with_max(3)?;
    store.root().working("pad")?.with_budget(15)?;
    fill(&store, 0)?;
    store.checkpoint()?;
    store.close()?;
    let store = open()?;
    fill(&store, 3)?;
    let before = store.reads();
    let lines = shown(&store, 8, 14);
    assert_eq!(lines.iter().filter(|line| line.contains("removed")).count(), 6, "{lines:#?}");
    assert_eq!(store.reads().frames - before.frames, 6 + 6);
    // A state that was loaded compares with one that was folded.
    assert_eq!(shown(&store, 0, 14).iter().filter(|line| line.contains("added")).count(), 6);
    Ok(())
}
