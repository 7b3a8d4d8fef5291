//! One leaf: some entries as contiguous bytes.
//!
//! The entries stand one behind another in the order of their keys; then where each ends (4 bytes each,
//! little-endian, from the beginning of the leaf), then how many there are (4 bytes). An entry is the length of its
//! key (4 bytes), the key, the record and the text, which goes on to the entry's end.
//!
//! Invariant: owned bytes are well formed, because loaded ones are looked through when they are taken over. Only
//! reading meets bytes that are not.

use std::cmp::Ordering;
use std::iter::repeat_n;
use std::sync::Arc;

use bytes::Bytes;

use super::{Entry, Order, Record, Wanted};
use crate::codec::wire::put;
use crate::disk::ask_for;

/// A leaf with more bytes is split, unless it holds one entry. Finding a key touches a line of memory or two for each
/// halving of a leaf and almost none above the leaves, so small leaves are found through faster; but each costs
/// about 70 bytes.
const LEAF_BYTES: usize = 1024;
/// Room grows by so many bytes.
const ROOM_STEP: usize = 256;
/// What the allocator and the counters of an `Arc` take besides, so that room for it is not taken from the next step.
const ROOM_HEAD: usize = 24;
/// Bytes of an entry's key length, of one end, and of the count.
const WORD: usize = size_of::<u32>();

/// A leaf.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaf {
    held: Held,
}

#[derive(Clone, Debug)]
enum Held {
    /// The first so many bytes of some room, once they are this map's own.
    Owned(Arc<[u8]>, u32),
    /// The bytes that were loaded, as long as they are not.
    Frozen(Bytes),
}

impl Default for Held {
    fn default() -> Self {
        Held::Frozen(Bytes::new())
    }
}

/// The parts of a leaf's bytes.
#[derive(Clone, Copy)]
struct Page<'a> {
    entries: &'a [u8],
    ends: &'a [[u8; WORD]],
}

/// The parts of an entry's bytes.
#[derive(Clone, Copy)]
struct Parts<'a> {
    key: &'a [u8],
    record: &'a [u8],
    text: &'a [u8],
}

impl Leaf {
    /// A leaf of bytes that were saved.
    pub(super) fn frozen(bytes: Bytes) -> Leaf {
        Leaf { held: Held::Frozen(bytes) }
    }

