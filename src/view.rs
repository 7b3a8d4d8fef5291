//! State folded from the log: the fold and its laws, the state of a whole store, and every query.
//!
//! Owns what each delta does to each kind of handle, and what a handle answers. A view keeps what lists and
//! searches need and points at the rest; [`Bodies`] reads what it points at. Knows no files, no clocks and no
//! threads, and is never a source of truth: folding the log again gives the same state.
//!
//! Invariants: a [`State`] is persistent, so a clone takes constant time and never sees what is applied to the
//! original afterwards. Equal histories give equal snapshot bytes. Nothing here panics on what a log may hold.

pub(crate) mod back;
pub(crate) mod base;
pub mod diff;
pub mod episodic;
pub mod history;
pub mod notes;
mod packed;
pub mod saved;
pub(crate) mod text;
pub mod vectors;
pub mod working;

use std::borrow::Cow;
use std::sync::Arc;

use imbl::OrdMap;
use xxhash_rust::xxh3::Xxh3;

use crate::codec::delta::{Config, HandleKind, Op};
use crate::codec::json::Json;
use crate::codec::payload::{self, Decoded, Trust};
use crate::codec::run::Run;
use crate::codec::snapshot::{BadSnapshot, SnapshotWriter};
use crate::codec::wire::Malformed;
use crate::error::{Error, Result};
use crate::position::{Frame, Last, Place, Position, Time};

pub use episodic::EpisodicView;
pub use notes::NotesView;
pub use vectors::VectorView;
pub use working::WorkingView;

/// Reads the envelopes that a view only points at.
pub trait Bodies: Send + Sync {
    /// One whole envelope, padding included, whose own checksum was found right just now.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: the checksum is wrong. [`Error::Io`]: it cannot be read.
    fn read(&self, at: Position, frame: Frame) -> Result<Cow<'_, [u8]>>;

    /// The error for an envelope that was read and is not what the view expects, with its context.
    fn corrupt(&self, at: Position, frame: Frame, reason: Malformed) -> Error;

    /// How many bytes [`Bodies::scan`] would go through; none if it cannot.
    fn scan_bytes(&self) -> Option<u64> {
        None
    }

