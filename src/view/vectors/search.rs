//! The exact search: which rows can be among the nearest, by their integers, and which of those are, by their floats.
//!
//! Owns the score, and that the answer is the plain scan's: the scores of all rows, sorted, to the bit. Does not know
//! how good the integers are: it is told bounds.
//!
//! Why nothing is missed: a row is left out where the most that it can score is less than what `k` others surely score.
//! Those score more than it, so it is not among the first `k`, whatever the ids are.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};

use super::codes::{Probe, Sketch};
use super::filter::Filter;
use super::rows::{Block, RowPlace};
use super::{Hit, VectorView};
use crate::error::{Error, Result};
use crate::view::{Bodies, json};

impl VectorView {
    /// The `k` rows nearest to `query` among those that pass the filter: by score, highest first, then by id.
    /// Reads the texts of the answer, and with a filter also the metadata of rows that may be part of it.
    ///
    /// # Errors
    /// [`Error::Invalid`]: a query of another width than the table's, or one that is not finite. A text or
    /// metadata that cannot be read.
    pub fn search(
        &self,
        query: &[f32],
        k: usize,
        filter: Option<&Filter>,
        bodies: &dyn Bodies,
    ) -> Result<Vec<Hit>> {
        self.check_query(query)?;
        if k == 0 {
            return Ok(Vec::new());
        }
        let filter = filter.filter(|filter| !filter.is_empty());
        let mut candidates = self.candidates(&Probe::new(query), k, filter);
        let query = Query::new(query);
        let (mut best, mut found) = (Best::new(k), Vec::new());
        while let Some(Candidate { most, place }) = candidates.pop()
            && most >= best.floor()
        {
            let Some(score) = self.rows.floats(place).map(|row| query.cosine(row)) else { continue };
            if f64::from(score) >= best.floor() && self.passes(place, filter, bodies)? {
                best.offer(f64::from(score));
                found.push((score, place));
            }
        }
        self.answer(found, k, best.floor(), bodies)
    }

    fn check_query(&self, query: &[f32]) -> Result<()> {
        if self.dim().is_some_and(|dim| dim != query.len()) {
            let (what, found) = ("the width of the query", query.len().to_string());
            return Err(Error::Invalid { what, found, expected: "the width of the table's rows" });
        }
        if !query.iter().all(|x| x.is_finite()) {
            let found = "one with a NaN or an infinity".to_owned();
            return Err(Error::Invalid { what: "the query", found, expected: "finite floats" });
        }
        Ok(())
    }

    /// The rows that can be among the best `k`; with a filter, all whose metadata may pass it.
    fn candidates(&self, probe: &Probe, k: usize, filter: Option<&Filter>) -> BinaryHeap<Candidate> {
        let wanted = filter.map_or(0, Filter::marks);
        let (mut best, mut candidates) = (Best::new(k), Vec::new());
        let (mut rows, mut dots) = (Vec::new(), Vec::new());
        for Block { first, codes, sketches } in self.rows.blocks() {
            rows.clear();
            if wanted == 0 && self.rows.are_all_taken() {
                rows.extend((0..).zip(sketches).map(|(row, _)| row));
            } else {
                let taken = |sketch: Sketch| !sketch.is_free() && sketch.fields & wanted == wanted;
                let taken = (0..).zip(sketches).filter(|(_, cell)| taken(Sketch::from_cell(**cell)));
                rows.extend(taken.map(|(row, _)| row));
            }
            probe.dots(codes, &rows, &mut dots);
            for (row, dot) in rows.iter().zip(&dots) {
                let Some(cell) = sketches.get(*row as usize) else { continue };
                let (least, most) = probe.bounds(Sketch::from_cell(*cell), *dot);
                if most >= best.floor() {
                    candidates.push(Candidate { most, place: first + row });
                    if filter.is_none() {
                        best.offer(least);
                    }
                }
            }
        }
        candidates.retain(|candidate| candidate.most >= best.floor());
        BinaryHeap::from(candidates)
    }

