//! The command line, driven as a program: what it prints where, what it answers, and the code it ends with.

mod backup;
mod bulk;
mod checkpoint;
mod compact;
mod erase;
mod field;
mod history;
mod import;
mod processes;
mod refusals;
mod repair;
mod tail;
mod time;
mod verbs;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory in which a store may come to be.
struct Place {
    dir: TempDir,
}

/// How a command ended.
#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Place {
    fn new() -> Place {
        Place { dir: TempDir::new().expect("a temporary directory") }
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, content).expect("a file");
        path.to_str().expect("a path of ours").to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mnemolog"));
        command.env("MNEMOLOG_STORE", self.store()).env_remove("NO_COLOR").current_dir(self.root());
        command.env("HOME", self.root().join("home")).env_remove("XDG_DATA_HOME").args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        self.run_with(args, b"")
    }

    fn run_with(&self, args: &[&str], stdin: &[u8]) -> Run {
        finish(self.command(args), stdin)
    }

    /// Runs what must be done, and answers its text.
    fn done(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        run.out
    }

    /// Runs what must be done with `--json`, and answers its lines.
    fn json(&self, args: &[&str]) -> Vec<Value> {
        let args: Vec<&str> = ["--json"].into_iter().chain(args.iter().copied()).collect();
        lines(&self.done(&args))
    }

    /// Everything below the directory, by name and digest of the content. Of LOCK only that it is there: whoever
    /// asked for the lock last may have written its name.
    fn everything(&self) -> Vec<(PathBuf, u64)> {
        let mut found = Vec::new();
        collect(self.root(), &mut found);
        found.sort();
        found
    }
}

fn finish(mut command: Command, stdin: &[u8]) -> Run {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // A program that refuses its arguments reads nothing; that it is gone is no failure of the test.
    let _ = child.stdin.take().expect("a pipe").write_all(stdin);
    let output = child.wait_with_output().expect("the program ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Run { code: output.status.code().expect("no signal"), out: text(output.stdout), err: text(output.stderr) }
}

/// Every line as a JSON object.
fn lines(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    text.lines().map(parse).inspect(|value| assert!(value.is_object(), "{value}")).collect()
}

fn collect(dir: &Path, found: &mut Vec<(PathBuf, u64)>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, found);
        }
        if path.is_dir() || path.ends_with("LOCK") {
            found.push((path, 0));
        } else {
            let content = fs::read(&path).expect("a file");
            found.push((path, xxhash_rust::xxh3::xxh3_64(&content)));
        }
    }
}

/// One sentence: one line that does not look like a value printed for programmers.
fn check_sentence(err: &str) {
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.starts_with("mnemolog: "), "{err}");
    assert!(!err.contains("Error {") && !err.contains("Some(") && !err.contains("Os {"), "{err}");
}
