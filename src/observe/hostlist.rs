//! Slurm host lists: `n[1-4,9]`, `a[01-10]b`, `r[1-2]n[3-4]`.
//!
//! The crate `nodeset` was tried and refuses names that Slurm allows (`S-0002c90200417670`: more
//! digits than 32 bits hold; `tux[1-3][0-1]`), reads an unknown `@group` as no node at all, and
//! has no bound on the size of a range.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{IdError, NodeName};

/// The most nodes one host list may stand for: beyond any machine, well below what hurts.
pub const MAX_NODES: usize = 1 << 20;

/// The most bytes that the names of [`MAX_NODES`] nodes may take together.
const MAX_BYTES: usize = 64 << 20;

/// What host lists may still stand for. Several lists of one text share one: what the first takes,
/// the second does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Nodes that one list may have.
    pub per_list: usize,
    /// Nodes that are left for all of them.
    pub nodes: usize,
    /// Bytes that are left for all their names.
    pub bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { per_list: MAX_NODES, nodes: MAX_NODES, bytes: MAX_BYTES }
    }
}

impl Budget {
    /// For what a stranger writes about a machine of so many nodes: no list has more than the machine,
    /// and all of them together have it some times over, as jobs may share nodes.
    pub fn of_machine(nodes: usize) -> Self {
        const SHARED: usize = 8;
        const LEAST: usize = 1 << 16;
        let all = nodes.saturating_mul(SHARED).clamp(LEAST, MAX_NODES);
        Self { per_list: nodes.clamp(1, MAX_NODES), nodes: all, bytes: MAX_BYTES }
    }
}

/// A host list that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostlistError {
    /// Nothing between two commas, or nothing at all.
    #[error("host list {list:?} has an empty entry")]
    Empty {
        /// The list as written.
        list: String,
    },
    /// `[` and `]` do not pair up, or nest.
    #[error("host list {list:?}: brackets do not match")]
    Brackets {
        /// The list as written.
        list: String,
    },
    /// Not `number` or `low-high`.
    #[error("host list {list:?}: {range:?} is not a number or a range of numbers")]
    Range {
        /// The list as written.
        list: String,
        /// The wrong piece.
        range: String,
    },
    /// More than its [`Budget`] allows.
    #[error("host list {list:?} stands for more than the {most} nodes that are possible here")]
    TooMany {
        /// The list as written.
        list: String,
        /// The bound.
        most: usize,
    },
    /// Names that take more bytes than its [`Budget`] allows.
    #[error("host list {list:?}: the names are too long together")]
    TooLong {
        /// The list as written.
        list: String,
    },
    /// A name with a forbidden character.
    #[error("host list {list:?}: {source}")]
    Name {
        /// The list as written.
        list: String,
        /// What is wrong with the name.
        source: IdError,
    },
}

/// A piece of an entry: plain text is one alternative, a bracket has ranges.
enum Piece<'a> {
    Text(&'a str),
    Ranges(Vec<Range>),
}

/// `low-high`, printed with at least `width` digits.
struct Range {
    low: u64,
    high: u64,
    width: usize,
}

/// The nodes of a host list, in the order written (rightmost bracket fastest), repetitions kept.
///
/// Numbers are padded to the width of the low end of their range, as Slurm does.
/// O(length of the result), which is at most [`MAX_NODES`].
///
/// # Errors
/// [`HostlistError`] with the list as written; an empty list is one.
///
/// ```
/// let nodes = sarouter::observe::hostlist::expand("r[1-2]n[09-10],login")?;
/// let nodes: Vec<&str> = nodes.iter().map(|n| n.as_str()).collect();
/// assert_eq!(nodes, ["r1n09", "r1n10", "r2n09", "r2n10", "login"]);
/// # Ok::<(), sarouter::observe::hostlist::HostlistError>(())
/// ```
pub fn expand(list: &str) -> Result<Vec<NodeName>, HostlistError> {
    expand_within(list, &mut Budget::default())
}

/// The same within what is left of a budget, from which the nodes are taken. What does not fit is
/// refused before memory is taken for it.
///
/// # Errors
/// As [`expand`].
pub fn expand_within(list: &str, budget: &mut Budget) -> Result<Vec<NodeName>, HostlistError> {
    let list = list.trim();
    let most = budget.per_list.min(budget.nodes);
    let mut names = Vec::new();
    for entry in entries(list)? {
        let pieces = pieces(list, entry)?;
        let (count, length) = size(&pieces);
        if count > (most - names.len()) as u64 {
            return Err(HostlistError::TooMany { list: shortened(list), most });
        }
        // A name that is too long by itself is refused as what it is.
        let bytes = count.saturating_mul(length.min(LONGEST_NAME));
        let left = (budget.bytes as u64).checked_sub(bytes);
        budget.bytes = left.ok_or_else(|| HostlistError::TooLong { list: shortened(list) })? as usize;
        write_names(&pieces, &mut String::new(), &mut names)
            .map_err(|source| HostlistError::Name { list: shortened(list), source })?;
    }
    budget.nodes -= names.len();
    Ok(names)
}

