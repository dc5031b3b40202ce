//! Imports point one way.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The rooms of the house, from the innermost out, and what each may know. A room stands below all that
/// it names. Below the rooms with a folder of their own inside another: `lab/generate` is not `lab`.
const HOUSE: &str = "
    model        :
    config       : model
    measure/slowdown : model
    pass/update  :
    simulate : model pass/update
    route        : model measure/slowdown simulate
    verify       : model
    measure      : model verify route measure/slowdown
    lab/generate : model
    observe      : model config lab/generate
    config/written : model config observe route
    placement    : model route measure
    lab/workload : model placement
    pass         : model route verify measure
    report       : model route measure observe lab/generate
    publish      : model config verify measure report pass
    service      : model config route verify measure lab/generate observe placement pass report publish
    lab/peers    : model observe
    lab/board    : model route verify measure placement simulate report
    lab/trial    : model pass
    lab/adversary : model route measure lab/generate lab/board simulate
    lab/replay   : model route measure lab/workload simulate observe placement pass report service
    cli          : model config route verify measure lab/generate lab/workload observe placement simulate pass report publish service lab/peers lab/replay lab/board lab/trial lab/adversary
";

/// One line of [`HOUSE`].
struct Room {
    /// Its place under `crate`.
    path: Vec<String>,
    may: Vec<Vec<String>>,
}

fn rooms() -> Vec<Room> {
    let path = |text: &str| text.trim().split('/').map(str::to_string).collect();
    let lines = HOUSE.lines().filter_map(|l| l.split_once(':'));
    lines
        .map(|(name, may)| Room { path: path(name), may: may.split_whitespace().map(path).collect() })
        .collect()
}

/// The room of a path under `crate`: the one that names most of it.
fn room_of<'a>(rooms: &'a [Room], path: &[String]) -> Option<&'a Room> {
    rooms.iter().filter(|r| path.starts_with(&r.path)).max_by_key(|r| r.path.len())
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The module that a file is, as a path under `crate`.
fn module(file: &Path) -> Vec<String> {
    let mut path: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_str().unwrap().to_string()).collect();
    if path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    path
}

/// Collects what code names of this crate, as paths under `crate`; code for tests alone is left out.
struct Names {
    found: BTreeSet<Vec<String>>,
}

impl Names {
    /// Of the whole text of a module, to its end: imports, groups of imports, and paths in code and macros.
    fn of(text: &str, module: &[String]) -> BTreeSet<Vec<String>> {
        let tokens = TokenStream::from_str(text).unwrap_or_else(|e| panic!("{module:?}: {e}"));
        let mut names = Self { found: BTreeSet::new() };
        names.read(&tokens.into_iter().collect::<Vec<_>>(), module);
        names.found
    }

    fn read(&mut self, tokens: &[TokenTree], module: &[String]) {
        let mut at = 0;
        while at < tokens.len() {
            if is_for_tests(&tokens[at..]) {
                at = after_item(tokens, at + 2);
                continue;
            }
            match &tokens[at] {
                TokenTree::Group(group) => {
                    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                    self.read(&inside, module);
                }
                TokenTree::Ident(word) if word == "mod" => {
                    if let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(group))) =
                        (tokens.get(at + 1), tokens.get(at + 2))
                    {
                        let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                        self.read(&inside, &[module, &[name.to_string()]].concat());
                        at += 2;
                    }
                }
                TokenTree::Ident(word) if word == "crate" => {
                    at = self.path(tokens, at + 1, Vec::new());
                    continue;
                }
                TokenTree::Ident(word) if word == "super" => {
                    let mut base = module.to_vec();
                    base.pop();
                    at = self.path(tokens, at + 1, base);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Follows `::a::{b, c::d}` from a base; where it ends.
    fn path(&mut self, tokens: &[TokenTree], mut at: usize, mut base: Vec<String>) -> usize {
        while is_colon(tokens.get(at)) && is_colon(tokens.get(at + 1)) {
            match tokens.get(at + 2) {
                Some(TokenTree::Ident(word)) if word == "super" => drop(base.pop()),
                Some(TokenTree::Ident(word)) => base.push(word.to_string()),
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                    for branch in inside.split(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ',')) {
                        let Some(TokenTree::Ident(first)) = branch.first() else { continue };
                        self.path(branch, 1, [base.as_slice(), &[first.to_string()]].concat());
                    }
                    return at + 3;
                }
                _ => break,
            }
            at += 3;
        }
        if !base.is_empty() {
            self.found.insert(base);
        }
        at
    }
}

fn is_colon(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == ':')
}

/// `#[cfg(test)]`: what follows may check a room with anything.
fn is_for_tests(tokens: &[TokenTree]) -> bool {
    match tokens {
        [TokenTree::Punct(p), TokenTree::Group(group), ..] if p.as_char() == '#' => {
            group.stream().to_string().replace(' ', "") == "cfg(test)"
        }
        _ => false,
    }
}

