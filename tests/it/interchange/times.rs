//! Numbers and times of frames: kept where they can be, never going back, never far ahead.

use mnemolog::interchange::{LineReason, LoadError, LoadOptions, load};
use mnemolog::{Error, Frame};

use super::{dumped, empty, frames, given, load_into, loaded, note, refused};

fn at(time: &str, key: &str) -> String {
    given(&format!(r#""time":"{time}""#), &note(key))
}

fn framed(frame: u64, key: &str) -> String {
    given(&format!(r#""frame":{frame}"#), &note(key))
}

#[test]
fn an_empty_store_takes_numbers_that_run_on_from_one() {
    let store = empty();
    let report = load_into(&store, &[framed(1, "a"), framed(1, "b"), framed(2, "c"), note("d")].join("\n"));
    assert_eq!((report.frames, report.renumbered), (3, false));
    assert_eq!(store.at(Frame(1)).expect("past").root().notes().list_memories().lines().count(), 2);
}

#[test]
fn other_numbers_are_given_anew_and_that_is_said() {
    for lines in
        [[framed(5, "a"), framed(6, "b")], [framed(1, "a"), framed(3, "b")], [framed(2, "a"), framed(1, "b")]]
    {
        let store = empty();
        let report = load_into(&store, &lines.join("\n"));
        assert_eq!((report.frames, report.renumbered, report.last), (2, true, Some(Frame(2))), "{lines:?}");
    }
    let store = loaded(&note("a"));
    let report = load_into(&store, &[framed(1, "b"), framed(1, "c"), framed(2, "d")].join("\n"));
    assert_eq!((report.frames, report.renumbered, report.first), (2, true, Some(Frame(2))));
    let report = load_into(&store, &framed(4, "e"));
    assert!(!report.renumbered, "the number that it gets anyway");
}

#[test]
fn an_older_time_is_raised_to_the_last_frames() {
    let store = empty();
    let lines = [
        at("2026-11-30T10:00:00Z", "a"),
        at("2026-11-30T08:00:00Z", "b"),
        at("2026-11-30T12:00:00+02:00", "c"),
        at("2026-11-30T11:00:00Z", "d"),
    ];
    let report = load_into(&store, &lines.join("\n"));
    assert_eq!(report.raised_times, 1);
    let times: Vec<_> = frames(&store).into_iter().map(|(_, time, _)| time.to_string()).collect();
    let ten = "2026-11-30T10:00:00.000000Z";
    assert_eq!(times, [ten, ten, ten, "2026-11-30T11:00:00.000000Z"]);
}

#[test]
fn a_time_more_than_a_day_ahead_is_refused_unless_trusted() {
    let lines = [at("2026-12-01T12:00:00Z", "a"), at("2026-12-01T12:00:00.000001Z", "b")].join("\n");
    let store = empty();
    let error = refused(&store, &lines);
    let LoadError::Refused(error) = error else { panic!("{error}") };
    assert_eq!(error.line, 2);
    assert!(matches!(error.reason, LineReason::Store(Error::FutureTime { .. })), "{error}");
    let trust = LoadOptions { trust_times: true, ..LoadOptions::default() };
    load(&store, &mut lines.as_bytes(), trust).expect("trusted");
    assert_eq!(store.last_time().map(|t| t.to_string()).as_deref(), Some("2026-12-01T12:00:00.000001Z"));
    // The clock is far behind now: later frames keep the order.
    store.root().notes().remember("c", "", "").expect("saved");
    assert_eq!(dumped(&store).matches("2026-12-01T12:00:00.000001Z").count(), 2);
}

#[test]
fn lines_of_one_frame_agree_on_time_and_origin() {
    let store = empty();
    let with = |fields: &str, key: &str| given(fields, &framed(1, key));
    let time = |time: &str| format!(r#""time":"2026-11-30T0{time}:00:00Z""#);
    let lines = [framed(1, "a"), with(&time("1"), "b"), with(&time("2"), "c")].join("\n");
    assert_eq!(
        refused(&store, &lines).to_string(),
        "line 3: an earlier line of frame 1 says another time; make them equal, or number them apart \
         (nothing was loaded)"
    );
    let lines = [with(r#""origin":{"agent":"a"}"#, "a"), with(r#""origin":{"agent":"b"}"#, "b")].join("\n");
    assert!(
        refused(&store, &lines)
            .to_string()
            .starts_with("line 2: an earlier line of frame 1 says another origin")
    );
    let report = load_into(&store, &[with(r#""origin":{"agent":"a"}"#, "a"), framed(1, "b")].join("\n"));
    assert_eq!((report.frames, dumped(&store).matches(r#""origin":{"agent":"a"}"#).count()), (1, 2));
}
