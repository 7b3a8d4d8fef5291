//! The keys between the children of a node, one behind another in one place, and of each a digest: a few bytes that
//! tell most keys apart, so that looking one up touches few lines of memory and compares without a branch.
//!
//! Invariants: all keys share their first `shared` bytes, and digests are told from what stands behind them. They are in
//! the order of the keys, where equal ones leave the order open. More keys than there is room for digests have none.

use super::{Order, Start, Wanted};

/// How many keys have digests.
pub(super) const DIGESTS_MAX: usize = 64;

/// Keys in their order.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// Behind the last, the highest there is.
    digests: [i32; DIGESTS_MAX],
    shared: Shared,
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
}

/// The bytes with which every key begins, as far as they stand in a [`Start`].
#[derive(Clone, Copy, Debug, Default)]
struct Shared {
    len: usize,
    start: Start,
    /// Ones where `start` counts.
    mask: Start,
}

impl Default for Keys {
    fn default() -> Self {
        let (digests, shared) = ([i32::MAX; DIGESTS_MAX], Shared::default());
        Keys { digests, shared, bytes: Vec::new(), ends: Vec::new() }
    }
}

impl Shared {
    fn new(key: &[u8], len: usize) -> Shared {
        let len = len.min(size_of::<Start>());
        Shared {
            len,
            start: super::start(key),
            mask: super::start([u8::MAX; size_of::<Start>()].get(..len).unwrap_or_default()),
        }
    }

    /// Whether a key begins so.
    fn begins<O: Order>(&self, wanted: &Wanted<'_, O>) -> bool {
        let words = wanted.start.iter().zip(&self.start).zip(&self.mask);
        let differs = words.fold(0, |all, ((word, own), mask)| all | (word ^ own) & mask);
        differs == 0 && self.len <= wanted.key.len()
    }
}

impl Keys {
    /// How many they are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many keys are not behind a key.
    pub(super) fn place<O: Order>(&self, wanted: &Wanted<'_, O>) -> usize {
        if self.len() > DIGESTS_MAX || !self.shared.begins(wanted) {
            return self.halve(wanted, (0, self.len()));
        }
        let digest = digest::<O>(wanted.key, wanted.known, self.shared.len);
        let lower = self.digests.iter().map(|other| u32::from(*other < digest)).sum::<u32>() as usize;
        let equal = self.digests.iter().skip(lower).take_while(|other| **other == digest).count();
        // What lies there only the keys tell.
        self.halve(wanted, (lower, self.len().min(lower + equal)))
    }

    fn halve<O: Order>(&self, wanted: &Wanted<'_, O>, (mut from, mut to): (usize, usize)) -> usize {
        while from < to {
            let middle = from.midpoint(to);
            if wanted.compare(self.get(middle)).is_le() {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    /// Puts a key before the one at a place, or behind the last.
    pub(super) fn insert<O: Order>(&mut self, place: usize, key: &[u8]) {
        let (place, at) = (place.min(self.len()), self.start(place));
        let (before, first) = (self.len(), self.get(0));
        let shared = if before == 0 { key.len() } else { shared_bytes(first, key).min(self.shared.len) };
        let shared = Shared::new(key, shared);
        self.bytes.splice(at..at, key.iter().copied());
        self.ends.insert(place, at as u32);
        self.ends.iter_mut().skip(place).for_each(|end| *end += key.len() as u32);
        if shared.len != self.shared.len || before >= DIGESTS_MAX {
            self.shared = shared;
            self.digest_all::<O>();
        } else {
            self.digests.copy_within(place..before, place + 1);
            self.set_digest::<O>(place, key);
        }
    }

    /// Takes the key at a place away.
    pub(super) fn remove<O: Order>(&mut self, place: usize) {
        let (start, end, before) = (self.start(place), self.start(place + 1), self.len());
        if place >= before {
            return;
        }
        self.bytes.drain(start..end);
        self.ends.remove(place);
        self.ends.iter_mut().skip(place).for_each(|later| *later -= (end - start) as u32);
        if before > DIGESTS_MAX {
            self.digest_all::<O>();
        } else {
            self.digests.copy_within(place + 1..before, place);
            self.digests.iter_mut().skip(before - 1).for_each(|none| *none = i32::MAX);
        }
    }

    /// Keeps the keys before a place, and answers the one there and those behind it.
    pub(super) fn split<O: Order>(&mut self, place: usize) -> (Vec<u8>, Keys) {
        let (key, mut right) = (self.get(place).to_vec(), Keys::default());
        for place in place + 1..self.len() {
            right.insert::<O>(usize::MAX, self.get(place));
        }
        self.bytes.truncate(self.start(place));
        self.ends.truncate(place);
        // Fewer keys may share more.
        let first = self.get(0);
        let shared = (0..self.len()).map(|place| shared_bytes(first, self.get(place))).min();
        self.shared = Shared::new(first, shared.unwrap_or_default());
        self.digest_all::<O>();
        (key, right)
    }

    fn digest_all<O: Order>(&mut self) {
        self.digests = std::array::from_fn(|place| {
            let key = self.get(place);
            if place < self.len() { digest::<O>(key, O::know(key), self.shared.len) } else { i32::MAX }
        });
    }

    fn set_digest<O: Order>(&mut self, place: usize, key: &[u8]) {
        if let Some(slot) = self.digests.get_mut(place) {
            *slot = digest::<O>(key, O::know(key), self.shared.len);
        }
    }

    fn get(&self, place: usize) -> &[u8] {
        self.bytes.get(self.start(place)..self.start(place + 1)).unwrap_or_default()
    }

    fn start(&self, place: usize) -> usize {
        let before = place.min(self.len()).checked_sub(1).and_then(|before| self.ends.get(before));
        before.map_or(0, |end| *end as usize)
    }
}

/// The digest of a key, as a number that the processor compares many of at once.
fn digest<O: Order>(key: &[u8], known: O::Known, skip: usize) -> i32 {
    (O::digest(key, known, skip) ^ (1 << 31)).cast_signed()
}

fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests;
