//! A log in memory: envelopes in one buffer, read back with their checksums looked at, and the state they fold to.

use std::borrow::Cow;
use std::path::PathBuf;

use mnemolog::codec::delta::{HandleKind, Op};
use mnemolog::codec::frame::Seed;
use mnemolog::codec::payload::{self, Trust};
use mnemolog::codec::snapshot;
use mnemolog::codec::wire::Malformed;
use mnemolog::error::{Error, Result};
use mnemolog::position::{Frame, Last, Place, Position, Time};
use mnemolog::view::{Bodies, HandleId, State};

const SALT: u64 = 0x5eed;

/// The bytes of all envelopes.
#[derive(Clone, Default)]
pub(crate) struct Buffer(pub(crate) Vec<u8>);

/// A buffer, and the state after the last commit.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) log: Buffer,
    pub(crate) state: State,
}

impl Bodies for Buffer {
    fn read(&self, at: Position, frame: Frame) -> Result<Cow<'_, [u8]>> {
        let bytes = self.0.get(at.offset as usize..).unwrap_or_default();
        let length = payload::envelope_bytes(bytes, u64::from(at.offset))
            .map_err(|reason| self.corrupt(at, frame, reason))?;
        let bytes = bytes.get(..length).unwrap_or(bytes);
        payload::decode(bytes, u64::from(at.offset), Trust::Alone(&Seed::new(SALT)))
            .map_err(|reason| self.corrupt(at, frame, reason))?;
        Ok(Cow::Borrowed(bytes))
    }

    fn corrupt(&self, _: Position, frame: Frame, reason: Malformed) -> Error {
        let (path, segment) = (PathBuf::from("memory"), "buffer".to_owned());
        Error::Corrupt { path, segment, frame, reason: Box::new(reason) }
    }
}

impl World {
    /// A world whose first frame is `frame + 1` and whose first envelope stands behind `padding` × 8 bytes.
    pub(crate) fn beginning_at(frame: u64, padding: usize) -> World {
        let mut world = World { log: Buffer(vec![0; padding * 8]), state: State::default() };
        world.state.advance(Frame(frame), Time::from_micros(frame).unwrap());
        world
    }

    /// One commit of one delta: the head alone, or a snapshot's head and its items.
    pub(crate) fn commit(&mut self, id: &str, ops: &[Op<'_>]) -> Frame {
        let frame = self.state.frame().next().unwrap();
        let time = time_of(frame);
        for (index, op) in ops.iter().enumerate() {
            let previous = op.chain_key().map(|key| self.state.last(op.kind(), id, key)).unwrap_or_default();
            let offset = self.log.0.len();
            let item = index > 0;
            payload::encode(&mut self.log.0, &Seed::new(SALT), id, previous, op, item).unwrap();
            let at = Position { segment: 0, offset: u32::try_from(offset).unwrap() };
            let place = Place { last: Last { frame, index: index as u32 }, at };
            // What is folded is what was decoded, as in life.
            let bytes = &self.log.0[offset..];
            let (decoded, _) = payload::decode(bytes, offset as u64, Trust::Frame).unwrap();
            let payload::Decoded::Delta(envelope) = decoded else { unreachable!("a delta was encoded") };
            self.state.apply(place, time, envelope.id, &envelope.op);
        }
        self.state.advance(frame, time);
        frame
    }

    pub(crate) fn snapshot(&self, kind: HandleKind, id: &str) -> Vec<u8> {
        self.state.snapshot(&handle(kind, id), &self.log).unwrap()
    }

    /// Commits snapshot bytes to a handle, as `restore_bytes` does.
    pub(crate) fn restore(&mut self, kind: HandleKind, id: &str, bytes: &[u8]) {
        let ops = snapshot::decode(bytes, kind).unwrap();
        self.commit(id, &ops);
    }

    /// Commits a delta, and writes its envelope over the beginning of the log too: whoever reads the first
    /// envelope then meets a whole one that is not its own.
    pub(crate) fn commit_over_all_before(&mut self, id: &str, op: &Op<'_>) {
        let before = self.log.0.len();
        self.commit(id, std::slice::from_ref(op));
        let envelope = self.log.0.split_off(before);
        assert!(envelope.len() <= before, "there is room for it");
        self.log.0[..envelope.len()].copy_from_slice(&envelope);
        self.log.0.extend(&envelope);
    }

    /// Flips a bit in the body of the envelope that the last commit began with.
    pub(crate) fn rot_last_envelope(&mut self) {
        let byte = self.log.0.iter().rposition(|byte| *byte != 0).unwrap();
        self.log.0[byte] ^= 1;
    }
}

/// The time that [`World::commit`] gives a frame.
pub(crate) fn time_of(frame: Frame) -> Time {
    Time::from_micros(1_000_000 + frame.0).unwrap()
}

pub(crate) fn handle(kind: HandleKind, id: &str) -> HandleId {
    HandleId { kind, id: id.into() }
}
