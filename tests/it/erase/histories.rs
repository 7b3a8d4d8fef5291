//! Random histories, before and after: no byte of the secret, and otherwise what the oracle says, frame by frame.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mnemolog::codec::delta::HandleKind;
use mnemolog::disk::MemoryDisk;
use mnemolog::view::HandleId;
use mnemolog::{Erase, Frame, Store};
use serde_json::Value;

use super::lines::{Goes, without};
use super::random::World;
use super::{digest_at, dumped, holder, loaded, oldest, open, options};
use crate::model::{Rng, WORKSPACES};

/// How many histories are searched for a text, and how many for keys and handles.
const TEXTS: u64 = 380;
const NAMES: u64 = 130;

fn handle(kind: HandleKind, workspace: &str) -> HandleId {
    let name = match kind {
        HandleKind::Notes => "memory",
        HandleKind::Vector => "rows",
        HandleKind::Episodic => "turns",
        HandleKind::Working => "pad",
    };
    HandleId { kind, id: format!("{workspace}/{name}").into() }
}

/// Something to erase by name, and the same for the oracle.
fn named(rng: &mut Rng, secret: &str) -> (Erase, Goes) {
    let kind = HandleKind::ALL[rng.below(4) as usize];
    let handle = handle(kind, WORKSPACES[rng.below(2) as usize]);
    if rng.chance(3) {
        return (Erase::handle(handle.clone()), Goes::Handle(kind.name(), handle.id.to_string()));
    }
    let key = match rng.below(8) {
        0 => format!("k/{secret}/0"),
        n => ["", "a", "a/b", "b", "ünï", "c/d/e"][n as usize % 6].to_owned(),
    };
    let goes = Goes::Key(kind.name(), handle.id.to_string(), key.clone());
    (Erase::key(handle, key), goes)
}

/// Holds a store against the oracle's lines: they are its dump, and folding them gives each of its states.
fn check(store: &Store, expected: &[Value], context: &str) {
    let found: Vec<Value> =
        dumped(store).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected, "{context}");
    }
    assert_eq!(found.len(), expected.len(), "{context}");
    let lines: Vec<String> = expected.iter().map(Value::to_string).collect();
    let oracle = loaded(&lines.join("\n"));
    assert_eq!(store.appended(), oracle.appended(), "{context}");
    for (found, expected) in digests(store).iter().zip(digests(&oracle)) {
        assert_eq!(*found, expected, "{context}");
    }
    let some = Frame((store.appended().0 * 2).div_ceil(3).max(oldest(store).0));
    assert_eq!(digest_at(store, some), digest_at(&oracle, some), "{context}, {some}");
    assert_eq!(store.digest().expect("digest"), oracle.digest().expect("digest"), "{context}, live");
}

/// The digest of each frame, by its number.
fn digests(store: &Store) -> Vec<(Frame, u128)> {
    let mut digests = Vec::new();
    let visit = &mut |step: &mut mnemolog::Step<'_>| {
        let digest = step.digest()?;
        digests.push((step.frame(), digest));
        Ok(())
    };
    drop(store.replay(store.appended(), visit).expect("replays"));
    digests
}

fn check_files(disk: &MemoryDisk, context: &str) {
    let verified = mnemolog::log::verify(disk).expect("reads");
    assert!(verified.is_whole(), "{context}: {:?}", verified.findings);
}

/// How many deltas and items are erased in these lines, and in how many frames there is an origin.
fn counts(lines: &[Value]) -> (u64, u64) {
    let erased = |line: &Value| {
        let items = line["args"]["items"].as_array().into_iter().flatten();
        items.filter(|item| item.get("erased").is_some()).count() + usize::from(line["op"] == "erased")
    };
    let origins: BTreeSet<u64> = lines
        .iter()
        .filter(|line| line.get("origin").is_some())
        .filter_map(|l| l["frame"].as_u64())
        .collect();
    (lines.iter().map(erased).sum::<usize>() as u64, origins.len() as u64)
}

#[test]
fn a_text_is_in_no_file_and_the_rest_is_as_if_it_had_never_been_there() {
    let mut places: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..TEXTS {
        let context = format!("seed {seed}");
        let mut world = World::new(seed, false);
        if seed % 4 == 0 {
            world.write_base(12);
        }
        let store = world.write(30);
        world.places.iter().for_each(|place| *places.entry(place).or_default() += 1);
        let before = dumped(&store);
        let expected = without(&before, &Goes::Text(world.secret.clone()));
        let erase = Erase::containing(world.secret.as_str());
        let told = store.erase(&erase.clone().dry_run(true)).expect("tells");
        assert_eq!(dumped(&store), before, "{context}: a dry run does nothing");
        let receipt = store.erase(&erase).unwrap_or_else(|e| panic!("{context}: {e}"));
        let was: Vec<Value> = before.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let ((erased, origins), (now, left)) = (counts(&was), counts(&expected));
        assert_eq!(receipt.blanked(), now - erased + origins - left, "{context}: {receipt:?}");
        assert_eq!((told.found(), told.blanked()), (receipt.found(), receipt.blanked()), "{context}");
        assert_eq!(holder(&world.disk, &world.secret), None, "{context}");
        check(&store, &expected, &context);
        check_files(&world.disk, &context);
        assert!(!format!("{receipt:?}").contains(&world.secret), "{context}: a receipt can be kept");
        let again = store.erase(&erase).expect("erases");
        assert!(!again.found(), "{context}: nothing is left of it");
        store.root().notes().remember("after", "", "life goes on").expect("writes");
        if seed % 50 == 49 {
            println!("{} histories", seed + 1);
        }
        drop(store);
        let store = open(&world.disk, world.writers);
        assert_eq!(store.root().notes().recall("after"), "life goes on", "{context}");
        assert_eq!(holder(&world.disk, &world.secret), None, "{context}: neither when it is opened again");
    }
    let all = [
        "key",
        "summary",
        "body",
        "name in a body",
        "JSON body",
        "id",
        "text",
        "metadata key",
        "metadata value",
        "episode key",
        "episode name",
        "episode value",
        "label",
        "content",
        "origin",
    ];
    for place in all {
        assert!(places.get(place).is_some_and(|n| *n >= 10), "{place} is hardly ever tried: {places:?}");
    }
}

#[test]
fn a_key_or_a_handle_goes_with_all_its_history_and_nothing_else_changes() {
    let mut found = 0;
    for seed in 0..NAMES {
        let mut world = World::new(1000 + seed, false);
        if seed % 4 == 0 {
            world.write_base(12);
        }
        let store = world.write(30);
        let reader = options().open_read_only_on(Arc::new(world.disk.clone())).expect("opens");
        // One after the other: what was erased stays so.
        for round in 0..2 {
            let (erase, goes) = named(&mut world.rng, &world.secret);
            let context = format!("seed {seed}, round {round}, {goes:?}");
            let expected = without(&dumped(&store), &goes);
            let receipt = store.erase(&erase).unwrap_or_else(|e| panic!("{context}: {e}"));
            found += u64::from(receipt.found());
            check(&store, &expected, &context);
            check_files(&world.disk, &context);
            reader.refresh().expect("reads on");
            assert_eq!(reader.digest().expect("digest"), store.digest().expect("digest"), "{context}");
            if let Goes::Handle(_, id) = &goes
                && !dumped(&store).contains(&format!("{id}\""))
            {
                assert_eq!(holder(&world.disk, id), None, "{context}");
            }
        }
    }
    assert!(found > NAMES / 2, "much of what is named is there: {found}");
}
