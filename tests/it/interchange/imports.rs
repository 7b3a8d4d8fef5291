//! What other programs keep comes in; what is malformed is named, and takes nothing else with it.

use std::fmt::Write as _;

use mnemolog::interchange::import::{
    self, Fate, ImportOptions, ImportReport, Parsed, Place, TextFile, Unread,
};
use mnemolog::{Json, Options, Store};

use super::empty;

fn bring(store: &Store, parsed: Parsed) -> ImportReport {
    let workspace = store.workspace("core").expect("a workspace");
    import::import(&workspace, "docs", parsed, &ImportOptions::default()).expect("imports")
}

fn graph(lines: &str) -> Parsed {
    import::mcp_memory(&mut lines.as_bytes()).expect("reads")
}

fn told(report: &ImportReport, refused: bool) -> Vec<String> {
    report.problems.iter().filter(|problem| problem.refused == refused).map(ToString::to_string).collect()
}

fn file(name: &str, bytes: &[u8]) -> TextFile {
    TextFile { name: name.to_owned(), content: Ok(bytes.to_vec()) }
}

const GRAPH: &str = r#"{"type":"entity","name":"Ada","entityType":"person","observations":["wrote\nnotes","likes \"x\""]}
{"type":"relation","from":"Ada","to":"Engine","relationType":"programmed"}
{"type":"entity","name":"Engine","entityType":"machine","observations":[]}
"#;

#[test]
fn entities_become_notes_with_their_relations_on_both_ends() {
    let store = empty();
    let report = bring(&store, graph(GRAPH));
    assert_eq!((report.count(Fate::Added), report.frames), (2, 1));
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let notes = store.workspace("core").expect("a workspace").notes();
    let ada = "type: person\n\nobservations:\n- wrote\n  notes\n- likes \"x\"\n\nrelations:\n- Ada programmed Engine";
    assert_eq!(notes.recall("Ada"), ada);
    assert_eq!(notes.recall("Engine"), "type: machine\n\nrelations:\n- Ada programmed Engine");
    assert_eq!(notes.list_memories(), "- Ada: person: wrote\n- Engine: machine");
}

#[test]
fn importing_once_more_writes_nothing_and_a_change_only_what_changed() {
    let store = empty();
    bring(&store, graph(GRAPH));
    let before = store.appended();
    let again = bring(&store, graph(GRAPH));
    assert_eq!((again.count(Fate::Unchanged), again.frames, store.appended()), (2, 0, before));
    let more = bring(&store, graph(&GRAPH.replace("machine", "device")));
    assert_eq!((more.count(Fate::Unchanged), more.count(Fate::Changed), more.frames), (1, 1, 1));
    let rows = br#"[{"id":"a","text":"one","embedding":[1,0]},{"id":"b","text":"two","embedding":[0,1.5]}]"#;
    assert_eq!(bring(&store, import::vectors(rows)).frames, 1);
    assert_eq!(bring(&store, import::vectors(rows)).frames, 0);
    assert_eq!(bring(&store, import::text([file("a.md", b"# A\n\nb")])).frames, 1);
    assert_eq!(bring(&store, import::text([file("a.md", b"# A\n\nb")])).frames, 0);
}