/// How many names an entry stands for, and how long the longest is at most.
fn size(pieces: &[Piece<'_>]) -> (u64, u64) {
    pieces.iter().fold((1u64, 0u64), |(count, length), piece| match piece {
        Piece::Text(text) => (count, length + text.len() as u64),
        Piece::Ranges(ranges) => {
            let numbers = ranges.iter().fold(0u64, |n, r| n.saturating_add(r.len()));
            let digits = ranges.iter().map(Range::digits).max().unwrap_or(0);
            (count.saturating_mul(numbers), length + digits)
        }
    })
}

/// No node name is longer.
const LONGEST_NAME: u64 = 255;

/// A short host list of these nodes: [`expand`] of it gives the same set. Sorted by prefix, then
/// number; padded numbers are kept apart from others. O(n log n).
///
/// ```
/// use sarouter::observe::hostlist::{expand, fold};
/// let nodes = expand("login,r1n[08-11],r1n[1-3]")?;
/// assert_eq!(fold(&nodes), "login,r1n[1-3,10-11],r1n[08-09]");
/// # Ok::<(), sarouter::observe::hostlist::HostlistError>(())
/// ```
pub fn fold(nodes: &[NodeName]) -> String {
    // By prefix and padded width (0: not padded).
    let mut families: BTreeMap<(&str, usize), BTreeSet<u64>> = BTreeMap::new();
    let mut plain: BTreeSet<&str> = BTreeSet::new();
    for node in nodes.iter().map(NodeName::as_str) {
        let prefix = node.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &node[prefix.len()..];
        let width = if digits.len() > 1 && digits.starts_with('0') { digits.len() } else { 0 };
        match digits.parse() {
            Ok(number) => drop(families.entry((prefix, width)).or_default().insert(number)),
            Err(_) => drop(plain.insert(node)),
        }
    }
    let mut list: Vec<String> = plain.into_iter().map(str::to_string).collect();
    for ((prefix, width), numbers) in families {
        let numbers: Vec<u64> = numbers.into_iter().collect();
        let ranges: Vec<String> = numbers
            .chunk_by(|a, b| a + 1 == *b)
            .map(|run| match run {
                [one] => format!("{one:0width$}"),
                run => format!("{:0width$}-{:0width$}", run[0], run[run.len() - 1]),
            })
            .collect();
        list.push(match (numbers.len(), ranges.as_slice()) {
            (1, [one]) => format!("{prefix}{one}"),
            _ => format!("{prefix}[{}]", ranges.join(",")),
        });
    }
    list.join(",")
}

/// Splits at commas outside brackets.
fn entries(list: &str) -> Result<Vec<&str>, HostlistError> {
    let (mut found, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' | ']' if inside == (c == '[') => {
                return Err(HostlistError::Brackets { list: shortened(list) });
            }
            '[' => inside = true,
            ']' => inside = false,
            ',' if !inside => {
                found.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(HostlistError::Brackets { list: shortened(list) });
    }
    found.push(&list[start..]);
    if found.iter().any(|entry| entry.is_empty()) {
        return Err(HostlistError::Empty { list: shortened(list) });
    }
    Ok(found)
}

/// Splits an entry whose brackets match at its brackets.
fn pieces<'a>(list: &str, entry: &'a str) -> Result<Vec<Piece<'a>>, HostlistError> {
    let mut pieces = Vec::new();
    for part in entry.split('[') {
        match part.split_once(']') {
            None => pieces.push(Piece::Text(part)),
            Some((ranges, text)) => {
                let ranges: Result<Vec<Range>, _> = ranges.split(',').map(|r| range(list, r)).collect();
                pieces.push(Piece::Ranges(ranges?));
                pieces.push(Piece::Text(text));
            }
        }
    }
    Ok(pieces)
}

fn range(list: &str, text: &str) -> Result<Range, HostlistError> {
    let number = |s: &str| s.bytes().all(|b| b.is_ascii_digit()).then(|| s.parse::<u64>().ok()).flatten();
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (number(low), number(high)) {
        (Some(l), Some(h)) if l <= h => Ok(Range { low: l, high: h, width: low.len() }),
        _ => Err(HostlistError::Range { list: shortened(list), range: shortened(text) }),
    }
}

