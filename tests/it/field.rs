//! What users of similar software ran into, one test a fault, driven with the input that showed it. The id in
//! each test's comment is that of the collected case.

mod concurrency;
mod embeddings;
mod growth;
mod identity;
mod paths;
mod search;

use std::collections::BTreeMap;
use std::sync::Arc;

use mnemolog::disk::MemoryDisk;
use mnemolog::{Options, Result, Store};

/// A new disk in RAM.
fn disk() -> Arc<MemoryDisk> {
    Arc::new(MemoryDisk::new())
}

/// Opens the store on a disk.
fn open(disk: &Arc<MemoryDisk>) -> Store {
    Options::new().open_on(disk.clone()).expect("opens")
}

/// Every byte of every file.
pub(crate) fn bytes_of(disk: &MemoryDisk) -> BTreeMap<String, Vec<u8>> {
    disk.files().into_iter().filter_map(|path| Some((path.clone(), disk.read_file(&path)?))).collect()
}

/// How many bytes all files have.
fn size_of(disk: &MemoryDisk) -> u64 {
    bytes_of(disk).values().map(|file| file.len() as u64).sum()
}

/// The error of a write that must fail without a trace: no byte of any file changes, no frame, no answer.
pub(crate) fn refused<T: std::fmt::Debug>(
    disk: &MemoryDisk,
    store: &Store,
    write: impl FnOnce() -> Result<T>,
) -> mnemolog::Error {
    let before = (bytes_of(disk), store.appended(), store.digest().expect("readable"));
    let error = write().expect_err("this write is to be refused");
    let after = (bytes_of(disk), store.appended(), store.digest().expect("readable"));
    assert!(before == after, "something was written although: {error}");
    error
}
