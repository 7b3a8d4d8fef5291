//! Where a command works: which store, which workspace, which moment; and how it opens them.
//!
//! Owns the resolution of `--store`, `--workspace` and `--at`, what reading and writing open, and the notices
//! about what opening found. Knows no verbs.
//!
//! Invariants: what only reads never creates, locks or mends a store. The workspace is checked before the store
//! is opened, so that a bad name changes nothing.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use etcetera::BaseStrategy;
use mnemolog::disk::FileDisk;
use mnemolog::error::Recovery;
use mnemolog::{Error, Frame, Options, Past, Store, Time, Workspace, WorkspacePath, Writers};

use crate::output::Output;
use crate::render;

/// For how long a write waits for another process, unless it is told.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The options that every verb takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The store's directory [default: mnemolog in the platform's data directory]
    #[arg(long, value_name = "DIR", env = "MNEMOLOG_STORE", global = true)]
    store: Option<PathBuf>,

    /// The workspace, such as core or workers/scribe [default: the root]
    #[arg(long, value_name = "PATH", global = true)]
    workspace: Option<String>,

    /// Print JSON: one object, or one object per line for a list
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// How many seconds a write waits for another process that holds the store
    #[arg(long, value_name = "SECONDS", global = true, default_value_t = LOCK_WAIT.as_secs())]
    lock_wait: u64,
}

/// The moment that a read looks at.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct AtArg {
    /// Read as of this frame, or as of this time (RFC 3339, such as 2026-11-30T12:00:00Z) [default: now]
    #[arg(long = "at", value_name = "FRAME|TIME")]
    pub(crate) at: Option<At>,
}

/// A frame, or the last one that is not later than a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    Frame(Frame),
    Time(Time),
}

/// Where this command works, and where its data goes.
pub(crate) struct Context {
    path: PathBuf,
    workspace: WorkspacePath,
    lock_wait: Duration,
    uncertain: Cell<bool>,
    pub(crate) out: Output,
}

/// A store open for reading, at a moment.
pub(crate) struct Reading {
    pub(crate) store: Store,
    pub(crate) workspace: Workspace,
    pub(crate) past: Option<Past>,
}

/// A store open for writing.
pub(crate) struct Writing {
    pub(crate) store: Store,
    pub(crate) workspace: Workspace,
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<At, String> {
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return match text.parse() {
                Ok(frame) => Ok(At::Frame(Frame(frame))),
                Err(_) => Err(format!("`{text}` is more than any frame's number")),
            };
        }
        text.parse().map(At::Time).map_err(|_| {
            "expected the number of a frame, or a time as RFC 3339, such as 2026-11-30T12:00:00Z".to_owned()
        })
    }
}

impl Context {
    /// Resolves the global options.
    ///
    /// # Errors
    /// [`Error::BadName`]: a workspace that no workspace can have. No home directory to put a store in.
    pub(crate) fn new(global: &Global, out: Output) -> Result<Context> {
        let workspace = match &global.workspace {
            None => WorkspacePath::root(),
            Some(path) => WorkspacePath::parse(path).map_err(bad_name)?,
        };
        let path = match &global.store {
            Some(path) => path.clone(),
            None => default_store()?,
        };
        let path = std::path::absolute(&path)
            .with_context(|| format!("the store's path {} cannot be made absolute", path.display()))?;
        Ok(Context {
            path,
            workspace,
            lock_wait: Duration::from_secs(global.lock_wait),
            uncertain: Cell::new(false),
            out,
        })
    }

    /// Opens the store for reading.
    ///
    /// # Errors
    /// As [`Options::open_read_only`], [`Store::at`] and [`Store::at_time`].
    pub(crate) fn read(&self, at: AtArg) -> Result<Reading> {
        let store = self.open_read_only()?;
        let past = at.at.map(|at| {
            let [frame] = self.frames(&store, [at])?;
            store.at(frame)
        });
        let past = past.transpose()?;
        let root = past.as_ref().map_or_else(|| store.root(), Past::root);
        let workspace = self.enter(root)?;
        Ok(Reading { store, workspace, past })
    }

    /// Opens the whole store for reading, and warns of damage.
    ///
    /// # Errors
    /// As [`Options::open_read_only`].
    pub(crate) fn open_read_only(&self) -> Result<Store> {
        let store = Options::new().open_read_only(&self.path)?;
        if let Some(damage) = &store.recovery().damage {
            self.uncertain.set(true);
            self.out.note(&render::damage_while_reading(damage));
        }
        Ok(store)
    }

