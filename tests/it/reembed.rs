//! Embedding a table anew: the old vectors until the switch, the new ones from it on, whatever comes between.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mnemolog::disk::{Disk, Fault, MemoryDisk, Tear};
use mnemolog::interchange::{DumpOptions, LoadOptions, dump, load};
use mnemolog::view::HandleId;
use mnemolog::{EmbedError, Embedder, Erase, Error, Json, Store, StubEmbedder, VectorItem, VectorStore, log};

use crate::model::Rng;
use crate::tail::options;

/// An embedder of its own name that counts its texts, and can be made to answer wrongly from one on.
#[derive(Debug)]
struct Other {
    asked: AtomicUsize,
    bad_from: usize,
    bad: Bad,
}

#[derive(Clone, Copy, Debug)]
enum Bad {
    Never,
    Fails,
    Missing,
    Width,
    NotANumber,
    Zeros,
}

impl Other {
    fn new() -> Other {
        Other::bad(usize::MAX, Bad::Never)
    }

    fn bad(bad_from: usize, bad: Bad) -> Other {
        Other { asked: AtomicUsize::new(0), bad_from, bad }
    }
}

fn vector(text: &str) -> Vec<f32> {
    let hash = text.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    vec![1.0, (hash % 1000) as f32, 0.5]
}

impl Embedder for Other {
    fn name(&self) -> &str {
        "other"
    }

    fn dim(&self) -> usize {
        3
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        Ok(vector(text))
    }

    fn embed_batch(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let asked = self.asked.fetch_add(texts.len(), Ordering::Relaxed) + texts.len();
        let mut vectors: Vec<_> = texts.iter().map(|text| vector(text)).collect();
        if asked > self.bad_from {
            match self.bad {
                Bad::Never => {}
                Bad::Fails => return Err(EmbedError::new("the service is overloaded")),
                Bad::Missing => drop(vectors.pop()),
                Bad::Width => vectors[0].push(1.0),
                Bad::NotANumber => vectors[0][1] = f32::NAN,
                Bad::Zeros => vectors[0].fill(0.0),
            }
        }
        Ok(vectors)
    }
}

