//! The prose of `format/` against the constants of the codec: every table, every row, both ways.
//!
//! A table is found by its heading and the names of its first columns. Sizes are differences of offsets, so a
//! field that is missing in the list here shows as a wrong size of the one before it.

use std::path::Path;

use mnemolog::codec::checkpoint;
use mnemolog::codec::delta::{self, Class, HandleKind, Op};
use mnemolog::codec::frame::{self, FrameKind, Seed};
use mnemolog::codec::intent::{Drop, INTENT_MAGIC, Intent};
use mnemolog::codec::json::JSON_DEPTH_MAX;
use mnemolog::codec::payload;
use mnemolog::codec::segment::{self, StoreId};
use mnemolog::codec::snapshot;
use mnemolog::position::{Last, Time};

type Row = Vec<String>;

fn page(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("format").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The rows of the first table under a heading whose columns begin with `columns`.
fn table(text: &str, heading: &str, columns: &[&str]) -> Vec<Row> {
    let cells = |line: &str| -> Option<Row> {
        let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
        Some(inner.split('|').map(|cell| cell.trim().to_owned()).collect())
    };
    let mut lines = text.lines().skip_while(|line| line.trim_start_matches('#').trim() != heading).skip(1);
    let section: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with('#')).collect();
    let head =
        section.iter().position(|line| cells(line).is_some_and(|row| row.starts_with(&owned(columns))));
    let head = head.unwrap_or_else(|| panic!("no table `{columns:?}` under `{heading}`"));
    section[head + 2..].iter().map_while(|line| cells(line)).collect()
}