#[test]
fn what_is_wrong_in_a_graph_is_told_by_line_and_the_rest_is_kept() {
    let store = empty();
    let mut lines = GRAPH.as_bytes().to_vec();
    lines.extend_from_slice(b"not json\n\n");
    lines.extend_from_slice(br#"{"type":"relation","from":"Ada","to":"Nobody","relationType":"knows"}"#);
    lines.extend_from_slice(b"\n");
    lines.extend_from_slice(br#"{"type":"relation","from":"No","to":"Nobody","relationType":"knows"}"#);
    lines.extend_from_slice(b"\n");
    lines.extend_from_slice(br#"{"type":"entity","name":"Ada","entityType":"poet","observations":["new",7,"wrote\nnotes"],"age":36}"#);
    lines.extend_from_slice(b"\n\xff\n");
    lines.extend_from_slice(br#"{"type":"thing","name":"x"}"#);
    lines.extend_from_slice(b"\n");
    lines.extend_from_slice(br#"{"type":"relation","from":"Ada","to":"Engine","relationType":"programmed"}"#);
    lines.extend_from_slice(b"\n");
    lines.extend_from_slice(br#"{"type":"entity","name":"Bare"}"#);
    let report = bring(&store, import::mcp_memory(&mut lines.as_slice()).expect("reads"));
    let at = |refused| {
        let problems = report.problems.iter().filter(move |problem| problem.refused == refused);
        problems.map(|problem| problem.place.clone()).collect::<Vec<_>>()
    };
    assert_eq!(at(true), [4, 7, 9, 10].map(Place::Line), "{:?}", report.problems);
    assert_eq!(at(false), [6, 8, 8, 8, 11, 12, 12].map(Place::Line), "{:?}", report.problems);
    let notes = store.workspace("core").expect("a workspace").notes();
    let ada = notes.recall("Ada");
    assert!(ada.starts_with("type: person, poet\n"), "{ada}");
    assert!(ada.ends_with("- new\n\nrelations:\n- Ada programmed Engine\n- Ada knows Nobody"), "{ada}");
    assert_eq!(ada.matches("wrote").count(), 1, "what it says already is not said twice: {ada}");
    assert_eq!(notes.len(), 3);
}

#[test]
fn files_become_notes_under_their_paths() {
    let store = empty();
    let files = [
        file(
            "a/plan.md",
            b"---\ntitle: x\n# no heading\n---\n```\n# code\n```\nfirst\n\n## The plan ##\ntext",
        ),
        file("b.txt", b"\xef\xbb\xbf\n  ***\n# first line \nsecond\n"),
        file("blank.txt", b" \n"),
        file("latin.txt", b"caf\xe9"),
        file("picture.png", b"\x89PNG\0\0"),
        file("b.txt", b"other"),
        TextFile { name: "link.md".into(), content: Err(Unread::Link) },
        TextFile { name: ".git".into(), content: Err(Unread::Hidden) },
        file(&"k".repeat(64 * 1024 + 1), b"text"),
    ];
    let report = bring(&store, import::text(files));
    assert_eq!((report.count(Fate::Added), report.frames), (3, 1));
    let notes = store.workspace("core").expect("a workspace").notes();
    assert_eq!(
        notes.list_memories(),
        "- b.txt: # first line\n- blank.txt: (no summary)\n- a/plan.md: The plan"
    );
    assert_eq!(notes.recall("b.txt"), "\n  ***\n# first line \nsecond\n");
    let refused = told(&report, true);
    assert_eq!(refused.len(), 5, "{refused:?}");
    for (name, reason) in [
        ("latin.txt: ", "byte 4 is not UTF-8"),
        ("picture.png: ", "byte 5 is zero"),
        ("b.txt: ", "same name"),
        ("link.md: ", "symbolic link"),
        ("kkk", "the key in bytes"),
    ] {
        assert!(refused.iter().any(|told| told.starts_with(name) && told.contains(reason)), "{reason}");
    }
    assert_eq!(told(&report, false).len(), 1, "a hidden name is told, and no failure");
}

#[test]
fn rows_that_cannot_be_stored_are_told_by_element_and_the_rest_is_kept() {
    let store = empty();
    let input = br#" [ {"id":"a","text":"t,]}\"","embedding":[1,0],"metadata":{"n":1.50},"score":1},
 {"id":"b","text":"t","embedding":[NaN,1]},
 {"id":"wide","text":"t","embedding":[1,2,3]},
 {"id":"a","text":"again","embedding":[0,1]},
 {"id":"zero","text":"t","embedding":[0,0]}, {"id":"large","text":"t","embedding":[1e39,0]},
 {"text":"no id","embedding":[1,2]}, 7, "x",
 {"id":"c","text":"t","embedding":[0,1]},
 {"id":"d","text":"cut"#;
    let report = bring(&store, import::vectors(input));
    let refused: Vec<_> = report.problems.iter().filter(|problem| problem.refused).collect();
    let numbers: Vec<u64> = refused
        .iter()
        .filter_map(|problem| match problem.place {
            Place::Element { number, .. } => Some(number),
            _ => None,
        })
        .collect();
    assert_eq!(numbers, [2, 3, 4, 5, 6, 7, 8, 9, 11], "{:?}", report.problems);
    let ends = refused.iter().filter(|problem| matches!(problem.place, Place::Line(_))).count();
    assert_eq!(ends, 1, "that the array does not end is told: {:?}", report.problems);
    assert_eq!(told(&report, false), ["element 1 (line 1): its field `score` was left out"]);
    let docs = store.workspace("core").expect("a workspace").vectors("docs").expect("a table");
    assert_eq!(docs.len(), 2);
    let row = docs.get("a").expect("reads").expect("a row");
    assert_eq!((row.text.as_str(), row.metadata.as_str()), ("t,]}\"", r#"{"n":1.50}"#));
}

#[test]
fn an_input_that_is_no_array_is_told_and_an_empty_one_is_nothing() {
    for (input, problems) in [("", 1), ("{}", 1), ("[]", 0), ("[] x", 1), ("[", 1), ("nonsense", 1)] {
        let parsed = import::vectors(input.as_bytes());
        assert_eq!((parsed.len(), parsed.problems().len()), (0, problems), "{input}");
    }
}

#[test]
fn rows_without_a_vector_get_the_embedder_s_and_stand_after_importing_again() {
    let store = empty();
    let rows = br#"[{"id":"a","text":"green tea"},{"id":"b","text":"black coffee"}]"#;
    assert_eq!(bring(&store, import::vectors(rows)).embedded, 2);
    assert_eq!(bring(&store, import::vectors(rows)).count(Fate::Unchanged), 2);
    let docs = store.workspace("core").expect("a workspace").vectors("docs").expect("a table");
    assert_eq!(docs.search("tea", 1).expect("searches")[0].id, "a");
}

#[test]
fn a_dry_run_says_what_would_come_in_and_writes_nothing() {
    let store = empty();
    let workspace = store.workspace("core").expect("a workspace");
    workspace.notes().remember("Ada", "s", "b").expect("saves");
    let before = store.appended();
    let options = ImportOptions { dry_run: true };
    let report = import::import(&workspace, "docs", graph(GRAPH), &options).expect("looks");
    let fates: Vec<_> = report.items.iter().map(|item| (item.key.as_str(), item.fate)).collect();
    assert_eq!(fates, [("Ada", Fate::Changed), ("Engine", Fate::Added)]);
    assert_eq!((store.appended(), report.frames), (before, 0));
}

#[test]
fn many_items_come_in_few_frames_and_a_large_one_is_refused_alone() {
    let store = super::with(Options::new().max_item_bytes(64 * 1024));
    let mut lines = String::new();
    for n in 0..20_000 {
        writeln!(lines, r#"{{"type":"entity","name":"e{n}","entityType":"t","observations":["o{n}"]}}"#)
            .expect("writes");
    }
    let large = Json::string(&"x".repeat(70_000));
    let large = large.as_str();
    writeln!(lines, r#"{{"type":"entity","name":"large","entityType":"t","observations":[{large}]}}"#)
        .expect("writes");
    let report = bring(&store, graph(&lines));
    assert_eq!((report.count(Fate::Added), report.frames), (20_000, 1));
    assert_eq!(told(&report, true).len(), 1);
    assert_eq!(report.problems[0].place, Place::Line(20_001));
}
