//! Every bound at, below and above its edge, in code points; every text literally.
#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::borrow::Cow;
use std::cmp::Ordering;

use proptest::prelude::*;

use super::pattern::Pattern;
use super::*;

/// One code point of four bytes, one of three, one of one.
const UNITS: [&str; 3] = ["🚀", "云", "x"];

fn matches(count: usize) -> Vec<Match> {
    let one = |n| Match { line: summary_line(&format!("k{n}"), Some("s")), excerpt: excerpt("b", None) };
    (0..count).map(one).collect()
}

#[test]
fn shallow_keys_come_first_then_segments_as_bytes() {
    let ordered = [
        "", "B", "a", "a b", "a-", "a0", "b", "é", "🚀", "/", "/a", "a/", "a/b", "a-/a", "b/a", "//", "a/b/c",
    ];
    for (i, a) in ordered.iter().enumerate() {
        for (j, b) in ordered.iter().enumerate() {
            assert_eq!(compare_keys(a, b), i.cmp(&j), "{a:?} {b:?}");
        }
    }
}

proptest! {
    #[test]
    fn keys_compare_as_their_segments_do(a in "(aaaa|b|-|/|é|0){0,9}", b in "(aaaa|b|-|/|é|0){0,9}") {
        let segments = |key: &str| key.split('/').map(str::to_owned).collect::<Vec<_>>();
        let (x, y) = (segments(&a), segments(&b));
        prop_assert_eq!(compare_keys(&a, &b), x.len().cmp(&y.len()).then_with(|| x.cmp(&y)));
    }
}

#[test]
fn segments_and_not_whole_keys_are_compared() {
    // As whole strings '-' (0x2d) sorts before '/' (0x2f).
    assert_eq!(compare_keys("a/z", "a-/a"), Ordering::Less);
}

#[test]
fn every_run_of_white_space_and_controls_is_one_space_and_nothing_is_trimmed() {
    for (text, line) in [
        ("", ""),
        (" a ", " a "),
        ("  a  ", " a "),
        ("a\n- forged: line", "a - forged: line"),
        ("a\r\n\t b", "a b"),
        ("\0a\u{7}\u{1b}[2J", " a [2J"),
        ("a\u{85}b\u{2028}c\u{2029}d\u{a0}e\u{3000}f\u{c}g\u{7f}h", "a b c d e f g h"),
        ("zero\u{200b}width", "zero\u{200b}width"),
        ("\n", " "),
        ("\u{a0}", " "),
    ] {
        assert_eq!(fold_line(text), line, "{text:?}");
        assert!(matches!(fold_line(line), Cow::Borrowed(same) if same == line));
    }
}

#[test]
fn a_summary_is_fitted_to_120_code_points_marker_included() {
    for unit in UNITS {
        for below in [1, 105, 106, 107, 119, 120] {
            assert_eq!(summary_line("k", Some(&unit.repeat(below))), format!("- k: {}", unit.repeat(below)));
        }
        for above in [121, 122, 5000] {
            let line = summary_line("k", Some(&unit.repeat(above)));
            assert_eq!(line, format!("- k: {}…(summary cut)", unit.repeat(106)));
            assert_eq!(line.chars().count(), "- k: ".len() + 120);
        }
    }
}

#[test]
fn a_summary_is_folded_before_it_is_fitted() {
    let folds_to_120 = format!("{}\r\n\r\n{}", "x".repeat(60), "y".repeat(59));
    assert_eq!(summary_line("k", Some(&folds_to_120)), format!("- k: {} {}", "x".repeat(60), "y".repeat(59)));
    assert_eq!(summary_line("k", Some(" s\n")), "- k:  s ");
}

#[test]
fn a_note_without_a_summary_keeps_its_line() {
    for summary in [None, Some(""), Some("  \n\t"), Some("\u{3000}"), Some("\0")] {
        assert_eq!(summary_line("k", summary), "- k: (no summary)");
    }
}

