//! The style of this crate, held by a machine.
//!
//! Owns the rules: the layer arrow, where `unsafe`, `std::fs` and printing may occur, the head of each file,
//! the lengths of functions and files, and what must not be left behind. It knows nothing of what the code does.
//! A rule sees one file as tokens, so it also sees what stands inside macros, and never what stands in strings.
//! Every violation is reported with its place, all at once, and `proofs` shows that each rule can fail.

mod mutants;
mod proofs;
mod tokens;

use std::fmt;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use tokens::{Scope, Site, Word, words};

/// The layers in the order of the arrow: a file imports from its own layer and from those before it.
const LAYERS: [&str; 13] = [
    "position",
    "codec",
    "error",
    "disk",
    "segment",
    "log",
    "view",
    "replay",
    "embed",
    "store",
    "handle",
    "interchange",
    "tools",
];

/// Two layers of the arrow that never name each other: what bytes mean, and where bytes live.
const STRANGERS: [&str; 2] = ["codec", "disk"];

/// The layers that handle what others wrote, where nothing may panic.
const GUARDED: [&str; 7] = ["codec", "disk", "segment", "log", "view", "interchange", "tools"];

/// What `lib.rs` denies for each guarded layer.
const GUARD_LINTS: [&str; 4] = ["unwrap_used", "expect_used", "indexing_slicing", "panic"];

const MAX_FUNCTION_LINES: usize = 70;
const MAX_FILE_LINES: usize = 600;

/// One broken rule at one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    path: String,
    line: usize,
    rule: &'static str,
    what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}: {}", self.path, self.line, self.rule, self.what)
    }
}

/// Where a file stands in the crate, from its path alone.
struct Place<'a> {
    path: &'a str,
    modules: Vec<String>,
}

impl<'a> Place<'a> {
    fn new(path: &'a str) -> Self {
        let inner = path.strip_prefix("src/").unwrap_or(path);
        let inner = inner.strip_suffix(".rs").unwrap_or(inner);
        let modules =
            if path == "src/lib.rs" { vec![] } else { inner.split('/').map(String::from).collect() };
        Self { path, modules }
    }

    fn is_library(&self) -> bool {
        self.path.starts_with("src/") && !self.path.starts_with("src/bin/")
    }

    fn layer(&self) -> Option<&str> {
        if self.is_library() { self.modules.first().map(String::as_str) } else { None }
    }

    fn is_guarded(&self) -> bool {
        self.layer().is_some_and(|layer| GUARDED.contains(&layer))
    }

    fn violation(&self, line: usize, rule: &'static str, what: impl Into<String>) -> Violation {
        Violation { path: self.path.into(), line, rule, what: what.into() }
    }
}

/// Every rule that one file can break by itself.
pub(crate) fn check_source(path: &str, text: &str) -> Vec<Violation> {
    let place = Place::new(path);
    let mut found = Vec::new();
    check_place(&place, &mut found);
    check_head(&place, text, &mut found);
    check_lengths(&place, text, &mut found);
    let stream: TokenStream = match text.parse() {
        Ok(stream) => stream,
        Err(error) => {
            found.push(place.violation(error.span().start().line, "syntax", "the file is not Rust"));
            return found;
        }
    };
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    check_markers(&place, text, &trees, &mut found);
    if path == "src/lib.rs" {
        check_declarations(&place, &trees, &mut found);
    }
    let scope = Scope { modules: place.modules.clone(), may_panic: path.ends_with("/tests.rs") };
    tokens::visit(&trees, &scope, &mut |site| check_site(&place, site, &mut found));
    found.sort();
    found.dedup();
    found
}

/// Every rule that a set of files breaks: each file's own, and that each file is compiled at all.
pub(crate) fn check_tree(files: &[(String, String)]) -> Vec<Violation> {
    let mut found: Vec<Violation> = files.iter().flat_map(|(path, text)| check_source(path, text)).collect();
    for (path, _) in files {
        let Some((parent, name)) = tokens::parent_of(path) else { continue };
        let declared = files
            .iter()
            .filter(|(other, _)| *other == parent)
            .any(|(_, text)| words(text).windows(2).any(|pair| pair == ["mod", name.as_str()]));
        if !declared {
            let what = format!("no `mod {name};` in {parent}: the file is never compiled");
            found.push(Place::new(path).violation(1, "orphan", what));
        }
    }
    found
}

fn check_site(place: &Place<'_>, site: &Site<'_>, found: &mut Vec<Violation>) {
    check_imports(place, site, found);
    check_rooms(place, site, found);
    check_attributes(place, site, found);
    check_function(place, site, found);
    if place.is_guarded() && !site.scope.may_panic {
        check_panics(place, site, found);
    }
}

