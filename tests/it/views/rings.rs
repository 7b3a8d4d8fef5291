//! Episodes and scratchpads: what is kept, what is evicted, what an erased one leaves, and the rendered text.

use mnemolog::codec::delta::{Class, Config, HandleKind, Op, Push, Record};
use mnemolog::error::Error;
use mnemolog::view::working::{DEFAULT_TOKEN_BUDGET, approx_tokens, entry_tokens};
use mnemolog::view::{EpisodicView, View, WorkingView};

use super::log::World;

fn record(key: &str) -> Op<'_> {
    Op::Record(Record { key, value: r#"{"n":1}"#, timestamp_ms: -7 })
}

fn push<'a>(label: &'a str, content: &'a str, tokens: u32) -> Op<'a> {
    Op::Push(Push { label, content, tokens })
}

fn erased(kind: HandleKind, tokens: u32) -> Op<'static> {
    Op::Erased { kind, class: Class::Put, tokens }
}

fn max(max: u64) -> Op<'static> {
    Op::Configure(Config::Episodic(Some(max)))
}

fn budget(tokens: u64) -> Op<'static> {
    Op::Configure(Config::Working(Some(tokens)))
}

fn world<'a>(ops: impl IntoIterator<Item = Op<'a>>) -> World {
    let mut world = World::default();
    for op in ops {
        world.commit("h", &[op]);
    }
    world
}

fn ring(world: &World) -> EpisodicView {
    world.state.episodic("h").cloned().unwrap_or_default()
}

fn pad(world: &World) -> WorkingView {
    world.state.working("h").cloned().unwrap_or_default()
}

fn keys(world: &World) -> Vec<String> {
    let found = ring(world).search_by_key("", &world.log).unwrap();
    found.into_iter().map(|episode| episode.key).collect()
}

fn labels(world: &World) -> Vec<String> {
    pad(world).entries().map(|entry| entry.label.to_owned()).collect()
}

