//! A disk that is a directory: the only `std::fs` of the library.
//!
//! It owns the order of syncs that a name needs to be durable, the file modes (0700 and 0600) and the lock. It
//! does not know the format of any file except the one line in `LOCK`.
//!
//! Linux is tested. Elsewhere: macOS flushes the drive's own cache too (`F_FULLFSYNC`), and reserves space
//! by writing zeros; Windows has no sync of a directory, maps no more than the file has, and tells files apart by
//! their times of creation.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use fs2::FileExt as _;

use super::{Access, Disk, File, FileId, Holder, LOCK, Lock, LockError, Map, parts};

/// Between two tries for the lock.
const PAUSE: Duration = Duration::from_millis(1);
/// How long a turn is waited for. It is a courtesy: a process that was stopped in its turn holds nobody up for long.
const TURN_WAIT: Duration = Duration::from_millis(250);
/// How many zeros are written at a time where space cannot be reserved otherwise.
const ZEROS: usize = 64 * 1024;

/// A store's directory on a filesystem.
#[derive(Clone, Debug)]
pub struct FileDisk {
    root: PathBuf,
    lock: Spare,
    turn: Spare,
}

/// A descriptor that is kept for the next who needs one, so that it is opened once and not for every commit among many
/// writers. Whoever has it has it alone: two locks never share a descriptor, or they would not exclude each other.
#[derive(Clone, Debug, Default)]
struct Spare(Arc<Mutex<Option<OpenFile>>>);

impl Spare {
    fn take(&self) -> Option<OpenFile> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, file: OpenFile) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(file);
    }
}

impl FileDisk {
    /// The directory at a path, which need not exist yet. Symbolic links in the part that exists are followed
    /// now, once: the root stays what it is if they change later.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let mut missing = Vec::new();
        let mut existing = path.as_path();
        let mut root = loop {
            match fs::canonicalize(existing) {
                Ok(real) => break real,
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                Err(error) => match (existing.parent(), existing.file_name()) {
                    (Some(parent), Some(name)) => {
                        missing.push(name);
                        existing = parent;
                    }
                    _ => return Err(error),
                },
            }
        };
        root.extend(missing.iter().rev());
        Ok(Self { root, lock: Spare::default(), turn: Spare::default() })
    }

    fn full(&self, path: &str) -> io::Result<PathBuf> {
        let mut full = self.root.clone();
        full.extend(parts(path)?);
        Ok(full)
    }

    /// Makes the root from the top down, each entry durable before the next: so what exists below a directory
    /// proves that the directory's own entry is durable, except for the lowest one, whose entry is synced again.
    fn create_root(&self) -> io::Result<()> {
        let existing = nearest_existing(&self.root);
        if let Some(parent) = existing.parent() {
            match sync_directory(parent) {
                // It may be someone else's: a directory that we may enter but not open. Then they made ours.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
                other => other?,
            }
        }
        let missing: Vec<&Path> = self.root.ancestors().take_while(|dir| *dir != existing).collect();
        for dir in missing.into_iter().rev() {
            make_directory(dir)?;
            if let Some(parent) = dir.parent() {
                sync_directory(parent)?;
            }
        }
        if self.root.is_dir() { Ok(()) } else { Err(ErrorKind::NotADirectory.into()) }
    }
}

