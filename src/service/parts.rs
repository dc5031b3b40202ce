//! Nodes that no cable joins with others.

use std::collections::BTreeMap;

use crate::model::{Fabric, NodeMap, NodeName};

/// The part of a fabric that each switch is in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts {
    /// By switch, as [`Fabric::parts`].
    of: Vec<u32>,
}

impl Parts {
    /// O(channels).
    pub(crate) fn of(fabric: &Fabric) -> Self {
        Self { of: fabric.parts() }
    }

    /// Those of these nodes that cannot reach some others of them, over none of their adapters: the fewest that
    /// have the same adapters' parts. Empty if all reach each other; rails that are fabrics of their own part
    /// nobody. O(nodes × log nodes), at once where there is one part.
    pub(crate) fn apart<'a>(
        &self,
        fabric: &Fabric,
        map: &NodeMap,
        nodes: impl IntoIterator<Item = &'a NodeName>,
    ) -> Vec<NodeName> {
        if self.of.iter().all(|part| *part == self.of[0]) {
            return Vec::new();
        }
        let mut sides: BTreeMap<Vec<u32>, Vec<NodeName>> = BTreeMap::new();
        for node in nodes {
            let part = |t: &_| self.of[fabric.terminal(*t).switch.index()];
            let mut side: Vec<u32> = map.terminals(node).iter().map(part).collect();
            side.sort_unstable();
            side.dedup();
            if !side.is_empty() {
                sides.entry(side).or_default().push(node.clone());
            }
        }
        let meets = |a: &[u32], b: &[u32]| a.iter().any(|part| b.contains(part));
        let lonely = sides.iter().filter(|(side, _)| !sides.keys().all(|other| meets(side, other)));
        lonely.map(|(_, nodes)| nodes).min_by_key(|nodes| nodes.len()).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::TerminalId;
    use crate::observe::nodes::{NodeNames, name_hosts};

    fn apart(fabric: &Fabric, map: &NodeMap) -> Vec<String> {
        Parts::of(fabric).apart(fabric, map, map.names()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rails_without_a_cable_between_them_part_nobody() {
        for spec in ["fattree:4x4,2", "rails:2x2,2,2,apart=1"] {
            let fabric = generate(spec).unwrap();
            assert_eq!(apart(&fabric, &name_hosts(&fabric, &NodeNames::default())), [""; 0], "{spec}");
        }
    }

    #[test]
    fn the_fewer_that_no_cable_joins_with_the_others_are_named() {
        let fabric = generate("rails:2x2,2,2,apart=1").unwrap();
        let parts = Parts::of(&fabric).of;
        let of = |t: &TerminalId| parts[fabric.terminal(*t).switch.index()];
        let terminals: Vec<TerminalId> = fabric.terminal_ids().collect();
        let (first, second): (Vec<TerminalId>, Vec<TerminalId>) =
            terminals.iter().partition(|t| of(t) == of(&terminals[0]));
        let name = |text: &str| text.parse::<NodeName>().unwrap();
        let mut names = BTreeMap::from([(name("a"), vec![first[0]]), (name("b"), vec![first[1]])]);
        names.insert(name("c"), vec![second[0]]);
        assert_eq!(apart(&fabric, &NodeMap::new(names.clone(), Vec::new())), ["c"]);
        // A node on both sides reaches all, and the others still not each other.
        names.insert(name("d"), vec![first[2], second[1]]);
        assert_eq!(apart(&fabric, &NodeMap::new(names.clone(), Vec::new())), ["c"]);
        names.remove(&name("c"));
        assert_eq!(apart(&fabric, &NodeMap::new(names, Vec::new())), [""; 0]);
    }
}