#[test]
fn a_key_is_folded_and_never_fitted() {
    let long = "🚀".repeat(5000);
    assert_eq!(summary_line(&long, Some("s")), format!("- {long}: s"));
    assert_eq!(saved(&long), format!("saved {long}"));
    assert_eq!(summary_line("a\n- forged", Some("s")), "- a - forged: s");
    assert_eq!(summary_line("", Some("s")), "- : s");
}

#[test]
fn sentences_about_a_key_are_literal_and_one_line() {
    assert_eq!(saved("user/name"), "saved user/name");
    assert_eq!(absent("user/name"), "nothing is saved under user/name");
    assert_eq!(forgot("user/name"), "forgot user/name (its history stays until erased)");
    assert_eq!((saved("a\n\nb"), absent("a\0b")), ("saved a b".into(), "nothing is saved under a b".into()));
    assert_eq!(forgot("a\u{2028}b"), "forgot a b (its history stays until erased)");
}

#[test]
fn an_excerpt_is_240_code_points_and_says_where_the_body_goes_on() {
    for unit in UNITS {
        for below in [1, 239, 240] {
            assert_eq!(excerpt(&unit.repeat(below), None), unit.repeat(below));
        }
        for above in [241, 5000] {
            let cut = format!("{}…(excerpt cut — recall this key for the full note)", unit.repeat(240));
            assert_eq!(excerpt(&unit.repeat(above), None), cut);
            assert_eq!(excerpt(&unit.repeat(above), Some(0)), cut);
        }
    }
}

#[test]
fn an_excerpt_begins_60_code_points_before_the_occurrence() {
    for unit in UNITS {
        for (occurrence, begins_later) in [(59, false), (60, false), (61, true), (62, true)] {
            let body = format!("{}!{}", unit.repeat(occurrence), unit.repeat(100));
            let opens = if begins_later { "…" } else { "" };
            let before = unit.repeat(occurrence.min(60));
            assert_eq!(excerpt(&body, Some(occurrence)), format!("{opens}{before}!{}", unit.repeat(100)));
        }
    }
}

#[test]
fn an_excerpt_near_the_end_is_not_shifted_back() {
    let body = "x".repeat(999) + "!";
    assert_eq!(excerpt(&body, Some(999)), format!("…{}!", "x".repeat(60)));
    let cut = "…(excerpt cut — recall this key for the full note)";
    for (after, ends) in [(178, ""), (179, ""), (180, cut)] {
        let body = "x".repeat(100) + "!" + &"y".repeat(after);
        let shown = "y".repeat(after.min(179));
        assert_eq!(excerpt(&body, Some(100)), format!("…{}!{shown}{ends}", "x".repeat(60)));
    }
}

#[test]
fn an_excerpt_is_cut_before_it_is_folded() {
    let body = " ".repeat(300) + "x";
    assert_eq!(excerpt(&body, None), " …(excerpt cut — recall this key for the full note)");
    assert_eq!(excerpt(&body, Some(300)), "… x");
    assert_eq!(excerpt("a\n  b\n", None), "a b ");
}

#[test]
fn a_blank_body_says_so() {
    for body in ["", " ", "\n\n", "\u{3000}"] {
        assert_eq!(excerpt(body, None), "(empty body)");
        assert_eq!(excerpt(body, Some(0)), "(empty body)");
    }
    assert_eq!(DAMAGED_BODY, "(damaged: run verify)");
}

#[test]
fn lists_and_the_index_are_literal() {
    let none: [&str; 0] = [];
    assert_eq!((list(none), index(none)), ("(no memories)".into(), String::new()));
    let lines = ["- a: b", "- c: d"];
    assert_eq!(list(lines), "- a: b\n- c: d");
    let head = "[memory index] recall(key) reads a note in full; search(pattern) looks inside notes";
    assert_eq!(index(lines), format!("{head}\n- a: b\n- c: d"));
    let many: Vec<String> = (0..1000).map(|n| format!("- {n}: s")).collect();
    assert_eq!(index(&many).lines().count(), 1001);
}

