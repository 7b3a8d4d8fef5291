//! Another embedder for a table that is there: every text is embedded anew, and one frame switches the table over.
//!
//! What is embedded so far stands in a table of its own beside the one that it is for, under a name that no program
//! can choose ([`shadow`]): its rows have the ids of the table's, the new vectors, and for a text the digest of the text that
//! was embedded. So whoever was interrupted goes on where it stopped, and a row that was written meanwhile is seen to
//! have another text. Nobody reads that table but this file.
//!
//! Invariants: embedders run outside the lane, unless rows are written faster than they are embedded; then the last few are
//! embedded inside. The switch is one frame: a snapshot of the table with its new identity, texts, metadata and histories
//! untouched, and the other table emptied. Until then searches see the old vectors only.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::{VectorStore, describe, embed, identity};
use crate::codec::delta::{Config, HandleKind, Identity, Op, Upsert};
use crate::codec::frame::PAYLOAD_MAX;
use crate::embed::Embedder;
use crate::error::{Error, Result};
use crate::position::Last;
use crate::store::name::shadow;
use crate::store::{Change, Reading};
use crate::view::VectorView;
use crate::view::vectors::VectorRow;

/// Texts that are embedded, and written, together.
const BATCH_TEXTS: usize = 256;
/// Rounds after which rows that are still written meanwhile are embedded inside the lane.
const ROUNDS: usize = 10;

/// How far embedding anew has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reembedding {
    /// Rows whose new vector is saved.
    pub done: usize,
    /// Rows of the table.
    pub total: usize,
}

/// What embedding anew did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reembedded {
    /// Rows of the table when it was switched over.
    pub rows: usize,
    /// How many texts were embedded; the others had been before an interruption.
    pub embedded: usize,
    /// The table's embedder before; none if it had only vectors of the caller's.
    pub before: Option<Identity<'static>>,
    /// Its embedder now.
    pub after: Identity<'static>,
    /// True if the table was switched over; otherwise it had this embedder's vectors already.
    pub switched: bool,
}

impl VectorStore {
    /// Embeds every text of the table anew with another embedder, and then switches the table over to the new vectors in
    /// one frame. Also rows that came with a vector of the caller's are embedded.
    ///
    /// Until the switch the table is searched, read and written as before, with the old embedder; rows that are written
    /// or deleted meanwhile are followed. After a crash or an error, calling it again with the same embedder goes on where it
    /// stopped; with another one it begins anew. `progress` is called after each batch of at most 256 texts.
    ///
    /// The new vectors are in the log twice then, until it is compacted. At the switch all texts are in memory once. If the
    /// table has the embedder's vectors already, nothing happens.
    ///
    /// # Errors
    /// [`Error::Embedding`]: the embedder failed, or answered vectors that cannot be stored: the table is as it was.
    /// [`Error::TooLarge`]: the table does not fit into one frame (1 GiB of texts, metadata and vectors); this is said
    /// before anything is embedded. [`Error::ReadOnly`] in a past; [`Error::InsideExclusive`] in a critical section;
    /// what committing answers.
    pub fn reembed(
        &self,
        embedder: &dyn Embedder,
        progress: &mut dyn FnMut(Reembedding),
    ) -> Result<Reembedded> {
        let source = &self.handle.source;
        source.check_live()?;
        let after = identity(embedder);
        let shadow = shadow(self.handle.name());
        let before = self.view(&source.reading()).and_then(|view| view.identity().cloned());
        let mut work = Work {
            table: self,
            embedder,
            shadow: &shadow,
            after: &after,
            known: HashMap::new(),
            embedded: 0,
        };
        if before.as_ref() == Some(&after) {
            work.abandon()?;
            return Ok(Reembedded { rows: self.len(), embedded: 0, before, after, switched: false });
        }
        let mut rounds = 0;
        let rows = loop {
            work.round(progress)?;
            if let Some(rows) = work.switch(rounds >= ROUNDS)? {
                break rows;
            }
            rounds += 1;
        };
        let embedded = work.embedded;
        Ok(Reembedded { rows, embedded, before, after: after.clone(), switched: true })
    }