impl Disk for FileDisk {
    fn root(&self) -> &Path {
        &self.root
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.full(dir)?)? {
            match entry?.file_name().into_string() {
                Ok(name) => names.push(name),
                Err(name) => tracing::debug!(?name, "a file whose name is not UTF-8 is none of ours"),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        if dir.is_empty() { self.create_root() } else { make_directory(&self.full(dir)?) }
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let path = self.full(path)?;
        let mut options = fs::OpenOptions::new();
        options.read(true).write(access != Access::Read).create_new(access == Access::Create);
        private(&mut options);
        let file = options.open(path)?;
        if file.metadata()?.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        Ok(Arc::new(OpenFile::new(file)))
    }

    fn id(&self, path: &str) -> io::Result<FileId> {
        Ok(stat_at(&self.full(path)?)?.id)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.full(from)?, self.full(to)?)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.full(path)?)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        fs::remove_dir(self.full(dir)?)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        sync_directory(&self.full(dir)?)
    }

    fn lock(&self, wait: Duration) -> Result<Lock, LockError> {
        let path = self.full(LOCK)?;
        // None: the wait is longer than the clock can count.
        let deadline = Instant::now().checked_add(wait);
        let _turn = Turn::wait(&self.root, &self.turn, wait.min(TURN_WAIT));
        loop {
            match try_lock(&path, &self.lock)? {
                Attempt::Taken(file) => {
                    let spare = self.lock.clone();
                    return Ok(Lock::new(move || {
                        release(&file.file);
                        spare.put(file);
                    }));
                }
                Attempt::Replaced => continue,
                Attempt::Busy => {}
            }
            let left = deadline.map_or(PAUSE, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                let holder = fs::read(&path).ok().and_then(|bytes| Holder::parse(&bytes));
                return Err(LockError::Held { holder });
            }
            std::thread::sleep(PAUSE.min(left));
        }
    }

    fn network(&self) -> io::Result<Option<&'static str>> {
        network_filesystem(nearest_existing(&self.root))
    }
}

#[derive(Debug)]
struct OpenFile {
    file: Arc<fs::File>,
    /// Asked for once: it is that of the descriptor, whatever becomes of the name.
    id: OnceLock<FileId>,
}

impl OpenFile {
    fn new(file: fs::File) -> Self {
        Self { file: Arc::new(file), id: OnceLock::new() }
    }
}

impl File for OpenFile {
    fn len(&self) -> io::Result<u64> {
        Ok(stat(&self.file)?.len)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match read_once(&self.file, rest, offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        write_all(&self.file, bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let result = if len == 0 { Ok(()) } else { reserve(&self.file, len) };
        result.map_err(|error| match error.kind() {
            ErrorKind::QuotaExceeded => io::Error::new(ErrorKind::StorageFull, error),
            _ => error,
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        // On macOS only a full sync reaches the medium; elsewhere the times of a file need not.
        if cfg!(target_vendor = "apple") { self.file.sync_all() } else { self.file.sync_data() }
    }

    fn id(&self) -> io::Result<FileId> {
        match self.id.get() {
            Some(id) => Ok(*id),
            None => {
                let id = stat(&self.file)?.id;
                Ok(*self.id.get_or_init(|| id))
            }
        }
    }

    fn map(&self, capacity: u64) -> io::Result<Option<Map>> {
        let file = Arc::clone(&self.file);
        let length = Box::new(move || Ok(stat(&file)?.len));
        match Map::new(&*self.file, capacity, length) {
            Err(error) if not_mappable(&error) => {
                tracing::debug!(%error, "a file is not mapped; it is read by position");
                Ok(None)
            }
            other => other,
        }
    }
}

/// The turn of the one who gets the lock next: a lock on the store's directory itself. Among busy writers the lock is
/// free for some 50 µs between syncs of some milliseconds. Without turns whoever let go of it would take it again
/// before anyone else looks: others were seen to wait 6 s looking every 20 ms, and 1.2 s looking every millisecond. Whoever
/// keeps a descriptor of a directory that was replaced since is polite to nobody, and no less safe.
struct Turn<'s> {
    /// None only while it is dropped.
    dir: Option<OpenFile>,
    spare: &'s Spare,
}

impl Turn<'_> {
    /// Waits for the turn; none after the wait, or where a directory cannot be locked.
    fn wait<'s>(root: &Path, spare: &'s Spare, wait: Duration) -> Option<Turn<'s>> {
        let dir = spare.take().or_else(|| fs::File::open(root).ok().map(OpenFile::new))?;
        let begun = Instant::now();
        loop {
            match dir.file.try_lock_exclusive() {
                Ok(()) => return Some(Turn { dir: Some(dir), spare }),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() != fs2::lock_contended_error().raw_os_error() => {
                    tracing::debug!(%error, "a store's directory cannot be locked; nobody has a turn");
                    return None;
                }
                Err(_) if begun.elapsed() >= wait => return None,
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(dir) = self.dir.take() {
            release(&dir.file);
            self.spare.put(dir);
        }
    }
}

enum Attempt {
    Taken(OpenFile),
    Busy,
    /// The file was replaced between opening and locking it.
    Replaced,
}

fn try_lock(path: &Path, spare: &Spare) -> io::Result<Attempt> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    private(&mut options);
    // One that was kept is compared with the path as well, once it is locked.
    let file = spare.take().map_or_else(|| options.open(path).map(OpenFile::new), Ok)?;
    loop {
        match file.file.try_lock_exclusive() {
            Ok(()) => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => {
                spare.put(file);
                return Ok(Attempt::Busy);
            }
            Err(error) => return Err(error),
        }
    }
    let here = match stat_at(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Attempt::Replaced),
        other => other?.id,
    };
    if here != file.id()? {
        return Ok(Attempt::Replaced);
    }
    if let Err(error) = name_holder(&file.file) {
        // The lock is held all the same: the name is a courtesy to others, and the disk may be full.
        tracing::debug!(%error, "the lock file does not name its holder");
    }
    Ok(Attempt::Taken(file))
}

