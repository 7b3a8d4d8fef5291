//! Repairs that are killed in the middle: the damage is as it was, or the repair is finished.
//!
//! Protects promises 7 and 10.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use mnemolog::codec::frame::FrameKind;
use mnemolog::{Options, Store};
use serde_json::Value;

use super::{SMALL, number, parts};
use crate::log::frames_of;
use crate::model::Rng;

type Files = BTreeMap<String, Vec<u8>>;

/// A store of so many notes, each a frame, in more than thirty segments.
const FRAMES: u64 = 300;

/// A damaged store: its files, those that a repair rebuilds, and the frames that are gone.
struct Hurt {
    files: Files,
    rebuilt: Vec<String>,
    lost: Vec<u64>,
}

fn program(store: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mnemolog"));
    command.arg("--store").arg(store).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(store: &Path, args: &[&str]) -> Output {
    program(store, args).output().expect("the program runs")
}

fn hurt(sound: &Path) -> Hurt {
    let store = Options::new().segment_bytes(SMALL).open(sound).expect("opens");
    for n in 1..=FRAMES {
        store.root().notes().remember(&format!("k{n}"), "s", &parts::text(&format!("k{n}"))).expect("saved");
    }
    store.close().expect("closes");
    let (mut files, mut rebuilt, mut lost) = (contents(sound), Vec::new(), Vec::new());
    let segments: Vec<String> = files.keys().filter(|path| path.ends_with(".seg")).cloned().collect();
    assert!(segments.len() > 10, "{segments:?}");
    for (n, path) in segments.iter().enumerate() {
        let first: u64 = path[4..24].parse().expect("a name of a segment");
        let commits =
            frames_of(&files[path]).into_iter().filter(|(_, kind)| *kind == FrameKind::Commit).count() as u64;
        if n == 5 {
            files.remove(path);
            lost.extend(first..first + commits);
        } else if n % 3 == 0 && commits > 1 {
            let second = frames_of(&files[path])[1].0;
            files.get_mut(path).expect("a segment")[second + 70] ^= 1;
            rebuilt.push(path.clone());
            lost.push(first + 1);
        }
    }
    lost.sort_unstable();
    Hurt { files, rebuilt, lost }
}

/// Every file of a store but the lock, by its path in it.
fn contents(root: &Path) -> Files {
    let mut found = Files::new();
    for dir in ["", "log", "quarantine"] {
        let Ok(entries) = fs::read_dir(root.join(dir)) else { continue };
        for path in entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()) {
            let name = path.strip_prefix(root).expect("below the root").to_str().expect("a name of ours");
            found.insert(name.to_owned(), fs::read(&path).expect("a file"));
        }
    }
    found.remove("LOCK");
    found
}

fn write(files: &Files, root: &Path) {
    fs::create_dir_all(root.join("log")).expect("a directory");
    for (path, bytes) in files {
        fs::write(root.join(path), bytes).expect("a file");
    }
}

/// Starts a repair and kills it after a while. Answers whether it had ended before.
fn kill_after(store: &Path, wait: Duration) -> bool {
    let mut repair = program(store, &["repair"]).spawn().expect("the program starts");
    let until = Instant::now() + wait;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    repair.kill().expect("a process of ours");
    repair.wait().expect("it ends").code().is_some()
}

/// Neither half of a repair: the files of the log are the damaged ones, or the store is whole (to a reader, through
/// INTENT, also where the rest of the change is still to come).
fn check_between(store: &Path, hurt: &Hurt) -> bool {
    let code = run(store, &["verify"]).status.code();
    let lasting: Files = contents(store)
        .into_iter()
        .filter(|(path, _)| !path.ends_with(".tmp") && !path.starts_with("quarantine/"))
        .collect();
    match code {
        Some(3) => assert!(lasting == hurt.files, "neither the damage nor the repair: {:?}", lasting.keys()),
        Some(0) => check_copies(store, hurt),
        _ => panic!("verify ended with {code:?}"),
    }
    code == Some(0)
}

fn check_copies(store: &Path, hurt: &Hurt) {
    let kept = contents(store);
    for path in &hurt.rebuilt {
        let old = &hurt.files[path];
        let is_kept = kept.iter().any(|(name, bytes)| name.starts_with("quarantine/") && bytes == old);
        assert!(is_kept, "{path} was rebuilt, and its old bytes are gone");
    }
}

/// A last repair ends, and everything but the lost frames is there.
fn check_repaired(store: &Path, hurt: &Hurt) {
    let repaired = run(store, &["--json", "repair"]);
    assert_eq!(repaired.status.code(), Some(0), "{repaired:?}");
    let answer: Value = serde_json::from_slice(&repaired.stdout).expect("JSON");
    if answer["repaired"] == true && answer["frames_lost"] != 0 {
        assert_eq!(answer["frames_lost"], hurt.lost.len(), "{answer}");
    }
    assert_eq!(run(store, &["verify"]).status.code(), Some(0));
    check_copies(store, hurt);
    let opened = Store::open(store).expect("it is whole");
    for n in 1..=FRAMES {
        let (key, gone) = (format!("k{n}"), hurt.lost.contains(&n));
        let found =
            opened.root().notes().get(&key).expect("readable").map(|_| opened.root().notes().recall(&key));
        assert_eq!(found, (!gone).then(|| parts::text(&key)), "frame {n}");
    }
    assert_eq!(opened.appended().0, FRAMES);
    opened.root().notes().remember("after", "s", "the repair").expect("writes go on");
    assert_eq!(opened.appended().0, FRAMES + 1);
}

/// `MNEMOLOG_REPAIR_KILLS` asks for a long run.
#[test]
fn a_repair_that_is_killed_leaves_the_damage_or_the_finished_repair() {
    let dir = tempfile::tempdir().expect("a directory");
    let (hurt, kills) = (hurt(&dir.path().join("sound")), number("MNEMOLOG_REPAIR_KILLS", 12));
    write(&hurt.files, &dir.path().join("timed"));
    let begin = Instant::now();
    check_repaired(&dir.path().join("timed"), &hurt);
    let whole = begin.elapsed();
    let (mut rng, mut killed, mut finished, mut rounds) = (Rng::new(kills), 0, 0, 0);
    // As long as a repair takes now: the machine may be busier than it was.
    let mut longest = whole.as_micros() as u64 / 2;
    while killed < kills {
        rounds += 1;
        assert!(rounds < 20 * kills + 100, "repairs end before they can be killed");
        let store = dir.path().join(rounds.to_string());
        write(&hurt.files, &store);
        for _ in 0..2 {
            if kill_after(&store, Duration::from_micros(rng.below(longest.max(1000)))) {
                longest = longest * 4 / 5;
            } else {
                longest = longest * 21 / 20;
                killed += 1;
            }
            finished += u64::from(check_between(&store, &hurt));
        }
        check_repaired(&store, &hurt);
        fs::remove_dir_all(&store).expect("ours");
    }
    println!(
        "{killed} repairs killed, {finished} times the store was whole afterwards; {} frames lost",
        hurt.lost.len()
    );
}