#[test]
fn episodes_come_newest_first_and_by_prefix_in_their_order() {
    let world = world([record("q/1"), record("r"), record("q/2")]);
    let recent = ring(&world).recent(2, &world.log).unwrap();
    assert_eq!(recent.iter().map(|e| e.key.as_str()).collect::<Vec<_>>(), ["q/2", "r"]);
    assert_eq!((recent[0].timestamp_ms, recent[0].value.as_str()), (-7, r#"{"n":1}"#));
    let found = ring(&world).search_by_key("q/", &world.log).unwrap();
    assert_eq!(found.iter().map(|e| e.key.as_str()).collect::<Vec<_>>(), ["q/1", "q/2"]);
}

#[test]
fn a_ring_evicts_the_oldest_also_when_it_shrinks() {
    let mut world = world([max(3), record("a"), record("b"), record("c"), record("d")]);
    assert_eq!(keys(&world), ["b", "c", "d"]);
    world.commit("h", &[max(2)]);
    assert_eq!(keys(&world), ["c", "d"]);
    world.commit("h", &[max(0)]);
    assert_eq!((keys(&world), ring(&world).max()), (vec!["d".to_owned()], Some(1)), "at least one place");
    world.commit("h", &[Op::Configure(Config::Episodic(None))]);
    world.commit("h", &[record("e")]);
    assert_eq!(keys(&world), ["d", "e"], "unbounded again");
}

#[test]
fn an_erased_episode_occupies_its_place_and_reads_as_absent() {
    let mut world = world([max(3), record("a"), erased(HandleKind::Episodic, 0), record("c")]);
    assert_eq!((keys(&world), ring(&world).len()), (vec!["a".to_owned(), "c".to_owned()], 2));
    assert_eq!(ring(&world).recent(2, &world.log).unwrap().len(), 2, "newest that can be read");
    world.commit("h", &[record("d")]);
    assert_eq!(keys(&world), ["c", "d"], "the placeholder counts for the ring");
    world.commit("h", &[record("e")]);
    assert_eq!(keys(&world), ["c", "d", "e"], "and is evicted in its turn");
}

#[test]
fn clearing_keeps_what_was_configured() {
    let clear = [Op::Clear(HandleKind::Episodic), Op::Clear(HandleKind::Working)];
    let mut world = world([max(1), budget(9), record("a"), push("a", "", 4)]);
    for op in clear {
        world.commit("h", &[op]);
    }
    assert_eq!((ring(&world).len(), ring(&world).max()), (0, Some(1)));
    assert_eq!((pad(&world).len(), pad(&world).current_tokens(), pad(&world).budget()), (0, 0, 9));
    assert_eq!(world.state.handles().count(), 2, "a configured handle is not an unused one");
}

#[test]
fn a_damaged_episode_is_an_error() {
    let mut world = world([record("a")]);
    world.rot_last_envelope();
    assert!(matches!(ring(&world).recent(1, &world.log), Err(Error::Corrupt { .. })));
    assert!(matches!(ring(&world).search_by_key("a", &world.log), Err(Error::Corrupt { .. })));
    assert!(ring(&world).search_by_key("b", &world.log).unwrap().is_empty());
}

#[test]
fn an_envelope_of_another_episode_is_not_taken_for_this_one() {
    let mut world = world([record("a")]);
    world.commit_over_all_before("h", &record("b"));
    assert!(matches!(ring(&world).search_by_key("a", &world.log), Err(Error::Corrupt { .. })));
    assert!(ring(&world).search_by_key("b", &world.log).is_ok());
}

#[test]
fn a_scratchpad_renders_literally() {
    assert_eq!(WorkingView::default().render(), "");
    let mut world = world([push("plan", "outline the introduction", 12)]);
    assert_eq!(pad(&world).render(), "## Working Memory\n- **plan**: outline the introduction");
    world.commit("h", &[push("two\nlines", "x\n- **forged**: y\r\n## Working Memory", 20)]);
    assert_eq!(
        pad(&world).render(),
        "## Working Memory\n- **plan**: outline the introduction\n\
         - **two lines**: x - **forged**: y ## Working Memory"
    );
    let content = pad(&world).entries().nth(1).unwrap().content.to_owned();
    assert!(content.contains("\r\n"), "what is stored keeps its line breaks");
}

#[test]
fn a_push_beyond_the_budget_evicts_the_oldest_until_it_fits() {
    let mut world = world([budget(20), push("a", "", 10), push("b", "", 5), push("c", "", 5)]);
    assert_eq!((labels(&world).len(), pad(&world).current_tokens()), (3, 20), "exactly the budget fits");
    world.commit("h", &[push("d", "", 11)]);
    assert_eq!((labels(&world), pad(&world).current_tokens()), (vec!["c".into(), "d".into()], 16));
    world.commit("h", &[push("huge", "", 21)]);
    assert_eq!(
        (labels(&world), pad(&world).current_tokens()),
        (vec!["huge".to_owned()], 21),
        "it stays alone"
    );
    world.commit("h", &[push("e", "", 1)]);
    assert_eq!(labels(&world), ["e"]);
    world.commit("h", &[push("f", "", 9)]);
    world.commit("h", &[budget(9)]);
    assert_eq!(labels(&world), ["f"], "a smaller budget evicts");
    world.commit("h", &[budget(0)]);
    assert_eq!((labels(&world), pad(&world).budget()), (vec!["f".to_owned()], 1), "zero is one");
}

#[test]
fn an_erased_entry_goes_on_costing() {
    let mut world = world([budget(20), push("a", "", 5), erased(HandleKind::Working, 10)]);
    assert_eq!((pad(&world).len(), pad(&world).current_tokens()), (1, 15));
    world.commit("h", &[push("b", "", 10)]);
    assert_eq!((labels(&world), pad(&world).current_tokens()), (vec!["b".to_owned()], 20));
    world.commit("h", &[push("c", "", 10)]);
    assert_eq!((labels(&world), pad(&world).current_tokens()), (vec!["b".into(), "c".into()], 20));
    let only = self::world([erased(HandleKind::Working, 10)]);
    assert_eq!((pad(&only).render().as_str(), only.state.handles().count()), ("", 1));
}

#[test]
fn tokens_are_counted_in_code_points_and_costs_saturate() {
    let texts =
        [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本語の文章", 2), ("🚀🎯🚀🎯", 1), ("👩‍🚀", 1)];
    for (text, tokens) in texts {
        assert_eq!(approx_tokens(text), tokens, "{text:?}");
    }
    assert_eq!(approx_tokens(&"x".repeat(100_000)), 25_000);
    assert_eq!(entry_tokens(approx_tokens("plan"), approx_tokens("outline")), 7);
    assert_eq!(entry_tokens(u32::MAX, 1), u32::MAX);
    assert_eq!(entry_tokens(0, u32::MAX - 3), u32::MAX);
}

#[test]
fn budgets_hold_whatever_counted_the_tokens() {
    let big = "x".repeat(100_000);
    let mut world = world([push("日本", "日本語の文章", 40), push("emoji", "🚀", 3)]);
    assert_eq!((pad(&world).budget(), DEFAULT_TOKEN_BUDGET), (2048, 2048));
    world.commit("h", &[push("big", &big, 25_005)]);
    assert_eq!((labels(&world), pad(&world).current_tokens()), (vec!["big".to_owned()], 25_005));
    world.commit("h", &[push("most", "", u32::MAX)]);
    world.commit("h", &[push("small", "", 2048)]);
    assert_eq!((labels(&world), pad(&world).current_tokens()), (vec!["small".to_owned()], 2048));
}
