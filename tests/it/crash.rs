//! Loss of power and death of the process, at any call: what was acknowledged is there, what was not is there
//! wholly or not at all, and the store goes on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mnemolog::disk::{Fault, MemoryDisk, Tear};
use mnemolog::{Durability, Error, Frame, Options, Store, Tail, Writers};

use crate::model::{self, Model, Rng, Step, WORKSPACES};

/// How many seeds the ordinary tests run.
const SEEDS: u64 = 3000;
const ROUNDS: u64 = 4;

/// Writers on a disk that fails, and what the store must hold at every frame.
struct World {
    rng: Rng,
    disk: MemoryDisk,
    durability: Durability,
    /// One writing process, or two that share the store.
    writers: Writers,
    /// What the store holds after each frame; one more than was acknowledged may survive.
    states: Vec<Model>,
    acknowledged: Frame,
    /// What tails told of each frame.
    told: BTreeMap<Frame, String>,
    met: Met,
}

/// How often a history met what it is there for: what never happens is not tested.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    frames: u64,
    cuts: u64,
    rewrites: u64,
    rotations: u64,
    failed_openings: u64,
    failed_writes: u64,
    shared_openings: u64,
    refreshes: u64,
    told: u64,
}

impl Met {
    fn all(&mut self) -> [&mut u64; 9] {
        let Met {
            frames,
            cuts,
            rewrites,
            rotations,
            failed_openings,
            failed_writes,
            shared_openings,
            refreshes,
            told,
        } = self;
        [frames, cuts, rewrites, rotations, failed_openings, failed_writes, shared_openings, refreshes, told]
    }

