//! A small log of the specimens, whole, compacted, or with a change of several files under way, changed as the
//! input says, then opened for reading and for writing, read in every
//! way, written to, and verified.
//!
//! Laws: nothing panics; what `verify` calls whole opens; reading and writing agree on what is there; what opens
//! for writing takes a write and has it, and all before it, after reopening; and where no change could forge a
//! checksum, what DURABLE or any whole frame promises is there or the store says that it is damaged.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use mnemolog::codec::frame::{self, Seed};
use mnemolog::codec::intent::INTENT_MAGIC;
use mnemolog::codec::segment::{DURABLE_BYTES, DURABLE_MAGIC, Durable, FRAMES_START, SegmentHeader};
use mnemolog::disk::MemoryDisk;
use mnemolog::error::Error;
use mnemolog::{Frame, Store};

use super::checksums::{mend_file, mend_segment};
use super::input::Input;
use super::look;

type Files = BTreeMap<&'static str, Vec<u8>>;

const FIRST: &str = "log/00000000000000000001.seg";
const DURABLE: &str = "DURABLE";
const INTENT: &str = "INTENT";

macro_rules! specimen {
    ($name:literal) => {
        include_bytes!(concat!("../../../format/golden/v1/", $name)).as_slice()
    };
}

/// The logs: two segments of every operation; one that ends unsynced; a seal without a successor; lost frames; zeros
/// behind what is promised; a base in two files; and a compaction that was stated, with none, one and all of its new
/// files in place.
pub(crate) const LOGS: [&[(&str, &[u8])]; 9] = [
    &[
        (DURABLE, specimen!("whole/DURABLE")),
        (FIRST, specimen!("whole/log/00000000000000000001.seg")),
        ("log/00000000000000000006.seg", specimen!("whole/log/00000000000000000006.seg")),
    ],
    &[(FIRST, specimen!("torn-payload.twin/log/00000000000000000001.seg"))],
    &[(FIRST, specimen!("sealed-end/log/00000000000000000001.seg"))],
    &[(FIRST, specimen!("lost/log/00000000000000000001.seg"))],
    &[
        (DURABLE, specimen!("zero-tail/DURABLE")),
        (FIRST, specimen!("zero-tail/log/00000000000000000001.seg")),
    ],
    &[
        (DURABLE, specimen!("base/DURABLE")),
        ("log/00000000000000000008.1.base", specimen!("base/log/00000000000000000008.1.base")),
        ("log/00000000000000000008.2.base", specimen!("base/log/00000000000000000008.2.base")),
        ("log/00000000000000000008.seg", specimen!("base/log/00000000000000000008.seg")),
    ],
    &compaction(["log/00000000000000c4.1.tmp", "log/00000000000000c4.2.tmp"]),
    &compaction(["log/00000000000000000003.seg", "log/00000000000000c4.2.tmp"]),
    &compaction(["log/00000000000000000003.seg", "log/00000000000000000003.1.base"]),
];

/// The specimen with an INTENT, its new segment and its new base under the names that they have at the time.
const fn compaction([segment, base]: [&str; 2]) -> [(&str, &[u8]); 5] {
    [
        (DURABLE, specimen!("intent/DURABLE")),
        (INTENT, specimen!("intent/INTENT")),
        (FIRST, specimen!("intent/log/00000000000000000001.seg")),
        (segment, specimen!("intent/log/00000000000000000003.seg")),
        (base, specimen!("intent/log/00000000000000c4.2.tmp")),
    ]
}

/// What a log holds unchanged: the digest of every frame, and every place that promises something.
struct Truth {
    digests: Vec<Option<u128>>,
    promises: Vec<Promise>,
}

/// As long as these bytes stand where they stood, every frame up to this one was acknowledged.
struct Promise {
    path: &'static str,
    range: Range<usize>,
    frame: Frame,
}

