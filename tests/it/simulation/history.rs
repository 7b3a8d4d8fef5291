//! A history as data: what happens, in order, drawn from a seed before anything runs.
//!
//! Every action can be taken in every state of the world, and holds all that it needs, its own chances included:
//! so any of them can be left out, and the others stay what they are.

use mnemolog::disk::{Call, Fault, Fill, Tear};

use crate::model::{Rng, Step, What};

/// How a process opens the store for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The only writer, each write synced.
    One,
    /// The only writer, acknowledged when appended.
    Os,
    /// One of many.
    Many,
}

/// What a loss of power takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) seed: u64,
    pub(crate) survivors: Survivors,
    pub(crate) tear: Tear,
    pub(crate) fill: Fill,
}

/// What of the unsynced bytes survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Survivors {
    All,
    Nothing,
    Any,
}

/// How the machine goes down.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Down {
    Power(Loss),
    /// All processes die, and what they wrote stays; the seed says how much of a write under way.
    Killed(u64),
}

/// What befalls the bytes at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rot {
    /// A few bits of a frame.
    Flip,
    /// A sector that reads as zeros: its write was acknowledged and never done.
    Zeros,
    /// A sector of anything.
    Garbage,
    /// A frame that was written to another frame's place.
    Misdirected,
    /// A frame that stands there a second time, behind the end.
    Duplicate,
    /// A file that is gone.
    NoFile,
    /// One or both headers of a file.
    Header,
    /// The promise.
    Promise,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// A process takes a step; it opens the store first where it has not.
    Write { process: usize, at: usize, step: Step },
    /// A process makes everything durable. If it is the only one, another thread of it appends meanwhile.
    Flush { process: usize, meanwhile: Vec<String> },
    /// A process closes the store.
    Close { process: usize },
    /// A process dies between two calls.
    Kill { process: usize },
    /// A reader looks at everything, in a store that it opens or refreshes.
    Read { reader: usize },
    /// One of many writers looks at what the others wrote.
    Look { process: usize },
    /// In the middle of the next sync, a reader refreshes, or one of many writers where there are no more readers.
    Peek { reader: usize },
    /// A process looks into the past.
    Past { process: usize, at: u64 },
    /// A process brings back a note, a row or a workspace; the frame is drawn anew from those that are there.
    Back { process: usize, at: usize, step: Step },
    /// A reader or a writer follows the log.
    Tail { who: usize, from: u64 },
    /// A process saves a checkpoint.
    Checkpoint { process: usize },
    /// A bit of a checkpoint flips.
    Spoil { seed: u64 },
    /// A process makes another store as of a frame.
    Fork { process: usize, at: u64 },
    /// A process drops the history before a frame, drawn anew from those that are there.
    Compact { process: usize, at: u64 },
    /// A process erases something.
    Erase { process: usize, at: usize, what: What },
    /// A process embeds a table anew with an embedder of so many floats; what happens each time that it is asked.
    Reembed { process: usize, at: usize, dim: usize, within: Vec<Within> },
    /// A process brings the backup up to date, whose machine may go down meanwhile.
    Backup { process: usize, seed: u64 },
    /// The clock goes forth or back.
    Clock { by_us: i64 },
    /// A process dies within a call to come.
    Stop { process: usize, call: u64, seed: u64 },
    /// The machine goes down within a call to come, or now.
    Down { call: Option<u64>, how: Down },
    /// A call to come fails.
    Fail { kind: Call, nth: u64, fault: Fault },
    /// The disk has so much room left; none lifts the bound.
    Room(Option<u64>),
    /// Clean pages leave the cache.
    Evict { seed: u64 },
    /// Everybody stops, and bytes at rest change.
    Rot { rot: Rot, seed: u64 },
    /// A process repairs the store.
    Repair { process: usize },
}

/// What happens while an embedder is at work.
#[derive(Clone, Debug)]
pub(crate) enum Within {
    Nothing,
    /// Somebody acts, or something will befall a call to come.
    Act(Action),
    /// It fails.
    Fails,
    /// It answers too few vectors.
    TooFew,
}

/// A seed, who takes part, and what happens.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) seed: u64,
    pub(crate) writers: Vec<Kind>,
    pub(crate) actions: Vec<Action>,
}

/// How many reading processes there are.
pub(crate) const READERS: usize = 2;
const ROUNDS: u64 = 6;

