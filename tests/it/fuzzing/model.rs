//! Calls in any order on one or two writers and a reader, on a disk that fails as the input says, against plain
//! collections: what was acknowledged is there, what was not is there wholly or not at all, and nothing else is.

mod forget;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mnemolog::disk::{Disk, Fault, MemoryDisk, Tear};
use mnemolog::{Durability, Error, Frame, Store, Writers};

use super::super::model::{self, Gone, Model, Step, WORKSPACES};
use super::input::Input;
use super::look;

/// What an input may cost: more steps find nothing that fewer do not.
const STEPS_MAX: usize = 120;
const LIVES_MAX: usize = 8;

struct World<'i, 'd> {
    input: &'i mut Input<'d>,
    disk: MemoryDisk,
    durability: Durability,
    writers: Writers,
    /// What the store holds after each frame; more than was acknowledged may survive.
    states: Vec<Model>,
    acknowledged: Frame,
    /// A fault is due or was met in this life: a call may fail.
    faulty: bool,
    steps: usize,
    /// An erasure of unknown outcome, until the store is opened again.
    erasing: Option<Gone>,
    /// The oldest frame that nobody tried to drop, and all that somebody tried to make the oldest.
    oldest: Frame,
    bases: BTreeSet<Frame>,
    /// Where backups are made, and the frame of the last one.
    copy: (MemoryDisk, Frame),
}

pub(crate) fn run(data: &[u8]) {
    let input = &mut Input::new(data);
    let writers = input.pick(&[Writers::One, Writers::Many]);
    let durability = input.pick(&[Durability::Sync, Durability::Sync, Durability::Os]);
    let durability = if writers == Writers::Many { Durability::Sync } else { durability };
    let (disk, states) = (MemoryDisk::simulated(), vec![model::empty()]);
    let mut world = World {
        input,
        disk,
        durability,
        writers,
        states,
        acknowledged: Frame::ZERO,
        faulty: false,
        steps: 0,
        erasing: None,
        oldest: Frame::ZERO,
        bases: BTreeSet::new(),
        copy: (MemoryDisk::simulated(), Frame::ZERO),
    };
    for _ in 0..LIVES_MAX {
        let store = world.recover();
        world.check(&store);
        let beside = world.live(&store);
        if world.input.chance(3) {
            // A process that ends by itself, and whatever comes after it.
            drop((beside, store));
            world.end();
        } else {
            world.end();
            drop((beside, store));
        }
        if world.input.is_used_up() {
            break;
        }
    }
    let store = world.recover();
    world.check(&store);
}

impl World<'_, '_> {
    fn open(&self) -> Result<Store, Error> {
        look::options().durability(self.durability).writers(self.writers).open_on(Arc::new(self.disk.clone()))
    }

    /// Opens the store, with crashes and faults on the way if the input says so.
    fn recover(&mut self) -> Store {
        for _ in 0..self.input.below(3) {
            if self.input.chance(2) {
                let (call, fault) = (self.input.below(40), self.fault());
                self.disk.fail_at(call, fault);
            } else {
                self.disk.crash_at(self.input.below(60));
            }
            drop(self.open());
            self.end();
        }
        self.faulty = false;
        self.open().unwrap_or_else(|e| panic!("a store that only crashed opens: {e}"))
    }

    fn fault(&mut self) -> Fault {
        match self.input.below(4) {
            0 => Fault::Io,
            1 => Fault::Full,
            2 => Fault::ShortWrite(self.input.place(300)),
            _ => Fault::SyncLost,
        }
    }

    /// The end of a life of the machine: the process dies, or the power goes.
    fn end(&mut self) {
        let (kind, tear) = (self.input.below(4), self.input.pick(&[Tear::Sector, Tear::Byte]));
        let input = &mut *self.input;
        match kind {
            0 => self.disk.kill(),
            1 => self.disk.kill_torn(&mut |n| input.below(n)),
            2 => self.disk.power_loss(&mut |_| 0, tear),
            _ => self.disk.power_loss(&mut |n| input.below(n), tear),
        }
        self.disk.set_capacity(None);
    }

