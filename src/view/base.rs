//! A state as the frames of a base: of each handle a snapshot, in as many pieces as frames need.
//!
//! Owns which envelopes a base has and how they are divided among frames: the first head of a handle replaces,
//! each further one continues it, and every item names the last place of its key. Does not know files, numbers or
//! checksums. The same state is divided the same each time.

use super::{Bodies, HandleId, State, View};
use crate::codec::delta::{Class, Config, HandleKind, Op, Origin};
use crate::codec::frame::{FRAME_DELTAS_MAX, PAYLOAD_MAX, Seed};
use crate::codec::payload;
use crate::codec::wire::Malformed;
use crate::error::{Error, Result};
use crate::position::Last;

/// Takes the payload of a frame and the number of its deltas.
pub(crate) type FrameSink<'s> = dyn FnMut(&[u8], u16) -> Result<()> + 's;

impl State {
    /// Hands out the frames whose fold is this state: payloads of about `frame_bytes`, more only where a single
    /// item is larger. There is always one, also of an empty state. Every payload begins its checksums with a
    /// salt of 0.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: an item that fills a frame alone. A body cannot be read; whatever `put` answers.
    pub(crate) fn base(
        &self,
        bodies: &dyn Bodies,
        frame_bytes: usize,
        put: &mut FrameSink<'_>,
    ) -> Result<()> {
        let mut frames = Frames::new(frame_bytes, put);
        for handle in self.handles() {
            match handle.kind {
                HandleKind::Notes => frames.handle(&handle, self.notes(&handle.id), bodies),
                HandleKind::Vector => frames.handle(&handle, self.vectors(&handle.id), bodies),
                HandleKind::Episodic => frames.handle(&handle, self.episodic(&handle.id), bodies),
                HandleKind::Working => frames.handle(&handle, self.working(&handle.id), bodies),
            }?;
        }
        if !frames.put_any && frames.payload.is_empty() {
            // A frame holds a delta, so nothing is said of a handle that is not used.
            frames.head("memory", Config::Notes, false)?;
        }
        frames.flush()
    }
}

/// Hands out the frames of a base that holds these snapshots, each a head and then its items, as [`State::base`] does.
/// The first frame says who wrote it.
///
/// # Errors
/// [`Error::TooLarge`]: an item that fills a frame alone. [`Error::Invalid`]: something else than snapshots. Whatever
/// `put` answers.
pub(crate) fn frames<'c>(
    origin: Option<&Origin>,
    snapshots: impl Iterator<Item = (&'c str, &'c Op<'c>)>,
    frame_bytes: usize,
    put: &mut FrameSink<'_>,
) -> Result<()> {
    let mut frames = Frames::new(frame_bytes, put);
    if let Some(origin) = origin {
        payload::encode_origin(&mut frames.payload, &frames.seed, origin).map_err(not_encodable)?;
    }
    let mut snapshot: Option<(&str, &Config<'_>, bool)> = None;
    for (id, op) in snapshots {
        match (op, &mut snapshot) {
            (Op::Snapshot { config, .. }, _) => {
                frames.end(snapshot.replace((id, config, false)))?;
            }
            (Op::Erased { class: Class::Snapshot, .. }, _) => {
                frames.end(snapshot.take())?;
                frames.delta(id, op)?;
            }
            (item, Some((id, config, continues))) => {
                frames.item(id, config, continues, Last::default(), item)?;
            }
            (other, None) => {
                let (what, found) = ("the base", other.class().name().to_owned());
                return Err(Error::Invalid { what, found, expected: "snapshots" });
            }
        }
    }
    frames.end(snapshot)?;
    frames.flush()
}

/// Frames under construction.
struct Frames<'p, 's> {
    frame_bytes: usize,
    put: &'p mut FrameSink<'s>,
    put_any: bool,
    seed: Seed,
    /// The finished snapshots of this frame, and how many.
    payload: Vec<u8>,
    deltas: u16,
    /// The items of the snapshot whose head is still to be written, and how many.
    items: Vec<u8>,
    count: u64,
}

impl<'p, 's> Frames<'p, 's> {
    fn new(frame_bytes: usize, put: &'p mut FrameSink<'s>) -> Frames<'p, 's> {
        let (payload, items) = (Vec::new(), Vec::new());
        Frames { frame_bytes, put, put_any: false, seed: Seed::new(0), payload, deltas: 0, items, count: 0 }
    }

    fn handle<V: View>(&mut self, handle: &HandleId, view: Option<&V>, bodies: &dyn Bodies) -> Result<()> {
        let Some(view) = view else { return Ok(()) };
        let config = view.snapshot_head().0;
        let mut continues = false;
        view.items(bodies, &mut |last, op| self.item(&handle.id, &config, &mut continues, last, op))?;
        self.end(Some((&handle.id, &config, continues)))
    }

    /// Ends the snapshot of a handle: what is left of it is the last piece, or all.
    fn end(&mut self, snapshot: Option<(&str, &Config<'_>, bool)>) -> Result<()> {
        match snapshot {
            Some((id, config, continues)) if self.count > 0 || !continues => {
                self.head(id, config.clone(), continues)
            }
            _ => Ok(()),
        }
    }

    fn item(
        &mut self,
        id: &str,
        config: &Config<'_>,
        continues: &mut bool,
        last: Last,
        op: &Op<'_>,
    ) -> Result<()> {
        let before = self.items.len();
        payload::encode(&mut self.items, &self.seed, id, last, op, true).map_err(not_encodable)?;
        self.count += 1;
        let full = self.payload.len() + self.items.len() > self.frame_bytes;
        if full && self.payload.len() + before > 0 {
            // What came before makes a frame, and the item begins the next.
            let item = self.items.split_off(before);
            self.count -= 1;
            if self.count > 0 {
                self.head(id, config.clone(), *continues)?;
                *continues = true;
            }
            self.flush()?;
            (self.items, self.count) = (item, 1);
        }
        Ok(())
    }

    /// Finishes a snapshot, or a piece of one: its head goes before its items.
    fn head(&mut self, id: &str, config: Config<'_>, continues: bool) -> Result<()> {
        let head = Op::Snapshot { config, items: self.count, continues };
        self.delta(id, &head)
    }

    /// A head with the items that were collected for it.
    fn delta(&mut self, id: &str, head: &Op<'_>) -> Result<()> {
        payload::encode(&mut self.payload, &self.seed, id, Last::default(), head, false)
            .map_err(not_encodable)?;
        self.payload.append(&mut self.items);
        (self.count, self.deltas) = (0, self.deltas.saturating_add(1));
        let full = self.payload.len() >= self.frame_bytes || usize::from(self.deltas) == FRAME_DELTAS_MAX;
        if full { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.deltas == 0 {
            return Ok(());
        }
        if self.payload.len() > PAYLOAD_MAX {
            let (limit, found) = (PAYLOAD_MAX as u64, self.payload.len() as u64);
            return Err(Error::TooLarge { what: "an item of the base in bytes", limit, found });
        }
        (self.put)(&self.payload, self.deltas)?;
        self.payload.clear();
        (self.deltas, self.put_any) = (0, true);
        Ok(())
    }
}

fn not_encodable(reason: Malformed) -> Error {
    Error::Invalid { what: reason.what, found: reason.found, expected: "a value that the format can hold" }
}
