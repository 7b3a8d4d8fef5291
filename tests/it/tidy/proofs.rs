//! Proof that each rule of style can fail: a small source that breaks it, beside one that does not.
//!
//! Owns the specimens. A rule without a specimen here is a defect.

use super::{Violation, check_source, check_tree};

const HEAD: &str = "//! This file owns nothing at all.\n";

fn rules(found: &[Violation]) -> Vec<&str> {
    let mut rules: Vec<&str> = found.iter().map(|violation| violation.rule).collect();
    rules.dedup();
    rules
}

/// The rules that `body`, below a good head, breaks at `path`.
#[track_caller]
fn check(path: &str, body: &str, expected: &[&str]) {
    let found = check_source(path, &format!("{HEAD}{body}"));
    assert_eq!(rules(&found), expected, "{body}\n{found:?}");
}

#[test]
fn an_import_from_the_right_is_refused_in_every_spelling() {
    check("src/log.rs", "use crate::view::View;", &["layers"]);
    check("src/log.rs", "use crate::{codec, segment, view::View};", &["layers"]);
    check("src/log/cursor.rs", "use super::super::store::Store;", &["layers"]);
    check("src/log.rs", "use super::{disk::Disk, store};", &["layers"]);
    check("src/log.rs", "mod tests { use super::super::store::Store; }", &["layers"]);
    check("src/log.rs", "fn f() { let _ = vec![crate::store::open()]; }", &["layers"]);
    check("src/log.rs", "fn f(_: &crate::handle::Notes) {}", &["layers"]);
    check("src/log.rs", "macro_rules! m { () => { $crate::store::open() } }", &["layers"]);
    check("src/log.rs", "pub(in crate::view) struct S;", &["layers"]);
}

#[test]
fn imports_from_the_left_and_from_the_own_layer_pass() {
    check("src/log.rs", "use crate::{codec::frame, disk::Disk, error::Error, position::Frame};", &[]);
    check("src/log/cursor.rs", "use super::commit; use super::super::segment::Segment; use self::x::Y;", &[]);
    check("src/log.rs", "mod tests { use super::*; use super::super::segment; }", &[]);
    check("src/log.rs", "//! See [`crate::view`].\n/// As `crate::store` does.\nstruct S;", &[]);
    check("src/bin/mnemolog/main.rs", "use crate::render; use mnemolog::Store;", &[]);
}

#[test]
fn the_violation_of_a_layer_names_its_place() {
    let found = check_source("src/log.rs", &format!("{HEAD}\nuse crate::view::View;"));
    let text = found.iter().map(ToString::to_string).collect::<String>();
    assert_eq!(text, "src/log.rs:3: layers: `log` names `view`, which lies to its right");
}

#[test]
fn codec_and_disk_are_strangers() {
    check("src/disk.rs", "use crate::codec::frame;", &["layers"]);
    check("src/disk/file.rs", "use super::super::codec;", &["layers"]);
    check("src/codec/wire.rs", "use crate::disk::Disk;", &["layers"]);
    check("src/disk.rs", "use crate::position::Frame;", &[]);
}

#[test]
fn a_re_export_of_the_root_or_an_unknown_layer_is_refused() {
    check("src/handle.rs", "use crate::Frame;", &["layers"]);
    check("src/handle.rs", "use crate::*;", &["layers"]);
    check("src/util.rs", "", &["layers"]);
    check("src/lib.rs", "pub mod util;", &["layers"]);
}

#[test]
fn layers_are_declared_in_the_order_of_the_arrow() {
    check("src/lib.rs", "pub mod store;\npub mod embed;", &["layers"]);
    check("src/lib.rs", "pub mod embed;\npub mod store;", &[]);
}

#[test]
fn a_guarded_layer_is_declared_with_each_of_its_denials() {
    check("src/lib.rs", "pub mod codec;", &["guard"]);
    let lints = ["clippy::unwrap_used", "clippy::expect_used", "clippy::indexing_slicing", "clippy::panic"];
    check("src/lib.rs", &format!("#[deny({})]\npub mod codec;", lints.join(", ")), &[]);
    for missing in 0..lints.len() {
        let mut fewer = lints.to_vec();
        fewer.remove(missing);
        check("src/lib.rs", &format!("#[deny({})]\npub mod codec;", fewer.join(", ")), &["guard"]);
    }
    check("src/lib.rs", &format!("#[warn({})]\npub mod codec;", lints.join(", ")), &["guard"]);
    check("src/lib.rs", &format!("#[deny({})]\npub mod codec;\npub mod disk;", lints.join(", ")), &["guard"]);
}