    /// One life: calls until one fails for good, or the input says that it is over. Answers who else is there.
    fn live(&mut self, store: &Store) -> [Option<Store>; 2] {
        let mut reader = None;
        let mut other = None;
        while self.steps < STEPS_MAX && !self.input.is_used_up() {
            self.steps += 1;
            // The last ones came later: inputs from before them mean what they meant.
            let choice = self.input.below(256);
            match choice % 24 {
                _ if choice >= 240 => {
                    let writer = other.as_ref().filter(|_| choice % 2 == 1).unwrap_or(store);
                    let goes_on = self.forget(writer, choice - 240);
                    let all = [Some(store), other.as_ref(), reader.as_ref()];
                    if !goes_on || !self.all_look(&all) {
                        break;
                    }
                }
                0 => break,
                1 => self.plan(),
                2 => self.fill(),
                3 if self.writers == Writers::Many => other = self.open().ok(),
                4 => reader = look::open_read_only(&self.disk).ok(),
                5 | 6 if reader.is_some() && !self.follow(reader.as_ref()) => reader = None,
                7 => self.look_back(store),
                8 if store.flush().is_ok() => self.acknowledged = store.appended(),
                9 if self.input.chance(4) => {
                    self.close(store);
                    break;
                }
                9 => {
                    let writer = other.as_ref().filter(|_| self.input.chance(2)).unwrap_or(store);
                    let step = self.back(writer.appended());
                    if !self.write(writer, &step) {
                        break;
                    }
                }
                // What these do not do without a second process or a reader.
                3 | 5 | 6 => {
                    let of =
                        self.input.pick(&[Some(store), reader.as_ref(), other.as_ref()]).unwrap_or(store);
                    match self.input.below(3) {
                        0 => self.follow_on(of),
                        1 => self.fork(of),
                        _ => self.checkpoint(other.as_ref().unwrap_or(store)),
                    }
                }
                3..=8 => {}
                _ => {
                    let first = self.input.chance(2) || other.is_none();
                    let writer = if first { store } else { other.as_ref().unwrap_or(store) };
                    let step = step(self.input);
                    if !self.write(writer, &step) {
                        break;
                    }
                }
            }
        }
        [reader, other]
    }

    /// From now on the disk may be full, or have room again.
    fn fill(&mut self) {
        self.faulty = true;
        let capacity = (!self.input.chance(4)).then(|| self.input.below(400_000));
        self.disk.set_capacity(capacity);
    }

    fn plan(&mut self) {
        self.faulty = true;
        if self.input.chance(2) {
            let (call, fault) = (self.input.below(60), self.fault());
            self.disk.fail_at(call, fault);
        } else {
            self.disk.crash_at(self.input.below(120));
        }
    }

    fn close(&mut self, store: &Store) {
        if store.close().is_ok() && self.writers == Writers::One {
            self.acknowledged = store.appended();
        }
    }

    /// Takes a step on the store and on the model. Answers whether the store goes on.
    fn write(&mut self, store: &Store, step: &Step) -> bool {
        let at = self.input.place(WORKSPACES.len());
        let before = Frame(self.states.len() as u64 - 1);
        let mut next = self.states.last().expect("a first state").clone();
        let writes = step.apply_to(&mut next, at, &self.states);
        self.states.push(next);
        match store.workspace(WORKSPACES[at]).and_then(|workspace| step.take(&workspace)) {
            Ok(()) => {
                if store.appended() == before {
                    self.states.pop();
                } else {
                    assert!(writes, "nothing to write, and a frame: {step:?}");
                    assert_eq!(store.appended().0, self.states.len() as u64 - 1, "frames follow each other");
                }
                if self.durability == Durability::Sync {
                    self.acknowledged = store.appended();
                    assert!(store.durable() >= self.acknowledged, "acknowledged is durable");
                }
                true
            }
            // Refused before anything was written: its answer says so. With a full disk the store goes on.
            Err(e) if self.faulty && is_refused(&e) && store.appended() == before => {
                self.states.pop();
                matches!(e, Error::DiskFull { .. })
            }
            Err(_) if self.faulty => false,
            Err(e) => panic!("no fault was planned: {e}"),
        }
    }

    /// A reader in another process sees all that was appended, unless the disk fails it.
    fn follow(&mut self, reader: Option<&Store>) -> bool {
        let Some(reader) = reader else { return false };
        match reader.refresh() {
            Ok(last) => {
                assert_eq!(last.0, self.states.len() as u64 - 1, "a reader sees every frame");
                let (durable, acknowledged) = (reader.durable(), self.acknowledged);
                assert!(durable <= last, "{durable} durable, and the last frame is {last}");
                assert!(
                    durable >= acknowledged,
                    "{acknowledged} acknowledged, and a reader knows of {durable}"
                );
                true
            }
            Err(e) => {
                assert!(self.faulty, "no fault was planned: {e}");
                false
            }
        }
    }

