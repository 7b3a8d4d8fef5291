//! What differs between two frames: by key in notes and tables, by order in rings, by what a reader sees.

use mnemolog::codec::delta::HandleKind;
use mnemolog::view::diff::{Change, Content, Difference, HandleDiff};
use mnemolog::{Error, Frame, Json, Result, Store, Workspace};

use crate::model::Rng;

mod rings;

/// Everything that differs, as short texts.
fn shown(store: &Store, before: u64, after: u64) -> Vec<String> {
    let diff = store.diff(Frame(before), Frame(after)).expect("diff");
    assert_eq!((diff.before, diff.after), (Frame(before), Frame(after)));
    let mut lines = Vec::new();
    for handle in &diff.handles {
        let name = format!("{} {}", handle.handle.kind.name(), handle.handle.id);
        lines.extend(handle.config.as_ref().map(|_| format!("{name}: configured")));
        lines.extend(handle.items.iter().map(|item| {
            let text =
                |content: &Option<Content>| content.as_ref().map_or("-".into(), |c| c.text().to_owned());
            let (before, after) = (text(&item.before), text(&item.after));
            format!("{name}: {} {} {before} > {after}", item.change.name(), item.item)
        }));
    }
    lines
}

#[test]
fn notes_and_rows_differ_by_key() -> Result<()> {
    let store = Store::in_memory()?;
    let core = store.workspace("core")?;
    let (notes, docs) = (core.notes(), core.vectors("docs")?);
    notes.remember("b/c", "s", "one")?;
    notes.remember("a", "s", "two")?;
    docs.upsert("x", "red fox", &Json::object())?;
    notes.remember("z", "s", "three")?;
    notes.remember("a", "s", "four")?;
    notes.forget("b/c")?;
    docs.upsert("x", "red fox", &Json::parse("1")?)?;
    docs.upsert("y", "blue hen", &Json::object())?;
    assert_eq!(
        shown(&store, 3, 8),
        [
            "notes core/memory: changed a two > four",
            "notes core/memory: added z - > three",
            "notes core/memory: removed b/c one > -",
            "vector core/docs: changed x red fox > red fox",
            "vector core/docs: added y - > blue hen",
        ]
    );
    assert_eq!(
        shown(&store, 8, 3),
        [
            "notes core/memory: changed a four > two",
            "notes core/memory: removed z three > -",
            "notes core/memory: added b/c - > one",
            "vector core/docs: changed x red fox > red fox",
            "vector core/docs: removed y blue hen > -",
        ]
    );
    assert_eq!(shown(&store, 0, 3)[2], "vector core/docs: configured");
    assert!(shown(&store, 5, 5).is_empty());
    let diff = store.diff(Frame(4), Frame(5))?;
    let item = &diff.handles[0].items[0];
    let (Some(Content::Note(before)), Some(Content::Note(after))) = (&item.before, &item.after) else {
        panic!("{item:?}")
    };
    assert_eq!((item.change, before.frame, after.frame), (Change::Changed, Frame(2), Frame(5)));
    Ok(())
}

#[test]
fn what_was_written_again_as_it_was_is_no_difference() -> Result<()> {
    let store = Store::in_memory()?;
    let core = store.workspace("core")?;
    core.notes().remember("a", "s", "b")?;
    core.vectors("docs")?.upsert("x", "red fox", &Json::object())?;
    let turns = core.episodic("turns")?;
    turns.record("k", &Json::string("v"))?;
    turns.record("l", &Json::string("w"))?;
    core.working("pad")?.push("l", "c")?;
    let before = store.appended();
    for _ in 0..2 {
        core.notes().restore_bytes(&core.notes().snapshot_bytes()?)?;
        core.vectors("docs")?.restore_bytes(&core.vectors("docs")?.snapshot_bytes()?)?;
        turns.restore_bytes(&turns.snapshot_bytes()?)?;
        core.working("pad")?.restore_bytes(&core.working("pad")?.snapshot_bytes()?)?;
    }
    core.notes().remember("a", "s", "b")?;
    assert_eq!(shown(&store, before.0, store.appended().0), [""; 0]);
    core.notes().remember("a", "another summary", "b")?;
    assert_eq!(shown(&store, before.0, store.appended().0), ["notes core/memory: changed a b > b"]);
    Ok(())
}