    /// The bytes, as they are saved.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.held {
            Held::Owned(room, len) => room.get(..*len as usize).unwrap_or_default(),
            Held::Frozen(bytes) => bytes,
        }
    }

    /// True if it has no entry.
    pub(super) fn is_empty(&self) -> bool {
        self.page().ends.is_empty()
    }

    /// The key of the first entry; empty if that is none.
    pub(super) fn first_key(&self) -> &[u8] {
        self.page().key(0)
    }

    /// The place behind the last entry, if a key belongs there.
    pub(super) fn end<O: Order>(&self, wanted: &Wanted<'_, O>) -> Option<usize> {
        let page = self.page();
        let last = page.ends.len().checked_sub(1)?;
        wanted.compare(page.key(last)).is_lt().then_some(last + 1)
    }

    /// Where a key stands. A leaf has few entries: to go through them without halving saves guessing wrong.
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        ask_for(self.bytes());
        let (page, end) = (self.page(), key.last_chunk::<8>());
        // Ends differ more than beginnings, and eight bytes are compared without a call.
        (0..page.ends.len()).find(|place| {
            let other = page.key(*place);
            other.len() == key.len() && other.last_chunk() == end && other == key
        })
    }

    /// Where a key stands, or would stand.
    pub(super) fn search<O: Order>(&self, wanted: &Wanted<'_, O>) -> Result<usize, usize> {
        ask_for(self.bytes());
        let page = self.page();
        let (mut from, mut to) = (0, page.ends.len());
        while from < to {
            let middle = from.midpoint(to);
            match wanted.compare(page.key(middle)) {
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(from)
    }

    /// The entry at a place, if it is one.
    pub(super) fn entry<R: Record>(&self, place: usize) -> Option<Entry<'_, R>> {
        self.page().entry(place)
    }

    /// The entries in their order.
    pub(super) fn entries<R: Record>(&self) -> impl DoubleEndedIterator<Item = Entry<'_, R>> + use<'_, R> {
        let page = self.page();
        (0..page.ends.len()).filter_map(move |place| page.entry(place))
    }

    /// Puts an entry at a place that [`Leaf::search`] answered, over the one that is there if it is the same key's.
    /// Answers the leaves that come to stand behind this one because it got too large.
    pub(super) fn put<R: Record>(
        &mut self,
        place: Result<usize, usize>,
        key: &[u8],
        record: R,
        text: &[u8],
    ) -> Vec<Leaf> {
        let record = record.to_bytes();
        let parts = Parts { key, record: record.as_ref(), text };
        self.own::<R>();
        let place = match place {
            Ok(place) if self.overwrite(place, &parts) => return Vec::new(),
            Ok(place) => {
                self.take_out(place);
                place
            }
            Err(place) => place,
        };
        self.insert(place, &parts);
        self.split_off::<R>(Some(place))
    }

    /// Takes the entry at a place away.
    pub(super) fn remove<R: Record>(&mut self, place: usize) {
        self.own::<R>();
        self.take_out(place);
    }

    /// Takes all entries of the leaf behind this one, if both together are small.
    pub(super) fn absorb<R: Record>(&mut self, next: &Leaf) -> bool {
        if self.bytes().len() + next.bytes().len() > LEAF_BYTES / 2 {
            return false;
        }
        let (page, next) = (self.page(), next.page());
        *self = Leaf::of(page.all(R::LEN).chain(next.all(R::LEN)));
        true
    }

    /// A leaf of these entries.
    fn of<'p>(entries: impl Iterator<Item = Parts<'p>>) -> Leaf {
        let (mut bytes, mut ends) = (Vec::with_capacity(LEAF_BYTES), Vec::new());
        for parts in entries {
            bytes.resize(bytes.len() + parts.len(), 0);
            let start = bytes.len() - parts.len();
            parts.write(&mut bytes, start);
            ends.push((bytes.len() as u32).to_le_bytes());
        }
        bytes.extend_from_slice(ends.as_flattened());
        bytes.extend_from_slice(&(ends.len() as u32).to_le_bytes());
        Leaf { held: Held::Owned(copied(&bytes, room_for(bytes.len())), bytes.len() as u32) }
    }

    /// Makes the bytes the leaf's own, freed of what is no entry where they were loaded.
    fn own<R: Record>(&mut self) {
        if let Held::Frozen(loaded) = &self.held {
            *self = Leaf::of(Page::new(loaded).all(R::LEN));
        }
    }

    /// The leaf's own room, with so many bytes at least, to be changed: copied where it is shared or too small.
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        if let Held::Owned(room, len) = &mut self.held
            && (room.len() < bytes || Arc::get_mut(room).is_none())
        {
            let old = room.get(..*len as usize).unwrap_or_default();
            *room = copied(old, room_for(bytes.max(old.len())));
        }
        match &mut self.held {
            Held::Owned(room, _) => Arc::get_mut(room).unwrap_or_default(),
            Held::Frozen(_) => &mut [],
        }
    }

    fn set_len(&mut self, new: usize) {
        if let Held::Owned(_, len) = &mut self.held {
            *len = new as u32;
        }
    }

    /// Writes an entry over the one at a place, if that is as long.
    fn overwrite(&mut self, place: usize, parts: &Parts<'_>) -> bool {
        let page = self.page();
        let (start, end) = (page.start(place), page.end(place));
        let fits = end.checked_sub(start) == Some(parts.len());
        if fits {
            parts.write(self.room(0), start);
        }
        fits
    }

    /// Inserts an entry before the one at a place, or behind the last.
    fn insert(&mut self, place: usize, parts: &Parts<'_>) {
        let page = self.page();
        let (count, table) = (page.ends.len(), page.entries.len());
        let place = place.min(count);
        let (start, len, old) = (page.start(place), parts.len(), self.bytes().len().max(WORD));
        let (new, slot) = (old + len + WORD, table + WORD * place);
        let bytes = self.room(new);
        bytes.copy_within(slot..old, slot + len + WORD);
        bytes.copy_within(table..slot, table + len);
        bytes.copy_within(start..table, start + len);
        parts.write(bytes, start);
        put(bytes, slot + len, &(start as u32).to_le_bytes());
        let later = bytes.get_mut(slot + len..new - WORD).unwrap_or_default();
        each_end(later, |end| end.wrapping_add(len as u32));
        put(bytes, new - WORD, &(count as u32 + 1).to_le_bytes());
        self.set_len(new);
    }

    /// Takes the entry at a place away; nothing if there is none.
    fn take_out(&mut self, place: usize) {
        let page = self.page();
        let (count, table, old) = (page.ends.len(), page.entries.len(), self.bytes().len());
        let (start, end) = (page.start(place), page.end(place));
        if place >= count {
            return;
        }
        let (len, slot) = (end - start, table + WORD * place);
        let new = old - len - WORD;
        let bytes = self.room(0);
        bytes.copy_within(end..slot, start);
        bytes.copy_within(slot + WORD..old, slot - len);
        let later = bytes.get_mut(slot - len..new - WORD).unwrap_or_default();
        each_end(later, |end| end.wrapping_sub(len as u32));
        put(bytes, new - WORD, &(count as u32 - 1).to_le_bytes());
        self.set_len(new);
    }

    /// Splits until no leaf is too large; `inserted` is the entry that made this one so.
    fn split_off<R: Record>(&mut self, inserted: Option<usize>) -> Vec<Leaf> {
        let Some(mut next) = self.split::<R>(inserted) else { return Vec::new() };
        // With one large entry among small ones, a half may still be too large.
        let mut behind = self.split_off::<R>(None);
        let last = next.split_off::<R>(None);
        behind.push(next);
        behind.extend(last);
        behind
    }

    fn split<R: Record>(&mut self, inserted: Option<usize>) -> Option<Leaf> {
        let page = self.page();
        let count = page.ends.len();
        if self.bytes().len() <= LEAF_BYTES || count < 2 {
            return None;
        }
        let place = match inserted {
            // Keys that come in order, up or down, leave full leaves behind.
            Some(last) if last + 1 == count => last,
            Some(0) => 1,
            _ => {
                let half = (0..count).find(|place| page.end(*place) >= page.entries.len() / 2);
                half.map_or(1, |place| place + 1).min(count - 1)
            }
        };
        let (middle, table) = (page.start(place), page.entries.len());
        let next = Leaf::of((place..count).filter_map(|place| page.parts(place, R::LEN)));
        let (room, new) = (self.room(0), middle + WORD * (place + 1));
        room.copy_within(table..table + WORD * place, middle);
        put(room, new - WORD, &(place as u32).to_le_bytes());
        if inserted == Some(count - 1) {
            let exact = copied(room.get(..new).unwrap_or_default(), new);
            self.held = Held::Owned(exact, 0);
        }
        self.set_len(new);
        Some(next)
    }

    fn page(&self) -> Page<'_> {
        Page::new(self.bytes())
    }
}

