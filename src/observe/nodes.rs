//! Slurm node names to terminals: by node description, or by a map file.

mod pattern;

use std::collections::BTreeMap;
use std::path::Path;

use self::pattern::Pattern;
use crate::model::{Fabric, FileError, Guid, NodeMap, NodeName, Role, Terminal, TerminalId};

/// A map file: what an administrator says about which adapter is which node.
///
/// One line per adapter or port, `KEY NAME`; `#` begins a comment. The key is a GUID of an adapter
/// or of a port (`0x0002c90300080e84`, or `H-0002c90300080e84` as ibnetdiscover calls it) or a
/// node description, in quotation marks if it looks like one of these. A description with `{node}`
/// in it is a pattern for those that no other line names: `"{node}-ib mlx5_{rail}" {node}` (see
/// `pattern`); of several the first that fits counts. Adapters of one node that lines with GUIDs name are in the
/// order of these lines. Lines about switches
/// (`S-…`) and about what is not in the fabric have no effect: one file may serve many tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeNames {
    /// With their lines.
    by_guid: BTreeMap<Guid, (usize, NodeName)>,
    by_description: BTreeMap<String, NodeName>,
    /// With their lines.
    patterns: Vec<(usize, Pattern)>,
}

/// What gave an adapter its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// A line of the map file with a GUID.
    Guid,
    /// A line with the description.
    Description,
    /// A line with a pattern.
    Pattern {
        /// Its number, from 1.
        line: usize,
    },
    /// The description begins with it (see [`name_in`]).
    Itself,
}

/// A name and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Name that Slurm has for it.
    pub node: NodeName,
    /// The place of the adapter among those of its node: the number that a pattern finds, or the line with its GUID.
    pub rail: Option<u32>,
    /// The rule.
    pub by: NamedBy,
}

/// What the first part of a line of a map file means.
enum Key {
    Guid(Guid),
    Description(String),
}

impl NodeNames {
    /// Reads a map file.
    ///
    /// # Errors
    /// [`FileError`] with file and line.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path).map_err(FileError::io(path))?;
        Self::parse(path, super::without_mark(&text))
    }

    /// Reads the text of a map file; `path` is for messages.
    ///
    /// # Errors
    /// [`FileError::Line`]: no name, not a GUID, not a node name, or a second name for a key.
    pub fn parse(path: &Path, text: &str) -> Result<Self, FileError> {
        let mut names = Self::default();
        for (i, line) in text.lines().enumerate() {
            names.line(i + 1, line).map_err(|reason| FileError::line(path, i + 1, reason))?;
        }
        Ok(names)
    }

    fn line(&mut self, at: usize, line: &str) -> Result<(), String> {
        let line = without_comment(line).trim();
        if line.is_empty() {
            return Ok(());
        }
        let (key, name) =
            line.rsplit_once(char::is_whitespace).ok_or("wants a GUID or description and a name")?;
        if key.contains("{node}") {
            let pattern = Pattern::new(key.trim().trim_matches('"'), name.trim_matches('"'))?;
            self.patterns.push((at, pattern));
            return Ok(());
        }
        let name = NodeName::new(name.trim_matches('"')).map_err(|e| e.to_string())?;
        let before = match parse_key(key.trim())? {
            Key::Guid(guid) => {
                let known = self.by_guid.get(&guid).map_or(at, |known| known.0);
                self.by_guid.insert(guid, (known, name.clone())).map(|known| known.1)
            }
            Key::Description(text) => self.by_description.insert(text, name.clone()),
        };
        match before.filter(|before| *before != name) {
            Some(before) => Err(format!("{key} is already named {before}")),
            None => Ok(()),
        }
    }

    /// The node of a host's adapter: by GUID, by description, by pattern, or else by what the
    /// description begins with.
    pub fn name(&self, terminal: &Terminal) -> Option<Named> {
        let named = |node: &NodeName, by| Named { node: node.clone(), rail: None, by };
        let by_guid = self.by_guid.get(&terminal.port_guid).or_else(|| self.by_guid.get(&terminal.node_guid));
        let description = &terminal.description;
        let by_pattern = || {
            let mut found = self.patterns.iter().filter_map(|(line, p)| Some((*line, p.name(description)?)));
            found.next().map(|(line, (node, rail))| Named { node, rail, by: NamedBy::Pattern { line } })
        };
        by_guid
            .map(|(line, node)| Named { rail: u32::try_from(*line).ok(), ..named(node, NamedBy::Guid) })
            .or_else(|| self.by_description.get(description).map(|node| named(node, NamedBy::Description)))
            .or_else(by_pattern)
            .or_else(|| name_in(description).map(|node| named(&node, NamedBy::Itself)))
    }
}

