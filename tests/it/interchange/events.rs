//! A replay told event by event: the deltas, then the state, and either builds the same again.

use mnemolog::interchange::{DumpOptions, Event, EventKind, dump, events};
use mnemolog::{Error, Frame, Store};

use super::{dumped, empty, given, line, load_into, loaded, note};

fn sample() -> Store {
    loaded(
        &[
            note("a"),
            line("vector", "docs", "upsert", r#"{"id":"a","text":"red fox"}"#),
            line(
                "episodic",
                "turns",
                "snapshot",
                r#"{"config":{"max":2},"items":[{"key":"k","value":1},{"erased":{"class":"put"}}]}"#,
            ),
            line("working", "pad", "push", r#"{"label":"l","content":"c"}"#),
            note("b"),
        ]
        .join("\n"),
    )
}

fn told(store: &Store, up_to: Option<Frame>) -> Vec<String> {
    let mut lines = Vec::new();
    let tell = &mut |event: &Event<'_>| {
        let mut out = Vec::new();
        event.write_to(&mut out).expect("memory takes it");
        lines.push(String::from_utf8(out).expect("UTF-8"));
        Ok(())
    };
    events::<Error>(store, up_to, tell).expect("tells");
    lines
}

/// The line inside an event.
fn inner(event: &str) -> String {
    let (_, rest) = event.split_once(r#","frame":"#).expect("an event has a frame");
    format!(r#"{{"frame":{rest}"#)
}

#[test]
fn events_are_the_lines_then_one_snapshot_a_handle() {
    let store = sample();
    let events = told(&store, None);
    let deltas = dumped(&store).lines().count();
    assert_eq!((deltas, events.len()), (6, 10));
    for (index, event) in events.iter().enumerate() {
        assert!(event.starts_with(&format!(r#"{{"index":{index},"event":""#)), "{event}");
    }
    let lines: Vec<_> = events.iter().take(deltas).map(|event| inner(event)).collect();
    assert_eq!(lines.join("\n") + "\n", dumped(&store));
    let sources = ["notes", "vector", "episodic", "working"]
        .map(|kind| format!(r#""event":"Snapshot","source":"memory:{kind}","frame":5,"#));
    for (event, source) in events.iter().skip(deltas).zip(sources) {
        assert!(event.contains(&source), "{event}");
    }
    assert!(
        events[3].contains(r#""event":"Snapshot","source":"memory:episodic","frame":3"#),
        "{}",
        events[3]
    );
}

#[test]
fn either_half_of_the_events_builds_the_state_again() {
    let store = sample();
    for frame in (0..=5).map(Frame) {
        let events = told(&store, Some(frame));
        let deltas = {
            let mut out = Vec::new();
            let report = dump(&store, &mut out, DumpOptions { up_to: Some(frame) }).expect("dumps");
            assert_eq!((report.last, report.frames), (frame, frame.0));
            report.lines as usize
        };
        let digest = store.at(frame).expect("past").digest().expect("digest");
        for half in [events.iter().take(deltas).collect::<Vec<_>>(), events.iter().skip(deltas).collect()] {
            let text: Vec<_> = half.iter().map(|event| inner(event)).collect();
            let other = empty();
            load_into(&other, &text.join("\n"));
            assert_eq!(other.digest().expect("digest"), digest, "{frame}");
        }
    }
}

#[test]
fn a_frame_beyond_the_end_is_an_error_and_a_telling_may_stop() {
    let store = sample();
    let beyond =
        dump(&store, &mut Vec::new(), DumpOptions { up_to: Some(Frame(6)) }).expect_err("no frame 6");
    assert_eq!(beyond.to_string(), "there is no frame 6: the last one is 5");
    let mut seen = 0;
    let stop = &mut |event: &Event<'_>| {
        seen += 1;
        assert!(event.index < 2 && event.kind == EventKind::Patch);
        if event.index == 1 { Err(Error::Closed) } else { Ok(()) }
    };
    assert!(matches!(events::<Error>(&store, None, stop), Err(Error::Closed)));
    assert_eq!(seen, 2);
}

#[test]
fn an_output_that_fails_is_told_apart_from_the_store() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = dump(&sample(), &mut Full, DumpOptions::default()).expect_err("the pipe is broken");
    let mnemolog::interchange::DumpError::Output(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn an_origin_stands_in_the_events_of_its_frame() {
    let store = loaded(&given(r#""origin":{"session":"s"}"#, &note("a")));
    let events = told(&store, None);
    assert!(events[0].contains(r#","origin":{"session":"s"},"#) && !events[1].contains("origin"));
}
