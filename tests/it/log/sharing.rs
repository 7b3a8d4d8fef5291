//! Groups of many writing processes, and readers beside them, at the calls where they could mix two logs.

use std::sync::Arc;
use std::time::Duration;

use mnemolog::disk::{Disk, MemoryDisk};
use mnemolog::error::Error;
use mnemolog::log::{self, CatchUp, Fold, Index, Log, Met, Mode, Stay, Writers};
use mnemolog::position::{Frame, Position, Time};

use super::{DEFAULT, List, SMALL, append, memory, open, options, time};

/// Takes in what others appended, and does something where the log is opened anew.
struct Taking<'l> {
    list: List,
    at_opening: Box<dyn Fn() + 'l>,
}

impl CatchUp for Taking<'_> {
    fn now(&self) -> Time {
        (self.at_opening)();
        time(1)
    }

    fn fold(&mut self) -> &mut dyn Fold {
        &mut self.list
    }

    fn install(&mut self, swap: &mut dyn FnMut()) {
        swap();
    }
}

fn taking<'l>(at_opening: impl Fn() + 'l) -> Taking<'l> {
    Taking { list: List::default(), at_opening: Box::new(at_opening) }
}

fn many(disk: &Arc<dyn Disk>) -> Log {
    let mode = Mode::Write { lock_wait: Duration::ZERO, allow_network: true, now: time(1) };
    let mut opening = log::open(disk, options(DEFAULT), mode, &mut List::default()).unwrap();
    Log::new(disk.clone(), options(DEFAULT), Writers::Many, Duration::ZERO, &mut opening).unwrap()
}

#[test]
fn a_log_that_is_closed_while_it_is_opened_anew_stays_closed() {
    let (_, shared) = memory();
    let log = many(&shared);
    // Nothing was promised yet, so the quick look does not suffice.
    let turn = log.join(Stay::Commit, &mut taking(|| log.close().unwrap())).unwrap();
    assert!(matches!(log.writer().map(drop), Err(Error::Closed)));
    drop(turn);
    assert!(matches!(log.join(Stay::Commit, &mut taking(|| ())).map(drop), Err(Error::Closed)));
}

#[test]
fn a_member_that_leaves_without_waiting_locks_nobody_out_and_lowers_no_promise() {
    let (disk, shared) = memory();
    let log = many(&shared);
    let turn = log.join(Stay::Commit, &mut taking(|| ())).unwrap();
    append(&log, "k1", 1, 10).unwrap();
    drop(turn);
    let other = many(&shared);
    let turn = other.join(Stay::Commit, &mut taking(|| ())).unwrap();
    let frame = append(&other, "k2", 1, 10).unwrap().frame;
    other.wait_durable(frame).unwrap();
    drop(turn);
    let promise = disk.read_file("DURABLE");
    log.flush().unwrap();
    assert_eq!(log.durable(), Frame(1));
    assert_eq!(disk.read_file("DURABLE"), promise, "the promise is another's by now");
    log.join(Stay::Commit, &mut taking(|| ())).map(drop).unwrap();
    assert_eq!((log.appended(), log.durable()), (Frame(2), Frame(2)));
}

/// Puts equal files in the place of all of the log when it meets its second frame, once.
struct Replacing {
    disk: MemoryDisk,
    begun: usize,
    met: usize,
}

impl Fold for Replacing {
    fn begin(&mut self) {
        (self.begun, self.met) = (self.begun + 1, 0);
    }

    fn frame(&mut self, _: &Met<'_>) {
        self.met += 1;
        if (self.begun, self.met) == (1, 2) {
            for path in self.disk.files().into_iter().filter(|path| path.ends_with(".seg")) {
                let bytes = self.disk.read_file(&path).unwrap();
                self.disk.remove_file(&path).unwrap();
                self.disk.write_file(&path, &bytes).unwrap();
            }
        }
    }
}

#[test]
fn a_reader_starts_over_when_files_are_replaced_under_their_names() {
    let (disk, shared) = memory();
    let writing = open(&shared, SMALL).unwrap();
    writing.fill(30, 500);
    let mut fold = Replacing { disk: disk.clone(), begun: 0, met: 0 };
    let opening = log::open(&shared, options(SMALL), Mode::Read, &mut fold).unwrap();
    assert_eq!((fold.begun, fold.met), (2, 30), "half of it was folded from files that are gone");
    for file in opening.files.now().iter() {
        assert_eq!(shared.id(&format!("log/{}", file.id())).unwrap(), file.file_id());
    }
}

#[test]
fn an_index_that_grows_by_parts_is_as_sparse_as_one_that_grew_by_frames() {
    let (mut whole, mut parts) = (Index::default(), Index::default());
    for n in 1..=640_u32 {
        let (frame, at) = (Frame(n.into()), Position { segment: 0, offset: 8 * n });
        whole.commit(frame, time(n.into()), at);
        let mut part = Index::default();
        part.commit(frame, time(n.into()), at);
        parts.append(part);
    }
    assert_eq!(format!("{parts:?}"), format!("{whole:?}"));
}
