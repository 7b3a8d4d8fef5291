//! Checkpoints that are damaged, cut, of another store or of another version cost time and nothing else.

use super::*;

/// A store with two checkpoints and a tail, its digest, and the digest of every frame.
fn store(seed: u64) -> (MemoryDisk, u128, Vec<u128>) {
    let (mut rng, disk) = (Rng::new(seed), MemoryDisk::new());
    let store = open(&disk);
    write(&store, &mut rng, 25);
    store.checkpoint().unwrap();
    let path = checkpoints(&disk).pop().unwrap();
    let first = disk.read_file(&path).unwrap();
    write(&store, &mut rng, 25);
    store.checkpoint().unwrap();
    // The first one was not needed any more; here it is.
    disk.write_file(&path, &first).unwrap();
    write(&store, &mut rng, 10);
    let digest = store.digest().unwrap();
    drop(store);
    let digests = digests(&disk);
    (disk, digest, digests)
}

/// Opens, and holds the state and a few pasts against those of the log. Answers the checkpoint that served.
fn check(disk: &MemoryDisk, (digest, digests): (u128, &[u128]), what: &str) -> Option<Frame> {
    let store = options().open_read_only_on(Arc::new(disk.clone())).unwrap();
    assert_eq!(store.digest().unwrap(), digest, "{what}");
    for n in (0..digests.len()).step_by(7) {
        assert_eq!(store.at(Frame(n as u64)).unwrap().digest().unwrap(), digests[n], "{what}: frame {n}");
    }
    store.opened().checkpoint
}

fn copy(disk: &MemoryDisk) -> MemoryDisk {
    let copy = without_checkpoints(disk);
    for path in checkpoints(disk) {
        copy.write_file(&path, &disk.read_file(&path).unwrap()).unwrap();
    }
    copy
}

/// Replaces the newest checkpoint.
fn replaced(disk: &MemoryDisk, change: impl FnOnce(&mut Vec<u8>)) -> MemoryDisk {
    let copy = copy(disk);
    let path = checkpoints(disk).pop().unwrap();
    let mut bytes = disk.read_file(&path).unwrap();
    change(&mut bytes);
    copy.remove_file(&path).unwrap();
    copy.write_file(&path, &bytes).unwrap();
    copy
}

#[test]
fn any_flipped_bit_sends_opening_to_the_checkpoint_before() {
    let (disk, digest, digests) = store(1);
    let frames: Vec<Frame> =
        Checkpoints::new(Arc::new(disk.clone()), false).list().iter().map(|c| c.frame).collect();
    assert_eq!(check(&disk, (digest, &digests), "sound"), Some(frames[1]));
    let len = disk.read_file(&checkpoints(&disk)[1]).unwrap().len();
    let header = 0..CHECKPOINT_HEADER_BYTES;
    for at in header.chain((CHECKPOINT_HEADER_BYTES..len).step_by(97)) {
        let disk = replaced(&disk, |bytes| bytes[at] ^= 1 << (at % 8));
        assert_eq!(check(&disk, (digest, &digests), &format!("byte {at}")), Some(frames[0]));
    }
}

#[test]
fn a_cut_or_a_longer_or_an_empty_file_is_no_checkpoint() {
    let (disk, digest, digests) = store(2);
    let len = disk.read_file(&checkpoints(&disk)[1]).unwrap().len();
    for cut in (0..len).step_by(131) {
        let disk = replaced(&disk, |bytes| bytes.truncate(cut));
        assert!(check(&disk, (digest, &digests), &format!("cut at {cut}")).is_some());
    }
    let disk = replaced(&disk, |bytes| bytes.push(0));
    assert!(check(&disk, (digest, &digests), "a byte more").is_some());
    let none = without_checkpoints(&disk);
    assert_eq!(check(&none, (digest, &digests), "none"), None);
}

#[test]
fn contents_that_decode_to_something_else_never_panic() {
    let (disk, digest, digests) = store(3);
    let mut rng = Rng::new(3);
    for n in 0..400 {
        let disk = replaced(&disk, |bytes| {
            let at =
                CHECKPOINT_HEADER_BYTES + rng.below((bytes.len() - CHECKPOINT_HEADER_BYTES) as u64) as usize;
            bytes[at] = rng.next() as u8;
            let mut header = CheckpointHeader::decode(bytes).unwrap();
            header.digest = xxhash_rust::xxh3::xxh3_128(&bytes[CHECKPOINT_HEADER_BYTES..]);
            bytes[..CHECKPOINT_HEADER_BYTES].copy_from_slice(&header.encode());
        });
        // The digest vouches for what is false here, so no answer is promised; but there is one.
        let store = options().open_read_only_on(Arc::new(disk.clone()));
        let Ok(store) = store else { panic!("change {n} keeps the store from opening") };
        let _ = (store.digest(), store.at(Frame(digests.len() as u64 - 1)).map(|past| past.digest()));
        let _ = digest;
    }
}

