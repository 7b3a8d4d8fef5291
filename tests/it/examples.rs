//! The examples tell what they promise to tell. `cargo test` builds them beside the tests.

use std::path::PathBuf;
use std::process::Command;

use crate::support::skip;

/// The program that an example was built as, if it was.
fn example(name: &str) -> Option<PathBuf> {
    let tests = std::env::current_exe().expect("this program");
    let built = tests.parent()?.parent()?.join("examples").join(name);
    built.exists().then_some(built)
}

#[test]
fn the_past_shows_what_was_deleted_and_overwritten_and_the_comparison_explains_it() {
    let Some(program) = example("what_did_it_know") else {
        return skip("the examples were not built; run `cargo test` without a choice of targets");
    };
    let run = Command::new(program).output().expect("it runs");
    assert!(run.status.success(), "{run:?}");
    assert_eq!(
        String::from_utf8(run.stdout).expect("UTF-8"),
        "What it knows now:\n- opening: when we are open\n- visitors/ines: comes on Thursday\n\n\
         What it knew at frame 4:\n- door/code: 4711\n- opening: ten to six\n\
         - visitors/ines: Wants to see the meridian circle.\n\n\
         What became of it since:\n- changed opening: ten to six -> eleven to six\n\
         - removed door/code: 4711 -> nothing\n\n\
         Who took the code away:\n- frame 5: forget on friday\n- frame 1: remember on monday\n\n\
         Brought back: 4711\n"
    );
}
