//! Where a key stands among others, held against comparing it with each.

use std::cmp::Ordering;

use super::*;
use crate::view::packed::ByteOrder;
use crate::view::text;

enum ByDepth {}

impl Order for ByDepth {
    type Known = usize;

    fn know(key: &[u8]) -> usize {
        text::slashes(key)
    }

    fn digest(key: &[u8], slashes: usize, skip: usize) -> u32 {
        text::key_digest(slashes, key.get(skip..).unwrap_or_default())
    }

    fn compare(stored: &[u8], key: &[u8], slashes: usize) -> Ordering {
        text::compare_key_bytes(stored, (key, slashes))
    }
}

/// Keys without an order of their own: with ends, slashes and zeros where others go on, and beginnings that many share.
fn key(n: u64) -> Vec<u8> {
    let starts: [&[u8]; 6] =
        [b"", b"user/", b"projects/alpha/decisions/of/a/long/way/", b"user/\0", b"a", &[b'/'; 300]];
    let mut mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut take = |among: u64| {
        mixed ^= mixed >> 29;
        mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) % among
    };
    let mut key = starts.get(take(6) as usize).copied().unwrap_or_default().to_vec();
    let letters = [0, b'/', b'a', b'b', 0xf4];
    for _ in 0..take(7) {
        key.push(letters.get(take(5) as usize).copied().unwrap_or_default());
    }
    key
}

fn check<O: Order>(count: u64, of: impl Fn(u64) -> Vec<u8>) {
    let (mut keys, mut plain) = (Keys::default(), Vec::<Vec<u8>>::new());
    let holds = |keys: &Keys, plain: &[Vec<u8>]| {
        for asked in plain.iter().cloned().chain((0..40).map(&of)) {
            let wanted = Wanted::<O>::new(&asked);
            let place = plain.iter().filter(|other| wanted.compare(other).is_le()).count();
            assert_eq!(keys.place(&wanted), place, "{asked:?} among {plain:?}");
        }
    };
    for n in 0..count {
        let key = of(n);
        let place = keys.place(&Wanted::<O>::new(&key));
        if plain.contains(&key) {
            keys.remove::<O>(place - 1);
            plain.remove(place - 1);
        } else {
            keys.insert::<O>(place, &key);
            plain.insert(place, key);
        }
        holds(&keys, &plain);
    }
    while plain.len() > 2 {
        let place = plain.len() / 2;
        let (between, right) = keys.split::<O>(place);
        let behind = plain.split_off(place);
        assert_eq!(Some(&between), behind.first());
        holds(&right, behind.get(1..).unwrap_or_default());
        holds(&keys, &plain);
        keys.remove::<O>(0);
        plain.remove(0);
        holds(&keys, &plain);
    }
}

#[test]
fn a_key_is_found_between_the_keys_that_plain_comparing_finds_it_between() {
    for count in [1, 10, 64, 65, 200] {
        check::<ByteOrder>(count, key);
        check::<ByDepth>(count, key);
        check::<ByDepth>(count, |n| [b"projects/alpha/", &*key(n)].concat());
        check::<ByteOrder>(count, |n| format!("user/{:016x}", n.wrapping_mul(0x9e37_79b9)).into_bytes());
    }
}
