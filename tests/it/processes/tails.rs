//! A tail in a process that is killed and begins again behind its last line, while others write and are killed too.

use std::time::{Duration, Instant};

use mnemolog::{Frame, Options, Store, TailEvent, Writers};
use xxhash_rust::xxh3::xxh3_64;

use super::parts::{WORKSPACES, say};
use super::{Cast, SMALL, number};
use crate::model::Rng;

/// Plays the tail: says every frame behind one, and what it holds, until its orders end.
pub(super) fn tell_until_told(store: &Store, from: Frame, over: &dyn Fn() -> bool) {
    let mut tail = store.tail(from).expect("begins");
    while !over() {
        if let Some(event) = tail.next_within(Duration::from_millis(20)).expect("a tail is not disturbed") {
            say(&format!("told {}", told(&event)));
        }
    }
}

fn told(event: &TailEvent) -> String {
    format!("{} {:016x}", event.last(), xxh3_64(crate::tail::text(event).as_bytes()))
}

/// What the tails said so far.
#[derive(Default)]
struct Told {
    frames: Vec<String>,
    last: u64,
    acknowledged: u64,
}

impl Told {
    fn take(&mut self, line: &str) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["told", frame, _] => {
                let frame: u64 = frame.parse().expect("a frame");
                assert_eq!(frame, self.last + 1, "each frame once, in order");
                self.last = frame;
                self.frames.push(line.trim_start_matches("told ").to_owned());
            }
            ["ack", frame, ..] => self.acknowledged = self.acknowledged.max(frame.parse().expect("a frame")),
            _ => {}
        }
    }

    fn drain(&mut self, cast: &Cast) {
        while let Some((_, line)) = cast.said() {
            self.take(&line);
        }
    }
}

/// Two writers and a tail, as a reader and as one of the writing processes by turns. `MNEMOLOG_TAIL_KILLS` asks for a
/// long run.
#[test]
fn a_tail_that_is_killed_goes_on_behind_its_last_line_without_a_gap_or_a_repeat() {
    let kills = number("MNEMOLOG_TAIL_KILLS", 24);
    let (dir, mut rng, mut told) =
        (tempfile::tempdir().expect("a directory"), Rng::new(kills), Told::default());
    let many = || Options::new().writers(Writers::Many).segment_bytes(SMALL);
    drop(many().open(dir.path()).expect("a new store"));
    let mut cast = Cast::new(dir.path());
    let mut lives = 0;
    let mut write = |cast: &mut Cast, slot: usize| {
        lives += 1;
        cast.start(&format!("writer {} {lives} 1 {SMALL}", WORKSPACES[slot]))
    };
    let mut writers = [write(&mut cast, 0), write(&mut cast, 1)];
    let mut tail = cast.start("tail reader 0");
    for kill in 0..kills {
        let until = told.last + rng.below(40);
        while told.last < until {
            told.take(&cast.report().1);
        }
        let moment = Instant::now() + Duration::from_micros(rng.below(4000));
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        if rng.chance(4) {
            let slot = rng.below(2) as usize;
            cast.kill(writers[slot]);
            writers[slot] = write(&mut cast, slot);
        }
        cast.kill(tail);
        told.drain(&cast);
        let role = if kill % 3 == 2 { "writer" } else { "reader" };
        tail = cast.start(&format!("tail {role} {}", told.last));
    }
    for writer in writers {
        cast.tell(writer, "halt");
        cast.hear(writer, "halted", &mut |line| told.take(line));
        cast.dismiss(writer);
    }
    told.drain(&cast);
    let store = Store::open_read_only(dir.path()).expect("opens");
    assert!(told.acknowledged > 0 && store.appended().0 >= told.acknowledged);
    // The last frame comes too, though nothing follows it.
    while told.last < store.appended().0 {
        told.take(&cast.report().1);
    }
    cast.dismiss(tail);
    told.drain(&cast);
    let mut log = store.tail(Frame::ZERO).expect("begins");
    let log = std::iter::from_fn(|| log.next_within(Duration::ZERO).expect("readable"));
    assert_eq!(told.frames, log.map(|event| self::told(&event)).collect::<Vec<_>>());
    println!("{kills} kills, {} frames in {} segments", told.last, store.log_size().segments);
}