    fn each(mut self) -> [u64; 9] {
        self.all().map(|n| *n)
    }
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let writers = if rng.chance(2) { Writers::Many } else { Writers::One };
        let durability =
            if rng.chance(4) && writers == Writers::One { Durability::Os } else { Durability::Sync };
        let (disk, states) = (MemoryDisk::simulated(), vec![model::empty()]);
        World {
            rng,
            disk,
            durability,
            writers,
            states,
            acknowledged: Frame::ZERO,
            told: BTreeMap::new(),
            met: Met::default(),
        }
    }

    fn open(&self) -> Result<Store, Error> {
        Options::new()
            .segment_bytes(16 * 1024)
            .durability(self.durability)
            .writers(self.writers)
            .open_on(Arc::new(self.disk.clone()))
    }

    /// Opens the store, with a crash at a random call now and then, until it is open.
    fn recover(&mut self) -> Store {
        loop {
            if self.rng.chance(3) {
                self.disk.crash_at(self.rng.below(40));
                match self.open() {
                    // The crash lies ahead; it may also meet the store as it closes.
                    Ok(store) => drop(store),
                    Err(_) => self.met.failed_openings += 1,
                }
                self.crash();
                continue;
            }
            return self.open().expect("a store that only crashed opens");
        }
    }

    fn crash(&mut self) {
        let rng = &mut self.rng;
        if rng.chance(4) {
            self.disk.kill_torn(&mut |n| rng.below(n));
            return;
        }
        let tear = if rng.chance(2) { Tear::Byte } else { Tear::Sector };
        let mode = rng.below(3);
        self.disk.power_loss(
            &mut |n| match mode {
                0 => 0,
                1 => n - 1,
                _ => rng.below(n),
            },
            tear,
        );
    }

    /// Plans a crash, or a single failing call that a process may survive.
    fn plan(&mut self) -> bool {
        match self.rng.below(8) {
            0 => return false,
            1..=5 => self.disk.crash_at(self.rng.below(120)),
            _ => {
                let fault = match self.rng.below(4) {
                    0 => Fault::Io,
                    1 => Fault::Full,
                    2 => Fault::ShortWrite(self.rng.below(200) as usize),
                    _ => Fault::SyncLost,
                };
                self.disk.fail_at(self.rng.below(60), fault);
            }
        }
        true
    }

    /// Writes until something fails, or to the end of the plan. `other` is a second process, if there may be one.
    fn work(&mut self, store: &Store, other: Option<&Store>, told: bool) {
        // A survivor of a failed sync is told of it on its own descriptor, later.
        let planned = self.plan() | told;
        let mut reader = Options::new().open_read_only_on(Arc::new(self.disk.clone())).ok();
        let from = self.acknowledged;
        let mut tails = [Some(store), other, reader.as_ref()].map(|store| store?.tail(from).ok());
        for _ in 0..self.rng.below(24) {
            let writer = other.filter(|_| self.rng.chance(2)).unwrap_or(store);
            let step = Step::random_back(&mut self.rng, writer.appended());
            let at = self.rng.below(2) as usize;
            let mut next = self.states.last().expect("there is a first state").clone();
            if !step.apply_to(&mut next, at, &self.states) {
                continue;
            }
            let before = Frame(self.states.len() as u64 - 1);
            self.states.push(next);
            let done = writer.workspace(WORKSPACES[at]).and_then(|workspace| step.take(&workspace));
            match done {
                Ok(()) if writer.appended() == before => drop(self.states.pop()),
                Ok(()) if self.durability == Durability::Sync => {
                    self.acknowledged = writer.appended();
                    assert_eq!(self.acknowledged.0, self.states.len() as u64 - 1, "frames follow each other");
                }
                Ok(()) => {}
                Err(_) if planned => {
                    self.met.failed_writes += 1;
                    return;
                }
                Err(e) => panic!("no fault was planned: {e}"),
            }
            if reader.as_ref().is_some_and(|reader| self.rng.chance(3) && !self.follow(reader, planned)) {
                reader = None;
            }
            if self.durability == Durability::Os && self.rng.chance(6) && store.flush().is_ok() {
                self.acknowledged = store.appended();
            }
            if self.rng.chance(3) {
                tails.iter_mut().flatten().for_each(|tail| self.tell(tail, planned));
            }
        }
        if self.rng.chance(3) && self.writers == Writers::One && store.close().is_ok() {
            self.acknowledged = store.appended();
        }
    }

    /// A reader in another process sees all that was appended, unless the disk fails it.
    fn follow(&mut self, reader: &Store, planned: bool) -> bool {
        match reader.refresh() {
            Ok(last) => {
                self.met.refreshes += 1;
                assert_eq!(last.0, self.states.len() as u64 - 1, "a reader sees every frame");
                assert!(reader.durable() <= last && reader.durable() >= self.acknowledged);
                if !planned {
                    assert_eq!(&model::held(reader), self.states.last().expect("a state"), "frame {last}");
                }
                true
            }
            Err(e) => {
                assert!(planned, "no fault was planned: {e}");
                false
            }
        }
    }

    /// What a tail tells must outlive every crash, like what was acknowledged.
    fn tell(&mut self, tail: &mut Tail, planned: bool) {
        loop {
            let behind = tail.seen();
            match tail.next_within(Duration::ZERO) {
                Ok(Some(event)) => {
                    assert_eq!(Some(event.last()), behind.next(), "frames come in order");
                    self.told.insert(event.last(), crate::tail::text(&event));
                    self.acknowledged = self.acknowledged.max(event.last());
                    self.met.told += 1;
                }
                Ok(None) => return,
                Err(e) => {
                    assert!(planned, "no fault was planned: {e}");
                    return;
                }
            }
        }
    }

    /// Holds the store that came back against what it must hold, and forgets what did not survive.
    fn check(&mut self, store: &Store, seed: u64) {
        let last = store.appended();
        self.met.cuts += u64::from(store.recovery().cut.is_some());
        self.met.rewrites += u64::from(store.recovery().rewritten_bytes > 0);
        self.met.frames += last.0;
        self.met.rotations += store.log_size().segments as u64 - 1;
        assert!(last >= self.acknowledged, "seed {seed}: {} acknowledged, {last} there", self.acknowledged);
        assert!(last.0 < self.states.len() as u64, "seed {seed}: frame {last} was never written");
        self.states.truncate(last.0 as usize + 1);
        self.acknowledged = last;
        for event in crate::tail::drain(&mut store.tail(Frame::ZERO).expect("begins")) {
            if let Some(told) = self.told.get(&event.last()) {
                assert_eq!(&crate::tail::text(&event), told, "seed {seed}: a tail told something else");
            }
        }
        assert_eq!(store.durable(), last, "seed {seed}: what opening found is durable");
        assert_eq!(model::held(store), self.states[last.0 as usize], "seed {seed}: frame {last}");
        let past = self.rng.below(last.0 + 1);
        let held = model::held_at(&store.at(Frame(past)).expect("a frame of the log"));
        assert_eq!(held, self.states[past as usize], "seed {seed}: past frame {past}");
    }

    /// A process failed and the machine goes on: another one opens the store beside the survivors.
    fn go_on_beside(&mut self, survivor: Option<&Store>, seed: u64) {
        self.disk.clear_faults();
        let Ok(store) = self.open() else { return };
        self.met.shared_openings += 1;
        self.check(&store, seed);
        self.work(&store, survivor, true);
    }
}

fn run(seed: u64) -> Met {
    let mut world = World::new(seed);
    for _ in 0..ROUNDS {
        let store = world.recover();
        world.check(&store, seed);
        let many = world.writers == Writers::Many;
        let other = many.then(|| world.open().expect("a second process opens"));
        world.work(&store, other.as_ref(), false);
        if many {
            world.go_on_beside(other.as_ref(), seed);
        }
        world.crash();
    }
    let store = world.recover();
    world.check(&store, seed);
    world.met
}

#[test]
fn acknowledged_writes_survive_every_crash() {
    // A long run: `MNEMOLOG_SEEDS=FROM..TO`.
    let long = std::env::var("MNEMOLOG_SEEDS").ok();
    let seeds = long.as_deref().map_or(0..SEEDS, |range| {
        let (from, to) = range.split_once("..").expect("FROM..TO");
        from.parse().expect("a number")..to.parse().expect("a number")
    });
    let count = seeds.end - seeds.start;
    let mut all = Met::default();
    for seed in seeds {
        let met = run(seed);
        for (sum, n) in all.all().into_iter().zip(met.each()) {
            *sum += n;
        }
    }
    println!("{all:?}");
    let least = all.each().into_iter().min().unwrap_or_default();
    assert!(least > count / 20, "something hardly ever happens: {all:?}");
}
