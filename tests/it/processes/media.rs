//! Filesystems that are full or that nobody can write to: real ones, mounted in a namespace of the child's own, so
//! that they go away with it, whatever happens.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use mnemolog::{Error, Options, Store, Writers};

use super::{Cast, SMALL, parts};
use crate::support::skip;

/// The test binary, run where a script has mounted something first.
fn mounted(script: &str, at: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-ec"]);
    command.arg(format!("{script}; exec \"$@\"")).arg("sh");
    command.arg(std::env::current_exe().expect("this test binary")).env("MOUNT_AT", at);
    command
}

/// Whether this system lets us mount at all; if not, the test is skipped.
fn can_mount(at: &Path) -> bool {
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=64k none \"$0\"";
    command.args(["--user", "--map-root-user", "--mount", "sh", "-ec", script]).arg(at);
    let tried = command.stdout(Stdio::null()).stderr(Stdio::piped()).output();
    match tried {
        Ok(output) if output.status.success() => return true,
        Ok(output) => skip(&format!("no mounting here: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(e) => skip(&format!("unshare cannot be started: {e}")),
    }
    false
}

#[test]
fn a_full_filesystem_refuses_and_takes_writes_again_once_there_is_room() {
    let dir = tempfile::tempdir().expect("a directory");
    if !can_mount(dir.path()) {
        return;
    }
    for writers in ["one", "many"] {
        let mut cast = Cast::new(dir.path());
        let tmpfs = mounted("mount -t tmpfs -o size=1m none \"$MOUNT_AT\"", dir.path());
        let child = cast.start_as(tmpfs, &format!("full {writers}"));
        let report = cast.hear(child, "filled", &mut |_| {});
        println!("{writers}: {report}");
        cast.dismiss(child);
    }
}

/// Protects promises 6 and 7: on the file system that most stores live on, which allocates unlike a tmpfs.
#[test]
fn a_full_ext4_refuses_and_takes_writes_again_once_there_is_room() {
    let dir = tempfile::tempdir().expect("a directory");
    let (image, at) = (dir.path().join("image"), dir.path().join("mounted"));
    fs::create_dir(&at).expect("a directory");
    let mount = "mount -o loop \"$IMAGE\" \"$MOUNT_AT\"";
    let script = |script: &str| {
        // A loop device needs the real root; the mount is gone with its namespace.
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec", script, "sh"]);
        command.env("IMAGE", &image).env("MOUNT_AT", &at);
        command
    };
    let make = "truncate -s 4M \"$IMAGE\" && mkfs.ext4 -q -F -b 1024 -m 0 -J size=1 \"$IMAGE\"";
    match script(&format!("{make}; {mount}")).stdout(Stdio::null()).stderr(Stdio::piped()).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            return skip(&format!("no ext4 image here: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        Err(e) => return skip(&format!("unshare cannot be started: {e}")),
    }
    for writers in ["one", "many"] {
        let made = script(make).output().expect("it ran before");
        assert!(made.status.success(), "{made:?}");
        let mut command = script(&format!("{mount}; exec \"$@\""));
        command.arg(std::env::current_exe().expect("this test binary"));
        let mut cast = Cast::new(&at);
        let child = cast.start_as(command, &format!("full {writers}"));
        println!("{writers}: {}", cast.hear(child, "filled", &mut |_| {}));
        cast.dismiss(child);
    }
}

/// The child's part: `path` is a filesystem of a few MiB.
pub(super) fn fill(path: &Path, writers: &str) {
    let (ballast, path) = (path.join("ballast"), path.join("store"));
    let writers = if writers == "one" { Writers::One } else { Writers::Many };
    let options = Options::new().writers(writers).segment_bytes(SMALL);
    fs::write(&ballast, vec![1; 400 << 10]).expect("a ballast");
    let store = options.clone().open(&path).expect("opens");
    let mut kept = Vec::new();
    for room in [true, false] {
        let mut refusals = 0;
        // Large and small by turns: after a refusal a smaller one may still find room.
        for n in 0.. {
            let tag = format!("{room}.{n}");
            let text = parts::text(&tag).repeat(1 + n % 7);
            match store.root().notes().remember(&tag, "s", &text) {
                Ok(_) => kept.push((tag, text)),
                Err(Error::DiskFull { .. }) => {
                    assert_eq!(store.root().notes().get(&tag).expect("readable"), None);
                    refusals += 1;
                }
                Err(other) => panic!("{other}"),
            }
            if refusals == 20 {
                break;
            }
        }
        assert!(!kept.is_empty(), "nothing was taken");
        check_kept(&path, &kept);
        #[cfg(feature = "cli")]
        check_refused_command(&path, writers);
        if room {
            fs::remove_file(&ballast).expect("there is room again");
            #[cfg(feature = "cli")]
            kept.extend(taken_command(&path, writers));
        }
    }
    let last = store.appended();
    assert_eq!(last.0, kept.len() as u64, "a refusal takes no number");
    drop(store);
    let store = options.open(&path).expect("opens on a full filesystem");
    assert!(store.recovery().cut.is_none(), "nothing was torn: {:?}", store.recovery());
    assert_eq!(store.appended(), last);
    let (frames, segments) = (kept.len(), store.log_size().segments);
    drop(store);
    check_kept(&path, &kept);
    parts::say(&format!("filled {frames} frames in {segments} segments"));
}

fn check_kept(path: &Path, kept: &[(String, String)]) {
    let store = Store::open_read_only(path).expect("opens");
    assert!(store.recovery().damage.is_none() && store.recovery().cut.is_none(), "{:?}", store.recovery());
    assert_eq!(store.root().notes().len(), kept.len());
    for (key, text) in kept {
        assert_eq!(&store.root().notes().recall(key), text);
    }
}

#[cfg(feature = "cli")]
fn run(path: &Path, args: &[&str], code: i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mnemolog"));
    command.arg("--store").arg(path).args(args).stdin(Stdio::null());
    let output = command.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
}

/// A command that finds no room says so, and one that reads is answered.
#[cfg(feature = "cli")]
fn check_refused_command(path: &Path, writers: Writers) {
    run(path, &["list"], 0);
    run(path, &["verify"], 0);
    if writers == Writers::Many {
        run(path, &["remember", "large", "--summary", "s", "--body", &"x".repeat(100_000)], 5);
    }
}

/// What a command saves once there is room, where commands may write at all.
#[cfg(feature = "cli")]
fn taken_command(path: &Path, writers: Writers) -> Option<(String, String)> {
    (writers == Writers::Many).then(|| {
        run(path, &["remember", "by a command", "--summary", "s", "--body", "saved"], 0);
        ("by a command".to_owned(), "saved".to_owned())
    })
}

/// A store that this process cannot write to, while another one appends through another mount.
#[test]
fn a_store_on_read_only_media_is_read_and_followed_and_never_written() {
    let dir = tempfile::tempdir().expect("a directory");
    if !can_mount(dir.path()) {
        return;
    }
    let store = Options::new().segment_bytes(SMALL).open(dir.path()).expect("opens");
    store.root().notes().remember("first", "s", &parts::text("first")).expect("saved");
    let mut cast = Cast::new(dir.path());
    let script = "mount --bind \"$MOUNT_AT\" \"$MOUNT_AT\"; mount -o remount,bind,ro \"$MOUNT_AT\"";
    let sealed = cast.start_as(mounted(script, dir.path()), "sealed");
    assert_eq!(cast.hear(sealed, "refused", &mut |_| {}), "writing");
    cast.dismiss(sealed);
    let reader = cast.start_as(mounted(script, dir.path()), "reader");
    cast.hear(reader, "saw", &mut |_| {});
    for n in 0..60 {
        store.root().notes().remember(&format!("{n}"), "s", &parts::text("later")).expect("saved");
    }
    cast.tell(reader, "tell");
    let state = cast.hear(reader, "at", &mut |_| {});
    assert_eq!(state, format!("61 {:032x}", store.digest().expect("readable")));
    cast.dismiss(reader);
}

/// The child's part: `path` is mounted read-only.
pub(super) fn read_sealed(path: &Path) {
    let error = fs::write(path.join("probe"), "").expect_err("read-only");
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    let store = Store::open_read_only(path).expect("opens");
    assert_eq!(store.root().notes().recall("first"), parts::text("first"));
    let written = store.root().notes().remember("second", "s", "b");
    assert!(matches!(written, Err(Error::ReadOnly)), "{written:?}");
    for writers in [Writers::One, Writers::Many] {
        let refused = Options::new().writers(writers).open(path).expect_err("nobody can write here");
        assert!(matches!(refused, Error::Io { .. }), "{refused}");
    }
    #[cfg(feature = "cli")]
    for (args, code) in [(&["recall", "first"][..], 0), (&["verify"], 0), (&["forget", "first"], 5)] {
        run(path, args, code);
    }
    parts::say("refused writing");
}
