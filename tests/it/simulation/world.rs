//! Processes on one machine, taking the actions of a history one after the other, and the truth they are held to.
//!
//! Laws: an answer that is not the expected one needs an excuse: a fault that fired, a sync that failed before, a
//! dead process, a full disk, a live holder of the lock. Damage has only one: bytes that rotted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mnemolog::disk::{Call, MemoryDisk};
use mnemolog::{Clock, Durability, Error, Options, Store, Time, Writers};

use super::anew::Embedding;
use super::counts::Counts;
use super::history::{Action, Down, History, Kind, Loss, READERS, Survivors};
use super::rot::Rotten;
use super::truth::{Check, Truth};
use crate::model::{self, Gone, Rng, Step, WORKSPACES};

/// A clock that goes as it is told.
#[derive(Debug)]
pub(super) struct Told(AtomicU64);

impl Clock for Told {
    fn now(&self) -> Time {
        Time::from_micros(self.0.load(Ordering::Relaxed)).unwrap_or(Time::MAX)
    }
}

/// A process, and the store that it has open.
pub(super) struct Process {
    pub(super) disk: MemoryDisk,
    pub(super) store: Option<Store>,
    pub(super) kind: Kind,
    /// Whether its writer stopped after a failure.
    pub(super) poisoned: bool,
    seed: u64,
}

/// The machine, who runs on it, and what must hold.
pub(super) struct World {
    pub(super) disk: MemoryDisk,
    pub(super) clock: Arc<Told>,
    pub(super) writers: Vec<Process>,
    pub(super) readers: Vec<Process>,
    pub(super) truth: Truth,
    pub(super) counts: Counts,
    pub(super) rotten: Option<Rotten>,
    /// Something rotted that no frame needs, and nobody has repaired it.
    pub(super) scarred: bool,
    pub(super) rng: Rng,
    /// What tails told of each frame.
    pub(super) lines: BTreeMap<u64, Vec<u8>>,
    /// An erasure of unknown outcome, until a writer looks.
    pub(super) erasing: Option<Gone>,
    /// An embedding anew that was interrupted, until somebody looks.
    pub(super) embedding: Option<Embedding>,
    /// Where backups are made, and the frame of the last one.
    pub(super) copy: (MemoryDisk, u64),
    down: Option<Down>,
    /// A fault fired within this action.
    pub(super) fired: bool,
    /// A sync failed in this life of the machine, and others may be told later.
    pub(super) told: bool,
    pub(super) full: bool,
    pub(super) peek: Option<usize>,
    /// A process died, and others live on.
    survivors: bool,
    /// Who embeds a table anew, while others act.
    pub(super) embeds: Option<usize>,
}

/// Says what is wrong if something does not hold.
macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err(format!($($what)+));
        }
    };
}
pub(super) use ensure;

/// What a store holds, past all faults; none where its process is dead.
pub(super) fn held(disk: &MemoryDisk, store: &Store) -> Option<model::Model> {
    disk.is_alive().then(|| disk.undisturbed(|| model::held(store)))
}

impl World {
    pub(super) fn new(history: &History) -> World {
        let disk = MemoryDisk::seeded(history.seed);
        let process =
            |kind| Process { disk: disk.process(), store: None, kind, poisoned: false, seed: history.seed };
        World {
            clock: Arc::new(Told(AtomicU64::new(1_800_000_000_000_000))),
            writers: history.writers.iter().map(|kind| process(*kind)).collect(),
            readers: (0..READERS).map(|_| process(Kind::Many)).collect(),
            disk,
            truth: Truth::new(),
            counts: Counts::default(),
            rotten: None,
            scarred: false,
            lines: BTreeMap::new(),
            erasing: None,
            embedding: None,
            copy: (MemoryDisk::seeded(history.seed ^ 0xc09), 0),
            rng: Rng::new(history.seed ^ 0x5eed),
            down: None,
            fired: false,
            told: false,
            full: false,
            peek: None,
            survivors: false,
            embeds: None,
        }
    }

    pub(super) fn options(&self, kind: Kind) -> Options {
        Options::new()
            .segment_bytes(16 * 1024)
            .lock_wait(Duration::ZERO)
            .clock(self.clock.clone())
            .durability(if kind == Kind::Os { Durability::Os } else { Durability::Sync })
            .writers(if kind == Kind::Many { Writers::Many } else { Writers::One })
    }

