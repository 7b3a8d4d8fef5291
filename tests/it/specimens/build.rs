//! Builds logs byte by byte with the codec alone: fixed salts, ids, times and writers, so the bytes never change.
//!
//! It writes what the format says a writer writes. Faults are put in afterwards, by whoever wants them.

use std::collections::BTreeMap;
use std::path::Path;

use mnemolog::codec::delta::{Config, HandleKind, Links, Op, Origin};
use mnemolog::codec::frame::{self, FRAME_HEADER_BYTES, FrameHeader, FrameKind, LostRange, Seal, Seed};
use mnemolog::codec::payload;
use mnemolog::codec::segment::{Durable, FRAMES_START, SEGMENT_HEADER_OFFSETS, SegmentHeader, StoreId};
use mnemolog::position::{Frame, Last, SegmentId, Time};

/// The id of every specimen.
pub(super) const STORE: StoreId = StoreId(*b"specimen-store-1");
/// 2026-11-30T12:00:00Z.
const BEGIN_US: u64 = 1_796_040_000_000_000;
/// The time between two frames: all six digits of the second change.
const STEP_US: u64 = 1_234_567;

/// A store as paths and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Store(pub(super) BTreeMap<String, Vec<u8>>);

impl Store {
    /// The file with the path; a specimen without it is a fault of the test.
    pub(super) fn file(&mut self, path: &str) -> &mut Vec<u8> {
        self.0.get_mut(path).unwrap_or_else(|| panic!("no {path}"))
    }

    /// Puts DURABLE there, promising a frame.
    pub(super) fn promise(mut self, number: u64) -> Store {
        let durable = Durable {
            store: STORE,
            frame: Frame(number),
            segment: Frame(1),
            offset: FRAMES_START,
            copied: false,
        };
        self.0.insert("DURABLE".into(), durable.encode().into());
        self
    }

    pub(super) fn write(&self, root: &Path) {
        for (path, bytes) in &self.0 {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }

    /// Every file below a directory.
    pub(super) fn read(root: &Path) -> Store {
        let mut store = Store::default();
        let mut pending = vec![root.to_path_buf()];
        while let Some(path) = pending.pop() {
            if path.is_dir() {
                pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                store.0.insert(name, std::fs::read(&path).unwrap());
            }
        }
        store
    }
}

/// One file under construction.
#[derive(Clone, Debug)]
struct LogFile {
    path: String,
    seed: Seed,
    bytes: Vec<u8>,
    previous_crc: u32,
    frames: u64,
}

/// A log under construction.
#[derive(Clone, Debug)]
pub(super) struct Log {
    files: Vec<LogFile>,
    number: u64,
    time_us: u64,
    /// What the next frames promise; by default everything before them.
    pub(super) durable: Option<u64>,
    pub(super) writer: u32,
    places: BTreeMap<(HandleKind, String, String), Last>,
}

/// The salt of the file with an ordinal.
pub(super) fn salt(ordinal: u64) -> u64 {
    0x0123_4567_89ab_cdef + ordinal
}

impl Log {
    /// A log without files; `number` is the last frame number so far.
    pub(super) fn new(number: u64) -> Log {
        let places = BTreeMap::new();
        Log { files: Vec::new(), number, time_us: BEGIN_US, durable: None, writer: 0x77, places }
    }

    /// A log with its first segment.
    pub(super) fn first() -> Log {
        Log::new(0).begin(SegmentId::Segment { first: Frame(1) }, 0)
    }

    /// Begins the next file.
    pub(super) fn begin(mut self, id: SegmentId, previous_nonce: u64) -> Log {
        let salt = salt(self.files.len() as u64);
        let header = SegmentHeader {
            store: STORE,
            first: id.first(),
            salt,
            previous_nonce,
            created: Time::from_micros(self.time_us).unwrap(),
        };
        let mut bytes = vec![0; FRAMES_START as usize];
        for at in SEGMENT_HEADER_OFFSETS {
            bytes[at as usize..][..64].copy_from_slice(&header.encode());
        }
        let path = format!("log/{id}");
        self.files.push(LogFile { path, seed: Seed::new(salt), bytes, previous_crc: 0, frames: 0 });
        self
    }