impl<'a> Page<'a> {
    fn new(bytes: &'a [u8]) -> Page<'a> {
        let (rest, count) = match bytes.split_last_chunk::<WORD>() {
            Some((rest, count)) => (rest, u32::from_le_bytes(*count) as usize),
            None => (bytes, 0),
        };
        let table = count.saturating_mul(WORD).min(rest.len() / WORD * WORD);
        let (entries, ends) = rest.split_at_checked(rest.len() - table).unwrap_or((rest, &[]));
        Page { entries, ends: ends.as_chunks().0 }
    }

    fn end(&self, place: usize) -> usize {
        self.ends.get(place).map_or(self.entries.len(), |end| u32::from_le_bytes(*end) as usize)
    }

    fn start(&self, place: usize) -> usize {
        place.checked_sub(1).map_or(0, |before| self.end(before))
    }

    /// The key at a place, and what stands behind it in the entry.
    fn split_key(&self, place: usize) -> Option<(&'a [u8], &'a [u8])> {
        let bytes = self.entries.get(self.start(place)..self.end(place))?;
        let (len, rest) = bytes.split_first_chunk::<WORD>()?;
        rest.split_at_checked(u32::from_le_bytes(*len) as usize)
    }

    /// The key at a place; empty if there is no entry.
    fn key(&self, place: usize) -> &'a [u8] {
        self.split_key(place).map_or(&[], |(key, _)| key)
    }

    fn parts(&self, place: usize, record: usize) -> Option<Parts<'a>> {
        let (key, rest) = self.split_key(place)?;
        let (record, text) = rest.split_at_checked(record)?;
        Some(Parts { key, record, text })
    }

    fn entry<R: Record>(&self, place: usize) -> Option<Entry<'a, R>> {
        let Parts { key, record, text } = self.parts(place, R::LEN)?;
        let (key, text) = (std::str::from_utf8(key).ok()?, std::str::from_utf8(text).ok()?);
        Some(Entry { key, record: R::from_bytes(record)?, text })
    }

    /// The parts of every entry, without what is none.
    fn all(self, record: usize) -> impl Iterator<Item = Parts<'a>> {
        (0..self.ends.len()).filter_map(move |place| self.parts(place, record))
    }
}

impl Parts<'_> {
    fn len(&self) -> usize {
        WORD + self.key.len() + self.record.len() + self.text.len()
    }

    /// Writes the entry into room that was made for it.
    fn write(&self, bytes: &mut [u8], at: usize) {
        put(bytes, at, &(self.key.len() as u32).to_le_bytes());
        put(bytes, at + WORD, self.key);
        put(bytes, at + WORD + self.key.len(), self.record);
        put(bytes, at + WORD + self.key.len() + self.record.len(), self.text);
    }
}

/// How much room is made where so many bytes are needed.
fn room_for(bytes: usize) -> usize {
    (bytes + ROOM_HEAD).next_multiple_of(ROOM_STEP) - ROOM_HEAD
}

/// Some bytes with room behind them.
fn copied(bytes: &[u8], room: usize) -> Arc<[u8]> {
    let mut copy: Arc<[u8]> = repeat_n(0, room).collect();
    if let Some(copy) = Arc::get_mut(&mut copy) {
        put(copy, 0, bytes);
    }
    copy
}

fn each_end(ends: &mut [u8], change: impl Fn(u32) -> u32) {
    for end in ends.as_chunks_mut::<WORD>().0 {
        *end = change(u32::from_le_bytes(*end)).to_le_bytes();
    }
}
