//! A disk between the log and another disk: it writes down what it is asked, and can hold a sync back.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use mnemolog::disk::{Access, Disk, File, FileId, Lock, LockError, Map};

/// What was asked, in order: `write NAME`, `sync NAME` (begun), `synced NAME` (ended well), …
#[derive(Default)]
pub(crate) struct Seen {
    state: Mutex<State>,
    turn: Condvar,
    after_read: Mutex<Option<Box<dyn FnMut() + Send>>>,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.state.fmt(f)
    }
}

#[derive(Debug, Default)]
struct State {
    events: Vec<String>,
    names: BTreeMap<String, Arc<Mutex<String>>>,
    held: bool,
    waiting: usize,
}

impl Seen {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn say(&self, event: impl Into<String>) {
        self.state().events.push(event.into());
    }

    /// Calls this after every read of a file.
    pub(crate) fn after_read(&self, hook: impl FnMut() + Send + 'static) {
        *self.after_read.lock().unwrap() = Some(Box::new(hook));
    }

    /// What was seen so far; forgets it.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.state().events)
    }

    /// Every sync of a file waits from now on.
    pub(crate) fn hold(&self) {
        self.state().held = true;
    }

    pub(crate) fn release(&self) {
        self.state().held = false;
        self.turn.notify_all();
    }

    /// Returns once a sync waits.
    pub(crate) fn await_sync(&self) {
        let mut state = self.state();
        while state.waiting == 0 {
            state = self.turn.wait(state).unwrap();
        }
    }

    fn pass(&self) {
        let mut state = self.state();
        state.waiting += 1;
        self.turn.notify_all();
        while state.held {
            state = self.turn.wait(state).unwrap();
        }
        state.waiting -= 1;
    }

    fn name(&self, path: &str) -> Arc<Mutex<String>> {
        let shown = Arc::new(Mutex::new(shown(path)));
        self.state().names.insert(path.to_owned(), shown.clone());
        shown
    }
}

/// A file's own part of its name: the random names of temporary files are all one.
fn shown(path: &str) -> String {
    if path.ends_with(".tmp") { "tmp".to_owned() } else { path.trim_start_matches("log/").to_owned() }
}

#[derive(Debug)]
pub(crate) struct Spy {
    inner: Arc<dyn Disk>,
    seen: Arc<Seen>,
}

impl Spy {
    pub(crate) fn on(inner: Arc<dyn Disk>) -> (Arc<dyn Disk>, Arc<Seen>) {
        let seen = Arc::new(Seen::default());
        (Arc::new(Spy { inner, seen: seen.clone() }), seen)
    }
}

impl Disk for Spy {
    fn root(&self) -> &Path {
        self.inner.root()
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.create_dir(dir)
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, access)?;
        if access == Access::Create {
            self.seen.say(format!("create {}", shown(path)));
        }
        Ok(Arc::new(SpyFile { inner, seen: self.seen.clone(), name: self.seen.name(path) }))
    }

    fn id(&self, path: &str) -> io::Result<FileId> {
        self.inner.id(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)?;
        self.seen.say(format!("rename {} to {}", shown(from), shown(to)));
        if let Some(name) = self.seen.state().names.get(from) {
            *name.lock().unwrap() = shown(to);
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.seen.say(format!("remove {}", shown(path)));
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.seen.say(format!("sync directory {dir}"));
        self.inner.sync_dir(dir)
    }

    fn lock(&self, wait: Duration) -> Result<Lock, LockError> {
        self.inner.lock(wait)
    }

    fn network(&self) -> io::Result<Option<&'static str>> {
        self.inner.network()
    }
}

#[derive(Debug)]
struct SpyFile {
    inner: Arc<dyn File>,
    seen: Arc<Seen>,
    name: Arc<Mutex<String>>,
}

impl SpyFile {
    fn say(&self, did: &str) {
        let name = self.name.lock().unwrap().clone();
        self.seen.say(format!("{did} {name}"));
    }
}

impl File for SpyFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read_at(offset, buf);
        if let Some(hook) = &mut *self.seen.after_read.lock().unwrap() {
            hook();
        }
        read
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.say("write");
        self.inner.write_at(offset, bytes)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.inner.allocate(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.say("sync");
        self.seen.pass();
        self.inner.sync_data()?;
        self.say("synced");
        Ok(())
    }

    fn id(&self) -> io::Result<FileId> {
        self.inner.id()
    }

    fn map(&self, capacity: u64) -> io::Result<Option<Map>> {
        self.inner.map(capacity)
    }
}
