//! One leaf: some entries as contiguous bytes.
//!
//! The entries stand one behind another in the order of their keys; then where each ends (4 bytes each,
//! little-endian, from the beginning of the leaf), then how many there are (4 bytes). An entry is the length of its
//! key (4 bytes), the key, the record and the text, which goes on to the entry's end.
//!
//! Invariant: owned bytes are well formed, because loaded ones are looked through when they are taken over. Only
//! reading meets bytes that are not.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use super::{Entry, Order, Record};
use crate::codec::wire::put;

/// A leaf with more bytes is split, unless it holds one entry.
const LEAF_BYTES: usize = 4096;
/// What a leaf in use has room for: one small entry more than it may keep.
const LEAF_CAPACITY: usize = LEAF_BYTES + 512;
/// Bytes of an entry's key length, of one end, and of the count.
const WORD: usize = size_of::<u32>();

/// A leaf.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaf {
    /// The bytes, once they are this map's own.
    owned: Option<Arc<Vec<u8>>>,
    /// The bytes that were loaded, as long as they are not.
    frozen: Bytes,
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
        Leaf { owned: None, frozen: bytes }
    }

    /// The bytes, as they are saved.
    pub(super) fn bytes(&self) -> &[u8] {
        self.owned.as_ref().map_or(&self.frozen, |bytes| bytes)
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
    pub(super) fn end<O: Order>(&self, key: &[u8]) -> Option<usize> {
        let page = self.page();
        let last = page.ends.len().checked_sub(1)?;
        O::compare(page.key(last), key).is_lt().then_some(last + 1)
    }

    /// Where a key stands, or would stand.
    pub(super) fn search<O: Order>(&self, key: &[u8]) -> Result<usize, usize> {
        let page = self.page();
        let (mut from, mut to) = (0, page.ends.len());
        while from < to {
            let middle = from.midpoint(to);
            match O::compare(page.key(middle), key) {
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
        let bytes = self.change::<R>();
        let place = match place {
            Ok(place) if overwrite(bytes, place, &parts) => return Vec::new(),
            Ok(place) => {
                remove(bytes, place);
                place
            }
            Err(place) => place,
        };
        insert(bytes, place, &parts);
        self.split_off::<R>(Some(place))
    }

    /// Takes the entry at a place away.
    pub(super) fn remove<R: Record>(&mut self, place: usize) {
        remove(self.change::<R>(), place);
    }

    /// Takes all entries of the leaf behind this one, if both together are small.
    pub(super) fn absorb<R: Record>(&mut self, next: &Leaf) -> bool {
        if self.bytes().len() + next.bytes().len() > LEAF_BYTES / 2 {
            return false;
        }
        let page = next.page();
        let bytes = self.change::<R>();
        for parts in (0..page.ends.len()).filter_map(|place| page.parts(place, R::LEN)) {
            insert(bytes, usize::MAX, &parts);
        }
        true
    }

    /// The leaf's own bytes, to be changed: copied where they are shared, and freed of what is no entry where they
    /// were loaded.
    fn change<R: Record>(&mut self) -> &mut Vec<u8> {
        let frozen = std::mem::take(&mut self.frozen);
        let owned = self.owned.get_or_insert_with(|| Arc::new(Page::new(&frozen).well_formed(R::LEN)));
        if Arc::get_mut(owned).is_none() {
            let mut copy = Vec::with_capacity(capacity(owned.len() + WORD));
            copy.extend_from_slice(owned);
            *owned = Arc::new(copy);
        }
        Arc::make_mut(owned)
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
        let middle = page.start(place);
        let mut next = Vec::with_capacity(capacity(LEAF_BYTES));
        for parts in (place..count).filter_map(|place| page.parts(place, R::LEN)) {
            insert(&mut next, usize::MAX, &parts);
        }
        let ends = page.ends.get(..place)?.as_flattened().to_vec();
        let bytes = self.change::<R>();
        bytes.truncate(middle);
        bytes.extend_from_slice(&ends);
        bytes.extend_from_slice(&(place as u32).to_le_bytes());
        if inserted == Some(count - 1) {
            bytes.shrink_to_fit();
        }
        Some(Leaf { owned: Some(Arc::new(next)), frozen: Bytes::new() })
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

    /// The bytes of a leaf with these entries, without what is none.
    fn well_formed(&self, record: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(capacity(self.entries.len() + WORD * (self.ends.len() + 2)));
        for parts in (0..self.ends.len()).filter_map(|place| self.parts(place, record)) {
            insert(&mut bytes, usize::MAX, &parts);
        }
        bytes
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

/// How much room a leaf of so many bytes is given: it grows by doubling up to that of a leaf that is full.
fn capacity(bytes: usize) -> usize {
    if bytes <= LEAF_BYTES / 2 { bytes.next_power_of_two() } else { bytes.max(LEAF_CAPACITY) }
}

/// Writes an entry over the one at a place, if that is as long.
fn overwrite(bytes: &mut [u8], place: usize, parts: &Parts<'_>) -> bool {
    let page = Page::new(bytes);
    let (start, end) = (page.start(place), page.end(place));
    let fits = end.checked_sub(start) == Some(parts.len());
    if fits {
        parts.write(bytes, start);
    }
    fits
}

/// Inserts an entry before the one at a place, or behind the last.
fn insert(bytes: &mut Vec<u8>, place: usize, parts: &Parts<'_>) {
    let page = Page::new(bytes);
    let (count, table) = (page.ends.len(), page.entries.len());
    let place = place.min(count);
    let (start, len, old) = (page.start(place), parts.len(), bytes.len().max(WORD));
    let new = old + len + WORD;
    if new > bytes.capacity() {
        bytes.reserve_exact(capacity(new) - bytes.len());
    }
    bytes.resize(new, 0);
    let slot = table + WORD * place;
    bytes.copy_within(slot..old, slot + len + WORD);
    bytes.copy_within(table..slot, table + len);
    bytes.copy_within(start..table, start + len);
    parts.write(bytes, start);
    put(bytes, slot + len, &(start as u32).to_le_bytes());
    let later = bytes.get_mut(slot + len..new - WORD).unwrap_or_default();
    each_end(later, |end| end.wrapping_add(len as u32));
    put(bytes, new - WORD, &(count as u32 + 1).to_le_bytes());
}

/// Takes the entry at a place away; nothing if there is none.
fn remove(bytes: &mut Vec<u8>, place: usize) {
    let page = Page::new(bytes);
    let (count, table) = (page.ends.len(), page.entries.len());
    if place >= count {
        return;
    }
    let (start, end, old) = (page.start(place), page.end(place), bytes.len());
    let (len, slot) = (end - start, table + WORD * place);
    bytes.copy_within(end..slot, start);
    bytes.copy_within(slot + WORD..old, slot - len);
    let new = old - len - WORD;
    bytes.truncate(new);
    let later = bytes.get_mut(slot - len..new - WORD).unwrap_or_default();
    each_end(later, |end| end.wrapping_sub(len as u32));
    put(bytes, new - WORD, &(count as u32 - 1).to_le_bytes());
}

fn each_end(ends: &mut [u8], change: impl Fn(u32) -> u32) {
    for end in ends.as_chunks_mut::<WORD>().0 {
        *end = change(u32::from_le_bytes(*end)).to_le_bytes();
    }
}
