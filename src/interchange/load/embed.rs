//! Computes the embeddings that were left out, in batches.

use super::Draft;
use crate::embed::Embedder;
use crate::error::{EmbeddingFault, Error, Result};
use crate::handle::vectors;

/// Texts that go to the embedder together.
const BATCH_TEXTS: usize = 256;

/// Embeds every row that came without an embedding. A frame whose row cannot be embedded is refused; without
/// `keep_going`, the first of them ends the work.
pub(super) fn embed(embedder: &dyn Embedder, drafts: &mut [Draft], keep_going: bool) {
    let loaded = drafts.iter().flat_map(|draft| &draft.lines);
    let missing = loaded.flat_map(|loaded| loaded.rows().filter(|row| row.embedding.is_none()));
    let texts: Vec<&str> = missing.map(|row| &*row.text).collect();
    let mut answers = Vec::with_capacity(texts.len());
    for batch in texts.chunks(BATCH_TEXTS) {
        let answer = embed_batch(embedder, batch);
        let stop = !keep_going && answer.iter().any(Result::is_err);
        answers.extend(answer);
        if stop {
            break;
        }
    }
    let mut answers = answers.into_iter();
    for draft in drafts {
        let mut refused = Vec::new();
        for loaded in &mut draft.lines {
            let rows = loaded.rows().filter(|row| row.embedding.is_none()).count();
            for answer in answers.by_ref().take(rows) {
                match answer {
                    Ok(embedding) => loaded.embedded.push(embedding),
                    Err(error) => refused.push((loaded.number, error)),
                }
            }
        }
        refused.into_iter().for_each(|(line, error)| draft.refuse(line, error.into()));
    }
}

/// One answer for each text. A fault is blamed on the text that it is about, where that can be found out, and
/// otherwise on all texts of the batch.
fn embed_batch(embedder: &dyn Embedder, texts: &[&str]) -> Vec<Result<Vec<f32>>> {
    let error = match vectors::embed(embedder, texts) {
        Ok(embeddings) => return embeddings.into_iter().map(Ok).collect(),
        Err(error) => error,
    };
    let alone = |text: &&str| vectors::embed(embedder, &[text]).map(|mut one| one.pop().unwrap_or_default());
    let about_one = match &error {
        Error::Embedding(fault) => !matches!(**fault, EmbeddingFault::Count { .. }),
        _ => false,
    };
    let answers: Vec<_> = if about_one { texts.iter().map(alone).collect() } else { Vec::new() };
    if answers.iter().any(Result::is_err) {
        return answers;
    }
    texts.iter().map(|_| Err(error.clone())).collect()
}
