//! The deliberate bugs fit the tree: one whose lines are not there any more proves nothing, and only a run of all of
//! them would say so.

use std::fs;
use std::path::Path;

/// The file that a patch changes, and the lines that each of its hunks expects there.
fn expected(patch: &str) -> Vec<(String, String)> {
    let (mut file, mut hunks, mut lines) = (String::new(), Vec::new(), Vec::new());
    let mut within = false;
    for line in patch.lines().chain(["@@"]) {
        let starts_file = line.strip_prefix("--- a/");
        if within && (line.starts_with("@@") || starts_file.is_some()) {
            hunks.push((file.clone(), std::mem::take(&mut lines).join("\n")));
        }
        within = line.starts_with("@@") || (within && starts_file.is_none());
        file = starts_file.map_or(file, str::to_owned);
        lines.extend(line.strip_prefix([' ', '-']).filter(|_| within && !line.starts_with("@@")));
    }
    hunks
}

#[test]
fn every_deliberate_bug_finds_the_lines_that_it_breaks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut hunks, mut patches) = (0, 0);
    for entry in fs::read_dir(root.join("tests/mutants")).expect("the deliberate bugs") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "patch") {
            continue;
        }
        let patch = fs::read_to_string(&path).expect("text");
        assert!(patch.lines().any(|line| line.starts_with("proof: ")), "{} names no proof", path.display());
        let expected = expected(&patch);
        assert!(!expected.is_empty(), "{} changes nothing", path.display());
        for (file, lines) in expected {
            let text = fs::read_to_string(root.join(&file)).expect("a file of the tree");
            assert!(text.contains(&lines), "{} does not fit {file}:\n{lines}", path.display());
            hunks += 1;
        }
        patches += 1;
    }
    assert!(patches > 70 && hunks >= patches, "{patches} patches, {hunks} hunks");
}
