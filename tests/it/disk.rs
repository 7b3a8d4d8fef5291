//! What a store asks of a disk, asked of both: the scenarios in [`BOTH`] run on a directory and in RAM. Then what
//! only one of them does: losing power, failing, mapping, real locks.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mnemolog::disk::{Access, Disk, File, FileDisk, LockError, MemoryDisk};

const NO_WAIT: Duration = Duration::ZERO;

type Scenario = (&'static str, fn(&dyn Disk));

const BOTH: &[Scenario] = &[
    ("creating the root and directories again is harmless", creating_is_idempotent),
    ("what was written is read, also past holes", written_is_read),
    ("a new file must be new, an old one must exist", access_is_checked),
    ("an open file outlives its name", open_files_outlive_names),
    ("a list names everything, sorted", lists_are_sorted),
    ("allocating never shrinks and never changes a byte", allocating_only_grows),
    ("the lock conflicts within a process and names its holder", locks_conflict),
    ("a waiting locker gets the lock when it is let go", locks_are_waited_for),
    ("no path leads outside the root", paths_stay_inside),
];

#[test]
fn both_disks_keep_every_promise() {
    for (name, scenario) in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let file = FileDisk::new(dir.path().join("deep/store")).unwrap();
        for disk in [&file as &dyn Disk, &MemoryDisk::new(), &MemoryDisk::simulated()] {
            println!("{name}, on {disk:?}");
            assert_eq!(disk.list("").unwrap_err().kind(), ErrorKind::NotFound);
            let no_lock = disk.lock(NO_WAIT).unwrap_err();
            assert!(matches!(no_lock, LockError::Io(error) if error.kind() == ErrorKind::NotFound));
            disk.create_dir("").unwrap();
            disk.create_dir("log").unwrap();
            scenario(disk);
        }
    }
}

fn creating_is_idempotent(disk: &dyn Disk) {
    put(disk, "log/a", b"kept");
    disk.create_dir("").unwrap();
    disk.create_dir("log").unwrap();
    disk.sync_dir("log").unwrap();
    disk.sync_dir("").unwrap();
    assert_eq!(get(disk, "log/a"), b"kept");
    assert_eq!(kind(disk.sync_dir("absent")), ErrorKind::NotFound);
    assert_eq!(kind(disk.create_dir("log/a")), ErrorKind::AlreadyExists);
}

fn written_is_read(disk: &dyn Disk) {
    let file = disk.open("f", Access::Create).unwrap();
    assert!(file.is_empty().unwrap());
    file.write_at(5000, b"end").unwrap();
    file.write_at(0, b"start").unwrap();
    file.write_at(2, b"AR").unwrap();
    file.write_at(9000, b"").unwrap();
    file.sync_data().unwrap();
    assert_eq!(file.len().unwrap(), 5003);
    let mut buf = [1; 10];
    assert_eq!(file.read_at(4998, &mut buf).unwrap(), 5);
    assert_eq!(&buf, b"\0\0end\x01\x01\x01\x01\x01");
    assert_eq!(file.read_at(5003, &mut buf).unwrap(), 0);
    assert_eq!(file.read_at(1 << 40, &mut buf).unwrap(), 0);
    assert_eq!(&get(disk, "f")[..6], b"stARt\0");
}

fn access_is_checked(disk: &dyn Disk) {
    put(disk, "f", b"1");
    assert_eq!(kind(disk.open("f", Access::Create)), ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.open("g", Access::Read)), ErrorKind::NotFound);
    assert_eq!(kind(disk.open("g", Access::Write)), ErrorKind::NotFound);
    assert_eq!(kind(disk.open("absent/g", Access::Create)), ErrorKind::NotFound);
    assert_eq!(kind(disk.open("f/g", Access::Create)), ErrorKind::NotADirectory);
    assert_eq!(kind(disk.open("log", Access::Read)), ErrorKind::IsADirectory);
    disk.open("f", Access::Read).unwrap().write_at(0, b"2").unwrap_err();
    disk.open("f", Access::Write).unwrap().write_at(1, b"3").unwrap();
    assert_eq!(get(disk, "f"), b"13");
}