static TRUTHS: LazyLock<Vec<Truth>> = LazyLock::new(|| {
    let truth = |log: &&[(&'static str, &'static [u8])]| {
        let disk = disk_with(&log.iter().map(|(path, bytes)| (*path, bytes.to_vec())).collect());
        let store = look::open_read_only(&disk).expect("a good specimen");
        let promises = log.iter().flat_map(|(path, bytes)| promises(path, bytes)).collect();
        Truth { digests: digests(&store), promises }
    };
    LOGS.iter().map(truth).collect()
});

fn promises(path: &'static str, bytes: &[u8]) -> Vec<Promise> {
    if path == DURABLE {
        let frame = Durable::decode(bytes).expect("a good specimen").frame;
        return vec![Promise { path, range: 0..bytes.len(), frame }];
    }
    if path == INTENT {
        return Vec::new();
    }
    let seed = Seed::new(SegmentHeader::decode_either(bytes).expect("a good specimen").salt);
    let (mut at, mut found) = (FRAMES_START as usize, Vec::new());
    while let Ok(whole) = frame::decode(&bytes[at..], at as u64, &seed) {
        let range = at..at + whole.header.frame_bytes();
        at = range.end;
        found.push(Promise { path, range, frame: whole.header.durable });
    }
    found
}

impl Truth {
    /// The highest frame that the files, as they are now, promise.
    fn promised(&self, which: usize, files: &Files) -> Frame {
        let stands = |promise: &&Promise| {
            let unchanged = LOGS[which].iter().find(|(path, _)| *path == promise.path).expect("a file").1;
            let now = files.get(promise.path).and_then(|file| file.get(promise.range.clone()));
            now == Some(&unchanged[promise.range.clone()])
        };
        self.promises.iter().filter(stands).map(|promise| promise.frame).max().unwrap_or_default()
    }
}

fn disk_with(files: &Files) -> MemoryDisk {
    let disk = MemoryDisk::new();
    for (path, bytes) in files {
        disk.write_file(path, bytes).expect("a file in memory");
    }
    disk
}

/// The digest of each frame from 0 on; none of one that was lost.
fn digests(store: &Store) -> Vec<Option<u128>> {
    (0..=store.appended().0).map(|frame| digest(store, frame)).collect()
}

fn digest(store: &Store, frame: u64) -> Option<u128> {
    store.at(Frame(frame)).and_then(|past| past.digest()).ok()
}

pub(crate) fn run(data: &[u8]) {
    let input = &mut Input::new(data);
    let which = input.place(LOGS.len());
    let mut files: Files = LOGS[which].iter().map(|(path, bytes)| (*path, bytes.to_vec())).collect();
    let mut honest = true;
    for _ in 0..input.below(5) {
        honest &= change(input, &mut files);
    }
    let disk = disk_with(&files);
    let verified = mnemolog::log::verify(&disk);
    let reader = look::open_read_only(&disk);
    let seen = reader.as_ref().ok().map(|store| {
        look::around(store);
        (store.appended(), digests(store))
    });
    if let Ok(report) = &verified
        && report.is_whole()
        // Without a file of the log there is nothing to open, and nobody promised that there is.
        && report.segments > 0
    {
        let store = reader.as_ref().unwrap_or_else(|e| panic!("whole, and does not open: {e}"));
        assert_eq!(store.appended(), report.last, "the last frame: {report:?}");
        assert!(store.recovery().damage.is_none(), "{:?} in what is whole", store.recovery().damage);
    }
    match look::open(&disk) {
        Ok(store) => {
            if let Some((last, digests_seen)) = &seen {
                agree(&store, *last, digests_seen);
            }
            if honest {
                kept(&store, &TRUTHS[which], TRUTHS[which].promised(which, &files));
            }
            goes_on(&disk, store, input);
        }
        Err(Error::Damaged(_)) => {
            let whole = verified.is_ok_and(|report| report.is_whole());
            assert!(!whole, "verify finds nothing in what opening calls damaged");
        }
        Err(_) => {}
    }
}

