//! Any bytes as any thing that the format knows. What decodes is encoded again to the same, and what `verify`
//! calls whole opens. The first byte says what the others are, and whether their checksums are made right.

use mnemolog::Json;
use mnemolog::codec::delta::{Envelope, HandleKind, Op};
use mnemolog::codec::frame::{self, FrameKind, Seed, frame_header};
use mnemolog::codec::intent::{INTENT_HEADER_BYTES, INTENT_MAGIC, Intent};
use mnemolog::codec::payload::{self, Decoded, Deltas, Trust};
use mnemolog::codec::segment::{
    DURABLE_BYTES, DURABLE_MAGIC, Durable, FRAMES_START, SEGMENT_HEADER_BYTES, SegmentHeader,
};
use mnemolog::codec::snapshot::{self, SNAPSHOT_HEADER_BYTES, SNAPSHOT_MAGIC, SnapshotWriter};
use mnemolog::disk::MemoryDisk;
use mnemolog::interchange::Line;
use mnemolog::position::SegmentId;

use super::checksums::{mend_envelopes, mend_file, mend_segment};
use super::look;

/// What the first byte says: of eight kinds one, and with the highest bit set bytes as they are.
pub(crate) const SEGMENT: u8 = 0;
/// Snapshot bytes of a handle, whose kind they say.
pub(crate) const SNAPSHOT: u8 = 1;
/// A stated change of several files.
pub(crate) const INTENT: u8 = 2;

const RAW: u8 = 0x80;

pub(crate) fn run(data: &[u8]) {
    let Some((&what, bytes)) = data.split_first() else { return };
    let raw = what & RAW != 0;
    match what % 8 {
        SEGMENT => segment(bytes, raw),
        SNAPSHOT => snapshot(bytes.to_vec(), raw),
        INTENT => intent(bytes.to_vec(), raw),
        3 => durable(bytes.to_vec(), raw),
        4 => text(&String::from_utf8_lossy(bytes)),
        5 => payload(bytes.to_vec(), raw),
        6 => scan(bytes),
        _ => everything_raw(bytes),
    }
}

/// A header, and from byte 64 on what stands at byte 4096: the space between them is not worth fuzzing.
pub(crate) fn compact(file: &[u8]) -> Vec<u8> {
    let frames = file.get(FRAMES_START as usize..).unwrap_or_default();
    let used = frames.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    [&file[..SEGMENT_HEADER_BYTES.min(file.len())], &frames[..used.next_multiple_of(8).min(frames.len())]]
        .concat()
}

fn expanded(compact: &[u8]) -> Vec<u8> {
    let (header, frames) = compact.split_at(SEGMENT_HEADER_BYTES.min(compact.len()));
    let mut file = header.to_vec();
    file.resize(FRAMES_START as usize, 0);
    file.extend_from_slice(frames);
    file
}

fn segment(bytes: &[u8], raw: bool) {
    let mut file = expanded(bytes);
    if !raw {
        mend_segment(&mut file);
    }
    scan(&file);
    let Ok(header) = SegmentHeader::decode_either(&file) else { return };
    assert_eq!(
        SegmentHeader::decode(&header.encode(), 0).ok(),
        Some(header.clone()),
        "a header is what it encodes"
    );
    let seed = Seed::new(header.salt);
    let mut at = FRAMES_START;
    while let Ok(found) = frame::decode(&file[at as usize..], at, &seed) {
        let (bytes, payload_at) = (found.header.frame_bytes(), at + frame::FRAME_HEADER_BYTES as u64);
        if payload::check(&found, payload_at).is_ok()
            && let Ok(deltas) = Deltas::of(&found)
        {
            deltas.flatten().for_each(|delta| {
                again(&delta.envelope);
            });
        }
        at += bytes as u64;
    }
    let disk = MemoryDisk::new();
    let first = header.first;
    let is_base = file.get(FRAMES_START as usize + frame_header::KIND) == Some(&(FrameKind::Base as u8));
    let name = if is_base { SegmentId::Base { first, part: 1 } } else { SegmentId::Segment { first } };
    disk.write_file(&format!("log/{name}"), &file).expect("a file in memory");
    opens_if_whole(&disk);
}

/// What `verify` calls whole opens, to the same last frame, and its reads answer.
fn opens_if_whole(disk: &MemoryDisk) {
    let verified = mnemolog::log::verify(disk);
    let opened = look::open_read_only(disk);
    if let Ok(report) = verified
        && report.is_whole()
    {
        let store = opened.as_ref().unwrap_or_else(|e| panic!("whole, and does not open: {e}"));
        assert_eq!(store.appended(), report.last, "the last frame: {report:?}");
        assert!(store.recovery().damage.is_none(), "{:?} in what is whole", store.recovery().damage);
        store.digest().expect("what is whole can be read");
    }
    if let Ok(store) = &opened {
        look::around(store);
    }
}