fn check_place(place: &Place<'_>, found: &mut Vec<Violation>) {
    let path = place.path;
    if path.ends_with("/mod.rs") {
        found.push(place.violation(1, "mod-rs", "`x.rs` stands beside `x/`; there is no mod.rs"));
    }
    if let Some(layer) = place.layer()
        && !LAYERS.contains(&layer)
    {
        found.push(place.violation(1, "layers", format!("`{layer}` is not a layer")));
    }
    let in_root_of_tests = path.strip_prefix("tests/").is_some_and(|rest| !rest.contains('/'));
    if in_root_of_tests {
        found.push(place.violation(
            1,
            "one-test-binary",
            "integration tests are modules of tests/it/main.rs",
        ));
    }
}

/// The head is the `//!` block that opens the file, and says at least one whole sentence.
fn check_head(place: &Place<'_>, text: &str, found: &mut Vec<Violation>) {
    let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let head: Vec<&str> = head.iter().flat_map(|line| line.split_whitespace()).collect();
    let is_sentence =
        head.iter().position(|word| word.ends_with(['.', '!', '?'])).is_some_and(|end| end >= 3);
    if !is_sentence {
        found.push(place.violation(
            1,
            "head",
            "the file does not begin with a `//!` head of at least one sentence",
        ));
    }
}

fn check_lengths(place: &Place<'_>, text: &str, found: &mut Vec<Violation>) {
    let lines = text.lines().count();
    if lines > MAX_FILE_LINES {
        found.push(place.violation(
            lines,
            "file-length",
            format!("{lines} lines, of at most {MAX_FILE_LINES}"),
        ));
    }
}

fn check_function(place: &Place<'_>, site: &Site<'_>, found: &mut Vec<Violation>) {
    if !site.is_word(0, "fn") || !(site.word(1).is_some() || site.is_punct(1, '$')) {
        return;
    }
    if place.path == "src/lib.rs" {
        found.push(place.violation(
            site.line(),
            "logic-in-lib",
            "lib.rs declares and re-exports; it holds no function",
        ));
    }
    let lines = site.lines_to_end_of_item();
    if lines > MAX_FUNCTION_LINES {
        let what = format!("a function of {lines} lines, of at most {MAX_FUNCTION_LINES}");
        found.push(place.violation(site.line(), "function-length", what));
    }
}

/// Words that say "later", in comments and in names; strings are data and may hold anything.
fn check_markers(place: &Place<'_>, text: &str, trees: &[TokenTree], found: &mut Vec<Violation>) {
    for (index, line) in tokens::without_literals(text, trees).iter().enumerate() {
        for marker in words(line).into_iter().filter(|word| ["TODO", "FIXME", "XXX"].contains(&word.as_str()))
        {
            found.push(place.violation(index + 1, "marker", format!("`{marker}` is left over")));
        }
    }
}

/// `lib.rs` declares known layers, in the order of the arrow, and denies panics for the guarded ones.
fn check_declarations(place: &Place<'_>, trees: &[TokenTree], found: &mut Vec<Violation>) {
    let mut furthest = 0;
    for module in tokens::declared_modules(trees) {
        let Some(rank) = LAYERS.iter().position(|layer| *layer == module.name) else {
            found.push(place.violation(module.line, "layers", format!("`{}` is not a layer", module.name)));
            continue;
        };
        if rank < furthest {
            let what = format!("`{}` is declared out of the order of the arrow", module.name);
            found.push(place.violation(module.line, "layers", what));
        }
        furthest = furthest.max(rank);
        for lint in GUARD_LINTS.iter().filter(|_| GUARDED.contains(&module.name.as_str())) {
            let denied = [Word::Name("clippy"), Word::Punct(':'), Word::Punct(':'), Word::Name(lint)];
            if !module
                .attributes
                .iter()
                .any(|deny| tokens::starts_with(deny, "deny") && tokens::holds(deny, &denied))
            {
                let what = format!("`{}` is declared without `deny(clippy::{lint})`", module.name);
                found.push(place.violation(module.line, "guard", what));
            }
        }
    }
}

fn check_imports(place: &Place<'_>, site: &Site<'_>, found: &mut Vec<Violation>) {
    let Some(own) = place.layer() else { return };
    for import in site.crate_paths() {
        let Some(other) = import.first() else { continue };
        let rank = |name: &str| LAYERS.iter().position(|layer| *layer == name);
        let what = match (rank(own), rank(other)) {
            (_, None) => format!("`crate::{other}` is not a layer: name what you import by its layer"),
            (Some(own_rank), Some(other_rank)) if other_rank > own_rank => {
                format!("`{own}` names `{other}`, which lies to its right")
            }
            _ if own != other && STRANGERS.contains(&own) && STRANGERS.contains(&other.as_str()) => {
                format!("`{own}` and `{other}` are strangers")
            }
            _ => continue,
        };
        found.push(place.violation(site.line(), "layers", what));
    }
}