#[test]
fn a_checkpoint_of_another_store_or_version_is_none() {
    let (disk, digest, digests) = store(4);
    let (other, _, _) = store(5);
    let foreign = without_checkpoints(&disk);
    for path in checkpoints(&other) {
        foreign.write_file(&path, &other.read_file(&path).unwrap()).unwrap();
    }
    assert_eq!(check(&foreign, (digest, &digests), "foreign"), None);
    let version = copy(&disk);
    for path in checkpoints(&disk) {
        let mut bytes = disk.read_file(&path).unwrap();
        let mut header = CheckpointHeader::decode(&bytes).unwrap();
        header.fold_version += 1;
        bytes[..CHECKPOINT_HEADER_BYTES].copy_from_slice(&header.encode());
        version.remove_file(&path).unwrap();
        version.write_file(&path, &bytes).unwrap();
    }
    assert_eq!(check(&version, (digest, &digests), "another fold"), None);
}

#[test]
fn a_checkpoint_of_a_copy_that_went_its_own_way_is_none() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    write(&store, &mut Rng::new(8), 20);
    drop(store);
    let other = without_checkpoints(&disk);
    // Frames of one length: files, salts, numbers and places are the same in both, and what is in the last is not.
    for (disk, body) in [(&disk, "one"), (&other, "two")] {
        let store = open(disk);
        store.root().notes().remember("same", "", body).unwrap();
        if body == "one" {
            store.checkpoint().unwrap();
        }
    }
    for path in checkpoints(&disk) {
        other.write_file(&path, &disk.read_file(&path).unwrap()).unwrap();
    }
    let store = options().open_read_only_on(Arc::new(other)).unwrap();
    assert_eq!(store.root().notes().recall("same"), "two");
    assert_eq!(store.opened().checkpoint, None);
}

#[test]
fn a_checkpoint_from_before_the_log_went_back_is_none() {
    let (disk, ..) = store(6);
    // A copy of the log from before its last frames, with the checkpoints of later.
    let early = MemoryDisk::new();
    let mut rng = Rng::new(6);
    let store = open(&early);
    write(&store, &mut rng, 25);
    store.checkpoint().unwrap();
    let old = copy(&early);
    write(&store, &mut rng, 25);
    store.checkpoint().unwrap();
    drop(store);
    for path in checkpoints(&early) {
        old.write_file(&path, &early.read_file(&path).unwrap()).unwrap();
    }
    let store = open(&old);
    assert_eq!(store.digest().unwrap(), open(&without_checkpoints(&old)).digest().unwrap());
    assert!(store.opened().checkpoint < Some(Frame(26)));
    drop(disk);
}

#[test]
fn a_disk_that_fails_under_a_checkpoint_costs_only_time() {
    let (disk, digest, _) = store(7);
    for call in 0..40 {
        let simulated = MemoryDisk::simulated();
        for path in disk.files() {
            simulated.write_file(&path, &disk.read_file(&path).unwrap()).unwrap();
        }
        let inner = simulated.clone();
        let listed = Checkpoints::new(Arc::new(simulated.clone()), false);
        inner.fail_at(call, mnemolog::disk::Fault::Io);
        let found = listed.list();
        assert!(found.iter().all(|listed| listed.frame > Frame::ZERO));
        for checkpoint in &found {
            drop(listed.load(checkpoint));
        }
        inner.clear_faults();
        let store = options().open_read_only_on(Arc::new(simulated)).unwrap();
        assert_eq!(store.digest().unwrap(), digest);
    }
}

#[test]
fn opening_from_a_checkpoint_makes_a_promise_again_that_was_lost() {
    let disk = MemoryDisk::new();
    let dying = disk.process();
    let store = options().open_on(Arc::new(dying.clone())).unwrap();
    write(&store, &mut Rng::new(3), 5);
    store.checkpoint().unwrap();
    let last = store.appended();
    dying.kill();
    disk.remove_file("DURABLE").unwrap();
    let dying = disk.process();
    let store = options().open_on(Arc::new(dying.clone())).unwrap();
    assert_eq!(store.opened().checkpoint, Some(last));
    dying.kill();
    drop(store);
    // A checkpoint is a cache; without it the last frame is promised all the same.
    let reader = options().open_read_only_on(Arc::new(without_checkpoints(&disk))).unwrap();
    assert_eq!(reader.durable(), last);
}
