//! Loss of power and death of the process, at any call: what was acknowledged is there, what was not is there
//! wholly or not at all, and the store goes on.

use std::sync::Arc;

use mnemolog::disk::{MemoryDisk, Tear};
use mnemolog::{Durability, Error, Frame, Options, Store};

use crate::model::{self, Model, Rng, Step, WORKSPACES};

/// How many seeds the ordinary tests run.
const SEEDS: u64 = 3000;
const ROUNDS: u64 = 4;

/// A store on a disk that fails, and what the store must hold at every frame.
struct World {
    rng: Rng,
    disk: MemoryDisk,
    durability: Durability,
    /// What the store holds after each frame; one more than was acknowledged may survive.
    states: Vec<Model>,
    acknowledged: Frame,
    met: Met,
}

/// How often a history met what it is there for: what never happens is not tested.
#[derive(Debug, Default)]
struct Met {
    frames: u64,
    cuts: u64,
    rewrites: u64,
    rotations: u64,
    failed_openings: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let durability = if rng.chance(4) { Durability::Os } else { Durability::Sync };
        let disk = MemoryDisk::simulated();
        World {
            rng,
            disk,
            durability,
            states: vec![model::empty()],
            acknowledged: Frame::ZERO,
            met: Met::default(),
        }
    }

    fn open(&self) -> Result<Store, Error> {
        Options::new()
            .segment_bytes(16 * 1024)
            .durability(self.durability)
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

    /// Writes until a planned crash, or to the end of the plan.
    fn work(&mut self, store: &Store) {
        let planned = !self.rng.chance(5);
        if planned {
            self.disk.crash_at(self.rng.below(120));
        }
        for _ in 0..self.rng.below(20) {
            let step = Step::random(&mut self.rng);
            let at = self.rng.below(2) as usize;
            let mut next = self.states.last().expect("there is a first state").clone();
            if !step.apply(&mut next[at]) {
                continue;
            }
            let before = store.appended();
            self.states.push(next);
            let done = store.workspace(WORKSPACES[at]).and_then(|workspace| step.take(&workspace));
            let wrote = store.appended() > before;
            match done {
                Ok(()) if !wrote => drop(self.states.pop()),
                Ok(()) if self.durability == Durability::Sync => self.acknowledged = store.appended(),
                Ok(()) => {}
                Err(_) if planned => return,
                Err(e) => panic!("no fault was planned: {e}"),
            }
            if self.durability == Durability::Os && self.rng.chance(6) && store.flush().is_ok() {
                self.acknowledged = store.appended();
            }
        }
        if self.rng.chance(3) && store.close().is_ok() {
            self.acknowledged = store.appended();
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
        assert_eq!(store.durable(), last, "seed {seed}: what opening found is durable");
        assert_eq!(model::held(store), self.states[last.0 as usize], "seed {seed}: frame {last}");
        let past = self.rng.below(last.0 + 1);
        let held = model::held_at(&store.at(Frame(past)).expect("a frame of the log"));
        assert_eq!(held, self.states[past as usize], "seed {seed}: past frame {past}");
    }
}

fn run(seed: u64) -> Met {
    let mut world = World::new(seed);
    for _ in 0..ROUNDS {
        let store = world.recover();
        world.check(&store, seed);
        world.work(&store);
        world.crash();
    }
    let store = world.recover();
    world.check(&store, seed);
    world.met
}

#[test]
fn acknowledged_writes_survive_every_crash() {
    let mut all = Met::default();
    for seed in 0..SEEDS {
        let Met { frames, cuts, rewrites, rotations, failed_openings } = run(seed);
        all.frames += frames;
        all.cuts += cuts;
        all.rewrites += rewrites;
        all.rotations += rotations;
        all.failed_openings += failed_openings;
    }
    println!("{all:?}");
    let least = all.frames.min(all.cuts).min(all.rewrites).min(all.rotations).min(all.failed_openings);
    assert!(least > SEEDS / 20, "something hardly ever happens: {all:?}");
}