    /// Hands out all frames that there are, in no certain order and on several threads at once, checksums found right
    /// just now, each with the number of its file as in [`Position::segment`]. Among them are the envelopes that
    /// [`Bodies::read`] reads, and others. Answers false if something could not be handed out: then nothing was said
    /// of that.
    fn scan(&self, look: &(dyn Fn(u32, &Run<'_>) + Sync)) -> bool {
        let _ = look;
        false
    }
}

/// The fold of one handle, and its laws.
///
/// - `apply` is the only way state changes, live and in replay. It reads its arguments and its own state, and
///   nothing else: no clock, no randomness, no hash order, no input or output, no embedder, no tokenizer.
/// - Every delta that decodes folds without a panic. A delta that makes no sense for the handle (of another
///   kind, a row of another width) changes nothing, the same way everywhere.
/// - A snapshot arrives envelope by envelope. A head that does not continue another empties the view, ends
///   every chain and configures it; its items follow as ordinary `Remember`, `Upsert`, `Record`, `Push` and
///   `Erased` operations. A head that continues empties nothing and configures the same.
/// - An erased delta of a note or a vector folds to nothing; an erased episode or scratchpad entry folds to a
///   placeholder that occupies its place, costs its tokens and reads as absent.
/// - `snapshot` holds all that reads and later folds depend on, except frames, positions, chains and commit
///   times. Applied to a fresh view it gives a view with the same snapshot, byte for byte.
pub trait View: Default + Clone {
    /// Applies one delta, or one item of a snapshot.
    fn apply(&mut self, place: Place, time: Time, op: &Op<'_>);

    /// What configures a fresh view the same, and how many items a snapshot has.
    fn snapshot_head(&self) -> (Config<'static>, usize);

    /// Hands out the items of a snapshot in their order, each with the head of its chain.
    ///
    /// # Errors
    /// A body cannot be read; whatever `item` answers.
    fn items(&self, bodies: &dyn Bodies, item: &mut dyn FnMut(Last, &Op<'_>) -> Result<()>) -> Result<()>;

    /// The snapshot bytes.
    ///
    /// # Errors
    /// A body cannot be read.
    fn snapshot(&self, bodies: &dyn Bodies) -> Result<Vec<u8>> {
        let (config, items) = self.snapshot_head();
        let head = Op::Snapshot { config, items: items as u64, continues: false };
        let mut writer = SnapshotWriter::new(&head).map_err(BadSnapshot::from)?;
        self.items(bodies, &mut |_, op| Ok(writer.item(op).map_err(BadSnapshot::from)?))?;
        Ok(writer.finish())
    }

    /// How many notes, rows, episodes or entries a read can see.
    fn len(&self) -> usize;

    /// True if a read sees nothing.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the snapshot is that of a fresh view: nothing stored, no placeholder, nothing configured.
    fn is_unused(&self) -> bool;
}

/// Names one handle of a store. The order is that of kinds' tags, then of ids as bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandleId {
    /// The kind of memory.
    pub kind: HandleKind,
    /// Workspace path and name, as the deltas carry it.
    pub id: Arc<str>,
}

/// What one handle's state amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandleDigest {
    /// Which handle.
    pub handle: HandleId,
    /// How many notes, rows, episodes or entries a read can see.
    pub len: usize,
    /// xxh3-128 of its snapshot bytes.
    pub digest: u128,
}

/// All views of a store as of one frame. Cloning takes constant time.
#[derive(Clone, Debug, Default)]
pub struct State {
    notes: OrdMap<Arc<str>, NotesView>,
    vectors: OrdMap<Arc<str>, VectorView>,
    episodic: OrdMap<Arc<str>, EpisodicView>,
    working: OrdMap<Arc<str>, WorkingView>,
    frame: Frame,
    time: Time,
}

impl State {
    /// Applies one delta, or one item of a snapshot, to the handle `id` of the operation's kind, which begins
    /// to exist with it. What was erased with its whole handle has no id any more, and changes nothing. The frame is
    /// moved by [`State::advance`].
    pub fn apply(&mut self, place: Place, time: Time, id: &str, op: &Op<'_>) {
        if id.is_empty() && matches!(op, Op::Erased { .. }) {
            return;
        }
        match op.kind() {
            HandleKind::Notes => apply(&mut self.notes, place, time, id, op),
            HandleKind::Vector => apply(&mut self.vectors, place, time, id, op),
            HandleKind::Episodic => apply(&mut self.episodic, place, time, id, op),
            HandleKind::Working => apply(&mut self.working, place, time, id, op),
        }
    }

    /// Says that every delta of a commit was applied.
    pub fn advance(&mut self, frame: Frame, time: Time) {
        (self.frame, self.time) = (frame, time);
    }

    /// The last commit that was applied; frame 0 if none was.
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// The time of the last commit that was applied.
    pub fn time(&self) -> Time {
        self.time
    }

    /// The notes with this handle id; none before its first delta.
    pub fn notes(&self, id: &str) -> Option<&NotesView> {
        self.notes.get(id)
    }

    /// The vector table with this handle id; none before its first delta.
    pub fn vectors(&self, id: &str) -> Option<&VectorView> {
        self.vectors.get(id)
    }

    /// The ring of episodes with this handle id; none before its first delta.
    pub fn episodic(&self, id: &str) -> Option<&EpisodicView> {
        self.episodic.get(id)
    }

    /// The scratchpad with this handle id; none before its first delta.
    pub fn working(&self, id: &str) -> Option<&WorkingView> {
        self.working.get(id)
    }

    /// The head of the chain of `key`: its last delta, also after it was deleted or the table cleared.
    /// [`Last::default`] if there is none since the handle's last snapshot, and for kinds without chains.
    pub fn last(&self, kind: HandleKind, id: &str, key: &str) -> Last {
        match kind {
            HandleKind::Notes => self.notes(id).map(|view| view.last(key)).unwrap_or_default(),
            HandleKind::Vector => self.vectors(id).map(|view| view.last(key)).unwrap_or_default(),
            HandleKind::Episodic | HandleKind::Working => Last::default(),
        }
    }

    /// The last `clear` of the vector table `id`, whatever came behind it; [`Last::default`] if there is none.
    pub fn cleared(&self, id: &str) -> Last {
        self.vectors(id).map(VectorView::cleared).unwrap_or_default()
    }

    /// Names what an operation on the handle `id` would push out of its ring or scratchpad, oldest first; erased items
    /// are not named. Nothing for whatever is no `record` or `push`.
    pub(crate) fn evicted_by(&self, id: &str, op: &Op<'_>, evicted: &mut Vec<Last>) {
        match op {
            Op::Record(_) => {
                self.episodic(id).into_iter().for_each(|view| view.evicted_by_one_more(evicted));
            }
            Op::Push(push) => {
                self.working(id).into_iter().for_each(|view| view.evicted_by_one_more(push.tokens, evicted));
            }
            _ => {}
        }
    }

    /// The handles that differ from an unused one, by kind, then by id.
    pub fn handles(&self) -> impl Iterator<Item = HandleId> {
        used(HandleKind::Notes, &self.notes)
            .chain(used(HandleKind::Vector, &self.vectors))
            .chain(used(HandleKind::Episodic, &self.episodic))
            .chain(used(HandleKind::Working, &self.working))
    }

    /// The snapshot bytes of a handle; of one that does not exist, those of an unused one.
    ///
    /// # Errors
    /// A body cannot be read.
    pub fn snapshot(&self, handle: &HandleId, bodies: &dyn Bodies) -> Result<Vec<u8>> {
        match handle.kind {
            HandleKind::Notes => snapshot(self.notes(&handle.id), bodies),
            HandleKind::Vector => snapshot(self.vectors(&handle.id), bodies),
            HandleKind::Episodic => snapshot(self.episodic(&handle.id), bodies),
            HandleKind::Working => snapshot(self.working(&handle.id), bodies),
        }
    }

    /// How many notes, rows, episodes or entries of a handle a read can see.
    pub fn len_of(&self, handle: &HandleId) -> usize {
        match handle.kind {
            HandleKind::Notes => self.notes(&handle.id).map_or(0, View::len),
            HandleKind::Vector => self.vectors(&handle.id).map_or(0, View::len),
            HandleKind::Episodic => self.episodic(&handle.id).map_or(0, View::len),
            HandleKind::Working => self.working(&handle.id).map_or(0, View::len),
        }
    }

    /// The handles that differ from an unused one, each with [`State::len_of`].
    pub fn sizes(&self) -> Vec<(HandleId, usize)> {
        self.handles().map(|handle| (handle.clone(), self.len_of(&handle))).collect()
    }

    /// xxh3-128 over [`State::handles`]: of each its kind (one byte), the length of its id (8 bytes,
    /// little-endian), the id, the length of its snapshot (8 bytes, little-endian), the snapshot.
    ///
    /// # Errors
    /// A body cannot be read.
    pub fn digest(&self, bodies: &dyn Bodies) -> Result<u128> {
        Ok(self.handle_digests(bodies)?.0)
    }

    /// The digest of [`State::digest`], and what each handle amounts to, in the same order.
    ///
    /// # Errors
    /// A body cannot be read.
    pub fn handle_digests(&self, bodies: &dyn Bodies) -> Result<(u128, Vec<HandleDigest>)> {
        let mut whole = StateDigest::default();
        let mut each = Vec::new();
        for handle in self.handles() {
            let snapshot = self.snapshot(&handle, bodies)?;
            whole.add(&handle, &snapshot);
            let digest = xxhash_rust::xxh3::xxh3_128(&snapshot);
            each.push(HandleDigest { len: self.len_of(&handle), handle, digest });
        }
        Ok((whole.finish(), each))
    }
}

/// The digest of a whole state, handle by handle: see [`State::digest`].
#[derive(Default)]
pub(crate) struct StateDigest(Xxh3);

impl StateDigest {
    /// Adds the next handle by kind and id, with its snapshot.
    pub(crate) fn add(&mut self, handle: &HandleId, snapshot: &[u8]) {
        self.0.update(&[handle.kind as u8]);
        self.0.update(&(handle.id.len() as u64).to_le_bytes());
        self.0.update(handle.id.as_bytes());
        self.0.update(&(snapshot.len() as u64).to_le_bytes());
        self.0.update(snapshot);
    }

    pub(crate) fn finish(&self) -> u128 {
        self.0.digest128()
    }
}

fn apply<V: View>(views: &mut OrdMap<Arc<str>, V>, place: Place, time: Time, id: &str, op: &Op<'_>) {
    if let Some(view) = views.get_mut(id) {
        return view.apply(place, time, op);
    }
    let mut view = V::default();
    view.apply(place, time, op);
    views.insert(Arc::from(id), view);
}

fn used<V: View>(kind: HandleKind, views: &OrdMap<Arc<str>, V>) -> impl Iterator<Item = HandleId> {
    let used = views.iter().filter(|(_, view)| !view.is_unused());
    used.map(move |(id, _)| HandleId { kind, id: id.clone() })
}

fn snapshot<V: View>(view: Option<&V>, bodies: &dyn Bodies) -> Result<Vec<u8>> {
    match view {
        Some(view) => view.snapshot(bodies),
        None => V::default().snapshot(bodies),
    }
}

/// Reads the envelope at `at` and answers what `take` makes of its operation; `expected` says what that is.
fn read<R>(
    bodies: &dyn Bodies,
    (at, frame): (Position, Frame),
    expected: &'static str,
    take: impl FnOnce(&Op<'_>) -> Result<Option<R>, Malformed>,
) -> Result<R> {
    let bytes = bodies.read(at, frame)?;
    let offset = u64::from(at.offset);
    let other = || Malformed::new("envelope", offset, expected, "another operation");
    let taken = match payload::decode(&bytes, offset, Trust::Frame) {
        Ok((Decoded::Delta(envelope), _)) => take(&envelope.op).and_then(|taken| taken.ok_or_else(other)),
        Ok((Decoded::Origin(_), _)) => Err(other()),
        Err(reason) => Err(reason),
    };
    taken.map_err(|reason| bodies.corrupt(at, frame, reason))
}

/// The canonical JSON text of a body, read back. `offset` is where its envelope stands.
fn json(what: &'static str, offset: u64, text: &str) -> Result<Json, Malformed> {
    Json::parse(text).map_err(|bad| Malformed::new(what, offset, "canonical JSON", bad))
}