/// A writer sees what a reader saw. Behind a lost range at the very end it may count that range, which reads as
/// nothing.
fn agree(writer: &Store, last: Frame, seen: &[Option<u128>]) {
    let digests = digests(writer);
    assert!(writer.appended() >= last, "a reader saw {last}, a writer {}", writer.appended());
    assert_eq!(digests[..seen.len()], *seen, "a reader and a writer see the same");
    assert!(digests[seen.len()..].iter().all(Option::is_none), "a writer sees more than a reader");
}

/// One change. Answers whether it forges no checksum, and leaves alone which log it is.
fn change(input: &mut Input<'_>, files: &mut Files) -> bool {
    let paths: Vec<&str> = files.keys().copied().collect();
    if paths.is_empty() {
        return true;
    }
    let path = input.pick(&paths);
    let what = input.below(10);
    let file = files.get_mut(path).expect("one of the files");
    // Mostly where frames are, which is near the beginning.
    let reach = if input.chance(4) { file.len() } else { file.len().min(6200) };
    let anywhere = input.chance(8) || file.len() <= 4096;
    let at = if anywhere { input.place(reach) } else { (4096 + input.place(2048)).min(file.len()) };
    let len = (1 + input.place(64)).min(file.len() - at);
    match what {
        0 if !file.is_empty() => {
            let at = at.min(file.len() - 1);
            file[at] ^= 1 << input.below(8);
        }
        1 => file[at..at + len].fill(0),
        2 => file.truncate(at),
        3 => {
            let from = input.place(file.len() - len + 1);
            file.copy_within(from..from + len, at);
        }
        4 => file.resize(file.len() + input.place(9000), 0),
        5 => drop(files.remove(path)),
        6 => {
            let bytes = input.bytes(64);
            let bytes = &bytes[..bytes.len().min(file.len() - at)];
            file[at..at + bytes.len()].copy_from_slice(bytes);
            return false;
        }
        7 => {
            match path {
                DURABLE => mend_file(file, DURABLE_MAGIC, DURABLE_BYTES),
                INTENT => {
                    let len = file.len();
                    mend_file(file, INTENT_MAGIC, len);
                }
                _ => mend_segment(file),
            }
            return false;
        }
        8 => {
            let name = input.pick(&["INTENT", "log/00000000000000000009.seg", "log/x", "checkpoints/1"]);
            let bytes = if input.chance(2) { file.clone() } else { input.bytes(80).to_vec() };
            files.insert(name, bytes);
            return false;
        }
        _ => {
            let tail = file[at..].to_vec();
            file.extend_from_slice(&tail);
        }
    }
    // Without its INTENT the log is the one before the change.
    path != INTENT
}

/// What was promised is there, and every frame holds what it held.
fn kept(store: &Store, truth: &Truth, promised: Frame) {
    let last = store.appended();
    assert!(last >= promised, "frame {promised} was promised, and the log opens with {last}");
    // Where every file is gone a new store begins, whose frame 0 is not compacted.
    for frame in 1..=last.0 {
        let digest = truth.digests.get(frame as usize).copied().flatten();
        assert_eq!(self::digest(store, frame), digest, "frame {frame}");
    }
}

/// The store takes a write, and has it and everything before it after reopening.
fn goes_on(disk: &MemoryDisk, store: Store, input: &mut Input<'_>) {
    look::around(&store);
    let before = (store.appended(), digests(&store));
    let written = store.root().notes().remember("after", "", "the change");
    let after = store.appended();
    if input.chance(2) {
        let _ = store.close();
    }
    drop(store);
    if written.is_err() {
        return;
    }
    let store =
        look::open(disk).unwrap_or_else(|e| panic!("it opened, was written to, and does not open: {e}"));
    assert_eq!(store.appended(), after, "what was acknowledged is there");
    assert!(store.recovery().cut.is_none(), "one opening mends it");
    assert_eq!(digests(&store)[..before.1.len()], before.1, "every earlier frame is as it was");
    assert_eq!(store.root().notes().recall("after"), "the change");
}
