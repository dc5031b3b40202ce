//! Description of a direct torus in TOML (`config/angara-torus.toml` is a commented example).

use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::regular;
use crate::lab::generate::SpecError;
use crate::lab::generate::angara::{self, fail};
use crate::model::{Coords, FileError, Names, NodeName, Torus, TorusBuilder, TorusError, Transit, plain};

/// Why there is no torus.
#[derive(Debug, thiserror::Error)]
pub enum TorusSourceError {
    /// See [`SpecError`].
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The file cannot be read, is not TOML, or not a torus.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A torus and what its description says of routing.
#[derive(Debug, Clone)]
pub struct TorusSource {
    /// Sizes of its dimensions, and which nodes lack a link.
    pub torus: Torus,
    /// Transit rule, if the description has one.
    pub transit: Option<Transit>,
    /// What it was read from: the spec, or the content of the file.
    pub text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    sizes: Spanned<Vec<usize>>,
    #[serde(default)]
    cabling: Option<Spanned<Vec<Cabling>>>,
    #[serde(default)]
    names: Option<Spanned<String>>,
    #[serde(default)]
    node: Vec<Spanned<Node>>,
    #[serde(default)]
    failed: Vec<Spanned<String>>,
    #[serde(default)]
    transit: Option<Transit>,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Cabling {
    Ring,
    Line,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    name: NodeName,
    at: Vec<u8>,
}

/// Whether `--fabric` names a direct torus: an `angara:` spec or a `.toml` file.
pub fn is_torus(source: &str) -> bool {
    angara::is_angara(source) || Path::new(source).extension().is_some_and(|e| e == "toml")
}

/// Loads a torus from a spec or a description.
///
/// # Errors
/// With file and line, or the spec as typed.
pub fn load(source: &str) -> Result<TorusSource, TorusSourceError> {
    let path = Path::new(source);
    if angara::is_angara(source) {
        return of_text(path, source);
    }
    let text = regular::read_named(path).and_then(|bytes| std::io::read_to_string(&bytes[..]));
    of_text(path, &text.map_err(FileError::io(path))?)
}

/// The torus of a [`TorusSource::text`]; `path` is for messages.
///
/// # Errors
/// As [`load`].
pub fn of_text(path: &Path, text: &str) -> Result<TorusSource, TorusSourceError> {
    match angara::is_angara(text) {
        true => Ok(TorusSource { torus: angara::torus(text)?, transit: None, text: text.to_string() }),
        false => Ok(parse(path, text)?),
    }
}

/// Reads a description; `path` is for messages.
///
/// # Errors
/// With the line of the first thing that is wrong.
pub fn parse(path: &Path, text: &str) -> Result<TorusSource, FileError> {
    let at = |offset: usize, reason: String| {
        let line = 1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count();
        FileError::line(path, line, reason)
    };
    let file: File = toml::from_str(text).map_err(|e| {
        let offset = e.span().map_or(text.len(), |s| s.start);
        at(offset, plain(e.message()))
    })?;
    let build = Build { file: &file, at: &at };
    Ok(TorusSource { torus: build.torus()?, transit: file.transit, text: text.to_string() })
}

struct Build<'a> {
    file: &'a File,
    at: &'a dyn Fn(usize, String) -> FileError,
}

impl Build<'_> {
    fn wrong<T>(&self, place: &Spanned<T>, reason: impl ToString) -> FileError {
        (self.at)(place.span().start, reason.to_string())
    }

    fn torus(&self) -> Result<Torus, FileError> {
        let file = self.file;
        let wrong_sizes = |e: TorusError| self.wrong(&file.sizes, e);
        let mut builder = TorusBuilder::new(file.sizes.get_ref()).map_err(wrong_sizes)?;
        if let Some(cabling) = &file.cabling {
            let (found, wanted) = (cabling.get_ref(), file.sizes.get_ref().len());
            if found.len() != wanted {
                return Err(self.wrong(cabling, format!("{} cablings for {wanted} dimensions", found.len())));
            }
            found.iter().enumerate().filter(|(_, c)| **c == Cabling::Line).for_each(|(dim, _)| {
                builder.line(dim);
            });
        }
        for word in &file.failed {
            fail(&mut builder, word.get_ref()).map_err(|e| self.wrong(word, e))?;
        }
        if let Some(pattern) = &file.names {
            builder.names(Names::Pattern(pattern.get_ref().clone()));
            return builder.build().map_err(|e| self.wrong(pattern, e));
        }
        if !file.node.is_empty() {
            builder.names(Names::List(self.list()?));
        }
        builder.build().map_err(wrong_sizes)
    }

