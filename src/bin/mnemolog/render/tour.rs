//! The texts of the tour.

use std::path::Path;

use super::{count, fitted};
use crate::tour::Stop;

/// The most characters of a line of the tour.
const WIDTH: usize = 100;

/// Says what is about to be seen.
pub(crate) fn welcome(store: &Path, styled: bool) -> String {
    format!(
        "{}\n\nFour conversations between Odalys, who keeps a small observatory, and her assistant, as an agent\n\
         would remember them. The store is temporary, and is removed at the end:\n  {}",
        heading("A tour of mnemolog", styled),
        store.display()
    )
}

/// One stop: its heading with the time it took, the command that does the same, and the answer.
pub(crate) fn stop(number: usize, stop: &Stop, workspace: &str, styled: bool) -> String {
    let Stop { title, command, text, elapsed_us } = stop;
    let took = format!("[{}]", elapsed(*elapsed_us));
    let title = heading(&format!("{number}. {title}"), styled);
    let command = command
        .as_ref()
        .map_or_else(String::new, |command| format!("\n   $ mnemolog --workspace {workspace} {command}"));
    let text: Vec<String> = text.lines().map(|line| format!("   {}", cut(line))).collect();
    format!("\n{title}  {took}{command}\n{}", text.join("\n"))
}

/// What was loaded, and how long each commit took.
pub(crate) fn loaded(lines: u64, frames: u64, embedded: u64, used: u64) -> String {
    format!(
        "{} became {}, numbered from 1; {} computed; the log takes {used} bytes",
        count(lines, "line"),
        count(frames, "frame"),
        count(embedded, "embedding")
    )
}

/// What a key held, and holds.
pub(crate) fn then_and_now(then: &str, now: &str) -> String {
    format!("then: {}\nnow:  {}", fitted(then), fitted(now))
}

/// A replay came to the live state.
pub(crate) fn agreed(frames: u64, digest: &str) -> String {
    format!("{} folded; the digest is that of the live state:\n{digest}", count(frames, "frame"))
}

/// Lines, one of each.
pub(crate) fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}

/// A long text in lines of bearable length.
pub(crate) fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut width = 0;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if width > 0 && width + 1 + len > WIDTH {
            out.push('\n');
            width = 0;
        } else if width > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += len;
    }
    out
}

/// What the times say, and what to do next.
pub(crate) fn farewell(stops: &[Stop], styled: bool) -> String {
    let total: u64 = stops.iter().map(|stop| stop.elapsed_us).sum();
    format!(
        "\n{}\n   {} for all of it. Loading waits for the disk once in a while; a single write waits for it before\n   \
         it returns. Times are those of the library, on this machine and in its directory for temporary files.\n\n\
         To begin: mnemolog remember user/name --summary \"the user's name\" --body Ada",
        heading("Timings", styled),
        elapsed(total)
    )
}

fn heading(text: &str, styled: bool) -> String {
    if styled { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

fn elapsed(time_us: u64) -> String {
    match time_us {
        0..1000 => format!("{time_us} µs"),
        1000..1_000_000 => format!("{:.1} ms", time_us as f64 / 1e3),
        _ => format!("{:.2} s", time_us as f64 / 1e6),
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
    }
}