#[test]
fn rings_differ_by_what_they_lost_and_got() -> Result<()> {
    let store = Store::in_memory()?;
    let turns = store.root().episodic("turns")?.with_max(2)?;
    let pad = store.root().working("pad")?;
    let record = |key: &str| turns.record(key, &Json::string("same"));
    for key in ["a", "b", "a"] {
        record(key)?;
    }
    pad.push("l", "one")?;
    pad.push("l", "two")?;
    let then = store.appended().0;
    assert_eq!(
        shown(&store, 3, 4),
        [r#"episodic turns: removed a "same" > -"#, r#"episodic turns: added a - > "same""#,]
    );
    pad.clear()?;
    pad.push("l", "two")?;
    pad.push("l", "one")?;
    assert_eq!(shown(&store, then, then + 3).len(), 2, "the order differs: one of them moved");
    pad.clear()?;
    for (label, content) in [("l", "one"), ("m", "new"), ("l", "two")] {
        pad.push(label, content)?;
    }
    assert_eq!(shown(&store, then, store.appended().0), ["working pad: added m - > new"]);
    let turns = turns.with_max(1)?;
    turns.clear()?;
    assert_eq!(
        shown(&store, then, store.appended().0)[..3],
        [
            "episodic turns: configured",
            r#"episodic turns: removed b "same" > -"#,
            r#"episodic turns: removed a "same" > -"#,
        ]
    );
    Ok(())
}

#[test]
fn frames_that_are_not_there_are_refused() -> Result<()> {
    let store = Store::in_memory()?;
    store.root().notes().remember("a", "", "")?;
    for (a, b) in [(0, 2), (2, 0)] {
        let found = store.diff(Frame(a), Frame(b));
        assert!(matches!(found, Err(Error::NoSuchFrame { asked: Frame(2), last: Frame(1) })), "{found:?}");
    }
    Ok(())
}

fn step(rng: &mut Rng, ws: &Workspace) -> Result<()> {
    let key = ["a", "b", "a/b"][rng.below(3) as usize];
    let text = ["one", "two words", ""][rng.below(3) as usize];
    let (docs, turns, pad) = (ws.vectors("docs")?, ws.episodic("turns")?, ws.working("pad")?);
    match rng.below(14) {
        0..3 => drop(ws.notes().remember(key, text, text)?),
        3 => drop(ws.notes().forget(key)?),
        4..6 => docs.upsert(key, text, &Json::string(text))?,
        6 => match docs.delete(key) {
            Err(Error::NotFound { .. }) => {}
            other => other?,
        },
        7..9 => turns.record_at(key, &Json::string(text), rng.below(2) as i64)?,
        9 => drop(turns.with_max(rng.below(4) + 1)?),
        10..12 => pad.push(key, text)?,
        12 => drop(pad.with_budget(rng.below(20))?),
        _ => match rng.below(4) {
            0 => docs.clear()?,
            1 => turns.clear()?,
            2 => pad.clear()?,
            _ => turns.restore_bytes(&turns.snapshot_bytes()?)?,
        },
    }
    Ok(())
}

/// Each note and row that differs, with what a reader sees before and after.
type ByKey = Vec<(&'static str, String, Option<String>, Option<String>)>;

fn seen(content: &Content) -> Option<String> {
    match content {
        Content::Note(note) => Some(format!("{:?} {:?}", note.summary, note.body)),
        Content::Row(row) => Some(format!("{} {} {:?}", row.text, row.metadata, row.embedding)),
        _ => None,
    }
}

fn by_key(handles: &[HandleDiff]) -> ByKey {
    let keyed = |handle: &&HandleDiff| matches!(handle.handle.kind, HandleKind::Notes | HandleKind::Vector);
    let item = |kind: HandleKind, item: &Difference| {
        let side = |content: &Option<Content>| content.as_ref().and_then(seen);
        (kind.name(), item.item.clone(), side(&item.before), side(&item.after))
    };
    let items =
        |handle: &HandleDiff| handle.items.iter().map(|i| item(handle.handle.kind, i)).collect::<Vec<_>>();
    handles.iter().filter(keyed).flat_map(items).collect()
}

/// The same, from reading all keys in both pasts.
fn compared(store: &Store, a: Frame, b: Frame) -> Result<ByKey> {
    let (a, b) = (store.at(a)?.workspace("core")?, store.at(b)?.workspace("core")?);
    let mut differing = Vec::new();
    for key in ["a", "b", "a/b"] {
        let note =
            |ws: &Workspace| Ok::<_, Error>(ws.notes().get(key)?.and_then(|note| seen(&Content::Note(note))));
        differing.push(("notes", key.to_owned(), note(&a)?, note(&b)?));
    }
    for id in ["a", "a/b", "b"] {
        let row = |ws: &Workspace| {
            Ok::<_, Error>(ws.vectors("docs")?.get(id)?.and_then(|row| seen(&Content::Row(row))))
        };
        differing.push(("vector", id.to_owned(), row(&a)?, row(&b)?));
    }
    differing.retain(|(_, _, before, after)| before != after);
    Ok(differing)
}

#[test]
fn a_comparison_reads_the_frames_between_and_what_it_shows() -> Result<()> {
    let store = Store::in_memory()?;
    let core = store.workspace("core")?;
    let (notes, docs) = (core.notes(), core.vectors("docs")?);
    docs.upsert("x", "red fox", &Json::object())?;
    for n in 0..500 {
        notes.remember(&format!("k{}", n % 50), "", &n.to_string())?;
    }
    let begin = store.appended().0;
    notes.remember("k1", "", "changed")?;
    notes.remember("k1", "", "and again")?;
    notes.forget("k2")?;
    notes.remember("new", "", "added")?;
    docs.upsert("x", "blue hen", &Json::object())?;
    docs.upsert("y", "added", &Json::object())?;
    notes.remember("k3", "", "453")?;
    notes.remember("passing", "", "by")?;
    notes.forget("passing")?;
    docs.delete("y")?;
    for n in 0..500 {
        notes.remember(&format!("k{}", n % 50), "", &n.to_string())?;
    }
    for (a, b) in [(begin, begin + 10), (begin + 10, begin)] {
        let before = store.reads();
        let lines = shown(&store, a, b);
        let after = store.reads();
        assert_eq!(lines.len(), 4, "k1, k2, new and x: {lines:?}");
        // k3 was written again as it had been, which only its earlier version says.
        assert_eq!(after.frames - before.frames, 10 + 4, "ten frames, and k1, k2, k3 and x as they were");
        assert_eq!(after.envelopes, before.envelopes);
    }
    Ok(())
}

#[test]
fn a_row_that_was_cleared_before_is_added_and_not_changed() -> Result<()> {
    let store = Store::in_memory()?;
    let docs = store.root().vectors("docs")?;
    docs.upsert("x", "one", &Json::object())?;
    docs.clear()?;
    docs.upsert("x", "two", &Json::object())?;
    docs.clear()?;
    docs.clear()?;
    assert_eq!(shown(&store, 2, 3), ["vector docs: added x - > two"]);
    assert_eq!(shown(&store, 1, 3), ["vector docs: changed x one > two"]);
    Ok(())
}

#[test]
fn frames_that_differ_in_nothing_have_equal_snapshots_and_the_other_way_round() -> Result<()> {
    let mut equal = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let store = Store::in_memory()?;
        let ws = store.workspace("core")?;
        while store.appended() < Frame(20) {
            step(&mut rng, &ws)?;
        }
        for _ in 0..40 {
            let (a, b) = (Frame(rng.below(21)), Frame(rng.below(21)));
            let same = store.at(a)?.digest()? == store.at(b)?.digest()?;
            let diff = store.diff(a, b)?;
            let nothing = diff.handles.is_empty();
            assert!(same || !nothing, "seed {seed}, {a} and {b}");
            // A ring that lost and got the same has the same snapshot.
            let rings =
                diff.handles.iter().all(|h| h.handle.kind >= HandleKind::Episodic && h.config.is_none());
            assert!(!same || rings, "seed {seed}, {a} and {b}: {diff:?}");
            assert_eq!(by_key(&diff.handles), compared(&store, a, b)?, "seed {seed}, {a} and {b}");
            equal += u64::from(same && a != b);
        }
    }
    assert!(equal > 20, "{equal} pairs of frames were equal");
    Ok(())
}