#[test]
fn a_search_shows_8_matches_and_the_true_number() {
    assert_eq!(search(matches(0), 0), "(no matches)");
    assert_eq!(search(matches(1), 1), "- k0: s\n  b");
    assert_eq!(search(matches(7), 7).lines().count(), 14);
    let eight = search(matches(8), 8);
    assert!(eight.ends_with("- k7: s\n  b") && eight.lines().count() == 16);
    for total in [9, 4321] {
        let capped = search(matches(9), total);
        assert_eq!(
            capped,
            format!("{eight}\n(showing 8 of {total} matches — narrow the pattern to see the rest.)")
        );
        assert_eq!(search(matches(8), total), capped);
    }
}

#[test]
fn a_pattern_is_plain_text_without_syntax() {
    for (pattern, text, at) in [
        ("", "", Some(0)),
        ("", "text", Some(0)),
        ("a.c", "abc a.c", Some(4)),
        (".*", "abc", None),
        ("[", "a[", Some(1)),
        ("\\", "a\\b", Some(1)),
        ("(?i)", "x(?I)", Some(1)),
        ("a b", "ab a  b", None),
        ("#x", "a #X", Some(2)),
        ("\n", "a\nb", Some(1)),
        ("$", "a", None),
    ] {
        assert_eq!(Pattern::new(pattern).find(text), at, "{pattern:?} in {text:?}");
    }
}

#[test]
fn case_is_ignored_by_simple_folding() {
    for (pattern, text, at) in [
        ("ADA", "about ada", Some(6)),
        ("ωμέγα", "ΩΜΈΓΑ", Some(0)),
        ("σ", "ς", Some(0)),
        ("k", "\u{212a}", Some(0)),
        ("腾讯云", "用户服务器部署在腾讯云", Some(24)),
        ("server", "部署Server在", Some(6)),
        ("ẞ", "straße", Some(4)),
        ("ss", "ß", None),
        ("i", "İ", None),
        ("Café", "Cafe\u{301}", None),
        ("e\u{301}", "CafE\u{301}", Some(3)),
    ] {
        assert_eq!(Pattern::new(pattern).find(text), at, "{pattern:?} in {text:?}");
    }
}

#[test]
fn a_pattern_of_64_kib_is_found_and_searches_in_linear_time() {
    let pattern = Pattern::new(&("K".repeat((64 << 10) - 1) + "b"));
    let text = "k".repeat(4 << 20);
    // Time proportional to pattern × text would take hours here.
    assert_eq!(pattern.find(&text), None);
    let found = format!("云{text}B");
    assert_eq!(pattern.find(&found), Some(found.len() - (64 << 10)));
}

#[test]
fn byte_offsets_become_code_points() {
    let text = "a云🚀b";
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| code_points_before(text, at)).collect();
    assert_eq!(starts, [0, 1, 2, 3]);
    assert_eq!((code_points_before(text, text.len()), code_points_before("", 9)), (4, 0));
}

proptest! {
    #[test]
    fn long_patterns_match_what_short_ones_would(
        text in "[aAbBkK\u{212a}σςΣ云]{0,60}",
        pattern in "[aAbkσς云]{1,4}",
    ) {
        // Repeating each character carries a short pattern over the edge, and its text with it.
        let stretch = |short: &str| short.chars().map(|c| c.to_string().repeat(257)).collect::<String>();
        let short = Pattern::new(&pattern).find(&text).map(|at| code_points_before(&text, at) * 257);
        let (long, stretched) = (Pattern::new(&stretch(&pattern)), stretch(&text));
        prop_assert_eq!(long.find(&stretched).map(|at| code_points_before(&stretched, at)), short);
    }

    #[test]
    fn any_pattern_finds_itself(before in "\\PC{0,20}", pattern in any::<String>(), after in any::<String>()) {
        for pattern in [pattern.clone(), pattern.repeat(257)] {
            let text = [before.as_str(), &pattern, &after].concat();
            let at = Pattern::new(&pattern).find(&text).unwrap();
            prop_assert!(at <= before.len() && text.is_char_boundary(at));
        }
    }
}