fn open_files_outlive_names(disk: &dyn Disk) {
    let old = put(disk, "log/a", b"old");
    let new = put(disk, "log/b.tmp", b"new");
    assert_ne!(old.id().unwrap(), new.id().unwrap());
    assert_eq!(disk.id("log/a").unwrap(), old.id().unwrap());
    disk.rename("log/b.tmp", "log/a").unwrap();
    assert_eq!(disk.id("log/a").unwrap(), new.id().unwrap());
    assert_eq!(disk.list("log").unwrap(), ["a"]);
    disk.remove("log/a").unwrap();
    assert_eq!(kind(disk.id("log/a")), ErrorKind::NotFound);
    assert_eq!(kind(disk.remove("log/a")), ErrorKind::NotFound);
    assert_eq!(kind(disk.rename("log/a", "log/c")), ErrorKind::NotFound);
    new.write_at(3, b"er").unwrap();
    assert_eq!(bytes(&*old), b"old");
    assert_eq!(bytes(&*new), b"newer");
    put(disk, "log/moved", b"m");
    disk.rename("log/moved", "moved").unwrap();
    assert_eq!(get(disk, "moved"), b"m");
}

fn lists_are_sorted(disk: &dyn Disk) {
    for name in ["log/b", "log/B", "log/a.tmp", "log/a", "z"] {
        put(disk, name, b"");
    }
    assert_eq!(disk.list("log").unwrap(), ["B", "a", "a.tmp", "b"]);
    assert_eq!(disk.list("").unwrap(), ["log", "z"]);
    assert_eq!(kind(disk.list("absent")), ErrorKind::NotFound);
    assert_eq!(kind(disk.list("z")), ErrorKind::NotADirectory);
}

fn allocating_only_grows(disk: &dyn Disk) {
    let file = put(disk, "f", b"0123456789");
    for (len, after) in [(0, 10), (4, 10), (10, 10), (100_000, 100_000), (4, 100_000)] {
        file.allocate(len).unwrap();
        assert_eq!(file.len().unwrap(), after);
    }
    let bytes = bytes(&*file);
    assert_eq!(&bytes[..10], b"0123456789");
    assert!(bytes[10..].iter().all(|b| *b == 0));
    disk.open("f", Access::Read).unwrap().allocate(200_000).unwrap_err();
}

fn locks_conflict(disk: &dyn Disk) {
    let lock = disk.lock(NO_WAIT).unwrap();
    let LockError::Held { holder } = disk.lock(Duration::from_millis(5)).unwrap_err() else {
        panic!("another error than that the lock is held");
    };
    assert_eq!(holder.unwrap().pid, std::process::id());
    drop(lock);
    drop(disk.lock(NO_WAIT).unwrap());
    put(disk, "f", b"");
    let line = String::from_utf8(get(disk, "LOCK")).unwrap();
    assert!(line.starts_with(&format!("{} ", std::process::id())) && line.ends_with('\n'), "{line:?}");
}

fn locks_are_waited_for(disk: &dyn Disk) {
    let lock = disk.lock(Duration::MAX).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| disk.lock(Duration::MAX).map(drop));
        let started = Instant::now();
        disk.lock(Duration::from_millis(30)).unwrap_err();
        assert!(started.elapsed() >= Duration::from_millis(30));
        assert!(!waiter.is_finished());
        drop(lock);
        waiter.join().unwrap().unwrap();
    });
}

fn paths_stay_inside(disk: &dyn Disk) {
    put(disk, "f", b"");
    for path in ["/etc/passwd", "../f", "log/../f", "./f", "log//f", "log/", "a\\b", "c:x", "a\0b"] {
        assert_eq!(kind(disk.open(path, Access::Create)), ErrorKind::InvalidInput, "{path:?}");
        assert_eq!(kind(disk.rename("f", path)), ErrorKind::InvalidInput, "{path:?}");
        assert_eq!(kind(disk.remove(path)), ErrorKind::InvalidInput, "{path:?}");
        assert_eq!(kind(disk.create_dir(path)), ErrorKind::InvalidInput, "{path:?}");
    }
}

#[test]
#[cfg(unix)]
fn one_directory_under_two_names_has_one_lock() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    let first = FileDisk::new(&real).unwrap();
    first.create_dir("").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let second = FileDisk::new(link.join("../link")).unwrap();
    assert_eq!(first.root(), second.root());
    let lock = first.lock(NO_WAIT).unwrap();
    assert!(matches!(second.lock(NO_WAIT), Err(LockError::Held { holder: Some(_) })));
    drop(lock);
    second.lock(NO_WAIT).unwrap();
}

#[test]
fn a_lock_file_that_is_garbage_names_nobody_and_still_locks() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::new(dir.path()).unwrap();
    let long = "x".repeat(300);
    std::fs::write(dir.path().join("LOCK"), &long).unwrap();
    let _lock = disk.lock(NO_WAIT).unwrap();
    assert!(get(&disk, "LOCK").len() < 300);
    for torn in ["", "12", "12 host", "x host\n", &long] {
        std::fs::write(dir.path().join("LOCK"), torn).unwrap();
        assert!(matches!(disk.lock(NO_WAIT), Err(LockError::Held { holder: None })), "{torn:?}");
    }
}