    /// The frames of moments that a read is about. Damage behind all of them leaves the answer whole. Whether the
    /// store has the frames is for the read to say.
    ///
    /// # Errors
    /// As [`Store::frame_at`].
    pub(crate) fn frames<const N: usize>(
        &self,
        store: &Store,
        moments: [At; N],
    ) -> Result<[Frame; N], Error> {
        let mut frames = [Frame::ZERO; N];
        let mut certain = true;
        for (frame, at) in frames.iter_mut().zip(moments) {
            // The last frame that is served may be the last before a time only because later ones are damaged.
            let (found, whole) = match at {
                At::Frame(frame) => (frame, frame <= store.appended()),
                At::Time(time) => store.frame_at(time).map(|frame| (frame, frame < store.appended()))?,
            };
            *frame = found;
            certain &= whole;
        }
        self.uncertain.set(self.uncertain.get() && !certain);
        Ok(frames)
    }

    /// Opens the store for writing, and creates it if there is none.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub(crate) fn write(&self) -> Result<Writing> {
        self.write_with(Options::new())
    }

    /// As [`Context::write`], with options of the verb's own.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub(crate) fn write_with(&self, options: Options) -> Result<Writing> {
        let store = options.writers(Writers::Many).lock_wait(self.lock_wait).open(&self.path)?;
        self.tell_mended(store.recovery(), store.path());
        let workspace = self.enter(store.root())?;
        Ok(Writing { store, workspace })
    }

    /// Opens the store for a write that makes no sense in a new store: a removal.
    ///
    /// # Errors
    /// [`Error::NoSuchStore`]; as [`Options::open`].
    pub(crate) fn write_existing(&self) -> Result<Writing> {
        let disk = FileDisk::new(&self.path).map_err(|e| Error::io("finding", &self.path, e))?;
        if !mnemolog::log::looks_like_store(&disk)? {
            return Err(Error::NoSuchStore { path: self.path.clone() }.into());
        }
        self.write()
    }

    /// Opens the store for reading, or an empty one in memory if there is none: to see what a write would do.
    ///
    /// # Errors
    /// As [`Options::open_read_only`].
    pub(crate) fn look(&self) -> Result<Writing> {
        let store = match Options::new().open_read_only(&self.path) {
            Err(Error::NoSuchStore { .. }) => Store::in_memory()?,
            store => store?,
        };
        let workspace = self.enter(store.root())?;
        Ok(Writing { store, workspace })
    }

    /// Whether damage may have changed the answer: what stands behind it is missing from what was read.
    pub(crate) fn saw_damage(&self) -> bool {
        self.uncertain.get()
    }

    /// Refuses a name that no handle can have, before anything is opened.
    ///
    /// # Errors
    /// [`Error::BadName`].
    pub(crate) fn check_handle(&self, name: &str) -> Result<()> {
        self.handle_id(name).map(drop)
    }

    /// The id of the handle with this name in the workspace.
    ///
    /// # Errors
    /// [`Error::BadName`].
    pub(crate) fn handle_id(&self, name: &str) -> Result<String> {
        Ok(self.workspace.handle(name).map_err(bad_name)?)
    }

    /// The workspace's path.
    #[cfg(feature = "mcp")]
    pub(crate) fn workspace(&self) -> &WorkspacePath {
        &self.workspace
    }

    /// The store's directory, absolute.
    pub(crate) fn store_path(&self) -> &Path {
        &self.path
    }

    /// How long to wait for another process that holds the store.
    pub(crate) fn lock_wait(&self) -> Duration {
        self.lock_wait
    }

    fn enter(&self, root: Workspace) -> Result<Workspace, Error> {
        match self.workspace.as_str() {
            "" => Ok(root),
            path => root.workspace(path),
        }
    }

    fn tell_mended(&self, recovery: &Recovery, store: &Path) {
        for sentence in render::mended(recovery, store) {
            self.out.note(&sentence);
        }
    }
}

impl Writing {
    /// Ends the log in order. What was written is durable already, so a failure is only told.
    pub(crate) fn close(self, out: &Output) {
        if let Err(cause) = self.store.close() {
            out.note(&render::unclean_close(&cause));
        }
    }
}

fn default_store() -> Result<PathBuf> {
    let strategy = etcetera::choose_base_strategy()
        .context("no home directory is known; name a store with --store or MNEMOLOG_STORE")?;
    Ok(strategy.data_dir().join("mnemolog"))
}

fn bad_name(name: mnemolog::NameError) -> Error {
    Error::BadName { reason: name.to_string() }
}