    /// Takes one action, and lets go what died in it.
    pub(super) fn act(&mut self, action: &Action) -> Check {
        self.fired = false;
        self.take(action)?;
        self.note_faults();
        self.bury();
        Ok(())
    }

    /// Takes one action, perhaps within another.
    pub(super) fn take(&mut self, action: &Action) -> Check {
        match action {
            Action::Write { process, at, step } => self.write(*process, *at, step)?,
            Action::Flush { process, meanwhile } => self.flush(*process, meanwhile)?,
            Action::Close { process } => self.close(*process)?,
            Action::Kill { process } => self.kill(*process),
            Action::Read { reader } => self.read(*reader)?,
            Action::Look { process } => self.look(*process)?,
            Action::Peek { reader } => self.peek = Some(*reader),
            Action::Past { process, at } => self.past(*process, *at)?,
            Action::Back { process, at, step } => self.back(*process, *at, step)?,
            Action::Tail { who, from } => self.tail(*who, *from)?,
            Action::Checkpoint { process } => self.checkpoint(*process)?,
            Action::Spoil { seed } => self.spoil(*seed),
            Action::Fork { process, at } => self.fork(*process, *at)?,
            Action::Compact { process, at } => self.compact(*process, *at)?,
            Action::Erase { process, at, what } => self.erase(*process, *at, what)?,
            Action::Reembed { process, at, dim, within } => self.reembed(*process, *at, *dim, within)?,
            Action::Backup { process, seed } => self.backup(*process, *seed)?,
            Action::Clock { by_us } => self.tick(*by_us),
            Action::Stop { process, call, seed } => {
                self.writers[*process].disk.stop_at(*call);
                self.writers[*process].seed = *seed;
            }
            Action::Down { call: Some(call), how } => {
                self.disk.crash_at(*call);
                self.down = Some(*how);
            }
            Action::Down { call: None, how } => self.go_down(*how),
            Action::Fail { kind, nth, fault } => self.disk.fail_kind(*kind, *nth, *fault),
            Action::Room(room) => self.room(*room),
            Action::Evict { seed } => self.evict(*seed),
            Action::Rot { rot, seed } => self.rot(*rot, *seed)?,
            Action::Repair { process } => self.repair(*process)?,
        }
        Ok(())
    }

    fn tick(&mut self, by_us: i64) {
        let now = self.clock.0.load(Ordering::Relaxed);
        self.clock.0.store(now.saturating_add_signed(by_us), Ordering::Relaxed);
        self.counts.met(if by_us < 0 { "clock went back" } else { "clock went ahead" });
    }

    fn room(&mut self, room: Option<u64>) {
        let used = |path: &String| self.disk.read_file(path).map_or(0, |bytes| bytes.len() as u64);
        let used: u64 = self.disk.files().iter().map(used).sum();
        self.disk.set_capacity(room.map(|room| used + room));
        self.full = room.is_some();
    }

    fn evict(&mut self, seed: u64) {
        if self.told {
            let mut rng = Rng::new(seed);
            self.disk.evict(&mut |n| rng.below(n));
            self.truth.lose();
            self.counts.met("pages evicted");
        }
    }

    pub(super) fn note_faults(&mut self) {
        for (call, fault) in self.disk.fired() {
            self.counts.fired(call, fault);
            self.fired = true;
            self.told |= call == Call::Sync;
        }
    }

    /// Whether an answer that is not a success has an excuse.
    pub(super) fn excuse(&mut self, e: &Error, alive: bool, doing: &str) -> Check {
        self.note_faults();
        let damage = matches!(e, Error::Damaged(_) | Error::Corrupt { .. });
        // A dead process is buried behind the action in which it died, and holds until then what it held.
        let locked_now = self.disk.is_locked();
        let holds = |other: &Process| {
            (other.kind != Kind::Many && other.store.is_some()) || (locked_now && !other.disk.is_alive())
        };
        let locked = matches!(e, Error::Locked { .. }) && self.writers.iter().any(holds);
        let full = self.full && matches!(e, Error::DiskFull { .. });
        if let Error::Compacted { oldest } = e
            && self.truth.bases.contains(&oldest.0)
        {
            // Whoever asks may not have seen yet that the log begins later.
            return Ok(());
        }
        if locked {
            self.counts.met("locked");
        }
        if full {
            self.counts.met("writes refused by a full disk");
        }
        let unsure = self.fired || self.told || (self.full && !matches!(e, Error::Locked { .. }));
        ensure!(!alive || (!damage && (locked || full || unsure)), "{doing}: no reason for: {e}");
        Ok(())
    }

