//! The keys between the children of a node: one behind another in one place, so that looking one up touches few
//! lines of memory, and copying them copies bytes.

use std::hint::black_box;

/// Bytes of a line of memory.
pub(super) const LINE_BYTES: usize = 64;

/// Keys in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
}

impl Keys {
    /// How many they are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many keys at the beginning `is_before` holds for; it holds for none behind one that it does not hold for.
    pub(super) fn partition_point(&self, is_before: impl Fn(&[u8]) -> bool) -> usize {
        ask_for(&self.ends);
        ask_for(&self.bytes);
        let (mut from, mut to) = (0, self.ends.len());
        while from < to {
            let middle = from.midpoint(to);
            if is_before(self.get(middle)) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    /// Puts a key before the one at a place, or behind the last.
    pub(super) fn insert(&mut self, place: usize, key: &[u8]) {
        let (place, at) = (place.min(self.ends.len()), self.start(place));
        let later = self.bytes.split_off(at);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(&later);
        self.ends.insert(place, at as u32);
        self.ends.iter_mut().skip(place).for_each(|end| *end += key.len() as u32);
    }

    /// Takes the key at a place away.
    pub(super) fn remove(&mut self, place: usize) {
        let (start, end) = (self.start(place), self.start(place + 1));
        if place < self.ends.len() {
            self.bytes.drain(start..end);
            self.ends.remove(place);
            self.ends.iter_mut().skip(place).for_each(|later| *later -= (end - start) as u32);
        }
    }

    /// Keeps the keys before a place, and answers the one there and those behind it.
    pub(super) fn split(&mut self, place: usize) -> (Vec<u8>, Keys) {
        let (key, mut right) = (self.get(place).to_vec(), Keys::default());
        for place in place + 1..self.ends.len() {
            right.insert(usize::MAX, self.get(place));
        }
        self.bytes.truncate(self.start(place));
        self.ends.truncate(place);
        (key, right)
    }

    fn get(&self, place: usize) -> &[u8] {
        self.bytes.get(self.start(place)..self.start(place + 1)).unwrap_or_default()
    }

    fn start(&self, place: usize) -> usize {
        let before = place.min(self.ends.len()).checked_sub(1).and_then(|before| self.ends.get(before));
        before.map_or(0, |end| *end as usize)
    }
}

/// Asks memory for all lines of some values at once: halving would ask for one after another, each when the one before
/// has come.
pub(super) fn ask_for<T: Copy + Into<u32>>(values: &[T]) {
    let lines = values.iter().step_by(LINE_BYTES / size_of::<T>());
    black_box(lines.fold(0, |all, value| all ^ (*value).into()));
}
