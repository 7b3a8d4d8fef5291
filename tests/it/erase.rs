//! Erasing: what goes is in no file any more, and everything else is as if it had never been there.

mod beside;
mod crashes;
mod field;
mod histories;
mod lines;
mod random;
mod refusals;

use std::sync::Arc;

use mnemolog::disk::MemoryDisk;
use mnemolog::interchange::{DumpOptions, LoadOptions, dump, load};
use mnemolog::{Clock, Frame, Options, Store, Time, Writers};

/// A clock that stands where it was set.
#[derive(Debug)]
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Time {
        "2026-11-30T12:00:00Z".parse().expect("a time")
    }
}

fn options() -> Options {
    Options::new().segment_bytes(16 * 1024).clock(Arc::new(Noon)).checkpoint_distance(8 * 1024)
}

fn open(disk: &MemoryDisk, writers: Writers) -> Store {
    options().writers(writers).open_on(Arc::new(disk.clone())).expect("opens")
}

fn dumped(store: &Store) -> String {
    let mut out = Vec::new();
    dump(store, &mut out, DumpOptions::default()).expect("dumps");
    String::from_utf8(out).expect("UTF-8")
}

fn loaded(lines: &str) -> Store {
    let store = options().open_on(Arc::new(MemoryDisk::new())).expect("opens");
    load(&store, &mut lines.as_bytes(), LoadOptions::default()).unwrap_or_else(|e| panic!("{e}\n{lines}"));
    store
}

fn digest_at(store: &Store, frame: Frame) -> u128 {
    store.at(frame).and_then(|past| past.digest()).expect("a frame of the log")
}

/// The first frame that can be looked at.
fn oldest(store: &Store) -> Frame {
    match store.at(Frame::ZERO) {
        Err(mnemolog::Error::Compacted { oldest }) => oldest,
        _ => Frame::ZERO,
    }
}

/// The first file in which the text stands, or its JSON form, or 16 bytes of either.
fn holder(disk: &MemoryDisk, text: &str) -> Option<String> {
    let search = Search::new(text);
    disk.files().into_iter().find(|path| search.is_in(&disk.read_file(path).unwrap_or_default()))
}

/// Looks for any 16 bytes of a text and of its JSON form; for all of it, if it is shorter.
struct Search {
    parts: Vec<Vec<u8>>,
    /// Whether a part begins with these two bytes.
    begins: Vec<bool>,
}

impl Search {
    fn new(text: &str) -> Search {
        let quoted = mnemolog::Json::string(text);
        let written = &quoted.as_str()[1..quoted.as_str().len() - 1];
        let of = |text: &str| text.as_bytes().windows(text.len().min(16)).map(<[u8]>::to_vec).collect();
        let parts: Vec<Vec<u8>> = [of(text), of(written)].into_iter().flat_map(|p: Vec<Vec<u8>>| p).collect();
        let mut begins = vec![false; 1 << 16];
        parts.iter().for_each(|part| begins[usize::from(part[0]) << 8 | usize::from(part[1])] = true);
        Search { parts, begins }
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        bytes.windows(2).enumerate().any(|(at, pair)| {
            self.begins[usize::from(pair[0]) << 8 | usize::from(pair[1])]
                && self.parts.iter().any(|part| bytes[at..].starts_with(part))
        })
    }
}