    /// Gives up an embedding anew that was interrupted, and forgets what it has embedded so far.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] in a past; what committing answers.
    pub fn abandon_reembed(&self) -> Result<()> {
        let shadow = shadow(self.handle.name());
        clear(self, &shadow)
    }
}

fn clear(table: &VectorStore, shadow: &str) -> Result<()> {
    table.handle.source.change(shadow, |reading| {
        let ops = if is_begun(reading, shadow) { emptied().to_vec() } else { Vec::new() };
        Ok((ops, ()))
    })
}

/// Whether there is something to forget. A repair may have lost the identity, and not the rows behind it.
fn is_begun(reading: &Reading, shadow: &str) -> bool {
    reading.state.vectors(shadow).is_some_and(|view| view.dim().is_some())
}

/// What makes a table one that was never used, as far as a read can tell.
fn emptied() -> [Op<'static>; 2] {
    [Op::Clear(HandleKind::Vector), Op::Configure(Config::Vector(None))]
}

/// The text of a shadow's row: says which text the vector is of, and nothing else about it.
fn digest(text: &str) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()))
}

struct Work<'w> {
    table: &'w VectorStore,
    embedder: &'w dyn Embedder,
    shadow: &'w str,
    after: &'w Identity<'static>,
    /// The version of each row that is known to be embedded.
    known: HashMap<String, Last>,
    embedded: usize,
}

