//! How the rules of style see a file: a walk over its tokens that knows modules, tests and attributes.
//!
//! Owns the walk and the questions one can ask at a token. It knows no rule, no layer and no file.

use proc_macro2::{Delimiter, Group, Spacing, TokenTree};

/// Where the walk stands: the modules around a token, and whether a panic there is
/// harmless: in code for tests, and in constants, where it stops the compiler.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) modules: Vec<String>,
    pub(super) may_panic: bool,
}

/// One token among its neighbours.
pub(super) struct Site<'a> {
    trees: &'a [TokenTree],
    at: usize,
    pub(super) scope: &'a Scope,
}

/// A token to look for.
#[derive(Clone, Copy)]
pub(super) enum Word<'a> {
    Name(&'a str),
    Punct(char),
}

/// A `mod NAME;` with the attributes before it.
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) attributes: Vec<Vec<TokenTree>>,
}

/// Words before a bracket that open a type, a pattern or a new expression, so that the bracket indexes nothing.
const NOT_A_VALUE: [&str; 22] = [
    "as", "break", "const", "dyn", "else", "for", "if", "impl", "in", "let", "loop", "match", "move", "mut",
    "pub", "ref", "return", "static", "type", "unsafe", "where", "while",
];

impl Site<'_> {
    fn tree(&self, offset: isize) -> Option<&TokenTree> {
        self.trees.get(self.at.checked_add_signed(offset)?)
    }

    pub(super) fn word(&self, offset: isize) -> Option<String> {
        match self.tree(offset)? {
            TokenTree::Ident(ident) => Some(ident.to_string()),
            _ => None,
        }
    }

    pub(super) fn is_word(&self, offset: isize, word: &str) -> bool {
        matches!(self.tree(offset), Some(TokenTree::Ident(ident)) if ident == word)
    }

    pub(super) fn is_punct(&self, offset: isize, punct: char) -> bool {
        matches!(self.tree(offset), Some(TokenTree::Punct(found)) if found.as_char() == punct)
    }

    pub(super) fn group(&self, offset: isize, delimiter: Delimiter) -> Option<&Group> {
        match self.tree(offset)? {
            TokenTree::Group(group) if group.delimiter() == delimiter => Some(group),
            _ => None,
        }
    }

    pub(super) fn line(&self) -> usize {
        self.trees[self.at].span().start().line
    }

    /// Lines from this token to the brace that ends its item, or one if the item has no body.
    pub(super) fn lines_to_end_of_item(&self) -> usize {
        for tree in &self.trees[self.at..] {
            match tree {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    return group.span().end().line + 1 - self.line();
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => return 1,
                _ => {}
            }
        }
        1
    }

    /// The content of the attribute whose `#` stands here.
    pub(super) fn attribute(&self) -> Option<Vec<TokenTree>> {
        if !self.is_punct(0, '#') {
            return None;
        }
        let group = self
            .group(1, Delimiter::Bracket)
            .or_else(|| if self.is_punct(1, '!') { self.group(2, Delimiter::Bracket) } else { None })?;
        Some(group.stream().into_iter().collect())
    }

    /// Whether a constant item starts here, and not a constant parameter.
    fn starts_constant(&self) -> bool {
        let is_parameter = self.is_punct(-1, '<') || self.is_punct(-1, ',');
        self.is_word(0, "const") && self.word(1).is_some() && self.is_punct(2, ':') && !is_parameter
    }

    /// Whether a value ends just before this token, so that a bracket here would index it.
    pub(super) fn follows_a_value(&self) -> bool {
        match self.tree(-1) {
            Some(TokenTree::Ident(ident)) => {
                let is_lifetime = self.is_punct(-2, '\'');
                !is_lifetime && !NOT_A_VALUE.contains(&ident.to_string().as_str())
            }
            Some(TokenTree::Group(group)) => match group.delimiter() {
                Delimiter::Parenthesis => !self.is_word(-2, "pub"),
                Delimiter::Bracket => !self.is_punct(-2, '#') && !self.is_punct(-2, '!'),
                Delimiter::Brace | Delimiter::None => false,
            },
            Some(TokenTree::Punct(punct)) => punct.as_char() == '?',
            _ => false,
        }
    }

    /// All paths that start at this word; a `use` group makes several.
    pub(super) fn paths(&self) -> Vec<Vec<String>> {
        if self.word(0).is_none()
            || self.is_punct(-1, ':') && self.word(-3).is_some()
            || !self.is_punct(1, ':')
        {
            return Vec::new();
        }
        expand(&self.trees[self.at..])
    }

    /// The paths that start here, seen from the root of the crate, where they lead into the crate.
    pub(super) fn crate_paths(&self) -> Vec<Vec<String>> {
        let starts = ["crate", "super", "self"].iter().any(|start| self.is_word(0, start));
        if !starts {
            return Vec::new();
        }
        self.paths().into_iter().map(|path| self.seen_from_root(&path)).collect()
    }

    fn seen_from_root(&self, path: &[String]) -> Vec<String> {
        let mut place = self.scope.modules.clone();
        for part in path {
            match part.as_str() {
                "crate" => place.clear(),
                "super" => drop(place.pop()),
                "self" => {}
                _ => place.push(part.clone()),
            }
        }
        place
    }
}

