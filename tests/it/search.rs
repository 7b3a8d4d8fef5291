//! Frames among bytes that are none: what the search finds, and that nobody can make it slow.
//!
//! Protects promises 2 and 6.

use std::time::{Duration, Instant};

use mnemolog::Frame;
use mnemolog::codec::frame::{self, FRAME_HEADER_BYTES, FrameHeader, FrameKind, Seed};
use mnemolog::codec::segment::FRAMES_START;
use mnemolog::position::Time;
use mnemolog::segment::{Search, find_promise};

use crate::model::Rng;

fn encode(at: usize, durable: u64, payload: &[u8], seed: &Seed) -> Vec<u8> {
    let mut header = FrameHeader {
        payload_length: 0,
        crc: 0,
        number: Frame(durable + 1),
        own_offset: at as u32,
        previous_crc: 7,
        durable: Frame(durable),
        time: Time::ZERO,
        kind: FrameKind::Commit,
        delta_count: 1,
        writer: 9,
    };
    let mut buffer = vec![0; FRAME_HEADER_BYTES];
    buffer.extend_from_slice(payload);
    frame::finish(&mut buffer, &mut header, seed);
    buffer
}

/// Noise in which frames stand, small and large ones, some of them inside others, some spoiled.
fn noise(rng: &mut Rng, seed: &Seed) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..40_000).map(|_| rng.next() as u8).collect();
    for _ in 0..12 {
        let at = rng.below(3800) as usize * 8;
        let len = if rng.chance(2) { rng.below(9000) } else { rng.below(300) } as usize;
        let len = len.min(bytes.len() - at - FRAME_HEADER_BYTES - 8);
        let payload = bytes[at + FRAME_HEADER_BYTES..][..len].to_vec();
        let mut frame = encode(FRAMES_START as usize + at, rng.below(20), &payload, seed);
        if rng.chance(5) {
            let spoiled = rng.below(frame.len() as u64) as usize;
            frame[spoiled] ^= 1;
        }
        bytes[at..at + frame.len()].copy_from_slice(&frame);
    }
    bytes
}

#[test]
fn every_whole_frame_is_found_wherever_it_stands_and_nothing_else() {
    let (mut rng, seed, mut found) = (Rng::new(3), Seed::new(5), 0);
    for _ in 0..60 {
        let bytes = noise(&mut rng, &seed);
        let whole: Vec<(u64, Frame)> = (0..bytes.len())
            .step_by(8)
            .filter_map(|i| {
                let at = FRAMES_START + i as u64;
                Some((at, frame::decode(&bytes[i..], at, &seed).ok()?.header.durable))
            })
            .collect();
        found += whole.len();
        let mut search = Search::new(&bytes, FRAMES_START, &seed);
        let places = [FRAMES_START].into_iter().chain(whole.iter().map(|(at, _)| at + 8));
        for from in places {
            let behind = || whole.iter().filter(|(at, _)| *at >= from);
            assert_eq!(search.frame(from, |_| true).map(|(at, _)| at), behind().next().map(|(at, _)| *at));
            for wanted in (0..21).map(Frame) {
                assert_eq!(search.is_promised(from, wanted), behind().any(|(_, promise)| *promise >= wanted));
            }
        }
        for wanted in (0..21).map(Frame) {
            let first = whole.iter().find(|(_, promise)| *promise >= wanted).copied();
            assert_eq!(find_promise(&bytes, FRAMES_START, &seed, wanted), first);
        }
    }
    assert!(found > 200, "{found}");
}

/// Every place claims to begin a frame that reaches almost to the end. Reading each of them would take hours.
#[test]
fn bytes_that_claim_a_long_frame_at_every_place_are_searched_in_bounded_time() {
    let (len, seed) = (6 << 20, Seed::new(5));
    let mut bytes = vec![0; len];
    let claims = encode(0, 7, &[], &seed);
    // The headers of places 48 bytes apart do not touch each other.
    for at in (0..len - 4096).step_by(FRAME_HEADER_BYTES) {
        let place = FRAMES_START as usize + at;
        bytes[at..at + FRAME_HEADER_BYTES].copy_from_slice(&claims);
        let length = ((len - at - 1024) as u32).to_le_bytes();
        bytes[at + frame::frame_header::PAYLOAD_LENGTH..][..4].copy_from_slice(&length);
        bytes[at + frame::frame_header::OWN_OFFSET..][..4].copy_from_slice(&(place as u32).to_le_bytes());
    }
    let begin = Instant::now();
    assert_eq!(find_promise(&bytes, FRAMES_START, &seed, Frame(7)), None);
    let mut search = Search::new(&bytes, FRAMES_START, &seed);
    assert!(!search.is_promised(FRAMES_START, Frame(1)) && search.frame(FRAMES_START, |_| true).is_none());
    assert!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
}