fn write_names(pieces: &[Piece<'_>], name: &mut String, names: &mut Vec<NodeName>) -> Result<(), IdError> {
    let Some((first, rest)) = pieces.split_first() else {
        names.push(NodeName::new(name.as_str())?);
        return Ok(());
    };
    let length = name.len();
    if length as u64 > LONGEST_NAME {
        // Each bracket adds a digit, so this also bounds the depth of the recursion.
        NodeName::new(name.as_str())?;
    }
    match first {
        Piece::Text(text) => {
            name.push_str(text);
            write_names(rest, name, names)?;
        }
        Piece::Ranges(ranges) => {
            for range in ranges {
                for number in range.low..=range.high {
                    name.truncate(length);
                    name.push_str(&format!("{number:0width$}", width = range.width));
                    write_names(rest, name, names)?;
                }
            }
        }
    }
    name.truncate(length);
    Ok(())
}

impl Range {
    fn len(&self) -> u64 {
        (self.high - self.low).saturating_add(1)
    }
    /// Digits of its longest number.
    fn digits(&self) -> u64 {
        self.width.max(self.high.checked_ilog10().map_or(1, |d| d as usize + 1)) as u64
    }
}

/// For messages: long lists are cut.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(list: &str) -> Vec<String> {
        expand(list).unwrap().iter().map(|n| n.as_str().to_string()).collect()
    }

    #[test]
    fn expands_what_slurm_prints() {
        assert_eq!(names("n[1-4,9]"), ["n1", "n2", "n3", "n4", "n9"]);
        assert_eq!(names("a[09-10]b"), ["a09b", "a10b"]);
        assert_eq!(names("r[1-2]n[3-4]"), ["r1n3", "r1n4", "r2n3", "r2n4"]);
        assert_eq!(names("tux[1-2][0-1]"), ["tux10", "tux11", "tux20", "tux21"]);
        assert_eq!(names("a08-p1-dgx-04-c01"), ["a08-p1-dgx-04-c01"]);
        assert_eq!(names("a08-p1-dgx-04-c[01-02],x"), ["a08-p1-dgx-04-c01", "a08-p1-dgx-04-c02", "x"]);
        assert_eq!(names("H-003048c749450000,S-0002c90200417670").len(), 2);
        assert_eq!(names("n[1,01,001]"), ["n1", "n01", "n001"]);
        assert_eq!(names("n[098-101]"), ["n098", "n099", "n100", "n101"]);
        assert_eq!(names(" n1\n"), ["n1"]);
    }

    #[test]
    fn refuses_what_slurm_never_prints() {
        for list in ["", ",", "a,,b", "a,"] {
            assert!(matches!(expand(list), Err(HostlistError::Empty { .. })), "{list}");
        }
        for list in ["n[1", "n1]", "n[[1]]", "n[1]]", "][", "n[1,2"] {
            assert!(matches!(expand(list), Err(HostlistError::Brackets { .. })), "{list}");
        }
        for list in ["n[]", "n[1-]", "n[-1]", "n[4-1]", "n[a-b]", "n[1-2-3]", "n[+1]", "n[1,]", "n[1-4/2]"] {
            assert!(matches!(expand(list), Err(HostlistError::Range { .. })), "{list}");
        }
        assert!(matches!(expand(&"[1]".repeat(1_000_000)), Err(HostlistError::Name { .. })));
        for list in ["a b", "@group", "-n", "n;rm", "é"] {
            assert!(matches!(expand(list), Err(HostlistError::Name { .. })), "{list}");
        }
    }

    #[test]
    fn huge_lists_are_refused_before_they_are_built() {
        for list in [
            "n[1-1000000000]",
            "n[0-18446744073709551615]",
            "n[1-1024]x[1-1024]y[1-2]",
            "a[1-1000000],b[1-1000000]",
            "n[0-18446744073709551615,0-18446744073709551615][0-9]",
        ] {
            assert!(matches!(expand(list), Err(HostlistError::TooMany { .. })), "{list}");
        }
        assert!(matches!(expand("n[1-99999999999999999999]"), Err(HostlistError::Range { .. })));
        assert_eq!(expand("n[1-1048576]").unwrap().len(), MAX_NODES);
        // Few names, but long ones.
        let long = format!("{}[1-1000000]", "n".repeat(240));
        assert!(matches!(expand(&long), Err(HostlistError::TooLong { .. })));
    }

    #[test]
    fn lists_of_one_text_share_a_budget() {
        let mut budget = Budget { per_list: 4, nodes: 6, bytes: 100 };
        assert!(expand_within("n[1-5]", &mut budget).unwrap_err().to_string().contains("than the 4 nodes"));
        assert_eq!(expand_within("n[1-4]", &mut budget).unwrap().len(), 4);
        assert_eq!(budget.nodes, 2);
        assert!(expand_within("a,b,c", &mut budget).unwrap_err().to_string().contains("than the 2 nodes"));
        assert_eq!(expand_within("a,b", &mut budget).unwrap().len(), 2);
        assert!(matches!(expand_within("a", &mut budget), Err(HostlistError::TooMany { most: 0, .. })));
        // A small machine may have many jobs that share it.
        assert_eq!(Budget::of_machine(16), Budget { per_list: 16, nodes: 1 << 16, bytes: MAX_BYTES });
        assert_eq!(Budget::of_machine(20_000).nodes, 160_000);
        assert_eq!(Budget::of_machine(usize::MAX).nodes, MAX_NODES);
    }

    proptest! {
        #[test]
        fn never_panics(list in "[a-c0-9\\[\\],-]{0,24}") {
            let _ = expand(&list);
        }

        #[test]
        fn a_range_is_its_numbers(low in 0u64..2000, len in 0u64..50, width in 1usize..6) {
            let list = format!("n[{low:0width$}-{}]x", low + len);
            let wanted: Vec<String> = (low..=low + len).map(|n| format!("n{n:0width$}x")).collect();
            prop_assert_eq!(names(&list), wanted);
        }
    }
}