    /// Appends a frame and answers the log.
    fn frame(mut self, kind: FrameKind, number: u64, build: impl FnOnce(&mut Payload<'_>)) -> Log {
        let file = self.files.last_mut().unwrap();
        let mut payload = Payload {
            out: vec![0; FRAME_HEADER_BYTES],
            seed: file.seed.clone(),
            number: Frame(number),
            deltas: 0,
            envelopes: 0,
            places: &mut self.places,
        };
        build(&mut payload);
        let Payload { mut out, deltas, .. } = payload;
        let mut header = FrameHeader {
            payload_length: 0,
            crc: 0,
            number: Frame(number),
            own_offset: u32::try_from(file.bytes.len()).unwrap(),
            previous_crc: file.previous_crc,
            durable: Frame(self.durable.unwrap_or(self.number)),
            time: Time::from_micros(self.time_us).unwrap(),
            kind,
            delta_count: deltas,
            writer: self.writer,
        };
        file.previous_crc = frame::finish(&mut out, &mut header, &file.seed);
        file.bytes.extend_from_slice(&out);
        file.frames += 1;
        self.number = number;
        self.time_us += STEP_US;
        self
    }

    pub(super) fn commit(self, build: impl FnOnce(&mut Payload<'_>)) -> Log {
        let number = self.number + 1;
        self.frame(FrameKind::Commit, number, build)
    }

    pub(super) fn base(self, build: impl FnOnce(&mut Payload<'_>)) -> Log {
        let number = self.number;
        self.frame(FrameKind::Base, number, build)
    }

    pub(super) fn close(self) -> Log {
        let number = self.number;
        self.frame(FrameKind::Close, number, |_| {})
    }

    pub(super) fn lost(self, first: u64, last: u64) -> Log {
        let range = LostRange { first: Frame(first), last: Frame(last) };
        self.frame(FrameKind::Lost, last, |payload| payload.out.extend_from_slice(&range.encode()))
    }

    /// Seals the file; `extra` is how many frames too many the seal counts.
    pub(super) fn seal(self, nonce: u64, extra: u64) -> Log {
        let (number, file) = (self.number, self.files.last().unwrap());
        let digest = xxhash_rust::xxh3::xxh3_128(&file.bytes[FRAMES_START as usize..]);
        let seal = Seal { frames: file.frames + extra, digest, nonce };
        self.frame(FrameKind::Seal, number, |payload| payload.out.extend_from_slice(&seal.encode()))
    }

    /// The offset of the next frame in the file under construction.
    pub(super) fn end(&self) -> usize {
        self.files.last().unwrap().bytes.len()
    }

    pub(super) fn store(&self) -> Store {
        Store(self.files.iter().map(|file| (file.path.clone(), file.bytes.clone())).collect())
    }
}

/// The payload of one frame under construction.
#[derive(Debug)]
pub(super) struct Payload<'a> {
    pub(super) out: Vec<u8>,
    seed: Seed,
    number: Frame,
    deltas: u16,
    envelopes: u32,
    places: &'a mut BTreeMap<(HandleKind, String, String), Last>,
}

impl Payload<'_> {
    pub(super) fn origin(&mut self, agent: &str, session: Option<&str>, tool: Option<&str>) {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let origin = Origin { agent: Some(agent.into()), session: own(session), tool: own(tool) };
        payload::encode_origin(&mut self.out, &self.seed, &origin).unwrap();
    }

    pub(super) fn op(&mut self, id: &str, op: &Op<'_>) {
        self.deltas += 1;
        self.envelope(id, op, false);
    }

    /// An operation that pushes out what deltas of earlier frames brought.
    pub(super) fn evicting(&mut self, id: &str, op: &Op<'_>, evicted: &[(u64, u32)]) {
        self.deltas += 1;
        self.envelopes += 1;
        let evicted: Vec<Last> =
            evicted.iter().map(|(frame, index)| Last { frame: Frame(*frame), index: *index }).collect();
        let links = Links { evicted: &evicted, ..Links::default() };
        payload::encode(&mut self.out, &self.seed, id, links, op, false).unwrap();
    }

    pub(super) fn snapshot(&mut self, id: &str, config: Config<'_>, continues: bool, items: &[Op<'_>]) {
        self.op(id, &Op::Snapshot { config, items: items.len() as u64, continues });
        items.iter().for_each(|item| self.item(id, item));
    }

