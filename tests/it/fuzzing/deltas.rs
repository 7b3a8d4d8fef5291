//! Deltas of any make, sensible or not, folded: every one that decodes folds, and at any time the snapshot of a
//! handle, restored into an empty one, gives the same snapshot, and goes on to fold the same.

use std::borrow::Cow;

use mnemolog::codec::delta::{Body, Class, Config, HandleKind, Identity, Note, Op, Push, Record, Upsert};
use mnemolog::codec::frame::Seed;
use mnemolog::codec::payload::{self, Decoded, Trust};
use mnemolog::codec::snapshot::{self, SNAPSHOT_HEADER_BYTES};
use mnemolog::codec::wire::Malformed;
use mnemolog::error::{Error, Result};
use mnemolog::position::{Frame, Last, Place, Position, Time};
use mnemolog::view::{Bodies, HandleId, State};

use super::checksums::mend_envelopes;
use super::input::Input;

const SALT: u64 = 0x5eed;
const IDS: [&str; 3] = ["core/x", "y", ""];

/// The envelopes of a log in memory.
#[derive(Default)]
struct Buffer(Vec<u8>);

/// A log in memory and what it folds to.
#[derive(Default)]
struct World {
    log: Buffer,
    state: State,
}

impl Bodies for Buffer {
    fn read(&self, at: Position, frame: Frame) -> Result<Cow<'_, [u8]>> {
        let corrupt = |reason| self.corrupt(at, frame, reason);
        let bytes = self.0.get(at.offset as usize..).unwrap_or_default();
        let length = payload::envelope_bytes(bytes, u64::from(at.offset)).map_err(corrupt)?;
        let bytes = bytes.get(..length).unwrap_or_default();
        payload::decode(bytes, u64::from(at.offset), Trust::Alone(&Seed::new(SALT))).map_err(corrupt)?;
        Ok(Cow::Borrowed(bytes))
    }

    fn corrupt(&self, _: Position, frame: Frame, reason: Malformed) -> Error {
        Error::Corrupt { path: "memory".into(), segment: "buffer".into(), frame, reason: Box::new(reason) }
    }
}

/// A byte of an envelope, counted around its end, and a bit of it to flip.
type Spoil = Option<(u16, u8)>;

pub(crate) fn run(data: &[u8]) {
    let input = &mut Input::new(data);
    // One is folded from the beginning, the other restored from its own snapshots now and then.
    let mut worlds = [World::default(), World::default()];
    let mut commits = 0;
    while !input.is_used_up() && commits < 200 {
        commits += 1;
        let id = input.pick(&IDS);
        let kind = input.pick(&HandleKind::ALL);
        let strings = Strings::new(input);
        let mut ops = vec![op(input, kind, &strings)];
        if input.chance(12) {
            let (config, continues) = (config(input, kind, &strings), input.chance(3));
            ops.extend((0..input.below(4)).map(|_| op(input, kind, &strings)));
            ops.insert(0, Op::Snapshot { config, items: ops.len() as u64, continues });
        }
        let spoil = |_| input.chance(6).then(|| (input.number(), input.below(8) as u8));
        let spoils: Vec<Spoil> = (0..ops.len()).map(spoil).collect();
        worlds.iter_mut().for_each(|world| world.commit(id, &ops, &spoils));
        if input.chance(10) {
            worlds[1] = worlds[1].restored();
        }
    }
    let digests = worlds.each_ref().map(|world| world.state.digest(&world.log).expect("bodies are there"));
    assert_eq!(digests[0], digests[1], "what is restored goes on to fold the same");
    worlds[0].restored();
}

/// What operations borrow.
struct Strings {
    key: &'static str,
    text: String,
    json: String,
}

impl Strings {
    fn new(input: &mut Input<'_>) -> Strings {
        // A view takes what the log says for JSON, whether it is or not.
        const JSON: [&str; 7] = ["{}", r#"{"n":1,"tag":"a"}"#, "null", "[1,2]", "12.50", "no json", ""];
        Strings { key: input.key(), text: input.text(6), json: input.pick(&JSON).to_owned() }
    }
}

fn op<'a>(input: &mut Input<'_>, kind: HandleKind, of: &'a Strings) -> Op<'a> {
    let Strings { key, text, json } = of;
    match (input.below(12), kind) {
        (0, _) => Op::Erased { kind, class: input.pick(&Class::ALL), tokens: input.number() },
        (1, _) => Op::Clear(kind),
        (2 | 3, _) => Op::Configure(config(input, kind, of)),
        (4, HandleKind::Notes) => Op::Forget { key },
        (4, HandleKind::Vector) => Op::Delete { id: key },
        (_, HandleKind::Notes) => {
            let body = if input.chance(4) { Body::Json(json) } else { Body::Text(text) };
            Op::Remember(Note { key, summary: input.chance(2).then_some(text), body })
        }
        (_, HandleKind::Vector) => {
            let width = if input.chance(5) { input.below(5) } else { 2 };
            let float = |input: &mut Input<'_>| match input.below(6) {
                0 => f32::from_bits(input.number()),
                n => [0.0, -0.0, 1.0, -1.0, 0.5, 3.0][n as usize],
            };
            let embedding = (0..width).map(|_| float(input)).collect::<Vec<_>>();
            Op::Upsert(Upsert { id: key, text, metadata: json, embedding: Cow::Owned(embedding) })
        }
        (_, HandleKind::Episodic) => Op::Record(Record { key, value: json, timestamp_ms: input.number() }),
        (_, HandleKind::Working) => {
            let tokens = if input.chance(6) { input.number() } else { input.below(40) as u32 };
            Op::Push(Push { label: key, content: text, tokens })
        }
    }
}