impl Work<'_> {
    fn abandon(&self) -> Result<()> {
        clear(self.table, self.shadow)
    }

    /// The new vectors so far; none if they are another embedder's.
    fn done<'r>(&self, reading: &'r Reading) -> Option<&'r VectorView> {
        reading.state.vectors(self.shadow).filter(|view| view.identity() == Some(self.after))
    }

    /// Embeds what is not embedded, batch by batch.
    fn round(&mut self, progress: &mut dyn FnMut(Reembedding)) -> Result<()> {
        // Asked first: what is erased from here on must not be written again from this reading.
        let generation = self.table.handle.source.generation();
        let reading = self.table.handle.reading();
        let Some(view) = self.table.view(&reading) else { return Ok(()) };
        let missing = self.missing(&reading, view)?;
        let total = view.heads().count();
        let mut done = total.saturating_sub(missing.len());
        progress(Reembedding { done, total });
        for batch in missing.chunks(BATCH_TEXTS) {
            let mut rows = Vec::with_capacity(batch.len());
            for (id, last) in batch {
                if let Some(row) = view.get(id, &reading.bodies)? {
                    rows.push((id.clone(), *last, row.text));
                }
            }
            if !self.embed(&rows, generation)? {
                return Ok(());
            }
            done += batch.len();
            progress(Reembedding { done, total });
        }
        Ok(())
    }

    /// The rows whose current version is not known to be embedded. Reads the texts of those that may be.
    fn missing(&mut self, reading: &Reading, view: &VectorView) -> Result<Vec<(String, Last)>> {
        let done = self.done(reading);
        let (mut missing, mut bytes) = (Vec::new(), 0_u64);
        for head in view.heads() {
            bytes += (head.id.len() + 4 * self.embedder.dim()) as u64;
            if done.is_some() && self.known.get(head.id) == Some(&head.last) {
                continue;
            }
            let saved = match done.and_then(|done| done.head(head.id)) {
                Some(saved) => saved.read(&reading.bodies)?.text == digest(&head.read(&reading.bodies)?.text),
                None => false,
            };
            if saved {
                self.known.insert(head.id.to_owned(), head.last);
            } else {
                missing.push((head.id.to_owned(), head.last));
            }
        }
        let limit = PAYLOAD_MAX as u64;
        if bytes > limit {
            return Err(Error::TooLarge {
                what: "the table with its new vectors in bytes",
                limit,
                found: bytes,
            });
        }
        Ok(missing)
    }

    /// Embeds rows and saves their vectors. Answers `false`, and saves nothing, if files were replaced since.
    fn embed(&mut self, rows: &[(String, Last, String)], generation: u64) -> Result<bool> {
        let texts: Vec<&str> = rows.iter().map(|(_, _, text)| text.as_str()).collect();
        let vectors = embed(self.embedder, &texts)?;
        let digests: Vec<String> = texts.iter().map(|text| digest(text)).collect();
        let (shadow, after, source) = (self.shadow, self.after, &self.table.handle.source);
        let saved = source.change(shadow, |reading| {
            if source.generation() != generation {
                return Ok((Vec::new(), false));
            }
            let mut ops = Vec::with_capacity(rows.len() + 2);
            if reading.state.vectors(shadow).and_then(VectorView::identity) != Some(after) {
                // Another embedder's, or nobody's.
                ops.push(Op::Clear(HandleKind::Vector));
                ops.push(Op::Configure(Config::Vector(Some(after.clone()))));
            }
            for (((id, ..), digest), vector) in rows.iter().zip(&digests).zip(&vectors) {
                let embedding = Cow::Borrowed(vector.as_slice());
                ops.push(Op::Upsert(Upsert { id, text: digest, metadata: "{}", embedding }));
            }
            Ok((ops, true))
        })?;
        if !saved {
            return Ok(false);
        }
        self.embedded += rows.len();
        self.known.extend(rows.iter().map(|(id, last, _)| (id.clone(), *last)));
        Ok(true)
    }

    /// Switches the table over if every row is embedded, and answers how many there are; `last_resort` embeds what is
    /// missing inside the lane.
    fn switch(&mut self, last_resort: bool) -> Result<Option<usize>> {
        let kept: OnceCell<Vec<VectorRow>> = OnceCell::new();
        let table: Arc<str> = self.table.handle.id.id.clone();
        let (shadow, after, source) = (self.shadow, self.after, &self.table.handle.source);
        let mut late = 0;
        let switched = source.change_all(|reading| {
            let Some(rows) = self.rows(reading, last_resort, &mut late)? else {
                return Ok((Vec::new(), None));
            };
            let rows = kept.get_or_init(|| rows);
            let mut changes = Vec::with_capacity(rows.len() + 3);
            let config = Config::Vector(Some(after.clone()));
            let head = Op::Snapshot { config, items: rows.len() as u64, continues: false };
            changes.push(Change { id: &table, op: head });
            changes.extend(rows.iter().map(|row| Change { id: &table, op: Op::Upsert(row.delta()) }));
            if is_begun(reading, shadow) {
                changes.extend(emptied().map(|op| Change { id: shadow, op }));
            }
            Ok((changes, Some(rows.len())))
        });
        self.embedded += late;
        switched
    }

    /// All rows of the table with their new vectors; none if one is missing.
    fn rows(&self, reading: &Reading, last_resort: bool, late: &mut usize) -> Result<Option<Vec<VectorRow>>> {
        let Some(view) = self.table.view(reading) else { return Ok(Some(Vec::new())) };
        let done = self.done(reading);
        let mut rows = Vec::with_capacity(view.heads().count());
        for head in view.heads() {
            let known = self.known.get(head.id) == Some(&head.last);
            let saved = done.filter(|_| known).and_then(|done| done.head(head.id));
            let mut row = head.read(&reading.bodies)?;
            row.embedding = match saved {
                Some(saved) => saved.embedding.to_vec(),
                None if last_resort => {
                    *late += 1;
                    embed(self.embedder, &[row.text.as_str()])?.pop().unwrap_or_default()
                }
                None => return Ok(None),
            };
            rows.push(row);
        }
        Ok(Some(rows))
    }
}

impl Reembedded {
    /// The embedder before, as errors show one.
    pub fn before_text(&self) -> Option<String> {
        self.before.as_ref().map(describe)
    }

    /// The embedder now, as errors show one.
    pub fn after_text(&self) -> String {
        describe(&self.after)
    }
}