/// Writes who holds the lock, unless the file says so: a process that takes the lock again and again would otherwise
/// change a file with every commit, and have the next sync write that down too. Nobody else writes to it meanwhile. The
/// line goes first and the old rest after it, so that the file is never empty.
fn name_holder(file: &fs::File) -> io::Result<()> {
    let line = Holder::this_process().line();
    let mut found = vec![0; line.len() + 1];
    let len = read_once(file, &mut found, 0)?;
    if found.get(..len) == Some(line.as_bytes()) {
        return Ok(());
    }
    write_all(file, line.as_bytes(), 0)?;
    file.set_len(line.len() as u64)
}

/// Closing would do, if no child of this process were just being started: it has the descriptor until it runs
/// its program.
fn release(file: &fs::File) {
    if let Err(error) = fs2::FileExt::unlock(file) {
        tracing::debug!(%error, "the lock goes when its file is closed");
    }
}

fn nearest_existing(path: &Path) -> &Path {
    path.ancestors().find(|dir| dir.exists()).unwrap_or(path)
}

fn make_directory(dir: &Path) -> io::Result<()> {
    match private_directory().create(dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        other => other,
    }
}

#[cfg(unix)]
fn sync_directory(dir: &Path) -> io::Result<()> {
    match fs::File::open(dir)?.sync_all() {
        // Some filesystems offer no sync of a directory: they order its changes themselves, or not at all.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        other => other,
    }
}

#[cfg(not(unix))]
fn sync_directory(dir: &Path) -> io::Result<()> {
    // Windows has no such call. What is absent is an error there too.
    fs::metadata(dir).map(|_| ())
}

#[cfg(unix)]
fn private_directory() -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

#[cfg(not(unix))]
fn private_directory() -> fs::DirBuilder {
    fs::DirBuilder::new()
}

#[cfg(unix)]
fn private(options: &mut fs::OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
fn private(_: &mut fs::OpenOptions) {}

/// What is asked of a file besides its bytes.
struct Stat {
    id: FileId,
    len: u64,
}

/// Asks Linux for no times. A file whose times were looked at gets new ones with its next write, where otherwise many
/// writes within some milliseconds share theirs; on a filesystem without a journal the next sync of the data then writes
/// its inode down as well, which was a third of a commit among many writers. Old kernels and some sandboxes have no
/// such call.
#[cfg(target_os = "linux")]
fn statx(dir: impl std::os::fd::AsFd, path: &Path, flags: rustix::fs::AtFlags) -> rustix::io::Result<Stat> {
    use rustix::fs::StatxFlags;
    let found = rustix::fs::statx(dir, path, flags, StatxFlags::INO | StatxFlags::SIZE)?;
    let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
    Ok(Stat { id: FileId { device, number: found.stx_ino }, len: found.stx_size })
}

#[cfg(target_os = "linux")]
fn stat(file: &fs::File) -> io::Result<Stat> {
    match statx(file, Path::new(""), rustix::fs::AtFlags::EMPTY_PATH) {
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => stat_of(&file.metadata()?),
        other => Ok(other?),
    }
}

#[cfg(target_os = "linux")]
fn stat_at(path: &Path) -> io::Result<Stat> {
    match statx(rustix::fs::CWD, path, rustix::fs::AtFlags::empty()) {
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => stat_of(&fs::metadata(path)?),
        other => Ok(other?),
    }
}

#[cfg(not(target_os = "linux"))]
fn stat(file: &fs::File) -> io::Result<Stat> {
    stat_of(&file.metadata()?)
}

#[cfg(not(target_os = "linux"))]
fn stat_at(path: &Path) -> io::Result<Stat> {
    stat_of(&fs::metadata(path)?)
}

fn stat_of(metadata: &fs::Metadata) -> io::Result<Stat> {
    Ok(Stat { id: identity(metadata)?, len: metadata.len() })
}

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> io::Result<FileId> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(FileId { device: metadata.dev(), number: metadata.ino() })
}