    pub(super) fn item(&mut self, id: &str, op: &Op<'_>) {
        self.envelope(id, op, true);
    }

    fn envelope(&mut self, id: &str, op: &Op<'_>, item: bool) {
        let mut previous = Last::default();
        if let Some(key) = op.chain_key() {
            let last = Last { frame: self.number, index: self.envelopes };
            let place = self.places.entry((op.kind(), id.into(), key.into())).or_default();
            previous = std::mem::replace(place, last);
        }
        payload::encode(&mut self.out, &self.seed, id, previous, op, item).unwrap();
        self.envelopes += 1;
    }

    /// Blanks the envelope that was added last, as erasing does: nothing moves.
    pub(super) fn blank(&mut self) {
        self.blank_last(false);
    }

    /// The same as erasing the whole handle does: its id goes too.
    pub(super) fn blank_handle(&mut self) {
        self.blank_last(true);
    }

    fn blank_last(&mut self, handle: bool) {
        use mnemolog::codec::delta::{ENVELOPE_HEADER_BYTES, FLAG_ERASED, envelope as at};
        let mut start = FRAME_HEADER_BYTES;
        loop {
            let bytes = payload::envelope_bytes(&self.out[start..], 0).unwrap();
            if start + bytes == self.out.len() {
                break;
            }
            start += bytes;
        }
        let whole = &mut self.out[start..];
        let number =
            |at: usize, bytes: &[u8]| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let (length, id_length) = (number(at::LENGTH, whole), number(at::ID_LENGTH, whole));
        let id_start = ENVELOPE_HEADER_BYTES + 4 * number(at::EMBEDDING_WIDTH, whole);
        whole[ENVELOPE_HEADER_BYTES..id_start].fill(0);
        whole[id_start + id_length..length].fill(0);
        if handle {
            whole[id_start..id_start + id_length].fill(0);
            whole[at::ID_LENGTH..at::ID_LENGTH + 4].fill(0);
        }
        whole[at::FLAGS] |= FLAG_ERASED as u8;
        let crc = self.seed.crc_without(&whole[..length], at::CRC);
        whole[at::CRC..at::CRC + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Makes the checksum of the frame at an offset right again, after its bytes were bent.
pub(super) fn reseal(bytes: &mut [u8], offset: usize, salt: u64) {
    use frame::frame_header as at;
    let payload = u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap()) as usize;
    let whole = &mut bytes[offset..][..FRAME_HEADER_BYTES + payload.next_multiple_of(8)];
    let crc = Seed::new(salt).crc_without(whole, at::CRC);
    whole[at::CRC..at::CRC + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Flips a bit somewhere in the frame at `start`, and makes the checksums of its envelopes and its own right again.
pub(super) fn bend(bytes: &mut [u8], start: usize, at: usize, bit: u8, salt: u64) {
    use mnemolog::codec::delta::envelope;
    bytes[at] ^= bit;
    let mut from = start + FRAME_HEADER_BYTES;
    while let Ok(len) = payload::envelope_bytes(&bytes[from..], 0) {
        let length = u32::from_le_bytes(bytes[from..from + 4].try_into().unwrap()) as usize;
        let Some(whole) = bytes.get_mut(from..from + length) else { break };
        let crc = Seed::new(salt).crc_without(whole, envelope::CRC);
        whole[envelope::CRC..envelope::CRC + 4].copy_from_slice(&crc.to_le_bytes());
        from = (from + len).min(bytes.len());
    }
    let payload = u32::from_le_bytes(bytes[start..start + 4].try_into().unwrap()) as usize;
    if start + FRAME_HEADER_BYTES + payload.next_multiple_of(8) <= bytes.len() {
        reseal(bytes, start, salt);
    }
}
