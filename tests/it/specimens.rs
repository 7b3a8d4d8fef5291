//! The specimens of the format: what each must be taken for, by our reader and by the independent one.
//!
//! `format/golden/v1` is made by the builders here, byte for byte, and never edited by hand. With
//! `MNEMOLOG_WRITE_SPECIMENS=1` the test writes it anew; otherwise it only compares. Verdict and place of each
//! fault are stated beside the fault, not taken from what a reader says.

mod broken;
mod build;
mod good;
mod lines;
mod stores;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use build::Store;
use lines::{normal, of_store};

/// One specimen.
struct Specimen {
    name: &'static str,
    store: Store,
    /// For a good one the same with one bit flipped, for a broken one the sound store.
    twin: Store,
    /// How its log ends; the frame as the last line has it, where that is not simply the last one.
    verdict: (&'static str, Option<u64>),
    /// The check that damage fails.
    what: Option<&'static str>,
}

fn all() -> Vec<Specimen> {
    good::all().into_iter().chain(broken::all()).collect()
}

/// Every specimen's name and files, good and broken.
pub(crate) fn stores_of_all() -> Vec<(&'static str, std::collections::BTreeMap<String, Vec<u8>>)> {
    all().into_iter().map(|specimen| (specimen.name, specimen.store.0)).collect()
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("format/golden/v1")
}

fn expected(name: &str) -> Vec<String> {
    let path = golden().join(format!("{name}.expected"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(str::to_owned).collect()
}

fn normals(lines: &[String]) -> Vec<(String, Vec<u32>)> {
    lines.iter().map(|line| normal(line)).collect()
}

fn last(lines: &[String]) -> serde_json::Value {
    serde_json::from_str(lines.last().expect("a verdict")).unwrap()
}

#[test]
fn the_committed_specimens_are_what_the_builders_make() {
    let specimens = all();
    if std::env::var_os("MNEMOLOG_WRITE_SPECIMENS").is_some() {
        let _ = std::fs::remove_dir_all(golden());
        for specimen in &specimens {
            specimen.store.write(&golden().join(specimen.name));
            specimen.twin.write(&golden().join(format!("{}.twin", specimen.name)));
            let lines = of_store(&golden().join(specimen.name)).join("\n") + "\n";
            std::fs::write(golden().join(format!("{}.expected", specimen.name)), lines).unwrap();
        }
    }
    let mut names = BTreeSet::new();
    for Specimen { name, store, twin, .. } in &specimens {
        assert_eq!(Store::read(&golden().join(name)), *store, "{name}");
        assert_eq!(Store::read(&golden().join(format!("{name}.twin"))), *twin, "{name}.twin");
        assert_ne!(store, twin, "{name}");
        names.extend([(*name).to_owned(), format!("{name}.twin"), format!("{name}.expected")]);
    }
    let found = std::fs::read_dir(golden()).unwrap();
    let found: BTreeSet<_> = found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, names, "every specimen is made here, and once");
}

/// Protects promises 1, 2, 3, 4, 5, 8, 11 and 13: `misplaced`, `number-again`, `time-back`, `erased-in-part`,
/// `newer-version` and their like.
#[test]
fn each_specimen_gets_its_stated_verdict_at_its_stated_place() {
    for Specimen { name, verdict: (verdict, frame), what, .. } in all() {
        let end = last(&expected(name));
        assert_eq!(end["end"], verdict, "{name}: {end}");
        if let Some(frame) = frame {
            assert_eq!(end["frame"], frame, "{name}: {end}");
        }
        if verdict == "damaged" {
            assert_eq!(end["what"], what.unwrap(), "{name}: {end}");
        }
    }
}

#[test]
fn our_reader_makes_the_expected_of_each_specimen() {
    for Specimen { name, .. } in all() {
        assert_eq!(normals(&of_store(&golden().join(name))), normals(&expected(name)), "{name}");
    }
}

#[test]
fn our_reader_makes_something_else_of_each_twin() {
    for Specimen { name, verdict: (verdict, _), .. } in all() {
        let lines = of_store(&golden().join(format!("{name}.twin")));
        assert_ne!(normals(&lines), normals(&expected(name)), "{name}");
        if verdict != "clean" {
            assert_eq!(last(&lines)["end"], "clean", "{name}: the twin of a broken specimen is sound");
        }
    }
}

/// Runs the independent reader on each store in one process: starting Python takes longer than reading.
const DRIVER: &str = r#"
import contextlib, importlib.util, io, json, sys
spec = importlib.util.spec_from_file_location("read_log", sys.argv[1])
reader = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reader)
for store in sys.argv[2:]:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = reader.main(["--frames", store])
    text = lambda stream: (stream.flush(), stream.buffer.getvalue().decode())[1]
    print(json.dumps([text(out).split("\n")[:-1], code, text(err)]))
"#;

/// What the independent reader prints, answers and says for each store; none where there is no Python.
fn python(stores: &[PathBuf]) -> Option<Vec<(Vec<String>, i32, String)>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("format/read_log.py");
    let output = Command::new("python3").args(["-B", "-c", DRIVER]).arg(script).args(stores).output();
    let output = match output {
        Ok(output) => output,
        Err(e) => {
            crate::support::skip(&format!("python3 cannot be started: {e}"));
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8(output.stdout).unwrap();
    Some(stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// A line without `what`, which is each reader's own.
fn without_what(line: &str) -> (String, Vec<u32>) {
    let (mut text, bits) = normal(line);
    if text.starts_with(r#"{"end":"damaged""#) {
        let at = text.find(r#","what":"#).unwrap();
        text.truncate(at);
    }
    (text, bits)
}

#[test]
fn the_independent_reader_agrees_on_every_specimen_and_twin() {
    let names = all().into_iter().flat_map(|s| [s.name.to_owned(), format!("{}.twin", s.name)]);
    let stores: Vec<PathBuf> = names.map(|name| golden().join(name)).collect();
    agree(&stores);
}

/// Holds the independent reader to ours on each store: lines, verdict, place, exit code, what is said.
pub(crate) fn agree(stores: &[PathBuf]) {
    let Some(answers) = python(stores) else { return };
    assert_eq!(answers.len(), stores.len());
    for (store, (found, code, said)) in stores.iter().zip(answers) {
        let ours = of_store(store);
        let store = store.display();
        let [found, our] =
            [&found, &ours].map(|lines| lines.iter().map(|line| without_what(line)).collect::<Vec<_>>());
        assert_eq!(found, our, "{store}: {said}");
        let end = last(&ours);
        let verdict = end["end"].as_str().unwrap();
        let expected = match verdict {
            "clean" | "unclean" => 0,
            "damaged" => 3,
            _ => 1,
        };
        assert_eq!((code, said.is_empty()), (expected, verdict == "clean"), "{store}: {said}");
        if verdict != "clean" {
            assert!(said.contains(end["file"].as_str().unwrap()), "{store}: {said}");
        }
        if matches!(verdict, "unclean" | "damaged") {
            assert!(said.contains(&format!("byte {}", end["offset"])), "{store}: {said}");
        }
    }
}

/// The last frame of a segment is bent anywhere and its checksums are made right again: now only the rules
/// can refuse it, and both readers must have the same ones. Ours leaves JSON texts and the finiteness of
/// embeddings to those who use them, so what is unsound only there is left out.
#[test]
fn the_readers_agree_on_bent_frames_whose_checksums_are_right() {
    let scratch = tempfile::tempdir().unwrap();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % below as u64).unwrap()
    };
    let mut stores = Vec::new();
    for log in good::logs() {
        for _ in 0..60 {
            let at = log.last + next(log.end - log.last);
            let bit = 1 << next(8);
            let mut store = log.store.clone();
            build::bend(store.file(log.path), log.last, at, bit, log.salt);
            stores.push(scratch.path().join(stores.len().to_string()));
            store.write(stores.last().unwrap());
        }
    }
    stores.retain(|store| of_store(store).iter().all(|line| lines::is_sound(line)));
    agree(&stores);
    let ends = stores.iter().map(|store| last(&of_store(store))["end"].as_str().unwrap().to_owned());
    let clean = ends.filter(|end| end == "clean").count();
    assert!(clean > 60 && clean < stores.len() - 60, "{clean} of {} bent stores were taken", stores.len());
}

#[test]
fn the_independent_reader_keeps_every_digit_of_a_number() {
    let Some(answers) = python(&[golden().join("whole")]) else { return };
    for digits in ["12345678901234567890.123456789", "1.50,", "1e400", ":123456789012345678901234567890"] {
        assert!(answers[0].0.iter().any(|line| line.contains(digits)), "{digits}");
    }
}

#[test]
fn the_independent_reader_refuses_what_is_no_store() {
    let paths = ["no-such-specimen", "whole.expected", "whole/log"].map(|path| golden().join(path));
    let Some(answers) = python(&paths) else { return };
    for (path, (lines, code, said)) in paths.iter().zip(answers) {
        assert_eq!((lines.len(), code), (0, 1), "{}: {said}", path.display());
        assert!(said.contains("not a store"), "{}: {said}", path.display());
    }
}

#[test]
fn the_independent_reader_runs_as_a_program_and_prints_deltas_alone_unless_asked() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("format/read_log.py");
    let output = Command::new("python3").arg("-B").arg(script).arg(golden().join("flip-payload")).output();
    let output = match output {
        Ok(output) => output,
        Err(e) => return crate::support::skip(&format!("python3 cannot be started: {e}")),
    };
    let stdout = String::from_utf8(output.stdout).unwrap();
    let found: Vec<String> = stdout.lines().map(str::to_owned).collect();
    let deltas: Vec<String> =
        expected("flip-payload").into_iter().filter(|line| line.starts_with(r#"{"frame":"#)).collect();
    assert_eq!(normals(&found), normals(&deltas));
    assert_eq!(output.status.code(), Some(3));
}