/// An envelope that decoded is encoded again, and decodes to what encodes the same.
fn again(envelope: &Envelope<'_>) {
    let (seed, mut first, mut second) = (Seed::new(7), Vec::new(), Vec::new());
    let encode = |out: &mut Vec<u8>, of: &Envelope<'_>| {
        payload::encode(out, &seed, of.id, of.links(), &of.op, of.item).expect("what decodes encodes");
    };
    encode(&mut first, envelope);
    let (decoded, rest) = payload::decode(&first, 0, Trust::Alone(&seed)).expect("what encodes decodes");
    let Decoded::Delta(decoded) = decoded else { panic!("a delta was encoded") };
    assert!(rest.is_empty(), "an envelope and nothing more");
    encode(&mut second, &decoded);
    assert_eq!(first, second, "{:?}", envelope.op);
    assert_eq!(decoded.links(), envelope.links());
}

fn snapshot(mut bytes: Vec<u8>, raw: bool) {
    for kind in HandleKind::ALL {
        if !raw && bytes.len() > SNAPSHOT_HEADER_BYTES {
            mend_envelopes(&mut bytes[SNAPSHOT_HEADER_BYTES..], &Seed::new(0));
            let len = bytes.len();
            mend_file(&mut bytes, SNAPSHOT_MAGIC, len);
        }
        let Ok(ops) = snapshot::decode(&bytes, kind) else { continue };
        let first = written(&ops);
        assert_eq!(written(&snapshot::decode(&first, kind).expect("what was written")), first);
    }
}

fn written(ops: &[Op<'_>]) -> Vec<u8> {
    let (head, items) = ops.split_first().expect("a head");
    let mut writer = SnapshotWriter::new(head).expect("a head that decoded");
    items.iter().for_each(|op| writer.item(op).expect("an item that decoded"));
    writer.finish()
}

fn intent(mut bytes: Vec<u8>, raw: bool) {
    if !raw && bytes.len() >= INTENT_HEADER_BYTES {
        let len = bytes.len();
        mend_file(&mut bytes, INTENT_MAGIC, len);
    }
    let Ok(intent) = Intent::decode(&bytes) else { return };
    let encoded = intent.encode().expect("what decodes encodes");
    assert_eq!(Intent::decode(&encoded).ok(), Some(intent));
}

fn durable(mut bytes: Vec<u8>, raw: bool) {
    if !raw {
        mend_file(&mut bytes, DURABLE_MAGIC, DURABLE_BYTES);
    }
    let Ok(durable) = Durable::decode(&bytes) else { return };
    assert_eq!(durable.encode(), bytes[..DURABLE_BYTES], "each of the 64 bytes has one meaning");
}

fn text(text: &str) {
    if let Ok(json) = Json::parse(text) {
        assert_eq!(Json::parse(json.as_str()).ok().as_ref(), Some(&json), "canonical text stays");
        let _ = json.to_value();
    }
    if let Ok(line) = Line::parse(text) {
        let mut out = Vec::new();
        line.write_to(&mut out).expect("into memory");
        let written = String::from_utf8(out).expect("lines are UTF-8");
        let again = Line::parse(written.trim_end()).expect("what is written is a line");
        let mut out = Vec::new();
        again.write_to(&mut out).expect("into memory");
        assert_eq!(String::from_utf8_lossy(&out), written, "a line stays");
    }
    let _ = (text.parse::<mnemolog::Time>(), mnemolog::WorkspacePath::parse(text));
    let _ = (SegmentId::from_file_name(text), mnemolog::safe_segment(text));
}

fn payload(mut bytes: Vec<u8>, raw: bool) {
    let seed = Seed::new(7);
    if !raw {
        mend_envelopes(&mut bytes, &seed);
    }
    let mut rest = bytes.as_slice();
    while let Ok((decoded, behind)) = payload::decode(rest, 0, Trust::Alone(&seed)) {
        match decoded {
            Decoded::Delta(envelope) => again(&envelope),
            Decoded::Origin(None) => {}
            Decoded::Origin(Some(origin)) => {
                let mut out = Vec::new();
                payload::encode_origin(&mut out, &seed, &origin).expect("what decodes encodes");
                let found = payload::decode(&out, 0, Trust::Alone(&seed)).expect("what encodes decodes").0;
                assert_eq!(found, Decoded::Origin(Some(origin)));
            }
        }
        rest = behind;
    }
}

/// Looks for frames wherever they may stand.
fn scan(bytes: &[u8]) {
    let salt = SegmentHeader::decode_either(bytes).map_or(7, |header| header.salt);
    let from = (FRAMES_START as usize).min(bytes.len());
    let bytes = &bytes[from..];
    mnemolog::segment::find_promise(bytes, FRAMES_START, &Seed::new(salt), mnemolog::Frame(1));
}

fn everything_raw(bytes: &[u8]) {
    snapshot(bytes.to_vec(), true);
    intent(bytes.to_vec(), true);
    durable(bytes.to_vec(), true);
    payload(bytes.to_vec(), true);
    let _ = frame::decode(bytes, 0, &Seed::new(7));
    let _ = (frame::Seal::decode(bytes, 0), frame::LostRange::decode(bytes, 0));
}
