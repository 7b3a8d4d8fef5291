//! The bare file: what no store can be faster than.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use super::{Until, Written};
use crate::Result;
use crate::notes::{BODY_BYTES, Key, SUMMARY};

/// How far the file is reserved where nobody knows how many writes there will be; the loop begins again at its end.
const FILE_BYTES: u64 = 64 << 20;

/// Bytes that a note takes in this store's log: frame, envelope and padding.
pub fn frame_bytes(dir: &Path) -> Result<usize> {
    let store = mnemolog::Store::open(dir.join("measured"))?;
    let (notes, body) = (store.root().notes(), "b".repeat(BODY_BYTES));
    notes.remember(Key::new(0).as_str(), SUMMARY, &body)?;
    let before = store.log_size().used;
    notes.remember(Key::new(1).as_str(), SUMMARY, &body)?;
    Ok((store.log_size().used - before) as usize)
}

/// Writes as many bytes a note, one behind another, into a file whose space was reserved.
pub fn write(dir: &Path, bytes: usize, until: Until, sync: bool) -> Result<Written> {
    let file: File =
        OpenOptions::new().create(true).truncate(true).read(true).write(true).open(dir.join("raw"))?;
    let reserved = match until {
        Until::Time(_) => FILE_BYTES,
        Until::Count(count) => (count + 1) * bytes as u64,
    };
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, reserved)?;
    file.sync_all()?;
    let (frame, mut written, mut at) = (vec![7; bytes], Written::default(), 0);
    let begin = Instant::now();
    let mut now = begin;
    loop {
        match until {
            Until::Time(time) if now.duration_since(begin) >= time => break,
            Until::Count(count) if written.writes >= count => break,
            _ => {}
        }
        file.write_all_at(&frame, at)?;
        if sync {
            file.sync_data()?;
        }
        at = if at + 2 * bytes as u64 > reserved { 0 } else { at + bytes as u64 };
        written.writes += 1;
        let then = std::mem::replace(&mut now, Instant::now());
        written.latencies.push(now.duration_since(then).as_nanos().min(u128::from(u32::MAX)) as u32);
    }
    written.rate = written.writes as f64 / begin.elapsed().as_secs_f64();
    let mut last = vec![0; bytes];
    file.read_exact_at(&mut last, at.saturating_sub(bytes as u64))?;
    assert_eq!(last, frame, "what was written is there");
    Ok(written)
}