/// The end of the item that begins at `at`.
fn after_item(tokens: &[TokenTree], at: usize) -> usize {
    let ends = |t: &TokenTree| match t {
        TokenTree::Punct(p) => p.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    tokens[at..].iter().position(ends).map_or(tokens.len(), |n| at + n + 1)
}

/// What a module's text names that its room may not.
fn wrong(
    rooms: &[Room],
    module: &[String],
    text: &str,
    used: &mut BTreeSet<(Vec<String>, Vec<String>)>,
) -> Vec<String> {
    let room = room_of(rooms, module).unwrap_or_else(|| panic!("{module:?} is in no room of the list"));
    let mut wrong = Vec::new();
    for name in Names::of(text, module) {
        let Some(other) = room_of(rooms, &name).filter(|other| other.path != room.path) else { continue };
        used.insert((room.path.clone(), other.path.clone()));
        if !room.may.contains(&other.path) {
            wrong.push(format!("{} names {}", module.join("/"), name.join("::")));
        }
    }
    wrong
}

/// Modules that files hold for tests alone.
fn is_test_file(inside: &Path) -> bool {
    inside.iter().any(|part| part == "tests" || part == "tests.rs")
}

#[test]
fn rooms_know_what_the_list_says_and_no_more() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rooms = rooms();
    let mut files = Vec::new();
    sources(&src, &mut files);
    let (mut found, mut used) = (Vec::new(), BTreeSet::new());
    for file in files {
        let inside = file.strip_prefix(&src).unwrap();
        let module = module(inside);
        let is_edge = module == ["lib"] || module == ["core"] || module == ["main"] || module == ["lab"];
        if !is_edge && !is_test_file(inside) {
            found.extend(wrong(&rooms, &module, &fs::read_to_string(&file).unwrap(), &mut used));
        }
    }
    assert!(found.is_empty(), "not in the list of arrows:\n{}", found.join("\n"));
    for (n, room) in rooms.iter().enumerate() {
        for other in &room.may {
            assert!(rooms[..n].iter().any(|r| r.path == *other), "{:?} stands above {other:?}", room.path);
            let arrow = (room.path.clone(), other.clone());
            assert!(used.contains(&arrow), "{:?} does not use {other:?}: take it from the list", room.path);
        }
    }
}

#[test]
fn an_arrow_is_seen_wherever_it_hides() {
    let rooms = rooms();
    let module = ["route".to_string(), "deep".to_string()];
    let sees = |text: &str| !wrong(&rooms, &module, text, &mut BTreeSet::new()).is_empty();
    for text in [
        "use crate::verify::accept;",
        "use crate::{model::Fabric, verify};",
        "use crate::{model::{Fabric, Sl}, pass::{plan, step}};",
        "use super::super::verify;",
        "fn f() { crate::verify::accept() }",
        "fn f() { println!(\"{}\", crate::verify::accept()) }",
        "#[cfg(test)] mod tests { use crate::verify; } use crate::verify as v;",
        "mod inner { use super::super::super::verify; }",
    ] {
        assert!(sees(text), "{text}");
    }
    for text in [
        "use crate::model::Fabric;",
        "use super::graph::Graph;",
        "// crate::verify\nconst TEXT: &str = \"crate::verify\";",
        "#[cfg(test)] use crate::verify;",
        "#[cfg(test)]\nmod tests { use crate::verify; fn f() {} }",
        "mod inner { use super::super::graph; }",
    ] {
        assert!(!sees(text), "{text}");
    }
}

/// Lines of a file, and of a function with its signature, at most.
const LONGEST: (usize, usize) = (450, 60);

/// Name and length of each function of a file that `cargo fmt` has been over.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let bare = line.trim_start();
        let words: Vec<&str> = bare.split_whitespace().take_while(|word| !word.starts_with("//")).collect();
        let is_head = |word: &&str| {
            ["const", "async", "unsafe", "extern", "pub"].contains(word) || word.starts_with("pub(")
        };
        let at = words.iter().take_while(|word| is_head(word)).count();
        let (Some(&"fn"), Some(name)) = (words.get(at), words.get(at + 1)) else { continue };
        let ends = |line: &&&str| line.ends_with(['{', ';', '}']);
        let Some(opens) = lines[first..].iter().find(ends).filter(|line| line.ends_with('{')) else {
            continue;
        };
        let end = format!("{}}}", &line[..line.len() - bare.len()]);
        let length = lines[first..].iter().position(|line| *line == end);
        let length = length.unwrap_or_else(|| panic!("{name} does not end, {opens}"));
        found.push((name.split(['(', '<']).next().unwrap().to_string(), length + 1));
    }
    found
}

#[test]
fn no_file_and_no_function_is_long() {
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files);
    let (mut seen, mut long) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        if text.lines().count() > LONGEST.0 {
            long.push(format!("{}: {} lines", file.display(), text.lines().count()));
        }
        let functions = functions(&text);
        seen += functions.len();
        let too_long = functions.iter().filter(|(_, length)| *length > LONGEST.1);
        long.extend(too_long.map(|(name, length)| format!("{}: {name}: {length} lines", file.display())));
    }
    assert!(seen > 4000, "{seen} functions");
    assert_eq!(long, Vec::<String>::new());
}

#[test]
fn the_length_of_functions_is_counted() {
    let text = "fn a() {\n}\n\nimpl B {\n    pub(super) fn c<T>(\n        d: T,\n    ) -> T {\n        d\n    }\n    fn e();\n    fn f() {}\n}\n";
    assert_eq!(functions(text), [("a".to_string(), 2), ("c".to_string(), 5)]);
}