    /// The store of a writing process; opens it where it is not. None if it could not be opened.
    pub(super) fn store(&mut self, process: usize) -> Check<Option<Store>> {
        let own = &self.writers[process];
        if own.store.is_none() {
            let (kind, disk) = (own.kind, own.disk.clone());
            match self.options(kind).open_on(Arc::new(disk.clone())) {
                Ok(store) => self.opened(process, store)?,
                Err(Error::Damaged(damage)) if self.rotten.is_some() => self.damaged(&damage)?,
                Err(e) => {
                    self.counts.met("openings that failed");
                    let doing = format!("opening in process {process}");
                    self.excuse(&e, disk.is_alive(), &doing)?;
                }
            }
        }
        self.look_after_erasing(process)?;
        Ok(self.writers[process].store.clone())
    }

    fn opened(&mut self, process: usize, store: Store) -> Check {
        // It may have died within the last call, of which opening tells nothing: then nobody can look.
        if !self.writers[process].disk.is_alive() {
            return Ok(());
        }
        self.counts.met("openings");
        self.counts.add("openings from a checkpoint", u64::from(store.opened().checkpoint.is_some()));
        if std::mem::take(&mut self.survivors) {
            self.counts.met("survivors that went on");
        }
        let recovery = store.recovery();
        self.counts.add("cut", u64::from(recovery.cut.is_some()));
        self.counts.add("rewritten", u64::from(recovery.rewritten_bytes > 0));
        self.counts.add("intent finished", u64::from(recovery.finished_intent));
        self.settle_erasing(process, &store)?;
        if self.rotten.is_some() {
            self.opened_rotten(&store)?;
        } else {
            self.resolve(&store)?;
        }
        self.settle_embedding();
        let last = store.appended();
        ensure!(store.durable() == last, "opening found {last}, and calls {} durable", store.durable());
        self.truth.claimed(last.0)?;
        self.writers[process].store = Some(store);
        Ok(())
    }

    /// Holds what a store shows against the truth, which is then known.
    fn resolve(&mut self, store: &Store) -> Check {
        let (known, last) = (self.truth.is_known(), store.appended().0);
        let there = last > self.truth.last();
        let (look, disk) = (self.rng.chance(2), self.disk.clone());
        self.truth.found(last, &|| held(&disk, store), look)?;
        if !known {
            self.counts.met(if there {
                "outcomes unknown, then there"
            } else {
                "outcomes unknown, then not there"
            });
        }
        Ok(())
    }

    fn write(&mut self, process: usize, at: usize, step: &Step) -> Check {
        let Some(store) = self.store(process)? else { return Ok(()) };
        if self.writers[process].poisoned {
            return self.refused(process, &store);
        }
        let (before, segments) = (store.appended(), store.log_size().segments);
        let peeked = self.arm_peek(process);
        let disk = self.writers[process].disk.clone();
        let done = store.workspace(WORKSPACES[at]).and_then(|workspace| step.take(&workspace));
        self.disk.meanwhile(u64::MAX, || ());
        match done {
            Ok(()) => {
                let last = store.appended();
                self.truth.wrote(at, step, last.0, &|| held(&disk, &store))?;
                if self.rng.chance(12) {
                    self.truth.found(last.0, &|| held(&disk, &store), true)?;
                }
                let os = self.writers[process].kind == Kind::Os;
                self.truth.claimed(if os { store.durable().0 } else { last.0 })?;
                self.counts.met(if last > before { "writes" } else { "writes that found nothing to do" });
                if std::mem::take(&mut self.survivors) {
                    self.counts.met("survivors that went on");
                }
                let rotated = store.log_size().segments > segments;
                self.counts.add("rotations", u64::from(rotated));
            }
            Err(e) => {
                self.failed(process, &e, at, step)?;
                self.truth.claimed(store.durable().0)?;
            }
        }
        self.check_peek(peeked)
    }

