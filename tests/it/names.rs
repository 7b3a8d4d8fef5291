//! Workspace paths, handle names and proposed segments: what is taken, and what is refused in which words.

use mnemolog::{NameError, NameReason, WorkspacePath, safe_segment};

const PATH_MAX_BYTES: usize = 64 * 1024;

fn path(text: &str) -> WorkspacePath {
    WorkspacePath::parse(text).unwrap()
}

fn refused(text: &str) -> NameError {
    WorkspacePath::parse(text).expect_err(text)
}

#[test]
fn a_valid_path_is_kept_as_it_stands() {
    for text in ["core", "a", "0", "-", "_", "core/workers/scribe-2", "a_b/c-d/0123456789"] {
        assert_eq!(path(text).as_str(), text);
        assert_eq!(path(text).to_string(), text);
    }
    assert_eq!(WorkspacePath::root().as_str(), "");
    assert_eq!(WorkspacePath::root(), WorkspacePath::default());
}

#[test]
fn a_path_that_climbs_or_is_absolute_is_refused() {
    for (text, reason) in [
        ("../escape", NameReason::Character('.')),
        ("..", NameReason::Character('.')),
        (".", NameReason::Character('.')),
        ("a/../b", NameReason::Character('.')),
        ("a/./b", NameReason::Character('.')),
        ("a\\..\\b", NameReason::Character('\\')),
        ("c:", NameReason::Character(':')),
        ("/etc", NameReason::EmptySegment),
        ("/", NameReason::EmptySegment),
        ("a/", NameReason::EmptySegment),
        ("a//b", NameReason::EmptySegment),
        ("", NameReason::EmptySegment),
    ] {
        let error = refused(text);
        assert_eq!((error.what, error.found.as_str(), error.reason), ("workspace", text, reason));
        assert_eq!(path("core").join(text), Err(error), "inside another workspace too");
    }
}

#[test]
fn a_path_is_never_trimmed_lower_cased_or_normalised() {
    for (text, bad) in [
        ("Core", 'C'),
        (" core", ' '),
        ("core\n", '\n'),
        ("a\0b", '\0'),
        ("café", 'é'),
        ("ａ", 'ａ'),
        ("a%2fb", '%'),
    ] {
        assert_eq!(refused(text).reason, NameReason::Character(bad));
    }
}

#[test]
fn joined_paths_nest() {
    assert_eq!(path("core").join("workers/scribe").unwrap(), path("core/workers/scribe"));
    assert_eq!(WorkspacePath::root().join("core").unwrap(), path("core"));
}

#[test]
fn a_handle_id_is_the_path_and_the_name() {
    assert_eq!(path("core").handle("memory").unwrap(), "core/memory");
    assert_eq!(WorkspacePath::root().handle("memory").unwrap(), "memory");
}

#[test]
fn a_handle_name_is_exactly_one_segment() {
    for (name, reason) in [
        ("a/b", NameReason::Character('/')),
        ("/a", NameReason::Character('/')),
        ("..", NameReason::Character('.')),
        ("../escape", NameReason::Character('.')),
        ("a\0", NameReason::Character('\0')),
        ("Docs", NameReason::Character('D')),
        ("", NameReason::EmptySegment),
    ] {
        let expected = NameError { what: "handle name", found: name.to_owned(), reason };
        assert_eq!(path("core").handle(name), Err(expected.clone()));
        assert_eq!(WorkspacePath::root().handle(name), Err(expected));
    }
}

#[test]
fn paths_and_handle_ids_end_at_64_kib() {
    assert_eq!(WorkspacePath::MAX_BYTES, PATH_MAX_BYTES);
    let longest = "a".repeat(PATH_MAX_BYTES);
    assert_eq!(path(&longest).as_str(), longest);
    let too_long = NameReason::TooLong { len_bytes: PATH_MAX_BYTES + 1 };
    assert_eq!(refused(&(longest.clone() + "a")).reason, too_long);
    assert_eq!(safe_segment(&(longest.clone() + "a")), None);

    let almost = path(&longest[..PATH_MAX_BYTES - 2]);
    assert_eq!(almost.handle("b").unwrap().len(), PATH_MAX_BYTES);
    assert_eq!(almost.join("b").unwrap().as_str().len(), PATH_MAX_BYTES);
    assert_eq!(almost.handle("bb").unwrap_err().reason, too_long);
    assert_eq!(almost.join("bb").unwrap_err().reason, too_long);
}

#[test]
fn the_error_is_one_sentence_that_shows_the_name_safely() {
    let rule = "each segment takes lower-case letters a to z, digits, '-' and '_', at least one";
    assert_eq!(refused("../escape").to_string(), format!("workspace \"../escape\" holds '.'; {rule}"));
    assert_eq!(refused("").to_string(), format!("workspace \"\" has an empty segment; {rule}"));
    assert_eq!(
        path("core").handle("a\0\u{1b}[2J\n\"").unwrap_err().to_string(),
        format!("handle name \"a\\0\\u{{1b}}[2J\\n\\\"\" holds '\\0'; {rule}")
    );
    assert_eq!(
        refused(&"b".repeat(PATH_MAX_BYTES + 1)).to_string(),
        format!(
            "workspace \"{}…\" makes 65537 bytes where 65536 are the most; choose a shorter one",
            "b".repeat(80)
        )
    );
    assert_eq!(
        refused(&"É".repeat(80)).to_string(),
        format!("workspace \"{}\" holds 'É'; {rule}", "É".repeat(80))
    );
}

#[test]
fn a_safe_segment_is_trimmed_and_lower_cased_or_none() {
    for (name, expected) in [
        ("core", Some("core")),
        ("  Core\t", Some("core")),
        ("SCRIBE_2-b", Some("scribe_2-b")),
        ("two words", None),
        ("a/b", None),
        ("..", None),
        ("a\0b", None),
        ("É", None),
        ("K\u{212a}", None),
        ("   ", None),
        ("", None),
    ] {
        assert_eq!(safe_segment(name).as_deref(), expected, "{name:?}");
    }
}
