//! Plain substring search, case-insensitive by Unicode simple folding.
//!
//! Owns: what matches, and how it is found. Does not know: notes.
//!
//! Invariants: every character of a pattern stands for itself; there is no syntax, and no pattern fails. Both
//! ways of searching give the same answer, and both take time linear in the text for any pattern.

use std::collections::HashMap;

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// Up to this many code points a pattern is searched by the regex engine, which skips through a text faster
/// than a character at a time. Beyond, its automaton outgrows the cache and it falls back to time pattern ×
/// text: 4,096 equal letters in 1 MiB of them took 23 seconds.
const REGEX_MAX: usize = 256;

/// What to look for.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    search: Search,
    is_empty: bool,
}

/// Searches bytes that are not all text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scanner<'p>(&'p Regex);

#[derive(Debug, Clone)]
enum Search {
    Regex(Regex),
    Folded(FoldedNeedle),
}

/// Knuth, Morris and Pratt's search over classes of characters that fold to the same one.
#[derive(Debug, Clone)]
struct FoldedNeedle {
    /// Each character that is equal to one of the needle, and the least of those it is equal to.
    class: HashMap<char, char>,
    needle: Vec<char>,
    /// For each prefix of the needle, the length of its longest proper prefix that is also its suffix.
    border: Vec<usize>,
}

impl Pattern {
    /// A pattern of any length. The empty one matches every text at its beginning.
    pub(crate) fn new(pattern: &str) -> Self {
        let folded = || Search::Folded(FoldedNeedle::new(pattern));
        let search = if pattern.chars().nth(REGEX_MAX).is_some() {
            folded()
        } else {
            let regex = RegexBuilder::new(&regex::escape(pattern)).case_insensitive(true).build();
            regex.map_or_else(|_| folded(), Search::Regex)
        };
        Self { search, is_empty: pattern.is_empty() }
    }

    /// The byte offset of the first occurrence in `text`.
    pub(crate) fn find(&self, text: &str) -> Option<usize> {
        match &self.search {
            Search::Regex(regex) => regex.find(text.as_bytes()).map(|found| found.start()),
            Search::Folded(needle) => needle.find(text),
        }
    }

    /// What finds the pattern among bytes of which texts are a part; none for a pattern that is too long for it, or
    /// empty.
    pub(crate) fn scanner(&self) -> Option<Scanner<'_>> {
        match &self.search {
            Search::Regex(regex) if !self.is_empty => Some(Scanner(regex)),
            _ => None,
        }
    }
}

impl Scanner<'_> {
    /// The first place at `from` or behind it where bytes begin that are an occurrence, whether they are of a text or
    /// not. Wherever a text holds the pattern, there is one.
    pub(crate) fn find(&self, bytes: &[u8], from: usize) -> Option<usize> {
        self.0.find_at(bytes, from).map(|found| found.start())
    }
}

impl FoldedNeedle {
    fn new(pattern: &str) -> Self {
        let mut class = HashMap::new();
        for c in pattern.chars() {
            if !class.contains_key(&c) {
                let equal = folds_like(c);
                let least = equal.iter().copied().min().unwrap_or(c);
                class.extend(equal.into_iter().map(|member| (member, least)));
            }
        }
        let needle: Vec<char> = pattern.chars().map(|c| class.get(&c).copied().unwrap_or(c)).collect();
        let mut this = Self { class, needle, border: Vec::new() };
        this.border = this.borders();
        this
    }

    fn borders(&self) -> Vec<usize> {
        let mut border: Vec<usize> = Vec::with_capacity(self.needle.len());
        for (at, &c) in self.needle.iter().enumerate() {
            let shorter = border.last().copied().unwrap_or(0);
            border.push(if at == 0 { 0 } else { self.advance(&border, shorter, c) });
        }
        border
    }

    /// How much of the needle ends at `c`, if `matched` of it ended just before.
    fn advance(&self, border: &[usize], mut matched: usize, c: char) -> usize {
        loop {
            if self.needle.get(matched) == Some(&c) {
                return matched.saturating_add(1);
            }
            match matched.checked_sub(1).and_then(|last| border.get(last)) {
                Some(&shorter) => matched = shorter,
                None => return 0,
            }
        }
    }

    fn find(&self, text: &str) -> Option<usize> {
        if self.needle.is_empty() {
            return Some(0);
        }
        let mut matched = 0;
        for (at, c) in text.char_indices() {
            matched = self.class.get(&c).map_or(0, |&least| self.advance(&self.border, matched, least));
            if matched == self.needle.len() {
                let before = text.get(..at)?;
                // The last character of the match begins at `at`; the others stand before it.
                let others = matched.checked_sub(2);
                return others.map_or(Some(at), |nth| before.char_indices().rev().nth(nth).map(|(at, _)| at));
            }
        }
        None
    }
}

/// Every character that is equal to `c` by simple folding, `c` among them: the same table as the regex
/// engine's.
fn folds_like(c: char) -> Vec<char> {
    let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
    if class.try_case_fold_simple().is_err() {
        return vec![c];
    }
    class.iter().flat_map(|range| range.start()..=range.end()).collect()
}