fn shared(disk: &MemoryDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn open(disk: &MemoryDisk) -> Store {
    options().open_on(shared(disk)).expect("opens")
}

fn table(store: &Store) -> VectorStore {
    store.workspace("core").expect("a path").vectors("docs").expect("a name")
}

fn filled(disk: &MemoryDisk, rows: usize) -> Store {
    let store = open(disk);
    let item = |n| VectorItem {
        id: format!("id{n}"),
        text: format!("text number {n}"),
        metadata: Json::parse(&format!(r#"{{"n":{n}}}"#)).expect("JSON"),
    };
    for items in (0..rows).map(item).collect::<Vec<_>>().chunks(100) {
        table(&store).upsert_batch(items).expect("stored");
    }
    store
}

/// Every row has the vector of its text by the other embedder.
fn check_new(store: &Store, rows: usize) {
    let table = table(store);
    assert_eq!(table.len(), rows);
    assert_eq!(table.identity().map(|identity| identity.name.into_owned()).as_deref(), Some("other"));
    for n in 0..rows {
        let row = table.get(&format!("id{n}")).expect("readable").expect("there");
        assert_eq!(row.text, format!("text number {n}"));
        assert_eq!(
            (row.metadata.as_str(), &row.embedding),
            (&*format!(r#"{{"n":{n}}}"#), &vector(&row.text))
        );
    }
    let names: BTreeSet<_> = store.handles().into_iter().map(|(handle, _)| handle.id.to_string()).collect();
    assert_eq!(names, BTreeSet::from(["core/docs".to_owned()]), "nothing else is left");
}

fn quiet() -> impl FnMut(mnemolog::Reembedding) {
    |_| {}
}

#[test]
fn a_table_is_switched_over_in_one_frame_and_searched_by_the_old_vectors_until_then() {
    let disk = MemoryDisk::new();
    let store = filled(&disk, 600);
    let table = table(&store);
    let (before, bytes) = (store.appended(), table.snapshot_bytes().expect("readable"));
    let mut told = Vec::new();
    let done = table
        .reembed(&Other::new(), &mut |at| {
            told.push(at.done);
            assert_eq!(table.snapshot_bytes().expect("readable"), bytes, "nothing is to be seen yet");
            assert_eq!(table.search("number 7", 1).expect("searches").len(), 1);
        })
        .expect("embedded");
    assert_eq!(told, [0, 256, 512, 600]);
    assert_eq!((done.rows, done.embedded, done.switched), (600, 600, true));
    check_new(&store, 600);
    let last = store.appended();
    let then = store.at(last.previous()).expect("there").workspace("core").expect("a path");
    assert_eq!(then.vectors("docs").expect("a name").snapshot_bytes().expect("readable"), bytes);
    assert!(last.0 - before.0 <= 4, "three batches and the switch");
    let versions: Vec<_> = table.history("id7").map(|version| version.expect("readable")).collect();
    assert_eq!(versions.len(), 2, "the version before the switch is its history");
    let with_other = table.clone().with_embedder(Arc::new(Other::new()));
    assert_eq!(with_other.search("text number 7", 600).expect("searches").len(), 600);
    assert!(matches!(table.search("x", 1), Err(Error::EmbedderMismatch { .. })), "the old one is refused");
    let again = table.reembed(&Other::new(), &mut quiet()).expect("nothing to do");
    assert_eq!((again.switched, again.embedded, store.appended()), (false, 0, last));
    store.close().expect("closes");
    check_new(&open(&disk), 600);
}

#[test]
fn an_embedder_that_fails_changes_nothing_and_a_second_try_goes_on() {
    for bad in [Bad::Fails, Bad::Missing, Bad::Width, Bad::NotANumber, Bad::Zeros] {
        for from in [0, 300] {
            let disk = MemoryDisk::new();
            let store = filled(&disk, 700);
            let bytes = table(&store).snapshot_bytes().expect("readable");
            let before = store.appended();
            let refused = table(&store).reembed(&Other::bad(from, bad), &mut quiet()).expect_err("it fails");
            assert!(matches!(refused, Error::Embedding(_)), "{bad:?}: {refused}");
            assert_eq!(table(&store).snapshot_bytes().expect("readable"), bytes, "{bad:?}");
            assert_eq!(store.appended() == before, from == 0, "{bad:?}");
            drop(store);
            let store = open(&disk);
            let done = table(&store).reembed(&Other::new(), &mut quiet()).expect("embedded");
            assert_eq!(
                done.embedded,
                if from == 0 { 700 } else { 444 },
                "what was embedded is not asked for again"
            );
            check_new(&store, 700);
        }
    }
}

#[test]
fn another_embedder_begins_anew_and_an_abandoned_one_leaves_nothing() {
    let store = filled(&MemoryDisk::new(), 300);
    let (table, digest) = (table(&store), store.digest().expect("readable"));
    table.reembed(&Other::bad(256, Bad::Fails), &mut quiet()).expect_err("it fails");
    assert_ne!(store.digest().expect("readable"), digest);
    table.abandon_reembed().expect("given up");
    assert_eq!(store.digest().expect("readable"), digest);
    table.reembed(&Other::bad(256, Bad::Fails), &mut quiet()).expect_err("it fails");
    let done = table.reembed(&StubEmbedder::with_dim(32), &mut quiet()).expect("embedded");
    assert_eq!(
        (done.embedded, table.get("id3").expect("readable").expect("there").embedding.len()),
        (300, 32)
    );
    assert_eq!(store.handles().len(), 1);
}

/// An embedder beside whose first batches somebody writes to the table.
#[derive(Debug)]
struct Busy {
    store: Store,
    batches: AtomicUsize,
    writes: usize,
}

impl Embedder for Busy {
    fn name(&self) -> &str {
        "other"
    }

    fn dim(&self) -> usize {
        3
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        let batch = self.batches.fetch_add(1, Ordering::Relaxed);
        if batch < self.writes {
            let table = table(&self.store);
            // The last one only changes what is there: nothing but its text tells that it is new.
            if batch + 1 < self.writes {
                table.upsert(&format!("late{batch}"), "late", &Json::object()).expect("stored");
            }
            table.upsert("id5", &format!("changed {batch}"), &Json::object()).expect("stored");
            let _ = table.delete(&format!("id{}", 10 + batch));
        }
        Ok(vector(text))
    }

    fn embed_batch(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed("")?;
        Ok(texts.iter().map(|text| vector(text)).collect())
    }
}

#[test]
fn rows_that_are_written_or_deleted_meanwhile_are_followed() {
    for writes in [1, 5, 9] {
        let store = filled(&MemoryDisk::new(), 300);
        let busy = Busy { store: store.clone(), batches: AtomicUsize::new(0), writes };
        let done = table(&store).reembed(&busy, &mut quiet()).expect("embedded");
        assert_eq!(done.rows, 299, "one more went than came");
        let table = table(&store);
        assert_eq!(table.len(), 299);
        assert_eq!(
            table.get("id5").expect("readable").expect("there").text,
            format!("changed {}", writes - 1)
        );
        for id in (0..300).map(|n| format!("id{n}")).chain((0..writes).map(|n| format!("late{n}"))) {
            if let Some(row) = table.get(&id).expect("readable") {
                assert_eq!(row.embedding, vector(&row.text), "{id}");
            }
        }
        assert!(table.get("id10").expect("readable").is_none(), "what was deleted does not come back");
    }
}

#[test]
fn a_crash_at_any_call_leaves_the_old_vectors_or_the_new_and_the_next_try_finishes() {
    let (mut old, mut new, mut call) = (0, 0, 0);
    loop {
        let mut done = false;
        for mode in 0..2 {
            let (disk, mut rng) = (MemoryDisk::simulated(), Rng::new(call * 2 + mode));
            let store = filled(&disk, 258);
            let bytes = table(&store).snapshot_bytes().expect("readable");
            disk.crash_at(call);
            done = table(&store).reembed(&Other::new(), &mut quiet()).is_ok();
            let tear = if rng.chance(2) { Tear::Byte } else { Tear::Sector };
            disk.power_loss(&mut |n| if mode == 0 { 0 } else { rng.below(n) }, tear);
            drop(store);
            let store = open(&disk);
            let switched = table(&store).identity().is_some_and(|identity| identity.name == "other");
            assert!(switched || !done, "call {call}: it was done, and it is gone");
            if switched {
                new += 1;
                check_new(&store, 258);
            } else {
                old += 1;
                assert_eq!(table(&store).snapshot_bytes().expect("readable"), bytes, "call {call}");
            }
            table(&store).reembed(&Other::new(), &mut quiet()).expect("goes on");
            check_new(&store, 258);
        }
        if done {
            break;
        }
        call += 1;
    }
    assert!(old > 2 && new > 1, "{old} old, {new} new after {call} calls");
}

#[test]
fn a_failed_write_leaves_the_table_as_it_was() {
    for call in 0.. {
        let disk = MemoryDisk::simulated();
        let store = filled(&disk, 258);
        let bytes = table(&store).snapshot_bytes().expect("readable");
        disk.fail_at(call, Fault::Full);
        let result = table(&store).reembed(&Other::new(), &mut quiet());
        let failed = !disk.fired().is_empty();
        disk.clear_faults();
        if result.is_err() && table(&store).identity().is_none_or(|identity| identity.name != "other") {
            assert_eq!(table(&store).snapshot_bytes().expect("readable"), bytes, "call {call}");
        }
        drop(store);
        let store = open(&disk);
        table(&store).reembed(&Other::new(), &mut quiet()).expect("goes on");
        check_new(&store, 258);
        if !failed {
            break;
        }
    }
}

#[test]
fn what_a_repair_left_of_it_is_given_up_or_replaced_too() {
    let digest = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(b"text number 0"));
    for rows_go in [false, true] {
        let disk = MemoryDisk::new();
        let store = filled(&disk, 600);
        table(&store).reembed(&Other::bad(512, Bad::Fails), &mut quiet()).expect_err("it fails");
        store.close().expect("closes");
        drop(store);
        // The first batch says which embedder it is; the second stays.
        let holds = |name: &String| {
            let bytes = disk.read_file(name)?;
            let at = bytes.windows(32).position(|bytes| bytes == digest.as_bytes())?;
            Some((name.clone(), at as u64))
        };
        let (name, at) = disk.files().iter().find_map(holds).expect("it stands in the log");
        disk.flip(&name, at, 0).expect("a byte of it");
        let wait = std::time::Duration::ZERO;
        log::repair(&shared(&disk), wait, true, mnemolog::Time::ZERO).expect("repaired");
        let store = open(&disk);
        assert_eq!(store.handles().len(), 2, "there are vectors of nobody knows whom");
        if rows_go {
            table(&store).clear().expect("cleared");
            table(&store).reembed(&Other::new(), &mut quiet()).expect("embedded");
        } else {
            table(&store).abandon_reembed().expect("given up");
        }
        assert_eq!(store.handles().len(), 1, "rows go: {rows_go}");
        let done = table(&store).reembed(&Other::new(), &mut quiet()).expect("embedded");
        assert_eq!((done.rows, done.switched), if rows_go { (0, false) } else { (600, true) });
    }
}

#[test]
fn a_dump_from_the_middle_loads_and_goes_on() {
    let store = filled(&MemoryDisk::new(), 600);
    table(&store).reembed(&Other::bad(256, Bad::Fails), &mut quiet()).expect_err("it fails");
    let mut lines = Vec::new();
    dump(&store, &mut lines, DumpOptions::default()).expect("dumped");
    let copy = open(&MemoryDisk::new());
    load(&copy, &mut lines.as_slice(), LoadOptions::default()).expect("loads");
    assert_eq!(copy.digest().ok(), store.digest().ok());
    let done = table(&copy).reembed(&Other::new(), &mut quiet()).expect("embedded");
    assert_eq!(done.embedded, 600 - 256);
    check_new(&copy, 600);
    assert!(store.root().vectors("docs~reembed").is_err(), "no program reaches it");
}

#[test]
fn a_past_a_reader_and_a_critical_section_refuse_it() {
    let disk = MemoryDisk::new();
    let store = filled(&disk, 3);
    let past = store.at(store.appended()).expect("there").workspace("core").expect("a path");
    let reader = options().open_read_only_on(shared(&disk)).expect("opens");
    for refused in [past.vectors("docs").expect("a name"), table(&reader)] {
        assert!(matches!(refused.reembed(&Other::new(), &mut quiet()), Err(Error::ReadOnly)));
    }
    let core = store.workspace("core").expect("a path");
    let inside = core.exclusive(|tx| tx.vectors("docs")?.reembed(&Other::new(), &mut quiet()));
    assert!(matches!(inside, Err(Error::InsideExclusive { .. })), "{inside:?}");
    let unused = store.root().vectors("unused").expect("a name");
    assert_eq!(unused.reembed(&Other::new(), &mut quiet()).expect("nothing to embed").rows, 0);
}

#[test]
fn what_is_erased_goes_from_the_vectors_under_way_too() {
    use mnemolog::codec::delta::HandleKind;
    let handle = || HandleId { kind: HandleKind::Vector, id: "core/docs".into() };
    for erase in
        [Erase::key(handle(), "id100"), Erase::containing("text number 100"), Erase::handle(handle())]
    {
        let disk = MemoryDisk::new();
        let store = filled(&disk, 300);
        table(&store).reembed(&Other::bad(256, Bad::Fails), &mut quiet()).expect_err("it fails");
        let digest = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(b"text number 100"));
        let holds = || {
            let files = disk.files().into_iter().filter_map(|name| disk.read_file(&name));
            files
                .map(|bytes| bytes.windows(32).filter(|bytes| *bytes == digest.as_bytes()).count())
                .sum::<usize>()
        };
        assert!(holds() > 0);
        store.erase(&erase).expect("erased");
        assert_eq!(holds(), 0, "{erase:?}");
    }
}
