//! Where a command's words go: data to standard output, everything else to standard error.
//!
//! Owns the choice between text and JSON lines, what happens when the reader of standard output goes away, and
//! when a progress bar may be shown. What is said to people is formatted in `render`.

use std::cell::RefCell;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// The data of one command, for people or for programs.
pub(crate) struct Output {
    json: bool,
    out: RefCell<BufWriter<Stdout>>,
}

/// Nobody reads standard output any more, which ends a command and is no failure of it.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
pub(crate) struct Closed;

impl Output {
    pub(crate) fn new(json: bool) -> Output {
        Output { json, out: RefCell::new(BufWriter::new(io::stdout())) }
    }

    /// Whether programs read this.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether a person reads this on a terminal that shows emphasis.
    pub(crate) fn is_styled(&self) -> bool {
        !self.json && io::stdout().is_terminal() && !no_color()
    }

    /// Writes text and a line break; empty text writes nothing, and a break at its end is not doubled.
    ///
    /// # Errors
    /// [`Closed`]; the system's.
    pub(crate) fn text(&self, text: &str) -> anyhow::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let line_break: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
        self.raw(text.as_bytes())?;
        self.raw(line_break)
    }

    /// Writes one JSON object as a line.
    ///
    /// # Errors
    /// [`Closed`]; the system's.
    pub(crate) fn object(&self, object: &impl Serialize) -> anyhow::Result<()> {
        self.text(&serde_json::to_string(object)?)
    }

    /// The object for programs, or the text for people.
    ///
    /// # Errors
    /// [`Closed`]; the system's.
    pub(crate) fn answer<T: Serialize>(
        &self,
        answer: &T,
        text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        if self.json { self.object(answer) } else { self.text(&text(answer)) }
    }

    /// One object a line for programs, one text each for people, `none` where there is nothing.
    ///
    /// # Errors
    /// [`Closed`]; the system's.
    pub(crate) fn list<T: Serialize>(
        &self,
        list: &[T],
        text: impl Fn(&T) -> String,
        none: &str,
    ) -> anyhow::Result<()> {
        if list.is_empty() && !self.json {
            return self.text(none);
        }
        list.iter().try_for_each(|item| self.answer(item, &text))
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// [`Closed`]; the system's.
    pub(crate) fn raw(&self, bytes: &[u8]) -> anyhow::Result<()> {
        told(self.out.borrow_mut().write_all(bytes))
    }

    /// Hands everything to the system.
    ///
    /// # Errors
    /// [`Closed`]; the system's.
    pub(crate) fn flush(&self) -> anyhow::Result<()> {
        told(self.out.borrow_mut().flush())
    }

    /// Whether whoever read standard output has gone, as far as the system tells without a write.
    #[cfg(unix)]
    pub(crate) fn is_closed(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let out = io::stdout();
        let mut watched = [PollFd::new(&out, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let gone = PollFlags::ERR | PollFlags::HUP;
        poll(&mut watched, Some(&now)).is_ok() && watched.iter().any(|out| out.revents().intersects(gone))
    }

    /// Elsewhere only a write tells.
    #[cfg(not(unix))]
    pub(crate) fn is_closed(&self) -> bool {
        false
    }

    /// One line to standard error. Nobody may be listening there, and that stops nothing.
    pub(crate) fn note(&self, sentence: &str) {
        note(sentence);
    }

    /// A writer of data, for what writes by itself.
    pub(crate) fn writer(&self) -> impl Write + '_ {
        Writer(self)
    }
}

struct Writer<'a>(&'a Output);

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.out.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.out.borrow_mut().flush()
    }
}

/// One line to standard error.
pub(crate) fn note(sentence: &str) {
    let _ = writeln!(io::stderr(), "mnemolog: {sentence}");
}

/// A bar on standard error that counts to `total`, or turns while nothing is known of the end. Hidden where
/// standard error is no terminal.
pub(crate) fn progress(what: &'static str, total: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = match total {
        Some(_) => "{msg} [{wide_bar}] {human_pos}/{human_len} {eta}",
        None => "{msg} {spinner} {human_pos} {elapsed}",
    };
    let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Whether colour and emphasis are unwanted: <https://no-color.org>.
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// What a failure to write to standard output means.
pub(crate) fn failure(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Closed.into();
    }
    anyhow::Error::new(error).context("writing to standard output failed")
}

fn told(result: io::Result<()>) -> anyhow::Result<()> {
    result.map_err(failure)
}
