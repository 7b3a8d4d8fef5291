//! Right checksums over whatever bytes: without them a fuzzer sees little but their refusal.

use mnemolog::codec::delta::envelope;
use mnemolog::codec::frame::{FRAME_HEADER_BYTES, FrameKind, Seed, frame_header, is_unwritten};
use mnemolog::codec::payload;
use mnemolog::codec::segment::{FRAMES_START, SEGMENT_HEADER_BYTES, SegmentHeader, segment_header};

/// Bytes of a checksum.
const FOUR: usize = 4;

/// Sets what every file of ours begins with: its magic, and the checksum over its first `over` bytes.
pub(super) fn mend_file(bytes: &mut [u8], magic: [u8; 8], over: usize) {
    set(bytes, 0, &magic);
    let Some(whole) = bytes.get(..over.min(bytes.len())) else { return };
    let crc = plain(whole, segment_header::CRC);
    set(bytes, segment_header::CRC, &crc.to_le_bytes());
}

/// Makes the first header of a segment right, then every frame that follows another, its place and chain
/// included, and every envelope in them.
pub(super) fn mend_segment(file: &mut [u8]) {
    if let Some(header) = file.get_mut(..SEGMENT_HEADER_BYTES) {
        mend_file(header, mnemolog::codec::segment::SEGMENT_MAGIC, SEGMENT_HEADER_BYTES);
    }
    let Ok(header) = SegmentHeader::decode(file, 0) else { return };
    let seed = Seed::new(header.salt);
    let (mut at, mut previous) = (FRAMES_START as usize, 0);
    while let Some(end) = frame_end(file, at) {
        set(file, at + frame_header::OWN_OFFSET, &(at as u32).to_le_bytes());
        set(file, at + frame_header::PREVIOUS_CRC, &u32::to_le_bytes(previous));
        let kind = FrameKind::from_tag(file[at + frame_header::KIND]);
        if matches!(kind, Some(FrameKind::Commit | FrameKind::Base)) {
            mend_envelopes(&mut file[at + FRAME_HEADER_BYTES..end], &seed);
        }
        previous = seed.crc_without(&file[at..end], frame_header::CRC);
        set(file, at + frame_header::CRC, &previous.to_le_bytes());
        at = end;
    }
}

/// Makes every envelope right, up to the first whose length does not fit.
pub(super) fn mend_envelopes(bytes: &mut [u8], seed: &Seed) {
    let mut at = 0;
    while let Some(rest) = bytes.get_mut(at..) {
        let Ok(step) = payload::envelope_bytes(rest, 0) else { return };
        let Some(whole) = length(rest).and_then(|length| rest.get_mut(..length)) else { return };
        let crc = seed.crc_without(whole, envelope::CRC);
        set(whole, envelope::CRC, &crc.to_le_bytes());
        at += step;
    }
}

/// Where the frame at `at` ends, if it has a length and fits.
fn frame_end(file: &[u8], at: usize) -> Option<usize> {
    let rest = file.get(at..)?;
    let end = at.checked_add(FRAME_HEADER_BYTES)?.checked_add(length(rest)?.checked_next_multiple_of(8)?)?;
    (end <= file.len() && !is_unwritten(rest)).then_some(end)
}

fn length(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk().map(|length| u32::from_le_bytes(*length) as usize)
}

/// The checksum of a file that has no salt: that of all its bytes but the four at `skip`.
fn plain(bytes: &[u8], skip: usize) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(bytes.get(..skip).unwrap_or_default());
    hash.update(bytes.get(skip + FOUR..).unwrap_or_default());
    hash.finalize()
}

fn set(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}