    fn passes(&self, place: RowPlace, filter: Option<&Filter>, bodies: &dyn Bodies) -> Result<bool> {
        let Some(filter) = filter else { return Ok(true) };
        self.read_at(place, bodies, |upsert| Ok(filter.matches(upsert.metadata)))
    }

    /// The best `k` of rows with their scores, none of which is below `floor` but those that were found early.
    fn answer(
        &self,
        mut found: Vec<(f32, RowPlace)>,
        k: usize,
        floor: f64,
        bodies: &dyn Bodies,
    ) -> Result<Vec<Hit>> {
        found.retain(|(score, _)| f64::from(*score) >= floor);
        if found.len() > k {
            let tied = |(score, _): &(f32, RowPlace)| f64::from(*score) == floor;
            let mut last: HashSet<RowPlace> = found.iter().filter(|row| tied(row)).map(|row| row.1).collect();
            let surplus = found.len() - k;
            let by_id = self.ids.iter().rev().map(|entry| entry.record.0);
            let dropped: HashSet<RowPlace> = by_id.filter(|place| last.remove(place)).take(surplus).collect();
            found.retain(|(_, place)| !dropped.contains(place));
        }
        let hits = found.into_iter().map(|(score, place)| self.hit(score, place, bodies));
        let mut hits = hits.collect::<Result<Vec<_>>>()?;
        hits.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
        Ok(hits)
    }

    fn hit(&self, score: f32, place: RowPlace, bodies: &dyn Bodies) -> Result<Hit> {
        self.read_at(place, bodies, |upsert| {
            let at = self.rows.delta(place).at;
            let metadata = json("metadata", u64::from(at.offset), upsert.metadata)?;
            Ok(Hit { id: upsert.id.to_owned(), text: upsert.text.to_owned(), score, metadata })
        })
    }
}

/// A row that may be part of the answer, by the most that it can score.
struct Candidate {
    most: f64,
    place: RowPlace,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.most.total_cmp(&other.most).then_with(|| other.place.cmp(&self.place))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Candidate {}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

/// The best `k` of the numbers that were offered.
struct Best {
    k: usize,
    /// The lowest on top.
    heap: BinaryHeap<Lowest>,
    floor: f64,
}

struct Lowest(f64);

impl Ord for Lowest {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.total_cmp(&self.0)
    }
}

impl PartialOrd for Lowest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Lowest {}

impl PartialEq for Lowest {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Best {
    fn new(k: usize) -> Best {
        Best { k, heap: BinaryHeap::new(), floor: f64::NEG_INFINITY }
    }

    /// What the last of them is; lower than anything while there are fewer.
    fn floor(&self) -> f64 {
        self.floor
    }

    fn offer(&mut self, number: f64) {
        if self.heap.len() == self.k {
            if number <= self.floor {
                return;
            }
            self.heap.pop();
        }
        self.heap.push(Lowest(number));
        if self.heap.len() == self.k {
            self.floor = self.heap.peek().map_or(f64::NEG_INFINITY, |lowest| lowest.0);
        }
    }
}

/// A query with its length, which is the same for every row.
struct Query<'a> {
    floats: &'a [f32],
    norm: f64,
}

impl Query<'_> {
    fn new(floats: &[f32]) -> Query<'_> {
        let squares = floats.iter().fold(0.0, |sum, x| sum + f64::from(*x) * f64::from(*x));
        Query { floats, norm: squares.sqrt() }
    }

    /// The score: sums from the first float to the last in `f64`, where the product of two `f32` is exact.
    fn cosine(&self, row: &[f32]) -> f32 {
        let (mut dot, mut squares) = (0.0, 0.0);
        for (q, x) in self.floats.iter().zip(row) {
            let (q, x) = (f64::from(*q), f64::from(*x));
            dot += q * x;
            squares += x * x;
        }
        let product = self.norm * squares.sqrt();
        if product == 0.0 {
            return 0.0;
        }
        // Adding zero turns a negative zero into a positive one, so that the two tie.
        (dot / product).clamp(-1.0, 1.0) as f32 + 0.0
    }
}