#[test]
fn lib_holds_no_logic() {
    check("src/lib.rs", "fn f() {}", &["logic-in-lib"]);
}

#[test]
fn unsafe_has_one_room() {
    check("src/disk/file.rs", "fn f() { unsafe { g() } }", &["unsafe"]);
    check("tests/it/x.rs", "fn f() { vec![unsafe { g() }]; }", &["unsafe"]);
    check("src/disk/map.rs", "fn f() { unsafe { g() } }", &[]);
    check("src/log.rs", "// unsafe\nfn f() -> &'static str { \"unsafe\" }", &[]);
}

#[test]
fn files_of_the_system_have_one_room() {
    check("src/store.rs", "use std::fs::File;", &["std-fs"]);
    check("src/store.rs", "use std::{io, fs};", &["std-fs"]);
    check("src/store.rs", "fn f() { ::std::fs::read(\"x\").ok(); }", &["std-fs"]);
    check("src/store.rs", "use std::os::unix::fs::FileExt;", &["std-fs"]);
    check("src/store.rs", "use std::{io, path::Path};", &[]);
    for path in ["src/disk/file.rs", "src/bin/mnemolog/main.rs", "tests/it/x.rs"] {
        check(path, "use std::fs;", &[]);
    }
}

#[test]
fn printing_is_for_the_command_line() {
    for word in ["print", "println", "eprint", "eprintln"] {
        check("src/store.rs", &format!("fn f() {{ {word}!(\"x\") }}"), &["printing"]);
        check("src/bin/mnemolog/main.rs", &format!("fn f() {{ {word}!(\"x\") }}"), &[]);
    }
}

#[test]
fn a_file_begins_with_a_sentence() {
    for text in [
        "",
        "use std::io;",
        "//! Notes",
        "//! Notes.",
        "\n//! This file owns nothing at all.",
        "// This is no head at all.",
    ] {
        assert_eq!(rules(&check_source("tests/it/x.rs", text)), ["head"], "{text}");
    }
    assert_eq!(check_source("tests/it/x.rs", "//! This sentence goes\n//! over two lines."), []);
}

#[test]
fn functions_end_after_seventy_lines_also_inside_macros() {
    let of = |lines: usize| format!("fn f() {{{}}}", "\n".repeat(lines - 1));
    check("tests/it/x.rs", &of(70), &[]);
    check("tests/it/x.rs", &of(71), &["function-length"]);
    check("tests/it/x.rs", &format!("proptest! {{ #[test] {} }}", of(71)), &["function-length"]);
    check("src/view.rs", &format!("impl X {{ {} }}", of(71)), &["function-length"]);
    check("src/view.rs", &format!("trait X {{ fn g(&self);\n {} }}", of(70)), &[]);
}

#[test]
fn files_end_after_six_hundred_lines() {
    check("src/view.rs", &"\n".repeat(599), &[]);
    check("src/view.rs", &"\n".repeat(600), &["file-length"]);
}

#[test]
fn nothing_is_left_for_later() {
    for word in ["TODO", "FIXME", "XXX"] {
        check("src/view.rs", &format!("// {word}: think"), &["marker"]);
        check("src/view.rs", &format!("fn f() {{ /* {word} */ }}"), &["marker"]);
        check("src/view.rs", &format!("/// {word}\nfn f() {{}}"), &["marker"]);
        check("src/view.rs", &format!("fn f() {{ let _ = \"{word}\"; }}"), &[]);
    }
    for word in ["todo", "unimplemented", "dbg"] {
        check("src/view.rs", &format!("fn f() {{ {word}!() }}"), &["marker"]);
    }
}

#[test]
fn lints_are_expected_with_a_reason_and_never_allowed() {
    check("src/view.rs", "#[allow(dead_code)]\nfn f() {}", &["allow"]);
    check("src/view.rs", "#![allow(dead_code, reason = \"r\")]", &["allow"]);
    check("src/view.rs", "#[cfg_attr(unix, allow(dead_code))]\nfn f() {}", &["allow"]);
    check("src/view.rs", "#[expect(dead_code)]\nfn f() {}", &["allow"]);
    check("src/view.rs", "#[expect(dead_code, reason = \"r\")]\nfn f() {}", &[]);
}

#[test]
fn no_test_is_switched_off() {
    check("tests/it/x.rs", "#[test]\n#[ignore]\nfn f() {}", &["ignore"]);
    check("tests/it/x.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}", &["ignore"]);
    check("tests/it/x.rs", "#[test]\n#[cfg_attr(unix, ignore)]\nfn f() {}", &["ignore"]);
}