impl NodeNames {
    /// Whether the map file itself, and not only what the adapters say, names one of a fabric's.
    pub fn names_any(&self, fabric: &Fabric) -> bool {
        let mut named = fabric.terminal_ids().filter_map(|t| self.name(fabric.terminal(t)));
        named.any(|named| named.by != NamedBy::Itself)
    }
}

/// Cuts at a `#` outside quotation marks that begins the line or follows a blank.
fn without_comment(line: &str) -> &str {
    let (mut quoted, mut blank) = (false, true);
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if blank && !quoted => return &line[..at],
            _ => {}
        }
        blank = c.is_whitespace();
    }
    line
}

fn parse_key(key: &str) -> Result<Key, String> {
    if let Some(text) = key.strip_prefix('"').and_then(|k| k.strip_suffix('"')) {
        return Ok(Key::Description(text.to_string()));
    }
    let hex = |k: &str| k.len() == 16 && k.bytes().all(|b| b.is_ascii_hexdigit());
    let guid = ["0x", "H-", "S-", "R-"].iter().find_map(|prefix| key.strip_prefix(prefix));
    match guid.or_else(|| hex(key).then_some(key)) {
        Some(digits) if !digits.starts_with("0x") => digits.parse().map(Key::Guid).map_err(|e| e.to_string()),
        Some(_) => Err(format!("{key:?} is not a GUID")),
        None => Ok(Key::Description(key.to_string())),
    }
}

/// Names the hosts of a fabric: by the map file where it says something, else by description.
/// All ports of all adapters of a node are the node's, in the order of rails where the map says it. What
/// has no name is listed, never guessed; aggregation nodes belong to no node and are not listed.
/// O(terminals × (log terminals + patterns)).
pub fn name_hosts(fabric: &Fabric, names: &NodeNames) -> NodeMap {
    let mut by_name: BTreeMap<NodeName, Vec<(Option<u32>, TerminalId)>> = BTreeMap::new();
    let mut unnamed = Vec::new();
    for t in fabric.terminal_ids() {
        let terminal = fabric.terminal(t);
        if terminal.role == Role::Aggregation {
            continue;
        }
        match names.name(terminal) {
            Some(named) => by_name.entry(named.node).or_default().push((named.rail, t)),
            None => unnamed.push(t),
        }
    }
    let in_order = |(name, mut adapters): (NodeName, Vec<(Option<u32>, TerminalId)>)| {
        adapters.sort_by_key(|(rail, _)| (rail.is_none(), *rail));
        (name, adapters.into_iter().map(|(_, t)| t).collect())
    };
    NodeMap::new(by_name.into_iter().map(in_order).collect(), unnamed).on(fabric)
}

/// The node name in a node description: `n1`, `n1 HCA-2`, `n1 mlx5_0`. `None` for a product's name
/// (`MT25408 ConnectX Mellanox Technologies`) and for a host that does not know its own.
pub fn name_in(description: &str) -> Option<NodeName> {
    let mut words = description.split_whitespace();
    let (name, device) = (words.next()?, words.next());
    if words.next().is_some() || !device.is_none_or(is_device) {
        return None;
    }
    let product = name.strip_prefix("MT").is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    let nobody = name == "localhost" || name.starts_with("localhost.") || name == "(none)";
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if product || nobody || !name.chars().all(legal) {
        return None;
    }
    NodeName::new(name).ok()
}