#[cfg(not(unix))]
fn identity(metadata: &fs::Metadata) -> io::Result<FileId> {
    // The number of a file cannot be asked for in stable Rust. A time of creation serves: segments are
    // replaced by files that were made later.
    let since = metadata.created()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(FileId { device: 0, number: since.as_nanos() as u64 })
}

#[cfg(unix)]
fn read_once(file: &fs::File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buf, offset)
}

#[cfg(windows)]
fn read_once(file: &fs::File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    match std::os::windows::fs::FileExt::seek_read(file, buf, offset) {
        // ERROR_HANDLE_EOF: a read that begins at the end is an error there.
        Err(error) if error.raw_os_error() == Some(38) => Ok(0),
        other => other,
    }
}

#[cfg(unix)]
fn write_all(file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_all(file: &fs::File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, offset) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = bytes.get(n..).unwrap_or_default();
                offset += n as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Blocks first, size second: a reservation that fails half-way would otherwise leave the file longer and the
/// disk full. To set the size that the file has gives back the blocks beyond it.
#[cfg(target_os = "linux")]
fn reserve(file: &fs::File, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    let size = stat(file)?.len;
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, 0, len) {
            Ok(()) if len > size => return file.set_len(len),
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return fill(file, len),
            Err(error) => {
                if let Err(error) = file.set_len(size) {
                    tracing::debug!(%error, "a failed reservation keeps the blocks that it got");
                }
                return Err(error.into());
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(file: &fs::File, len: u64) -> io::Result<()> {
    fill(file, len)
}

/// Reserves space by writing zeros from the end of the file on. Reserving is the writer's alone, so nobody
/// appends meanwhile.
fn fill(file: &fs::File, len: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS];
    let mut at = stat(file)?.len;
    while at < len {
        let step = usize::try_from(len - at).map_or(ZEROS, |left| left.min(ZEROS));
        write_all(file, zeros.get(..step).unwrap_or_default(), at)?;
        at += step as u64;
    }
    Ok(())
}

#[cfg(unix)]
fn not_mappable(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::NODEV | Errno::NOMEM | Errno::NOSYS))
}

#[cfg(not(unix))]
fn not_mappable(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::Unsupported)
}

#[cfg(target_os = "linux")]
fn network_filesystem(path: &Path) -> io::Result<Option<&'static str>> {
    // The magic numbers of statfs(2), which are 32 bits wide in a field whose width differs by platform.
    let magic = rustix::fs::statfs(path)?.f_type as u32;
    Ok(match magic {
        0x6969 => Some("nfs"),
        0x517B | 0xFE53_4D42 | 0xFF53_4D42 => Some("smb"),
        0x0102_1997 => Some("9p"),
        0x00C3_6400 => Some("ceph"),
        0x5346_414F | 0x6B41_4653 => Some("afs"),
        0x7375_7245 => Some("coda"),
        0x564C => Some("ncp"),
        _ => None,
    })
}

#[cfg(target_vendor = "apple")]
fn network_filesystem(path: &Path) -> io::Result<Option<&'static str>> {
    let stat = rustix::fs::statfs(path)?;
    let name: Vec<u8> = stat.f_fstypename.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
    Ok(["nfs", "smbfs", "afpfs", "webdav"].into_iter().find(|known| known.as_bytes() == name))
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn network_filesystem(path: &Path) -> io::Result<Option<&'static str>> {
    // A share has a path of its own form; a share behind a drive letter is not recognised.
    Ok(path.to_string_lossy().starts_with(r"\\?\UNC\").then_some("smb"))
}