impl History {
    /// The history of a seed.
    pub(crate) fn of(seed: u64) -> History {
        let mut rng = Rng::new(seed);
        let many = |n| vec![Kind::Many; n];
        let writers = match rng.below(6) {
            0 => vec![Kind::One],
            1 => vec![Kind::Os],
            2 | 3 => many(2),
            4 => many(3),
            _ => [vec![if rng.chance(2) { Kind::One } else { Kind::Os }], many(2)].concat(),
        };
        let mut draw = Draw { rng, processes: writers.len() as u64, actions: Vec::new() };
        for _ in 0..ROUNDS {
            draw.round();
        }
        History { seed, writers, actions: draw.actions }
    }
}

struct Draw {
    rng: Rng,
    processes: u64,
    actions: Vec<Action>,
}

impl Draw {
    fn process(&mut self) -> usize {
        self.rng.below(self.processes) as usize
    }

    fn write(&mut self) {
        let (process, at, step) = (self.process(), self.rng.below(2) as usize, Step::random(&mut self.rng));
        self.actions.push(Action::Write { process, at, step });
    }

    /// Recover, mutate, crash.
    fn round(&mut self) {
        if self.rng.chance(3) {
            // A crash that meets the opening.
            self.trouble(40);
        } else {
            self.write();
            self.trouble(140);
        }
        for _ in 0..3 + self.rng.below(12) {
            let action = self.action();
            let again = self.again(&action);
            self.actions.push(action);
            self.actions.extend(again);
        }
        if self.rng.chance(4) {
            self.rot();
        }
        let how = self.down();
        self.actions.push(Action::Room(None));
        if !self.rng.chance(6) {
            self.actions.push(Action::Down { call: None, how });
        }
    }

    fn trouble(&mut self, calls: u64) {
        let action = match self.rng.below(8) {
            0 => return,
            1..=3 => {
                let how = self.down();
                Action::Down { call: Some(self.rng.below(calls)), how }
            }
            4 | 5 => {
                let (process, call) = (self.process(), self.rng.below(calls));
                Action::Stop { process, call, seed: self.rng.next() }
            }
            6 => self.fault(),
            _ if self.rng.chance(3) => Action::Room(Some(self.rng.below(24) << 9)),
            _ => self.fault(),
        };
        self.actions.push(action);
    }

    fn action(&mut self) -> Action {
        let process = self.process();
        let reader = self.rng.below(READERS as u64) as usize;
        match self.rng.below(59) {
            0..=4 => Action::Read { reader },
            5 => Action::Past { process, at: self.rng.next() },
            6 | 7 => {
                let meanwhile = (0..self.rng.below(3)).map(|n| format!("meanwhile {n}")).collect();
                Action::Flush { process, meanwhile }
            }
            8 => Action::Close { process },
            9 => Action::Kill { process },
            10 | 11 => {
                let by = self.rng.below(1 << 34) as i64;
                Action::Clock { by_us: if self.rng.chance(2) { -by } else { by } }
            }
            12 | 13 => self.fault(),
            14 => Action::Evict { seed: self.rng.next() },
            15 => Action::Peek { reader: self.rng.below(READERS as u64 + self.processes) as usize },
            16 => Action::Repair { process },
            17 | 18 => {
                let step = Step::random_back(&mut self.rng, mnemolog::Frame(1 << 30));
                Action::Back { process, at: self.rng.below(2) as usize, step }
            }
            19 => Action::Tail { who: self.rng.below(4) as usize, from: self.rng.next() },
            20..=23 => Action::Checkpoint { process },
            24 => Action::Spoil { seed: self.rng.next() },
            25 => Action::Fork { process, at: self.rng.next() },
            26 | 27 => Action::Compact { process, at: self.rng.next() },
            28..=30 => self.erase(),
            31 | 32 => Action::Backup { process, seed: self.rng.next() },
            33..=35 => self.reembed(),
            36..=38 => Action::Look { process },
            _ => Action::Write { process, at: self.rng.below(2) as usize, step: Step::random(&mut self.rng) },
        }
    }

    fn erase(&mut self) -> Action {
        Action::Erase {
            process: self.process(),
            at: self.rng.below(2) as usize,
            what: What::random(&mut self.rng),
        }
    }

    fn reembed(&mut self) -> Action {
        let (process, at) = (self.process(), self.rng.below(2) as usize);
        let dim = [64, 3, 3, 5][self.rng.below(4) as usize];
        let mut within: Vec<Within> = (0..self.rng.below(4)).map(|_| self.within(process, at)).collect();
        if self.rng.chance(3) {
            // A row that changes meanwhile makes a second round.
            let step = Step::Upsert("a".to_owned(), format!("late {}", self.rng.below(9)));
            within.insert(0, Within::Act(Action::Write { process: self.process(), at, step }));
        }
        Action::Reembed { process, at, dim, within }
    }