fn owned(cells: &[&str]) -> Row {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// Offset, size and name of each row of a layout table; every row must also say whether a crash can tear it.
fn layout(text: &str, heading: &str) -> Vec<(usize, usize, String)> {
    let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{heading}: `{cell}` is no number"));
    let rows = table(text, heading, &["offset", "size", "field", "meaning", "can a crash tear it"]);
    let mut out = Vec::new();
    for row in rows {
        assert_eq!(row.len(), 5, "{heading}: {row:?}");
        assert!(row.iter().all(|cell| !cell.is_empty()), "{heading}: {row:?}");
        out.push((number(&row[0]), number(&row[1]), row[2].clone()));
    }
    out
}

/// The constants of a layout module, in order, as rows; their names in words.
macro_rules! fields {
    ($module:path: $($name:ident)+) => {{
        use $module as at;
        let offsets = [$((at::$name, stringify!($name))),+];
        let ends = offsets.iter().skip(1).map(|(offset, _)| *offset).chain([at::END]);
        let rows: Vec<(usize, usize, String)> = offsets.iter().zip(ends)
            .map(|((offset, name), end)| (*offset, end - offset, name.to_lowercase().replace('_', " ")))
            .collect();
        rows
    }};
}

#[test]
fn the_layout_tables_are_the_constants_of_the_codec() {
    let (segments, frames, deltas) = (page("segment.md"), page("frame.md"), page("delta.md"));
    let checkpoints = page("checkpoint.md");
    for (text, heading, expected) in [
        (
            &segments,
            "Segment header",
            fields!(segment::segment_header: MAGIC VERSION CRC STORE_ID FIRST_FRAME SALT PREVIOUS_NONCE CREATED),
        ),
        (&segments, "Seal", fields!(frame::seal_payload: FRAMES DIGEST NONCE)),
        (
            &segments,
            "DURABLE",
            fields!(segment::durable_file: MAGIC VERSION CRC STORE_ID FRAME SEGMENT OFFSET COPIED),
        ),
        (
            &segments,
            "RETENTION",
            fields!(mnemolog::codec::retention::retention_file: MAGIC VERSION CRC STORE_ID UNIT AMOUNT RESERVED),
        ),
        (&segments, "INTENT", fields!(mnemolog::codec::intent::intent_header: MAGIC VERSION CRC STORE_ID)),
        (
            &frames,
            "Frame header",
            fields!(frame::frame_header: PAYLOAD_LENGTH CRC NUMBER OWN_OFFSET PREVIOUS_CRC DURABLE TIME KIND RESERVED
                DELTA_COUNT WRITER),
        ),
        (&frames, "Lost range", fields!(frame::lost_payload: FIRST LAST)),
        (
            &deltas,
            "Envelope",
            fields!(delta::envelope: LENGTH CRC KIND CLASS FLAGS ID_LENGTH TOKENS PREVIOUS_INDEX PREVIOUS_FRAME
                EMBEDDING_WIDTH RESERVED),
        ),
        (&deltas, "Snapshot bytes", fields!(snapshot::snapshot_header: MAGIC VERSION CRC KIND RESERVED)),
        (
            &checkpoints,
            "Checkpoint header",
            fields!(checkpoint::checkpoint_header: MAGIC VERSION CRC STORE_ID FOLD_VERSION RESERVED FRAME LOG_BYTES
                CONTENTS_OFFSET CONTENTS_LENGTH LENGTH DIGEST),
        ),
    ] {
        assert_eq!(layout(text, heading), expected, "{heading}");
    }
}

#[test]
fn every_layout_table_is_among_those_that_are_checked() {
    let count = |file| page(file).lines().filter(|line| line.starts_with("| offset | size |")).count();
    assert_eq!(
        ["segment.md", "frame.md", "delta.md", "README.md", "checkpoint.md"].map(count),
        [5, 2, 2, 0, 1]
    );
}

#[test]
fn the_magics_stand_in_the_tables() {
    for (file, heading, magic) in [
        ("segment.md", "Segment header", segment::SEGMENT_MAGIC),
        ("segment.md", "DURABLE", segment::DURABLE_MAGIC),
        ("segment.md", "RETENTION", mnemolog::codec::retention::RETENTION_MAGIC),
        ("segment.md", "INTENT", INTENT_MAGIC),
        ("delta.md", "Snapshot bytes", snapshot::SNAPSHOT_MAGIC),
        ("checkpoint.md", "Checkpoint header", checkpoint::CHECKPOINT_MAGIC),
    ] {
        let rows = table(&page(file), heading, &["offset", "size"]);
        assert_eq!(rows[0][3], format!("the letters `{}`", magic.escape_ascii()), "{heading}");
        assert_eq!(rows[1][3], format!("format version, {}", segment::FORMAT_VERSION), "{heading}");
    }
}

#[test]
fn the_tag_tables_are_the_enums() {
    let pairs = |file, heading, columns: [&str; 2]| -> Vec<(usize, String)> {
        let rows = table(&page(file), heading, &columns);
        rows.iter().map(|row| (row[0].parse().unwrap(), row[1].clone())).collect()
    };
    let kinds: Vec<_> = FrameKind::ALL.iter().map(|k| (*k as usize, k.name().to_owned())).collect();
    assert_eq!(pairs("frame.md", "Frame kinds", ["tag", "kind"]), kinds);

    let mut handles: Vec<_> = HandleKind::ALL.iter().map(|k| (*k as usize, k.name().to_owned())).collect();
    handles.push((usize::from(delta::ORIGIN_TAG), "origin".to_owned()));
    assert_eq!(pairs("delta.md", "Handle kinds", ["tag", "kind"]), handles);

    let classes: Vec<_> = Class::ALL.iter().map(|c| (*c as usize, c.name().to_owned())).collect();
    assert_eq!(pairs("delta.md", "Classes", ["tag", "class"]), classes);

    let flags =
        [(delta::FLAG_ERASED, "erased"), (delta::FLAG_ITEM, "item"), (delta::FLAG_CONTINUES, "continues")];
    let flags = flags.map(|(bit, name)| (usize::from(bit), name.to_owned()));
    assert_eq!(pairs("delta.md", "Flags", ["bit", "flag"]), flags);
}

#[test]
fn the_operations_that_exist_are_those_of_the_table() {
    for row in
        table(&page("delta.md"), "Classes", &["tag", "class", "notes", "vector", "episodic", "working"])
    {
        let class = Class::from_tag(row[0].parse().unwrap()).unwrap();
        for (kind, cell) in HandleKind::ALL.into_iter().zip(&row[2..]) {
            let op = Op::Erased { kind, class, tokens: 0 };
            let written = payload::encode(&mut Vec::new(), &Seed::new(1), "a", Last::default(), &op, false);
            assert_eq!(written.is_ok(), cell != "–", "{} of {}", class.name(), kind.name());
        }
    }
}

#[test]
fn places_and_limits_are_the_constants() {
    let places = table(&page("segment.md"), "Segments, and the files beside the log", &["place", "offset"]);
    let [first, second] = segment::SEGMENT_HEADER_OFFSETS;
    let expected = [
        ("first copy of the header", first),
        ("second copy of the header", second),
        ("first frame", segment::FRAMES_START),
    ];
    assert_eq!(places, expected.map(|(name, at)| owned(&[name, &at.to_string()])));

    let limits = table(&page("README.md"), "Limits", &["limit", "value"]);
    let expected = [
        ("format version", u64::from(segment::FORMAT_VERSION)),
        ("payload of a frame, bytes", frame::PAYLOAD_MAX as u64),
        ("deltas of a frame", frame::FRAME_DELTAS_MAX as u64),
        ("embedding width, floats", delta::EMBEDDING_WIDTH_MAX as u64),
        ("latest time, microseconds", Time::MAX.as_micros()),
        ("handle id, key, id or label, bytes", delta::KEY_BYTES_MAX as u64),
        ("origin body, bytes", delta::ORIGIN_BYTES_MAX as u64),
        ("depth of JSON", JSON_DEPTH_MAX as u64),
    ];
    assert_eq!(limits, expected.map(|(name, value)| owned(&[name, &value.to_string()])));
}

#[test]
fn a_table_that_drifts_is_seen() {
    let text = page("segment.md");
    let expected = fields!(frame::seal_payload: FRAMES DIGEST NONCE);
    let row = text.lines().find(|line| line.contains("| digest |")).unwrap();
    for drifted in [
        text.replace(row, ""),
        text.replace(row, &row.replace("| 16 |", "| 8 |")),
        text.replace(row, &row.replace("| digest |", "| hash |")),
        text.replace(row, &format!("{row}\n| 32 | 8 | more | x | no |")),
    ] {
        assert_ne!(drifted, text);
        assert_ne!(layout(&drifted, "Seal"), expected);
    }
}

#[test]
fn an_intent_names_plain_files_only() {
    let intent = |directory: &str, name: &str| Intent {
        store: StoreId([1; 16]),
        id: 1,
        moves: Vec::new(),
        drops: vec![Drop { directory: directory.into(), name: name.into() }],
    };
    let sound = intent("log", "00000000000000000001.seg");
    assert_eq!(Intent::decode(&sound.encode().unwrap()), Ok(sound));
    for (directory, name) in
        [("log", ""), ("log", "."), ("log", ".."), ("log", "a/b"), ("log", "a\\b"), ("log", "a\0"), ("", "a")]
    {
        assert!(Intent::decode(&intent(directory, name).encode().unwrap()).is_err(), "{directory} {name:?}");
    }
}