/// `HCA-1`, `mlx5_0`, `ibp65s0`: what follows the host name in a description.
fn is_device(word: &str) -> bool {
    if let Some(number) = word.strip_prefix("HCA-") {
        return !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    }
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(legal)
        && word.contains(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    #[test]
    fn descriptions_with_a_host_name_give_it() {
        for (description, name) in [
            ("n1", "n1"),
            ("n1 HCA-1", "n1"),
            ("a08-p1-dgx-04-c01 mlx5_5", "a08-p1-dgx-04-c01"),
            ("B11-P1-CUFM-02 mlx5_1", "B11-P1-CUFM-02"),
            ("r-ufm101 HCA-2", "r-ufm101"),
            ("node7 ibp65s0f1", "node7"),
            ("  n1  HCA-1 ", "n1"),
        ] {
            assert_eq!(name_in(description).unwrap().as_str(), name, "{description}");
        }
    }

    #[test]
    fn descriptions_without_a_host_name_give_none() {
        for description in [
            "",
            "MT25408 ConnectX Mellanox Technologies",
            "MT4129 ConnectX7   Mellanox Technologies",
            "MT4123 ConnectX6",
            "MT25408",
            "localhost HCA-6",
            "localhost",
            "localhost.localdomain mlx5_0",
            "(none) HCA-1",
            "Mellanox Technologies Aggregation Node",
            "n1 HCA-",
            "n1 storage",
            "n[1-2] HCA-1",
            "n1,n2",
        ] {
            assert_eq!(name_in(description), None, "{description}");
        }
    }

    /// Ports of host n1 in `fattree:1x2,1`: node GUID 0x100000, port GUID 0x100001.
    fn named(map: &str) -> Vec<(String, usize)> {
        let fabric = generate("fattree:1x2,1").unwrap();
        let names = NodeNames::parse(Path::new("m"), map).unwrap();
        let map = name_hosts(&fabric, &names);
        map.names().map(|n| (n.to_string(), map.terminals(n).len())).collect()
    }

    #[test]
    fn a_map_file_wins_over_descriptions() {
        let both = |a: &str, b: &str| vec![(a.to_string(), 1), (b.to_string(), 1)];
        assert_eq!(named("# nothing\n\n"), both("n1", "n2"));
        assert_eq!(named("0x100000 a"), both("a", "n2"));
        assert_eq!(named("0x100001 a # port GUID"), both("a", "n2"));
        assert_eq!(named("H-0000000000100000\ta"), both("a", "n2"));
        assert_eq!(named("0000000000100000 \"a\""), both("a", "n2"));
        assert_eq!(named("n1 a\n\"n2\" b"), both("a", "b"));
        assert_eq!(named("S-0000000000200000 leaf\n0x77 gone"), both("n1", "n2"));
        assert_eq!(named("n1 a\nn2 a"), [("a".to_string(), 2)]);
    }

    #[test]
    fn patterns_name_what_no_other_line_does() {
        assert_eq!(named("\"n{node}\" host{node}"), [("host1".to_string(), 1), ("host2".to_string(), 1)]);
        let both = named("n2 b\n\"{node}\" x-{node}\n\"n{node}\" y{node}");
        assert_eq!(
            both,
            [("b".to_string(), 1), ("x-n1".to_string(), 1)],
            "lines first, then patterns in order"
        );
    }

    #[test]
    fn bad_lines_are_refused_with_their_number() {
        for bad in [
            "\"{node} {nod}\" {node}",
            "\"{node} {rail\" {node}",
            "\"{node}{node}\" {node}",
            "\"{node} x\" n1",
            "\"{node} x\" -{node}",
            "0x100000",
            "H-xyz a",
            "0x a",
            "0x0x10 a",
            "H-0x10 a",
            "0x0 a",
            "n1 -a",
            "n1 b",
        ] {
            let error = NodeNames::parse(Path::new("m"), &format!("# map\nn1 a\n{bad}\n")).unwrap_err();
            assert!(error.to_string().starts_with("m:3: "), "{bad}: {error}");
        }
    }
}