    /// A process brings something back to a frame that is there, whatever number was drawn for it.
    fn back(&mut self, process: usize, at: usize, step: &Step) -> Check {
        let Some(store) = self.store(process)?.filter(|_| self.truth.gone.is_empty()) else { return Ok(()) };
        // A process looks back on what it has seen, not on what others appended since.
        let last = self.truth.last().min(store.appended().0);
        let oldest = self.truth.oldest;
        if oldest > last {
            return Ok(());
        }
        let there = |frame: &u64| oldest + frame % (last - oldest + 1);
        self.counts.met("ways back");
        self.write(
            process,
            at,
            &match step {
                Step::RestoreNote(key, frame) => Step::RestoreNote(key.clone(), there(frame)),
                Step::RestoreRow(key, frame) => Step::RestoreRow(key.clone(), there(frame)),
                Step::Rollback(frame) => Step::Rollback(there(frame)),
                other => other.clone(),
            },
        )
    }

    /// A write failed: refused, or of unknown outcome.
    pub(super) fn failed(&mut self, process: usize, e: &Error, at: usize, step: &Step) -> Check {
        let own = &mut self.writers[process];
        let alive = own.disk.is_alive();
        own.poisoned |= matches!(e, Error::Poisoned { .. } | Error::OutcomeUnknown { .. });
        if !alive || matches!(e, Error::OutcomeUnknown { .. }) {
            self.truth.unknown(at, step);
            self.counts.met("writes of unknown outcome");
        }
        let doing = format!("writing in process {process}");
        self.excuse(e, alive, &doing)
    }

    /// A writer that stopped refuses; then the program opens the store again.
    pub(super) fn refused(&mut self, process: usize, store: &Store) -> Check {
        let done = store.root().notes().remember("refused", "", "");
        ensure!(done.is_err(), "a writer goes on after a failed write");
        self.truth.claimed(store.durable().0)?;
        self.counts.met("writes refused by a stopped writer");
        let own = &mut self.writers[process];
        (own.store, own.poisoned) = (None, false);
        Ok(())
    }

    fn close(&mut self, process: usize) -> Check {
        let own = &mut self.writers[process];
        let Some(store) = own.store.take() else { return Ok(()) };
        let (alone, poisoned) = (own.kind != Kind::Many, std::mem::take(&mut own.poisoned));
        match store.close() {
            Ok(()) => {
                self.counts.met("closed");
                if alone {
                    self.truth.claimed(store.appended().0)?;
                }
                Ok(())
            }
            Err(_) if poisoned => Ok(()),
            Err(e) => {
                let alive = self.writers[process].disk.is_alive();
                self.excuse(&e, alive, "closing")
            }
        }
    }

    fn kill(&mut self, process: usize) {
        let own = &mut self.writers[process];
        own.disk.kill();
        (own.store, own.poisoned) = (None, false);
        self.counts.met("died");
    }

    fn read(&mut self, reader: usize) -> Check {
        let own = &self.readers[reader];
        let (disk, opened) = (own.disk.clone(), own.store.is_none());
        let looked = match own.store.clone() {
            Some(store) => store.refresh().map(|_| store),
            None => self.options(Kind::Many).open_read_only_on(Arc::new(disk.clone())),
        };
        self.note_faults();
        match looked {
            Ok(store) => {
                self.readers[reader].store = Some(store.clone());
                self.counts.met(if opened { "reader openings" } else { "reader refreshes" });
                if self.rotten.is_some() {
                    self.readers[reader].store = None;
                    return if self.fired { Ok(()) } else { self.read_rotten(&store) };
                }
                if let Some(damage) = store.recovery().damage.as_ref().filter(|_| opened) {
                    return Err(format!("a reader says damaged: {damage}"));
                }
                if self.erasing.is_some() {
                    // It may see what is stated and may yet be lost.
                    self.readers[reader].store = None;
                    return Ok(());
                }
                // Of what it saw before it was durable, pages may have left the cache after a failed sync.
                let left = !opened && self.told && store.appended().0 > self.truth.durable;
                // A reader counts up to the last frame that is not lost.
                if !self.fired && !self.truth.gone.contains(&self.truth.last()) {
                    if !left {
                        self.resolve(&store)?;
                    }
                    self.truth.claimed(store.durable().0)?;
                }
                Ok(())
            }
            Err(Error::NoSuchStore { .. }) if self.truth.last() == 0 => Ok(()),
            Err(Error::Damaged(_)) if self.rotten.is_some() => Ok(()),
            Err(e) => {
                self.readers[reader].store = None;
                self.excuse(&e, disk.is_alive(), "reading")
            }
        }
    }