    /// Who embeds a table anew may have to go on with it later, after whatever ended the first try.
    fn again(&mut self, action: &Action) -> Vec<Action> {
        let Action::Reembed { at, dim, .. } = *action else { return Vec::new() };
        if self.rng.chance(2) {
            return Vec::new();
        }
        let how = self.down();
        let down = self.rng.chance(2).then_some(Action::Down { call: None, how });
        let again = Action::Reembed { process: self.process(), at, dim, within: Vec::new() };
        down.into_iter().chain([again]).collect()
    }

    /// What comes between two calls of somebody who embeds a table anew.
    fn within(&mut self, embeds: usize, at: usize) -> Within {
        let process = self.process();
        Within::Act(match self.rng.below(16) {
            0 | 1 => return Within::Nothing,
            2 => return Within::Fails,
            3 => return Within::TooFew,
            4 | 5 => Action::Stop { process: embeds, call: self.rng.below(16), seed: self.rng.next() },
            6 => Action::Down { call: Some(self.rng.below(16)), how: self.down() },
            7 => self.fault(),
            8..=10 => Action::Write { process, at, step: Step::random(&mut self.rng) },
            11 | 12 => Action::Read { reader: 0 },
            13 => self.erase(),
            14 => Action::Compact { process, at: self.rng.next() },
            _ => Action::Back { process, at, step: Step::RestoreRow("a".to_owned(), self.rng.next()) },
        })
    }

    fn fault(&mut self) -> Action {
        let short = self.rng.below(300) as usize;
        let (kind, fault, most) = match self.rng.below(24) {
            0 => (Call::Read, Fault::Io, 20),
            1 => (Call::Read, Fault::ShortRead(short), 20),
            2 => (Call::Write, Fault::Io, 8),
            3 => (Call::Write, Fault::Full, 8),
            4 | 5 => (Call::Write, Fault::ShortWrite(short), 8),
            6 => (Call::Reserve, Fault::Full, 4),
            7 => (Call::Reserve, Fault::Io, 4),
            8 => (Call::Sync, Fault::Io, 8),
            9 => (Call::Sync, Fault::Full, 8),
            10..=13 => (Call::Sync, Fault::SyncLost, 8),
            14 => (Call::SyncDir, Fault::Io, 2),
            15 => (Call::SyncDir, Fault::Full, 2),
            16 => (Call::Create, Fault::Full, 2),
            17 => (Call::Create, Fault::Io, 2),
            18 => (Call::Rename, Fault::Io, 1),
            19 => (Call::List, Fault::Io, 5),
            20 => (Call::Open, Fault::Io, 8),
            21 => (Call::Lock, Fault::Io, 3),
            22 => (Call::Examine, Fault::Io, 20),
            _ => (Call::Remove, Fault::Io, 1),
        };
        Action::Fail { kind, nth: self.rng.below(most), fault }
    }

    fn down(&mut self) -> Down {
        if self.rng.chance(5) {
            return Down::Killed(self.rng.next());
        }
        let survivors = match self.rng.below(4) {
            0 => Survivors::All,
            1 => Survivors::Nothing,
            _ => Survivors::Any,
        };
        let tear = [Tear::Sector, Tear::Byte, Tear::Mix][self.rng.below(3) as usize];
        let fill = match self.rng.below(4) {
            0 => Fill::Garbage,
            1 => Fill::Stale,
            _ => Fill::Zeros,
        };
        Down::Power(Loss { seed: self.rng.next(), survivors, tear, fill })
    }

    /// Bytes at rest change; who opens the store meets it, and repairs it, perhaps not at the first try.
    fn rot(&mut self) {
        use Rot::{Duplicate, Flip, Garbage, Header, Misdirected, NoFile, Promise, Zeros};
        let all = [Flip, Flip, Zeros, Garbage, Misdirected, Misdirected, Duplicate, NoFile, Header, Promise];
        let rot = all[self.rng.below(all.len() as u64) as usize];
        self.actions.push(Action::Rot { rot, seed: self.rng.next() });
        if self.rng.chance(2) {
            self.actions.push(Action::Read { reader: 0 });
        }
        for tries in 0..3 {
            if self.rng.chance(2) {
                self.write();
            }
            if tries < 2 && self.rng.chance(2) {
                self.trouble(90);
            }
            let process = self.process();
            self.actions.push(Action::Repair { process });
        }
        self.write();
    }
}
