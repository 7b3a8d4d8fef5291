//! JSON lines: one delta a line, out of a store and into one.
//!
//! [`dump`] writes the whole log, [`load`] reads it into a store, [`events`] tells a replay delta by delta, and
//! [`import`] brings in what other programs keep, by the same way as lines. The shape of a line stands in `format/delta.md`; [`Line`] is that shape as a type, and knows nothing of logs.
//!
//! Invariants: a dump loaded into an empty store gives the same frames, times and snapshot bytes. Loading checks
//! everything before it writes anything, against the same limits and rules as every other path into the log.
//! Numbers and JSON values keep their digits, floats every bit.

mod dump;
pub mod import;
mod line;
mod load;

pub use dump::{DumpError, DumpOptions, DumpReport, Event, EventKind, dump, events};
pub use line::reason::{LineError, LineReason};
pub use line::{Args, EntryArgs, EpisodeArgs, Line, NoteArgs, NoteText, RowArgs};
pub use load::{LoadError, LoadOptions, LoadReport, load};
