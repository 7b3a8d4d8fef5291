//! A scratchpad with a token budget: what an agent is busy with now; the oldest goes when it is full.

use std::fmt;
use std::sync::Arc;

use super::Handle;
use crate::codec::delta::{Config, HandleKind, Op, Push};
use crate::error::Result;
use crate::store::{Erased, Workspace};
use crate::view::WorkingView;
use crate::view::working::{DEFAULT_TOKEN_BUDGET, approx_tokens, entry_tokens};

/// A scratchpad. Cheap to clone; every clone of one name in one workspace is the same scratchpad.
#[derive(Clone, Debug)]
pub struct Working {
    handle: Handle,
    counter: Counter,
}

/// Counts the tokens of a text.
#[derive(Clone)]
struct Counter(Arc<dyn Fn(&str) -> usize + Send + Sync>);

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counter")
    }
}

impl Counter {
    fn count(&self, text: &str) -> u32 {
        u32::try_from((self.0)(text)).unwrap_or(u32::MAX)
    }
}

impl Workspace {
    /// The scratchpad with this name.
    ///
    /// # Errors
    /// [`crate::Error::BadName`]: a name with other characters than `a-z`, `0-9`, `-`, `_`, or none.
    pub fn working(&self, name: &str) -> Result<Working> {
        let handle = Handle::new(self.source(), HandleKind::Working, self.handle_id(name)?);
        Ok(Working { handle, counter: Counter(Arc::new(|text| approx_tokens(text) as usize)) })
    }
}

impl Working {
    /// The same scratchpad with a budget in tokens from now on; 0 counts as 1. A smaller budget than before
    /// drops the oldest entries at once. Nothing is written if that is its budget already.
    ///
    /// # Errors
    /// [`crate::Error::ReadOnly`] in a past; what committing answers.
    pub fn with_budget(self, tokens: u64) -> Result<Working> {
        let tokens = tokens.max(1);
        self.handle.change(|reading| {
            let now = reading.state.working(self.handle.name()).and_then(WorkingView::configured_budget);
            let op = Op::Configure(Config::Working(Some(tokens)));
            Ok((if now == Some(tokens) { Vec::new() } else { vec![op] }, ()))
        })?;
        Ok(self)
    }

    /// The same scratchpad, counting tokens with this function instead of a quarter of the characters. What
    /// it answers stands in the log: it is never asked again about an entry.
    #[must_use]
    pub fn with_counter(self, count: impl Fn(&str) -> usize + Send + Sync + 'static) -> Working {
        Working { counter: Counter(Arc::new(count)), ..self }
    }

    /// Adds an entry; costs the tokens of label and content and 4 more. The oldest entries go one by one until
    /// the budget holds; an entry larger than the budget stays alone.
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`]; [`crate::Error::ReadOnly`] in a past; what committing answers. Nothing is
    /// added then.
    pub fn push(&self, label: &str, content: &str) -> Result<()> {
        let tokens = entry_tokens(self.counter.count(label), self.counter.count(content));
        let op = Op::Push(Push { label, content, tokens });
        self.handle.source.change(&self.handle.id.id, |_| Ok((vec![op], ())))
    }

    /// Removes all entries; the budget stays.
    ///
    /// # Errors
    /// [`crate::Error::ReadOnly`] in a past; what committing answers.
    pub fn clear(&self) -> Result<()> {
        self.handle.clear()
    }

    /// Removes every entry with a label for good, from every file of the store. Each leaves its place, so that nothing
    /// older comes back. See [`crate::Store::erase`].
    ///
    /// # Errors
    /// As [`crate::Store::erase`]; [`crate::Error::ReadOnly`] in a past.
    pub fn erase(&self, label: &str) -> Result<Erased> {
        self.handle.erase(Some(label))
    }

    /// Removes the whole scratchpad for good, its name included.
    ///
    /// # Errors
    /// As for one label.
    pub fn erase_all(&self) -> Result<Erased> {
        self.handle.erase(None)
    }

    /// The scratchpad as a section of a prompt; empty without an entry.
    pub fn render(&self) -> String {
        let reading = self.handle.reading();
        reading.state.working(self.handle.name()).map(WorkingView::render).unwrap_or_default()
    }

    /// What all entries cost together.
    pub fn current_tokens(&self) -> u64 {
        let reading = self.handle.reading();
        reading.state.working(self.handle.name()).map_or(0, WorkingView::current_tokens)
    }

    /// The budget in tokens.
    pub fn budget(&self) -> u64 {
        let reading = self.handle.reading();
        reading.state.working(self.handle.name()).map_or(DEFAULT_TOKEN_BUDGET, WorkingView::budget)
    }

    /// Label, content and cost of every entry, oldest first.
    pub fn entries(&self) -> Vec<(String, String, u32)> {
        let reading = self.handle.reading();
        let Some(view) = reading.state.working(self.handle.name()) else { return Vec::new() };
        view.entries().map(|e| (e.label.to_owned(), e.content.to_owned(), e.tokens)).collect()
    }

    /// Looks at one moment of the scratchpad.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&WorkingView) -> T) -> T {
        let reading = self.handle.reading();
        match reading.state.working(self.handle.name()) {
            Some(view) => look(view),
            None => look(&WorkingView::default()),
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.handle.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole scratchpad as bytes: equal for equal ones, on every platform.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`]: an entry that the format cannot hold; none that was pushed is.
    pub fn snapshot_bytes(&self) -> Result<Vec<u8>> {
        self.handle.snapshot_bytes()
    }

    /// Replaces the scratchpad by that of a snapshot, as one delta.
    ///
    /// # Errors
    /// [`crate::Error::Snapshot`]: not a snapshot of a scratchpad; nothing changes then. What committing
    /// answers.
    pub fn restore_bytes(&self, bytes: &[u8]) -> Result<()> {
        self.handle.restore_bytes(bytes, |_| Ok(()))
    }
}