    /// Lets go of what died within this action.
    fn bury(&mut self) {
        if !self.disk.is_alive() {
            self.counts.met("stopped within a call");
            let how = self.down.take().unwrap_or(Down::Killed(0));
            self.go_down(how);
            return;
        }
        self.bury_processes();
    }

    /// Processes that died on a machine that runs are over: their locks are free.
    pub(super) fn bury_processes(&mut self) {
        let embeds = self.embeds;
        for (process, own) in self.writers.iter_mut().chain(&mut self.readers).enumerate() {
            // Who died while others acted in its name is buried when it has seen that.
            if own.disk.is_alive() || embeds == Some(process) {
                continue;
            }
            self.counts.met("died");
            self.counts.add("locks taken from the dead", u64::from(self.disk.is_locked()));
            self.survivors = true;
            own.store = None;
            own.poisoned = false;
            let mut rng = Rng::new(own.seed);
            own.disk.kill_torn(&mut |n| rng.below(n));
        }
    }

    /// The machine goes down and starts again; nobody has the store open.
    pub(super) fn go_down(&mut self, how: Down) {
        self.counts.met("rounds");
        self.note_faults();
        // Stopped before the stores go, so that their going leaves nothing.
        self.disk.crash_at(0);
        let _ = mnemolog::disk::Disk::list(&self.disk, "");
        for own in self.writers.iter_mut().chain(&mut self.readers) {
            (own.store, own.poisoned) = (None, false);
        }
        match how {
            Down::Killed(seed) => {
                let mut rng = Rng::new(seed);
                self.disk.kill_torn(&mut |n| rng.below(n));
                self.counts.met("all processes killed");
            }
            Down::Power(loss) => self.lose_power(loss),
        }
        for own in self.writers.iter_mut().chain(&mut self.readers) {
            own.disk = self.disk.process();
        }
        (self.down, self.peek, self.survivors) = (None, None, false);
    }

    fn lose_power(&mut self, loss: Loss) {
        let mut rng = Rng::new(loss.seed);
        let mut choose = |n: u64| match loss.survivors {
            Survivors::All => 0,
            Survivors::Nothing => n - 1,
            Survivors::Any => rng.below(n),
        };
        self.disk.power_loss_filling(&mut choose, loss.tear, loss.fill);
        self.truth.lose();
        self.told = false;
        self.counts.met(&format!("loss: {:?}", loss.tear));
        self.counts.met(&format!("loss: {:?}", loss.fill));
    }

    /// No faults are due, the disk has room, and nobody has the store open.
    pub(super) fn calm(&mut self) {
        self.note_faults();
        self.disk.clear_faults();
        self.room(None);
        for process in 0..self.writers.len() {
            let own = &mut self.writers[process];
            (own.store, own.poisoned) = (None, false);
            own.disk.kill();
        }
        self.readers.iter_mut().for_each(|own| own.store = None);
        (self.down, self.peek) = (None, None);
    }

    /// The end: power goes, and the store is opened, read, written to and read again.
    pub(super) fn end(&mut self, loss: Loss) -> Check {
        self.calm();
        self.go_down(Down::Power(loss));
        if self.rotten.is_some() {
            self.repair(0)?;
        }
        for at in [0, 1] {
            self.fired = false;
            let step = Step::Remember("end".to_owned(), String::new(), format!("{at}"));
            let last = self.truth.least();
            self.write(0, at, &step)?;
            ensure!(self.truth.least() > last, "the store takes no write in the end");
            self.read(0)?;
            self.past(0, self.truth.last() / 2)?;
            self.calm();
        }
        ensure!(self.rotten.is_none(), "what rotted was neither found nor harmless");
        Ok(())
    }

    /// Everything that is left on the disk, as one number, and how many calls it took.
    pub(super) fn print(&self) -> (u64, u64) {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for path in self.disk.files() {
            let bytes = self.disk.read_file(&path).unwrap_or_default();
            for byte in path.bytes().chain(bytes) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        (hash, self.disk.calls())
    }
}