#[test]
fn a_lock_file_that_was_replaced_is_locked_anew() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::new(dir.path()).unwrap();
    let stale = disk.lock(NO_WAIT).unwrap();
    std::fs::remove_file(dir.path().join("LOCK")).unwrap();
    let fresh = disk.lock(NO_WAIT).unwrap();
    drop(stale);
    assert!(matches!(disk.lock(NO_WAIT), Err(LockError::Held { .. })));
    drop(fresh);
}

#[test]
fn a_lock_file_replaced_between_opening_and_locking_is_not_taken_for_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::new(dir.path()).unwrap();
    let holders = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1500 {
                    let Ok(_lock) = disk.lock(NO_WAIT) else { continue };
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
                    std::thread::yield_now();
                    holders.fetch_sub(1, Ordering::SeqCst);
                    std::fs::remove_file(dir.path().join("LOCK")).unwrap();
                }
            });
        }
    });
}

#[test]
#[cfg(unix)]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::new(dir.path().join("a/b")).unwrap();
    disk.create_dir("").unwrap();
    disk.create_dir("log").unwrap();
    put(&disk, "log/f", b"");
    drop(disk.lock(NO_WAIT).unwrap());
    for (path, mode) in
        [("a", 0o700), ("a/b", 0o700), ("a/b/log", 0o700), ("a/b/log/f", 0o600), ("a/b/LOCK", 0o600)]
    {
        let found = std::fs::metadata(dir.path().join(path)).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode, "{path}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn allocating_reserves_real_space() {
    use std::os::unix::fs::MetadataExt as _;
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::new(dir.path()).unwrap();
    let file = put(&disk, "f", b"x");
    file.allocate(1 << 20).unwrap();
    assert!(std::fs::metadata(dir.path().join("f")).unwrap().blocks() * 512 >= 1 << 20);
    assert_eq!(kind(file.allocate(1 << 62)), ErrorKind::FileTooLarge);
    assert_eq!(file.len().unwrap(), 1 << 20);
}

#[test]
fn a_directory_here_is_on_no_network() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(FileDisk::new(dir.path().join("not/yet")).unwrap().network().unwrap(), None);
    assert_eq!(MemoryDisk::new().network().unwrap(), None);
}

#[test]
#[cfg(unix)]
fn a_map_hands_out_only_what_is_published() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::new(dir.path()).unwrap();
    let file = put(&disk, "f", b"0123456789");
    let map = file.map(1 << 30).unwrap().unwrap();
    assert_eq!((map.capacity(), map.published()), (1 << 30, 0));
    assert_eq!(map.slice(0, 1), None);
    map.publish(4);
    assert_eq!(map.slice(1, 3), Some(&b"123"[..]));
    assert_eq!(map.slice(4, 0), Some(&b""[..]));
    assert_eq!((map.slice(1, 4), map.slice(5, 0), map.slice(u64::MAX, 2)), (None, None, None));
    map.publish(2);
    assert_eq!(map.published(), 4, "a published length never falls");
    map.publish(1 << 20);
    assert_eq!(map.published(), 10, "nothing beyond the end of the file is published");
    // What is appended beyond the end at the time of mapping is seen through the same map.
    file.allocate(100_000).unwrap();
    file.write_at(90_000, b"later").unwrap();
    map.publish(90_005);
    drop((file, disk.remove("f")));
    assert_eq!(map.slice(90_000, 5), Some(&b"later"[..]));
    assert_eq!(map.slice(90_000, 6), None);
}

#[test]
#[cfg(unix)]
fn a_map_is_none_where_there_is_nothing_to_map() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::new(dir.path()).unwrap();
    assert!(put(&disk, "f", b"1").map(0).unwrap().is_none());
    let memory = MemoryDisk::new();
    memory.create_dir("").unwrap();
    assert!(put(&memory, "f", b"1").map(10).unwrap().is_none());
}

pub(crate) fn put(disk: &dyn Disk, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.open(path, Access::Create).unwrap();
    file.write_at(0, bytes).unwrap();
    file
}

pub(crate) fn get(disk: &dyn Disk, path: &str) -> Vec<u8> {
    bytes(&*disk.open(path, Access::Read).unwrap())
}

pub(crate) fn bytes(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

pub(crate) fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("this was expected to fail"),
        Err(error) => error.kind(),
    }
}