fn config<'a>(input: &mut Input<'_>, kind: HandleKind, of: &'a Strings) -> Config<'a> {
    let number = if input.chance(4) { input.number() } else { input.below(60) };
    let is_set = !input.chance(4);
    match kind {
        HandleKind::Notes => Config::Notes,
        HandleKind::Vector => {
            let (name, model) = (Cow::Borrowed(of.key), Cow::Borrowed(of.text.as_str()));
            let dim = if input.chance(4) { number as u32 } else { 2 };
            Config::Vector(is_set.then_some(Identity { name, model, dim }))
        }
        HandleKind::Episodic => Config::Episodic(is_set.then_some(number)),
        HandleKind::Working => Config::Working(is_set.then_some(number)),
    }
}

impl World {
    /// Encodes the operations, spoils what is to be spoiled, and folds what decodes.
    fn commit(&mut self, id: &str, ops: &[Op<'_>], spoils: &[Spoil]) {
        let frame = self.state.frame().next().expect("a short log");
        let time = Time::from_micros(1_000_000 + frame.0).expect("an early time");
        let seed = Seed::new(SALT);
        for (index, op) in ops.iter().enumerate() {
            let previous = op.chain_key().map(|key| self.state.last(op.kind(), id, key)).unwrap_or_default();
            let (offset, item) = (self.log.0.len(), index > 0);
            if payload::encode(&mut self.log.0, &seed, id, previous, op, item).is_err() {
                assert_eq!(self.log.0.len(), offset, "what cannot be encoded leaves nothing behind");
                continue;
            }
            if let Some((at, bit)) = spoils.get(index).copied().flatten() {
                let at = offset + usize::from(at) % (self.log.0.len() - offset);
                self.log.0[at] ^= 1 << bit;
                mend_envelopes(&mut self.log.0[offset..], &seed);
            }
            let at = Position { segment: 0, offset: u32::try_from(offset).expect("a short log") };
            let place = Place { last: Last { frame, index: index as u32 }, at };
            match payload::decode(&self.log.0[offset..], offset as u64, Trust::Alone(&seed)) {
                Ok((Decoded::Delta(envelope), [])) => {
                    self.state.apply(place, time, envelope.id, &envelope.op);
                }
                // What does not decode never gets into a log; one that is shorter now has something behind it.
                _ => self.log.0.truncate(offset),
            }
        }
        self.state.advance(frame, time);
    }

    /// The world whose every handle was restored from its snapshot; it must be the same.
    fn restored(&self) -> World {
        let mut fresh = World::default();
        let handles: Vec<HandleId> = self.state.handles().collect();
        for handle in &handles {
            let bytes = self.state.snapshot(handle, &self.log).expect("bodies are there");
            let ops = envelopes(&bytes);
            // Which texts are JSON is for decoding to say: a view takes what the log says.
            if let Ok(decoded) = snapshot::decode(&bytes, handle.kind) {
                assert_eq!(format!("{decoded:?}"), format!("{ops:?}"), "floats may be no numbers");
            }
            fresh.commit(&handle.id, &ops, &[]);
            let again = fresh.state.snapshot(handle, &fresh.log).expect("bodies are there");
            assert_eq!(again, bytes, "{handle:?}");
        }
        assert_eq!(fresh.state.handles().collect::<Vec<_>>(), handles);
        let digests = [(&self.state, &self.log), (&fresh.state, &fresh.log)]
            .map(|(state, log)| state.digest(log).expect("bodies are there"));
        assert_eq!(digests[0], digests[1], "the same handles make the same digest");
        fresh
    }
}

/// The head and the items of a snapshot, whatever they say.
fn envelopes(snapshot: &[u8]) -> Vec<Op<'_>> {
    let mut rest = &snapshot[SNAPSHOT_HEADER_BYTES..];
    let mut ops = Vec::new();
    while !rest.is_empty() {
        let (decoded, behind) = payload::decode(rest, 0, Trust::Alone(&Seed::new(0))).expect("an envelope");
        let Decoded::Delta(envelope) = decoded else { panic!("a snapshot has no origin") };
        ops.push(envelope.op);
        rest = behind;
    }
    ops
}
