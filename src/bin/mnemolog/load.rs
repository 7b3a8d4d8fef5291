//! `load`: JSON lines into the store.
//!
//! Invariant: unless told to keep going, no line is written and no store is created before every line of every
//! file was read as one; what only the store can refuse (a limit, a width) stops the file that holds it.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use mnemolog::interchange::{self, Line, LineError, LineReason, LoadError, LoadOptions, LoadReport};
use mnemolog::{Clock as _, SystemClock};
use serde::Serialize;

use crate::context::{Context, Writing};
use crate::exit::{Exit, Refusal, exit_for_store};
use crate::{output, render};

/// What to load, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files of JSON lines, as `dump` writes them; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Load every frame without a bad line, and report each bad line
    #[arg(long)]
    keep_going: bool,
    /// Accept times more than a day ahead of the clock
    #[arg(long)]
    trust_times: bool,
}

/// What was loaded.
#[derive(Default, Serialize)]
pub(crate) struct Loaded {
    pub(crate) files: usize,
    pub(crate) frames: u64,
    pub(crate) lines: u64,
    /// The first and the last frame written; null if none was.
    pub(crate) first: Option<u64>,
    pub(crate) last: Option<u64>,
    /// True if a frame got another number than its lines gave.
    pub(crate) renumbered: bool,
    /// Frames whose time lay before that of the frame in front of them, and was raised to it.
    pub(crate) raised_times: u64,
    /// Embeddings computed.
    pub(crate) embedded: u64,
    pub(crate) refused: Vec<Refused>,
}

/// A line that was refused.
#[derive(Serialize)]
pub(crate) struct Refused {
    pub(crate) file: String,
    pub(crate) line: u64,
    pub(crate) reason: String,
}

/// One input, whole.
struct Input {
    name: String,
    bytes: Vec<u8>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let inputs = args.files.iter().map(read).collect::<Result<Vec<_>>>()?;
    if !args.keep_going {
        inputs.iter().try_for_each(|input| check(input, args.trust_times))?;
    }
    let writing = context.write()?;
    let mut loaded = Loaded::default();
    let result = load_all(&writing, &inputs, args, &mut loaded);
    writing.close(&context.out);
    for refused in &loaded.refused {
        context.out.note(&render::refused(refused));
    }
    if let Err(error) = result {
        if loaded.files > 0 {
            context.out.note(&render::loaded_before(&loaded));
        }
        return Err(error);
    }
    context.out.answer(&loaded, render::loaded)?;
    Ok(if loaded.refused.is_empty() { Exit::Done } else { Exit::Refused })
}

fn load_all(writing: &Writing, inputs: &[Input], args: &Args, loaded: &mut Loaded) -> Result<()> {
    let options = LoadOptions { keep_going: args.keep_going, trust_times: args.trust_times };
    let bar = output::progress("load", Some(inputs.len() as u64));
    for input in inputs {
        let report = interchange::load(&writing.store, &mut input.bytes.as_slice(), options);
        loaded.add(&input.name, report.map_err(|error| failure(&input.name, error))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

fn read(path: &PathBuf) -> Result<Input> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    if name == "-" {
        io::stdin().lock().read_to_end(&mut bytes).context("reading standard input failed")?;
    } else {
        let whole = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
        whole.with_context(|| format!("{name} cannot be read; nothing was loaded"))?;
    }
    Ok(Input { name, bytes })
}

/// Reads every line as a line, so that what is not one stops everything before anything is opened.
fn check(input: &Input, trust_times: bool) -> Result<()> {
    let bytes = input.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&input.bytes);
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let reason = match std::str::from_utf8(line) {
            Ok(text) if text.trim_ascii().is_empty() => continue,
            Ok(text) => {
                let timely =
                    |line: Line<'_>| if trust_times { Ok(()) } else { line.check_time(SystemClock.now()) };
                Line::parse(text).and_then(timely).err()
            }
            Err(bad) => Some(LineReason::NotUtf8 { at: bad.valid_up_to() + 1 }),
        };
        if let Some(reason) = reason {
            return Err(failure(&input.name, LoadError::Refused(LineError { line: number, reason })));
        }
    }
    Ok(())
}

fn failure(file: &str, error: LoadError) -> anyhow::Error {
    let exit = match &error {
        LoadError::Refused(_) => Exit::Refused,
        LoadError::Store(cause) | LoadError::Writing { cause, .. } => exit_for_store(cause),
        LoadError::Input(_) => Exit::Failed,
    };
    Refusal::new(exit, format!("{}: {error}", render::line(file))).into()
}

impl Loaded {
    fn add(&mut self, file: &str, report: LoadReport) {
        self.files += 1;
        self.frames += report.frames;
        self.lines += report.lines;
        self.first = self.first.or(report.first.map(|frame| frame.0));
        self.last = report.last.map(|frame| frame.0).or(self.last);
        self.renumbered |= report.renumbered;
        self.raised_times += report.raised_times;
        self.embedded += report.embedded;
        self.refused.extend(report.refused.into_iter().map(|refused| Refused {
            file: file.to_owned(),
            line: refused.line,
            reason: refused.reason.to_string(),
        }));
    }
}
