//! Several processes on one store, and what they leave behind when they die.
//!
//! A child is this test binary, run again for the one test that plays a part (`parts`). It says what it did, line by
//! line, on its standard output; takes orders on its standard input; and ends with it, so none outlives the tests.
//! Nothing here waits for time to pass: only for reports, for processes that end, and for deadlines that fail a test.

mod kills;
mod ledger;
mod locks;
#[cfg(target_os = "linux")]
mod media;
mod parts;
#[cfg(feature = "cli")]
mod repairs;
mod sharing;
mod tails;

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use parts::STORE;
use parts::{PART, TEST};

/// When a test gives up on a process.
const DEADLINE: Duration = Duration::from_secs(120);
/// The smallest segments there are: every twenty frames or so a log rotates.
const SMALL: u64 = 16 * 1024;

/// The processes of a test; those that are left are killed with it.
pub(crate) struct Cast {
    store: PathBuf,
    members: BTreeMap<usize, Member>,
    started: usize,
    reports: Receiver<(usize, Option<String>)>,
    sender: Sender<(usize, Option<String>)>,
}

struct Member {
    process: Child,
    orders: Option<ChildStdin>,
    listener: JoinHandle<()>,
}

impl Cast {
    pub(crate) fn new(store: &Path) -> Cast {
        let (sender, reports) = channel();
        Cast { store: store.to_path_buf(), members: BTreeMap::new(), started: 0, reports, sender }
    }

    /// Starts a process that plays a part, and answers its number.
    pub(crate) fn start(&mut self, part: &str) -> usize {
        self.start_as(Command::new(env::current_exe().expect("this test binary")), part)
    }

    /// As `start`, through a command that runs the test binary behind its own arguments.
    pub(crate) fn start_as(&mut self, mut command: Command, part: &str) -> usize {
        command.args(["--exact", TEST, "--nocapture", "--test-threads=1"]);
        command.env(PART, part).env(STORE, &self.store);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the test binary starts");
        let (orders, output) = (process.stdin.take(), process.stdout.take().expect("a pipe"));
        let (id, sender) = (self.started, self.sender.clone());
        let listener = std::thread::spawn(move || {
            let mut lines = BufReader::new(output);
            let mut line = String::new();
            // A line that a killed process did not end was not said.
            while lines.read_line(&mut line).is_ok_and(|n| n > 0) && line.ends_with('\n') {
                let _ = sender.send((id, Some(line.trim_end().to_owned())));
                line.clear();
            }
            let _ = sender.send((id, None));
        });
        self.members.insert(id, Member { process, orders, listener });
        self.started += 1;
        id
    }

    pub(crate) fn pid(&self, id: usize) -> u32 {
        self.members[&id].process.id()
    }

    pub(crate) fn tell(&mut self, id: usize, order: &str) {
        let orders = self.members.get_mut(&id).and_then(|m| m.orders.as_mut()).expect("it takes orders");
        orders.write_all(format!("{order}\n").as_bytes()).expect("it is there to listen");
    }

    /// The next report of anyone, waiting for it.
    pub(crate) fn report(&self) -> (usize, String) {
        loop {
            let (id, line) = self.reports.recv_timeout(DEADLINE).expect("a report within the deadline");
            match line {
                Some(line) => return (id, line),
                None => assert!(!self.members.contains_key(&id), "process {id} ended by itself"),
            }
        }
    }

    /// A report that is there already.
    pub(crate) fn said(&self) -> Option<(usize, String)> {
        loop {
            let (id, line) = self.reports.try_recv().ok()?;
            match line {
                Some(line) => return Some((id, line)),
                None => assert!(!self.members.contains_key(&id), "process {id} ended by itself"),
            }
        }
    }

    /// Waits for the report of one process that begins with a word; answers what stands behind it. All other
    /// reports on the way go to `other`.
    pub(crate) fn hear(&self, from: usize, word: &str, other: &mut dyn FnMut(&str)) -> String {
        loop {
            let (id, line) = self.report();
            match line.strip_prefix(word).filter(|_| id == from) {
                Some(rest) => return rest.trim_start().to_owned(),
                None => other(&line),
            }
        }
    }

    /// SIGKILL. Everything that the process said is among the reports then.
    pub(crate) fn kill(&mut self, id: usize) {
        let mut member = self.members.remove(&id).expect("a process of ours");
        member.process.kill().expect("it can be killed");
        let status = member.process.wait().expect("it ends");
        assert!(status.code().is_none(), "it ended by itself, with {status}");
        member.listener.join().expect("its reports were read");
    }

    /// Ends the orders of a process, and waits until it ended well.
    pub(crate) fn dismiss(&mut self, id: usize) {
        let mut member = self.members.remove(&id).expect("a process of ours");
        drop(member.orders.take());
        let until = Instant::now() + DEADLINE;
        let status = loop {
            match member.process.try_wait().expect("a process of ours") {
                Some(status) => break status,
                None if Instant::now() > until => {
                    let _ = member.process.kill();
                    panic!("process {id} did not end");
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        member.listener.join().expect("its reports were read");
        assert!(status.success(), "process {id} ended with {status}");
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        for member in self.members.values_mut() {
            let _ = member.process.kill();
            let _ = member.process.wait();
        }
    }
}

/// A number from the environment, for the long runs.
fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}
