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

fn check(name: &str, prints: &str) {
    let Some(program) = example(name) else {
        return skip("the examples were not built; run `cargo test` without a choice of targets");
    };
    let run = Command::new(program).output().expect("it runs");
    assert!(run.status.success(), "{run:?}");
    assert_eq!(String::from_utf8(run.stdout).expect("UTF-8"), prints);
}

#[test]
fn a_loop_remembers_from_session_to_session_and_a_failed_call_is_mended() {
    check(
        "agent_loop",
        "== monday\nuser: I take my tea with milk, no sugar.\n-> memory_remember\nerror: memory_remember needs `body`: \
         The note in full, kept as it is.\n-> memory_remember\nsaved user/tea\nmodel: I will remember that.\n\n\
         == friday\n[memory index] recall(key) reads a note in full; search(pattern) looks inside notes\n\
         - user/tea: how Ada takes her tea\nuser: No milk in my tea any more. What did I take before?\n\
         -> memory_recall\nWith milk, no sugar.\n-> memory_remember\nsaved user/tea\n\
         model: Black it is; you used to take it with milk.\n\n\
         What it knew on monday:\nWith milk, no sugar.\n",
    );
}

#[test]
fn the_past_shows_what_was_deleted_and_overwritten_and_the_comparison_explains_it() {
    check(
        "what_did_it_know",
        "What it knows now:\n- opening: when we are open\n- visitors/ines: comes on Thursday\n\n\
         What it knew at frame 4:\n- door/code: 4711\n- opening: ten to six\n\
         - visitors/ines: Wants to see the meridian circle.\n\n\
         What became of it since:\n- changed opening: ten to six -> eleven to six\n\
         - removed door/code: 4711 -> nothing\n\n\
         Who took the code away:\n- frame 5: forget on friday\n- frame 1: remember on monday\n\n\
         Brought back: 4711\n",
    );
}