    /// Names by node; every node exactly once.
    fn list(&self) -> Result<Vec<NodeName>, FileError> {
        let plain = TorusBuilder::new(self.file.sizes.get_ref()).and_then(TorusBuilder::build);
        let plain = plain.map_err(|e| self.wrong(&self.file.sizes, e))?;
        let mut names: Vec<Option<NodeName>> = vec![None; plain.len()];
        let mut seen = std::collections::BTreeSet::new();
        for entry in &self.file.node {
            let Node { name, at } = entry.get_ref();
            let coords = Coords::new(at);
            let node = plain.node_at(coords).filter(|_| at.len() == plain.dims());
            let node = node.ok_or_else(|| {
                self.wrong(entry, format!("node {name} at {at:?} is outside the torus {}", plain.size_text()))
            })?;
            if !seen.insert(name.clone()) {
                return Err(self.wrong(entry, format!("two nodes are called {name}")));
            }
            if names[node.index()].replace(name.clone()).is_some() {
                return Err(self.wrong(entry, format!("two nodes are at {coords}")));
            }
        }
        let unnamed =
            |i: usize| plain.nodes().nth(i).map(|n| plain.coords(n).to_string()).unwrap_or_default();
        let missing = names.iter().position(Option::is_none);
        match (missing, self.file.node.last()) {
            (Some(i), Some(last)) => {
                Err(self.wrong(last, format!("the list ends and node {} has no name", unnamed(i))))
            }
            _ => Ok(names.into_iter().flatten().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(Path::new("t.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn the_example_loads() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/angara-torus.toml");
        let source = load(path.to_str().unwrap()).unwrap();
        assert_eq!(source.torus.size_text(), "4x2x2x2");
        let name = NodeName::new("node-3110").unwrap();
        let node = source.torus.node_named(&name).unwrap();
        assert_eq!(source.torus.coords(node).to_string(), "3.1.1.0");
        assert_eq!(source.transit, Some(Transit::Job));
        assert_eq!(source.torus.healthy_nodes().len(), 31);
    }

    #[test]
    fn bad_files_name_file_and_line() {
        for (text, wanted) in [
            ("sizes = [4, 0]\n", "t.toml:1: dimension 2 has size 0"),
            ("\nsizes = [4, 1]\n", "t.toml:2: dimension 2 has size 1"),
            ("sizes = [2, 2, 2, 2, 2]", "t.toml:1: a torus has 1 to 4 dimensions"),
            ("sizes = [4, 2]\nnames = \"n{x}\"\n", "t.toml:2: \"n0\" is the name of 0.0 and 0.1"),
            ("sizes = [4, 2]\nnames = \"n{q}\"\n", "t.toml:2: name pattern"),
            ("sizes = [4, 2]\nfailed = [\"1.0\",\n \"9.0\"]\n", "t.toml:3: node 9.0 is outside"),
            ("sizes = [4, 2]\ncabling = [\"ring\"]\n", "t.toml:2: 1 cablings for 2 dimensions"),
            ("sizes = [4, 2]\nfoo = 1\n", "t.toml:2: there is no key \"foo\" here"),
            ("sizes = [4, 2", "t.toml:1: "),
            (
                "sizes = [2]\n[[node]]\nname = \"a\"\nat = [0]\n",
                "t.toml:2: the list ends and node 1 has no name",
            ),
            ("sizes = [2]\n[[node]]\nname = \"a\"\nat = [2]\n", "t.toml:2: node a at [2] is outside"),
            (
                "sizes = [2]\nnode = [{name = \"a\", at = [0]},\n{name = \"a\", at = [1]}]\n",
                "t.toml:3: two nodes are called a",
            ),
            (
                "sizes = [2]\nnode = [{name = \"a\", at = [0]},\n{name = \"b\", at = [0]}]\n",
                "t.toml:3: two nodes are at 0",
            ),
        ] {
            let found = error(text);
            assert!(found.starts_with(wanted), "{found}");
        }
    }
}
