//! Payloads that no writer writes are refused, although every checksum is right.
//!
//! The bytes are made with the codec and then bent, their checksum computed again; so it is the rule itself
//! that refuses them, and not the checksum.

use mnemolog::codec::blank::{Blank, blank};
use mnemolog::codec::delta::{
    Body, Class, Config, FLAG_CONTINUES, FLAG_ERASED, FLAG_ITEM, HandleKind, Links, Note, ORIGIN_TAG, Op,
    Origin, Push, Record, Upsert, envelope as at,
};
use mnemolog::codec::frame::{self, FRAME_HEADER_BYTES, FrameHeader, FrameKind, Seed};
use mnemolog::codec::payload::{self, Decoded, Deltas, Trust, check, decode, encode, encode_origin};
use mnemolog::codec::wire::Malformed;
use mnemolog::position::{Frame, Last, Time};

const ID: &str = "core/memory";

fn seed() -> Seed {
    Seed::new(7)
}

fn note(key: &str) -> Op<'_> {
    Op::Remember(Note { key, summary: None, body: Body::Text("text") })
}

fn head(items: u64) -> Op<'static> {
    Op::Snapshot { config: Config::Notes, items, continues: false }
}

fn envelope(op: &Op<'_>, item: bool) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, &seed(), ID, Last::default(), op, item).unwrap();
    out
}

fn origin() -> Vec<u8> {
    let mut out = Vec::new();
    encode_origin(&mut out, &seed(), &Origin { agent: Some("a".into()), ..Origin::default() }).unwrap();
    out
}