#[test]
fn modules_stand_beside_their_folders_and_are_compiled() {
    check("src/view/mod.rs", "", &["mod-rs"]);
    check("tests/x.rs", "", &["one-test-binary"]);
    check("src/view.rs", "#[path = \"y.rs\"]\nmod x;", &["include"]);
    check("src/view.rs", "include!(\"y.rs\");", &["include"]);
    let tree = |paths: &[(&str, &str)]| -> Vec<(String, String)> {
        paths.iter().map(|(path, body)| (path.to_string(), format!("{HEAD}{body}"))).collect()
    };
    let whole = [("src/lib.rs", "pub mod view;"), ("src/view.rs", "mod x;"), ("tests/it/main.rs", "mod y;")];
    let lib = check_tree(&tree(&[&whole[..], &[("src/view/x.rs", ""), ("tests/it/y.rs", "")]].concat()));
    assert_eq!(rules(&lib), ["guard"]);
    for orphan in ["src/store.rs", "src/view/y.rs", "tests/it/z.rs", "src/bin/mnemolog/z.rs"] {
        let found = check_tree(&tree(&[&whole[..], &[(orphan, "")]].concat()));
        assert!(
            found.iter().any(|violation| violation.rule == "orphan" && violation.path == orphan),
            "{found:?}"
        );
    }
}

#[test]
fn guarded_layers_do_not_panic() {
    for layer in ["codec", "disk", "segment", "log", "view", "interchange", "tools"] {
        check(&format!("src/{layer}.rs"), "fn f(x: Option<u8>) { x.unwrap(); }", &["panic"]);
        check(&format!("src/{layer}/part.rs"), "fn f(x: &[u8]) -> u8 { x[0] }", &["panic"]);
    }
    let bodies = [
        "x.expect(\"y\")",
        "x.unwrap_err()",
        "x.map(Option::unwrap)",
        "panic!()",
        "assert!(x.y[1] == 2)",
        "f(x)[0]",
        "x[0][1]",
        "&x[1..]",
        "x?[0]",
        "self[0]",
    ];
    for body in bodies {
        check("src/log.rs", &format!("fn f() {{ {body}; }}"), &["panic"]);
        check("src/store.rs", &format!("fn f() {{ {body}; }}"), &[]);
        check("src/log.rs", &format!("#[cfg(test)]\nmod tests {{ fn f() {{ {body}; }} }}"), &[]);
        check("src/log.rs", &format!("#[cfg(test)]\nmod tests;\nfn f() {{ {body}; }}"), &["panic"]);
        check("src/log.rs", &format!("#[cfg(not(test))]\nfn f() {{ {body}; }}"), &["panic"]);
    }
}

#[test]
fn constants_may_panic_because_only_the_compiler_sees_it() {
    check(
        "src/log.rs",
        "const _: () = assert!(X[1] == 2);\nconst A: u8 = X[0];\nconst B: u8 = { X[0] };",
        &[],
    );
    check("src/log.rs", "const _: () = assert!(X[1] == 2);\nfn f() { x[0]; }", &["panic"]);
    check("src/log.rs", "const fn f() { x[0]; }", &["panic"]);
    check("src/log.rs", "fn f<const N: usize>(x: [u8; N]) { x[0]; }", &["panic"]);
    check("src/log.rs", "fn f<'a, const N: usize>(x: [u8; N]) { x[0]; }", &["panic"]);
}

#[test]
fn brackets_that_index_nothing_pass_in_guarded_layers() {
    let bodies = [
        "let [a, b] = x",
        "let a: &'a [u8] = &[1]",
        "for [a] in [[1]] {}",
        "vec![1, 2]",
        "x.unwrap_or(1)",
        "&x[..]",
        "if let Some([a]) = x {}",
        "let y = x as [u8; 4]",
        "return [1]",
        "x.get(0)",
        "match x { [a] => 1, _ => 2 }",
    ];
    for body in bodies {
        check("src/log.rs", &format!("fn f<'a>() {{ {body}; }}"), &[]);
    }
    check(
        "src/log.rs",
        "#[derive(Clone)]\n#[doc(hidden)]\nstruct S(&'static mut [u8], pub [u8; 4], pub(crate) [u8; 4]);",
        &[],
    );
}

#[test]
fn what_is_not_rust_is_reported_and_not_skipped() {
    check("src/view.rs", "fn f( {", &["syntax"]);
}