    /// What a tail tells is as good as acknowledged.
    fn follow_on(&mut self, store: &Store) {
        let from = self.acknowledged;
        let mut told = || {
            let mut tail = store.tail(from)?;
            while let Some(event) = tail.next_within(Duration::ZERO)? {
                assert_eq!(Some(event.last()), self.acknowledged.next(), "each frame, in order");
                self.acknowledged = event.last();
            }
            Ok::<_, Error>(())
        };
        let told = told();
        assert!(self.acknowledged.0 < self.states.len() as u64, "a frame that was never written");
        match told {
            Ok(()) => {}
            Err(Error::Closed | Error::Poisoned { .. }) => {}
            // A reader may not have looked since.
            Err(e) => self.excuse(from, &e),
        }
    }

    /// A fork holds what its parent held, and is durable.
    fn fork(&mut self, parent: &Store) {
        let frame = Frame(self.input.below(parent.appended().0 + 1));
        let disk = MemoryDisk::simulated();
        match parent.fork_on(&(Arc::new(disk.clone()) as Arc<dyn Disk>), frame) {
            Ok(_) => {
                disk.power_loss(&mut |n| n - 1, Tear::Sector);
                let fork = look::options().open_on(Arc::new(disk)).expect("a fork is whole");
                assert_eq!((fork.appended(), fork.durable()), (frame, frame));
                assert_eq!(model::held(&fork), self.states[frame.0 as usize], "fork at {frame}");
            }
            Err(e) => self.excuse(frame, &e),
        }
    }

    /// What a checkpoint holds is durable, and changes no answer of whoever opens the store next.
    fn checkpoint(&mut self, writer: &Store) {
        match writer.checkpoint() {
            Ok(frame) => self.acknowledged = self.acknowledged.max(frame),
            Err(e) => assert!(self.faulty, "no fault was planned: {e}"),
        }
    }

    fn look_back(&mut self, store: &Store) {
        let past = Frame(self.input.below(store.appended().0 + 1));
        match store.at(past) {
            Ok(past_store) if !self.faulty => {
                assert_eq!(model::held_at(&past_store), self.states[past.0 as usize], "frame {past}");
            }
            Ok(_) => {}
            Err(e) => self.excuse(past, &e),
        }
    }

    /// Why a frame is not shown.
    fn excuse(&self, frame: Frame, e: &Error) {
        match e {
            Error::Compacted { oldest } if frame < *oldest && self.bases.contains(oldest) => {}
            e => assert!(self.faulty, "no fault was planned: {e}"),
        }
    }

    /// A step back to one of the frames up to `last`, as the input says.
    fn back(&mut self, last: Frame) -> Step {
        let there = self.input.below(last.0.saturating_sub(self.oldest.0) + 1);
        let (frame, key) = (self.oldest.0.min(last.0) + there, self.input.key().to_owned());
        match self.input.below(4) {
            0 => Step::RestoreNote(key, frame),
            1 => Step::RestoreRow(key, frame),
            _ => Step::Rollback(frame),
        }
    }

    /// Holds the store that came back against what it must hold, and forgets what did not survive.
    fn check(&mut self, store: &Store) {
        let last = store.appended();
        assert!(last >= self.acknowledged, "{} acknowledged, {last} there", self.acknowledged);
        assert!(last.0 < self.states.len() as u64, "frame {last} was never written");
        self.states.truncate(last.0 as usize + 1);
        self.acknowledged = last;
        self.settle_erasing(store);
        assert_eq!(store.durable(), last, "what opening found is durable");
        assert_eq!(model::held(store), self.states[last.0 as usize], "frame {last}");
        let report = mnemolog::log::verify(&self.disk).expect("a disk without faults");
        assert!(report.is_whole(), "{:?}", report.findings);
        assert_eq!(report.last, last, "verify sees what opening sees");
    }
}

/// Whether an answer says that nothing was written.
fn is_refused(e: &Error) -> bool {
    !matches!(e, Error::OutcomeUnknown { .. })
}

/// One step, as the input says.
fn step(input: &mut Input<'_>) -> Step {
    if input.chance(8) {
        let steps = (0..=input.below(4)).map(|_| single(input)).filter(|step| *step != Step::Resave);
        return Step::Together(steps.collect());
    }
    single(input)
}

fn single(input: &mut Input<'_>) -> Step {
    let key = input.key().to_owned();
    match input.below(14) {
        0..=3 => {
            let most = if input.chance(8) { 1200 } else { 40 };
            let body = input.text(8).repeat(input.place(most));
            Step::Remember(key, input.text(6), body)
        }
        4 => Step::Forget(key),
        5 | 6 => Step::Upsert(key, input.text(10)),
        7 => Step::Delete(key),
        8 | 9 => Step::Record(key, input.text(10)),
        10 if input.chance(3) => Step::ClearEpisodes,
        10 => Step::Ring(1 + input.below(6)),
        11 | 12 => Step::Push(key, input.text(10)),
        13 if input.chance(2) => Step::Budget(input.below(60)),
        _ => Step::Resave,
    }
}