/// The envelope with other bytes at an offset, its checksum made right again.
fn bent(mut bytes: Vec<u8>, offset: usize, with: &[u8]) -> Vec<u8> {
    bytes[offset..offset + with.len()].copy_from_slice(with);
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let crc = seed().crc_without(&bytes[..length], at::CRC);
    bytes[at::CRC..at::CRC + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn text(e: &Malformed) -> String {
    format!("{}: {}", e.what, e.expected)
}

fn refusal(bytes: &[u8]) -> Option<String> {
    decode(bytes, 0, Trust::Alone(&seed())).err().map(|e| text(&e))
}

#[test]
fn a_combination_that_does_not_exist_is_refused() {
    let note = || envelope(&note("k"), false);
    let push = envelope(&Op::Push(Push { label: "l", content: "c", tokens: 5 }), true);
    let head = || envelope(&head(3), false);
    let flags = |flags: u16| flags.to_le_bytes();
    let (no_operation, no_such_head) =
        ("handle kind: an operation that exists", "handle kind: only a whole snapshot that continues");
    for (bytes, expected) in [
        (bent(note(), at::TOKENS, &[1]), "handle kind: no token cost"),
        (bent(note(), at::FLAGS, &flags(FLAG_CONTINUES)), no_such_head),
        (bent(head(), at::FLAGS, &flags(FLAG_CONTINUES | FLAG_ERASED)), no_such_head),
        (bent(head(), at::FLAGS, &flags(FLAG_ITEM)), "handle kind: an item that puts"),
        (bent(note(), at::CLASS, &[Class::Clear as u8]), no_operation),
        (bent(note(), at::CLASS, &[Class::Configure as u8]), no_operation),
        (bent(push.clone(), at::CLASS, &[Class::Remove as u8]), no_operation),
        (bent(note(), at::CLASS, &[Class::Origin as u8]), "handle kind: no origin"),
        (bent(note(), at::KIND, &[6]), "handle kind: a kind from 1 to 5"),
        (bent(note(), at::FLAGS, &flags(8)), "flags: known flags"),
        (bent(note(), at::RESERVED, &[1]), "reserved bytes: zero"),
        (bent(origin(), at::TOKENS, &[1]), "handle kind: a bare origin"),
        (bent(origin(), at::FLAGS, &flags(FLAG_ERASED)), "erased body: zero"),
        (bent(origin(), at::FLAGS, &flags(FLAG_ITEM)), "handle kind: a bare origin"),
        (bent(origin(), at::PREVIOUS_FRAME, &[1]), "handle kind: a bare origin"),
        (bent(origin(), at::CLASS, &[Class::Put as u8]), "handle kind: a bare origin"),
    ] {
        assert_eq!(refusal(&bytes).as_deref(), Some(expected));
    }
    for sound in [note(), push, head(), origin()] {
        assert_eq!(refusal(&bent(sound, at::LENGTH, &[])), None, "bending nothing breaks nothing");
    }
    assert_eq!(origin()[at::KIND], ORIGIN_TAG);
}

#[test]
fn what_is_blanked_decodes_as_erased_and_keeps_its_length() {
    let row =
        Op::Upsert(Upsert { id: "row", text: "text", metadata: "{}", embedding: vec![1.0, 2.0].into() });
    for (bytes, class) in [
        (envelope(&note("k"), false), Class::Put),
        (envelope(&row, false), Class::Put),
        (envelope(&Op::Forget { key: "k" }, false), Class::Remove),
        (envelope(&head(3), false), Class::Snapshot),
    ] {
        for what in [Blank::Content, Blank::Handle] {
            let mut blanked = [origin(), bytes.clone(), envelope(&note("behind"), false)].concat();
            let (from, end) = (origin().len(), origin().len() + bytes.len());
            blank(&mut blanked, from, what).unwrap();
            payload::reseed(&mut blanked, &seed()).unwrap();
            let (Decoded::Delta(left), behind) = decode(&blanked[from..], 0, Trust::Alone(&seed())).unwrap()
            else {
                panic!("a delta")
            };
            assert_eq!(behind, &blanked[end..]);
            assert!(matches!(left.op, Op::Erased { class: found, .. } if found == class), "{left:?}");
            assert_eq!(left.id, if what == Blank::Content { ID } else { "" });
            let zeros = blanked[from + at::END..end].iter().filter(|byte| **byte != 0).count();
            assert_eq!(zeros, left.id.len(), "nothing else stands there");
        }
    }
    let mut blanked = origin();
    blank(&mut blanked, 0, Blank::Content).unwrap();
    payload::reseed(&mut blanked, &seed()).unwrap();
    assert_eq!(decode(&blanked, 0, Trust::Alone(&seed())).unwrap().0, Decoded::Origin(None));
    assert!(blank(&mut blanked, 8, Blank::Content).is_err(), "no envelope begins there");
}

#[test]
fn a_body_that_goes_on_behind_its_end_is_refused() {
    for bytes in [origin(), envelope(&note("k"), false)] {
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) + 1;
        assert!(length as usize <= bytes.len(), "the padding has room");
        let bytes = bent(bytes, at::LENGTH, &length.to_le_bytes());
        assert_eq!(refusal(&bytes).as_deref(), Some("delta body: its end"));
    }
}

#[test]
fn what_would_be_refused_is_not_written() {
    let mut out = vec![1; 8];
    let erased = Op::Erased { kind: HandleKind::Vector, class: Class::Put, tokens: 4 };
    for (op, item) in [
        (Op::Configure(Config::Notes), false),
        (Op::Clear(HandleKind::Notes), false),
        (Op::Forget { key: "k" }, true),
        (head(1), true),
        (erased, false),
    ] {
        assert!(encode(&mut out, &seed(), ID, Last::default(), &op, item).is_err(), "{op:?}");
        assert_eq!(out, [1; 8]);
    }
}

#[test]
fn what_is_evicted_comes_back_and_only_one_more_episode_or_entry_evicts() {
    let record = Op::Record(Record { key: "k", value: "1", timestamp_ms: 0 });
    let push = Op::Push(Push { label: "l", content: "c", tokens: 7 });
    let far = Last { frame: Frame(u64::MAX), index: u32::MAX };
    let evicted = [Last { frame: Frame(1), index: 0 }, far];
    let links = |evicted| Links { evicted, ..Links::default() };
    for op in [&record, &push] {
        for count in 0..=2 {
            let mut out = Vec::new();
            encode(&mut out, &seed(), ID, links(&evicted[..count]), op, false).unwrap();
            let (decoded, rest) = decode(&out, 0, Trust::Alone(&seed())).unwrap();
            let Decoded::Delta(found) = decoded else { panic!("{decoded:?}") };
            assert_eq!((found.links(), &found.op, rest), (links(&evicted[..count]), op, &[][..]));
        }
        let mut out = vec![1; 8];
        assert!(encode(&mut out, &seed(), ID, links(&evicted), op, true).is_err(), "an item");
        assert_eq!(out, [1; 8]);
    }
    for op in [note("k"), Op::Clear(HandleKind::Episodic), Op::Configure(Config::Working(None))] {
        assert!(encode(&mut Vec::new(), &seed(), ID, links(&evicted), &op, false).is_err(), "{op:?}");
    }
    // A count of places, and fewer of them.
    let mut out = Vec::new();
    encode(&mut out, &seed(), ID, links(&evicted[..1]), &record, false).unwrap();
    let count = u32::from_le_bytes(out[..4].try_into().unwrap()) as usize - 3;
    assert_eq!(
        refusal(&bent(out.clone(), count, &[0])).as_deref(),
        Some("evicted: a place, or nothing at all")
    );
    assert_eq!(refusal(&bent(out, count, &[2])).as_deref(), Some("evicted place: a postcard value"));
}

fn walk(envelopes: &[Vec<u8>], delta_count: u16) -> Result<usize, String> {
    let mut buffer = vec![0; FRAME_HEADER_BYTES];
    envelopes.iter().for_each(|bytes| buffer.extend_from_slice(bytes));
    let mut header = FrameHeader {
        payload_length: 0,
        crc: 0,
        number: Frame(1),
        own_offset: 4096,
        previous_crc: 0,
        durable: Frame::ZERO,
        time: Time::ZERO,
        kind: FrameKind::Commit,
        delta_count,
        writer: 1,
    };
    frame::finish(&mut buffer, &mut header, &seed());
    let checked = frame::decode(&buffer, 4096, &seed()).unwrap();
    let met: Result<Vec<_>, _> = Deltas::of(&checked).map_err(|e| text(&e))?.collect();
    met.map(|deltas| deltas.len()).map_err(|e| text(&e))
}

#[test]
fn a_snapshot_has_exactly_the_items_that_its_head_says() {
    let item = |key: &str| envelope(&note(key), true);
    let erased = |class, item| envelope(&Op::Erased { kind: HandleKind::Notes, class, tokens: 0 }, item);
    let whole = [envelope(&head(2), false), item("a"), item("b"), envelope(&note("c"), false)];
    assert_eq!(walk(&whole, 2), Ok(4));
    let gone = [erased(Class::Snapshot, false), erased(Class::Put, true), envelope(&note("c"), false)];
    assert_eq!(walk(&gone, 2), Ok(2), "an item that went with its head is nothing any more");
    assert_eq!(walk(&gone[..2], 1), Ok(1));
    assert_eq!(walk(&gone[..2], 2).unwrap_err(), "delta count: 1 more", "also where it is the last");

    let cases: [(&[Vec<u8>], u16, &str); 6] = [
        (&[envelope(&head(2), false), item("a")], 1, "snapshot items: 1 more"),
        (&[envelope(&head(2), false), item("a"), envelope(&note("c"), false)], 2, "snapshot items: 1 more"),
        (&[envelope(&head(0), false), item("a")], 1, "snapshot item: no more items than its head says"),
        (&[item("a")], 1, "snapshot item: a head before it"),
        (&[envelope(&note("c"), false), item("a")], 1, "snapshot item: a head before it"),
        (&[erased(Class::Snapshot, false), item("a")], 1, "snapshot item: an erased item"),
    ];
    for (envelopes, count, expected) in cases {
        assert_eq!(walk(envelopes, count).unwrap_err(), expected);
    }
    let mut strange = Vec::new();
    encode(&mut strange, &seed(), "other", Last::default(), &note("a"), true).unwrap();
    let refused = walk(&[envelope(&head(1), false), strange], 1).unwrap_err();
    assert_eq!(refused, "snapshot item: the handle of its head");
}

#[test]
fn a_frame_has_exactly_the_deltas_that_its_header_says() {
    let two = [origin(), envelope(&note("a"), false), envelope(&note("b"), false)];
    assert_eq!(walk(&two, 2), Ok(2), "the origin counts as none");
    assert_eq!(walk(&two, 1).unwrap_err(), "delta count: the end of the frame");
    assert_eq!(walk(&two, 3).unwrap_err(), "delta count: 1 more");
    let twice = [origin(), origin(), envelope(&note("a"), false)];
    assert_eq!(walk(&twice, 1).unwrap_err(), "envelope: a delta");
}

#[test]
fn a_close_with_a_payload_is_refused() {
    let mut header = FrameHeader {
        payload_length: 0,
        crc: 0,
        number: Frame(1),
        own_offset: 4096,
        previous_crc: 0,
        durable: Frame::ZERO,
        time: Time::ZERO,
        kind: FrameKind::Close,
        delta_count: 0,
        writer: 1,
    };
    for (payload, expected) in [(0, None), (1, Some("close marker: no payload".to_owned()))] {
        let mut buffer = vec![0; FRAME_HEADER_BYTES + payload];
        frame::finish(&mut buffer, &mut header, &seed());
        let checked = frame::decode(&buffer, 4096, &seed()).unwrap();
        assert_eq!(check(&checked, 4096 + 48).err().map(|e| text(&e)), expected);
    }
}

#[test]
fn a_delta_decodes_to_what_was_encoded() {
    for (op, item) in
        [(note("k"), false), (note(""), true), (head(3), false), (Op::Forget { key: "é" }, false)]
    {
        let bytes = envelope(&op, item);
        let (decoded, rest) = decode(&bytes, 0, Trust::Alone(&seed())).unwrap();
        let Decoded::Delta(found) = decoded else { panic!("an origin") };
        assert_eq!((found.op, found.item, found.id, rest.len()), (op, item, ID, 0));
    }
}