/// Calls `ask` at every token, outermost first.
pub(super) fn visit(trees: &[TokenTree], scope: &Scope, ask: &mut dyn FnMut(&Site<'_>)) {
    let excused = Scope { may_panic: true, ..scope.clone() };
    let mut is_excused = false;
    for at in 0..trees.len() {
        let outer = if is_excused { &excused } else { scope };
        let site = Site { trees, at, scope: outer };
        ask(&site);
        is_excused |=
            site.starts_constant() || site.attribute().is_some_and(|attribute| is_for_tests(&attribute));
        is_excused &= !site.is_punct(0, ';');
        let TokenTree::Group(group) = &trees[at] else { continue };
        let mut inner = outer.clone();
        if group.delimiter() == Delimiter::Brace {
            is_excused = false;
            if site.is_word(-2, "mod") {
                inner.modules.extend(site.word(-1));
            }
        }
        visit(&group.stream().into_iter().collect::<Vec<_>>(), &inner, ask);
    }
}

/// The `mod NAME;` declarations at the top of a file.
pub(super) fn declared_modules(trees: &[TokenTree]) -> Vec<Declared> {
    let scope = Scope { modules: Vec::new(), may_panic: false };
    let mut attributes = Vec::new();
    let mut declared = Vec::new();
    for at in 0..trees.len() {
        let site = Site { trees, at, scope: &scope };
        attributes.extend(site.attribute());
        if site.is_word(0, "mod")
            && site.is_punct(2, ';')
            && let Some(name) = site.word(1)
        {
            declared.push(Declared { name, line: site.line(), attributes: attributes.clone() });
        }
        if site.is_punct(0, ';') || site.group(0, Delimiter::Brace).is_some() {
            attributes.clear();
        }
    }
    declared
}

/// The file that must declare this one as a module, and under which name; none for the root of a target.
pub(super) fn parent_of(path: &str) -> Option<(String, String)> {
    let (folder, file) = path.rsplit_once('/')?;
    let name = file.strip_suffix(".rs")?;
    let is_root = name == "main"
        || path == "src/lib.rs"
        || ["src/bin", "tests", "benches", "examples"].contains(&folder);
    if is_root {
        return None;
    }
    let above = folder.rsplit_once('/').map_or("", |(above, _)| above);
    let parent = match (folder, above) {
        ("src", _) => "src/lib.rs".to_owned(),
        (_, "src/bin" | "tests" | "benches" | "examples") => format!("{folder}/main.rs"),
        _ => format!("{folder}.rs"),
    };
    Some((parent, name.to_owned()))
}

/// The words of a text: runs of letters, digits and underscores.
pub(super) fn words(text: &str) -> Vec<String> {
    let is_inside = |symbol: char| symbol.is_alphanumeric() || symbol == '_';
    text.split(|symbol| !is_inside(symbol)).filter(|word| !word.is_empty()).map(String::from).collect()
}

/// The lines of a text with its literals blanked; comments stay, those of the documentation too.
pub(super) fn without_literals(text: &str, trees: &[TokenTree]) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
    let scope = Scope { modules: Vec::new(), may_panic: false };
    visit(trees, &scope, &mut |site| {
        let Some(TokenTree::Literal(literal)) = site.tree(0) else { return };
        let (start, end) = (literal.span().start(), literal.span().end());
        if lines[start.line - 1].get(start.column) == Some(&'/') {
            return;
        }
        for line in start.line..=end.line {
            let row = &mut lines[line - 1];
            let from = if line == start.line { start.column } else { 0 };
            let to = if line == end.line { end.column.min(row.len()) } else { row.len() };
            row.iter_mut().take(to).skip(from).for_each(|symbol| *symbol = ' ');
        }
    });
    lines.into_iter().map(|line| line.into_iter().collect()).collect()
}

pub(super) fn starts_with(trees: &[TokenTree], word: &str) -> bool {
    matches!(trees.first(), Some(TokenTree::Ident(ident)) if ident == word)
}

/// Whether `word(…)` occurs at any depth.
pub(super) fn calls(trees: &[TokenTree], word: &str) -> bool {
    any_site(trees, &|site| site.is_word(0, word) && site.group(1, Delimiter::Parenthesis).is_some())
}

/// Whether these tokens occur one after another at any depth.
pub(super) fn holds(trees: &[TokenTree], sought: &[Word<'_>]) -> bool {
    any_site(trees, &|site| {
        (0..).zip(sought).all(|(offset, word)| match word {
            Word::Name(name) => site.is_word(offset, name),
            Word::Punct(punct) => site.is_punct(offset, *punct),
        })
    })
}

fn any_site(trees: &[TokenTree], ask: &dyn Fn(&Site<'_>) -> bool) -> bool {
    let mut found = false;
    let scope = Scope { modules: Vec::new(), may_panic: false };
    visit(trees, &scope, &mut |site| found |= ask(site));
    found
}

fn is_for_tests(attribute: &[TokenTree]) -> bool {
    let is_cfg =
        starts_with(attribute, "cfg") && !calls(attribute, "not") && holds(attribute, &[Word::Name("test")]);
    is_cfg || starts_with(attribute, "test")
}

/// The paths that begin with the first of these tokens.
fn expand(trees: &[TokenTree]) -> Vec<Vec<String>> {
    let Some(TokenTree::Ident(first)) = trees.first() else { return Vec::new() };
    let first = first.to_string();
    let goes_on = matches!(trees.get(1), Some(TokenTree::Punct(colon)) if colon.as_char() == ':' && colon.spacing() == Spacing::Joint);
    let rest = if goes_on { trees.get(3..).unwrap_or(&[]) } else { &[] };
    let tails: Vec<Vec<String>> = match rest.first() {
        Some(TokenTree::Ident(_)) => expand(rest),
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_comma =
                |tree: &TokenTree| matches!(tree, TokenTree::Punct(comma) if comma.as_char() == ',');
            inner.split(is_comma).flat_map(expand).collect()
        }
        Some(TokenTree::Punct(star)) if star.as_char() == '*' => vec![vec!["*".into()]],
        _ => vec![vec![]],
    };
    tails.into_iter().map(|tail| [vec![first.clone()], tail].concat()).collect()
}