/// Each dangerous thing has one room.
fn check_rooms(place: &Place<'_>, site: &Site<'_>, found: &mut Vec<Violation>) {
    let line = site.line();
    if site.is_word(0, "unsafe") && place.path != "src/disk/map.rs" {
        found.push(place.violation(line, "unsafe", "`unsafe` occurs only in src/disk/map.rs"));
    }
    let names_files =
        site.is_word(0, "std") && site.paths().iter().any(|path| path.iter().any(|part| part == "fs"));
    if names_files && place.is_library() && place.path != "src/disk/file.rs" {
        found.push(place.violation(line, "std-fs", "`std::fs` occurs only in src/disk/file.rs"));
    }
    let Some(word) = site.word(0).filter(|_| site.is_punct(1, '!')) else { return };
    if ["print", "println", "eprint", "eprintln"].contains(&word.as_str()) && place.is_library() {
        found.push(place.violation(line, "printing", format!("`{word}!` occurs only in the command line")));
    }
    if ["todo", "unimplemented", "dbg"].contains(&word.as_str()) {
        found.push(place.violation(line, "marker", format!("`{word}!` is left over")));
    }
    if word == "include" {
        found.push(place.violation(
            line,
            "include",
            "`include!` hides code from these rules and from the arrow",
        ));
    }
}

fn check_attributes(place: &Place<'_>, site: &Site<'_>, found: &mut Vec<Violation>) {
    let Some(attribute) = site.attribute() else { return };
    let mut report = |rule, what: &str| found.push(place.violation(site.line(), rule, what));
    if tokens::calls(&attribute, "allow") {
        report("allow", "`allow` never ends: say `expect` with a reason");
    }
    if tokens::calls(&attribute, "expect") && !tokens::holds(&attribute, &[Word::Name("reason")]) {
        report("allow", "`expect` without a reason");
    }
    if tokens::starts_with(&attribute, "ignore")
        || tokens::calls(&attribute, "cfg_attr") && tokens::holds(&attribute, &[Word::Name("ignore")])
    {
        report("ignore", "a test that is not run protects nothing");
    }
    if tokens::starts_with(&attribute, "path") {
        report("include", "`#[path]` hides code from the arrow");
    }
}

/// What may panic on bytes from disk. Clippy sees types and this does not, but this cannot be switched off in a line.
fn check_panics(place: &Place<'_>, site: &Site<'_>, found: &mut Vec<Violation>) {
    let line = site.line();
    if let Some(word) = site.word(0) {
        let is_member = site.is_punct(-1, '.') || site.is_punct(-1, ':');
        if is_member && ["unwrap", "expect", "unwrap_err", "expect_err"].contains(&word.as_str()) {
            found.push(place.violation(line, "panic", format!("`{word}` in a guarded layer")));
        }
        if word == "panic" && site.is_punct(1, '!') {
            found.push(place.violation(line, "panic", "`panic!` in a guarded layer"));
        }
    }
    let is_whole = |group: &proc_macro2::Group| group.stream().to_string() == "..";
    if site.group(0, Delimiter::Bracket).is_some_and(|group| !is_whole(group)) && site.follows_a_value() {
        found.push(place.violation(line, "panic", "an indexing expression in a guarded layer"));
    }
}

fn collect(root: &Path, folder: &str, files: &mut Vec<(String, String)>) {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else { return };
    for entry in entries {
        let entry = entry.expect("a readable entry");
        let path =
            format!("{folder}/{}", entry.file_name().to_str().expect("file names of the crate are UTF-8"));
        if path == "benches/peers" {
            // A crate of its own, with what others need to build.
            continue;
        }
        if entry.file_type().expect("a file type").is_dir() {
            collect(root, &path, files);
        } else if path.ends_with(".rs") {
            let text = std::fs::read_to_string(root.join(&path)).expect("sources are UTF-8");
            files.push((path, text));
        }
    }
}

#[test]
fn the_crate_keeps_its_style() {
    let mut files = Vec::new();
    for folder in ["src", "tests", "benches", "examples"] {
        collect(Path::new(env!("CARGO_MANIFEST_DIR")), folder, &mut files);
    }
    files.sort();
    assert!(files.iter().any(|(path, _)| path == "src/lib.rs"), "the sources were found");
    let found: Vec<String> = check_tree(&files).iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{} violations of style:\n{}", found.len(), found.join("\n"));
}
