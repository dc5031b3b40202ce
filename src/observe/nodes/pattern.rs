//! Patterns of node descriptions: `{node}-ib mlx5_{rail}`.

use crate::model::NodeName;

/// A pattern for descriptions, and what node is meant by one that fits.
///
/// `{node}` stands for a part of the node's name, `{rail}` for a number by which the adapters of a node
/// are put in order, `*` for any text; all else stands for itself, in upper or lower case. What is to
/// the right of it in the map file says the name: `{node}`, with more text before or behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
    /// Text before and behind the node's part of the name.
    around: (String, String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Node,
    Rail,
    Any,
}

/// What the parts of a pattern stand for in a description.
#[derive(Debug, Clone, Copy, Default)]
struct Found<'a> {
    node: &'a str,
    rail: Option<u32>,
}

impl Pattern {
    /// # Errors
    /// What is wrong with the pattern or the name.
    pub(super) fn new(pattern: &str, name: &str) -> Result<Self, String> {
        let parts = parts(pattern)?;
        for (part, what) in [(Part::Node, "{node}"), (Part::Rail, "{rail}")] {
            if parts.iter().filter(|p| **p == part).count() > 1 {
                return Err(format!("{pattern:?} has {what} twice"));
            }
        }
        let wanted = || format!("the name for {pattern:?} wants {{node}} in it, once: {name:?}");
        let (before, behind) = name.split_once("{node}").ok_or_else(wanted)?;
        // With any node, the whole must be a name.
        NodeName::new(format!("{before}n{behind}")).map_err(|e| e.to_string())?;
        Ok(Self { parts, around: (before.to_string(), behind.to_string()) })
    }

    /// The node and the place among its adapters, if the description fits.
    pub(super) fn name(&self, description: &str) -> Option<(NodeName, Option<u32>)> {
        let found = fits(&self.parts, description, Found::default())?;
        let (before, behind) = &self.around;
        let node = NodeName::new(format!("{before}{}{behind}", found.node)).ok()?;
        Some((node, found.rail))
    }
}

fn parts(mut text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    while let Some(at) = text.find(['{', '*']) {
        if at > 0 {
            parts.push(Part::Text(text[..at].to_string()));
        }
        let rest = &text[at..];
        let (part, length) = if rest.starts_with('*') {
            (Part::Any, 1)
        } else if rest.starts_with("{node}") {
            (Part::Node, "{node}".len())
        } else if rest.starts_with("{rail}") {
            (Part::Rail, "{rail}".len())
        } else {
            return Err(format!("{rest:?} begins with none of {{node}}, {{rail}} and *"));
        };
        parts.push(part);
        text = &rest[length..];
    }
    if !text.is_empty() {
        parts.push(Part::Text(text.to_string()));
    }
    Ok(parts)
}

/// Tries the longest text for each part first.
fn fits<'a>(parts: &[Part], text: &'a str, found: Found<'a>) -> Option<Found<'a>> {
    let Some((part, rest)) = parts.split_first() else { return text.is_empty().then_some(found) };
    let legal: fn(char) -> bool = match part {
        Part::Text(wanted) => {
            let (head, tail) = text.split_at_checked(wanted.len())?;
            return if head.eq_ignore_ascii_case(wanted) { fits(rest, tail, found) } else { None };
        }
        Part::Node => |c| c.is_ascii_alphanumeric() || "-_.".contains(c),
        Part::Rail => |c| c.is_ascii_digit(),
        Part::Any => |_| true,
    };
    let longest = text.find(|c| !legal(c)).unwrap_or(text.len());
    let least = usize::from(*part != Part::Any);
    (least..=longest).rev().filter(|end| text.is_char_boundary(*end)).find_map(|end| {
        let (head, tail) = text.split_at(end);
        let found = match part {
            Part::Node => Found { node: head, ..found },
            Part::Rail => Found { rail: Some(head.parse().ok()?), ..found },
            Part::Any | Part::Text(_) => found,
        };
        fits(rest, tail, found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(pattern: &str, name: &str, description: &str) -> Option<(String, Option<u32>)> {
        let pattern = Pattern::new(pattern, name).unwrap();
        pattern.name(description).map(|(node, rail)| (node.to_string(), rail))
    }

    #[test]
    fn a_description_that_fits_gives_node_and_rail() {
        let some = |node: &str, rail| Some((node.to_string(), rail));
        assert_eq!(name("{node}-ib mlx5_{rail}", "{node}", "n1-ib mlx5_12"), some("n1", Some(12)));
        assert_eq!(name("{node}-ib mlx5_{rail}", "{node}", "N1-IB MLX5_2"), some("N1", Some(2)));
        assert_eq!(name("{node} *", "{node}.hpc", "n1 Infinity Fabric é"), some("n1.hpc", None));
        assert_eq!(name("rack? {node}", "x{node}", "rack? 7"), some("x7", None));
        assert_eq!(name("*-{node}-hca{rail}", "{node}", "r1-a-n7-hca3"), some("n7", Some(3)));
    }

    #[test]
    fn a_description_that_does_not_fit_gives_none() {
        for description in
            ["n1 mlx5_0", "n1-ib mlx5_", "n1-ib mlx5_0 x", "-ib mlx5_0", "n 1-ib mlx5_0", "", "é"]
        {
            assert_eq!(name("{node}-ib mlx5_{rail}", "{node}", description), None, "{description}");
        }
    }
}
