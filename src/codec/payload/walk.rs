//! The walk over a frame's payload, which also holds its structure: what stands behind what, and how much of it.

use super::{Decoded, Trust, decode};
use crate::codec::delta::{Class, Envelope, HandleKind, ORIGIN_TAG, Op, Origin, envelope as at};
use crate::codec::frame::{CheckedFrame, FRAME_HEADER_BYTES, FrameKind, LostRange, Seal};
use crate::codec::wire::Malformed;

/// The envelopes of a payload whose frame was found right: deltas with their index and offset.
///
/// The walk also holds the structure: items stand behind a head of their handle, as many as it says, and
/// (for [`Deltas::of`]) the frame has as many deltas as its header says. Behind an erased head, whose count
/// is gone, every item is erased; they are nothing any more, and the walk passes them.
#[derive(Clone, Debug)]
pub struct Deltas<'a> {
    rest: &'a [u8],
    offset: u64,
    index: u32,
    origin: Option<Origin>,
    head: Option<Head<'a>>,
    /// Deltas that the frame header still promises, where it was asked.
    due: Option<u16>,
    failed: bool,
}

/// The snapshot whose items are being met.
#[derive(Clone, Debug)]
struct Head<'a> {
    kind: HandleKind,
    id: &'a str,
    /// Items to come; `None` behind an erased head.
    due: Option<u64>,
}

/// One envelope met on the walk over a payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta<'a> {
    /// Its index in the frame, the origin not counted.
    pub index: u32,
    /// Where it stands in the file.
    pub offset: u64,
    /// What it holds.
    pub envelope: Envelope<'a>,
}

impl<'a> Deltas<'a> {
    /// Begins at a payload that stands at `offset` of its file. The number of deltas is not looked at.
    ///
    /// # Errors
    /// The origin does not decode.
    pub fn new(payload: &'a [u8], offset: u64) -> Result<Deltas<'a>, Malformed> {
        let mut deltas =
            Deltas { rest: payload, offset, index: 0, origin: None, head: None, due: None, failed: false };
        // Only an origin is decoded here: a delta is, when its turn comes.
        if payload.get(at::KIND) == Some(&ORIGIN_TAG)
            && let (Decoded::Origin(origin), rest) = decode(payload, offset, Trust::Frame)?
        {
            deltas.offset += (payload.len() - rest.len()) as u64;
            (deltas.origin, deltas.rest) = (origin, rest);
        }
        Ok(deltas)
    }

    /// Begins at the payload of a commit or a base, and holds it to the delta count of its header.
    ///
    /// # Errors
    /// As [`Deltas::new`].
    pub fn of(frame: &CheckedFrame<'a>) -> Result<Deltas<'a>, Malformed> {
        let offset = u64::from(frame.header.own_offset) + FRAME_HEADER_BYTES as u64;
        let deltas = Deltas::new(frame.payload, offset)?;
        Ok(Deltas { due: Some(frame.header.delta_count), ..deltas })
    }

    /// Who wrote the frame, where it says so and that was not erased.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// The next envelope; none for an item that went with its head.
    fn step(&mut self) -> Result<Option<Delta<'a>>, Malformed> {
        let (decoded, rest) = decode(self.rest, self.offset, Trust::Frame)?;
        let Decoded::Delta(envelope) = decoded else {
            return Err(Malformed::new("envelope", self.offset, "a delta", "a second origin"));
        };
        let mut gone = false;
        if envelope.item {
            self.item(&envelope)?;
            gone = self.head.as_ref().is_some_and(|head| head.due.is_none());
        } else {
            self.delta(&envelope)?
        }
        let delta = Delta { index: self.index, offset: self.offset, envelope };
        self.offset += (self.rest.len() - rest.len()) as u64;
        self.rest = rest;
        self.index = self.index.saturating_add(1);
        Ok((!gone).then_some(delta))
    }

    fn item(&mut self, envelope: &Envelope<'a>) -> Result<(), Malformed> {
        let bad = |expected: &str| Err(Malformed::new("snapshot item", self.offset, expected, "another"));
        let Some(head) = &mut self.head else { return bad("a head before it") };
        if (head.kind, head.id) != (envelope.op.kind(), envelope.id) {
            return bad("the handle of its head");
        }
        match &mut head.due {
            Some(0) => return bad("no more items than its head says"),
            Some(due) => *due -= 1,
            None if !matches!(envelope.op, Op::Erased { .. }) => return bad("an erased item"),
            None => {}
        }
        Ok(())
    }

    fn delta(&mut self, envelope: &Envelope<'a>) -> Result<(), Malformed> {
        self.no_item_due()?;
        self.head = match &envelope.op {
            Op::Snapshot { items, .. } => Some(Some(*items)),
            Op::Erased { class: Class::Snapshot, .. } => Some(None),
            _ => None,
        }
        .map(|due| Head { kind: envelope.op.kind(), id: envelope.id, due });
        match &mut self.due {
            Some(0) => {
                Err(Malformed::new("delta count", self.offset, "the end of the frame", "a delta more"))
            }
            Some(due) => {
                *due -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn no_item_due(&self) -> Result<(), Malformed> {
        match self.head.as_ref().and_then(|head| head.due) {
            None | Some(0) => Ok(()),
            Some(due) => {
                let expected = format!("{due} more");
                Err(Malformed::new("snapshot items", self.offset, expected, "their end"))
            }
        }
    }

    fn end(&self) -> Result<(), Malformed> {
        self.no_item_due()?;
        match self.due {
            None | Some(0) => Ok(()),
            Some(due) => {
                let expected = format!("{due} more");
                Err(Malformed::new("delta count", self.offset, expected, "the end of the frame"))
            }
        }
    }
}

impl<'a> Iterator for Deltas<'a> {
    type Item = Result<Delta<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            if self.rest.is_empty() {
                self.failed = true;
                return self.end().err().map(Err);
            }
            let step = self.step().transpose();
            self.failed = matches!(step, Some(Err(_)));
            if step.is_some() {
                return step;
            }
        }
        None
    }
}

/// Holds the payload of a frame whose checksum is right against its kind: every envelope decodes, there are
/// as many deltas as the header says, and every snapshot head has its items. `offset` is the payload's.
///
/// # Errors
/// The first thing that does not hold.
pub fn check(frame: &CheckedFrame<'_>, offset: u64) -> Result<(), Malformed> {
    match frame.header.kind {
        FrameKind::Commit | FrameKind::Base => Deltas::of(frame)?.try_for_each(|delta| delta.map(drop)),
        FrameKind::Close if frame.payload.is_empty() => Ok(()),
        FrameKind::Close => Err(Malformed::new("close marker", offset, "no payload", frame.payload.len())),
        FrameKind::Seal => Seal::decode(frame.payload, offset).map(|_| ()),
        FrameKind::Lost => LostRange::decode(frame.payload, offset).map(|_| ()),
    }
}
