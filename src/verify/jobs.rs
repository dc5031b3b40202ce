//! One layer per job: programs that use one service level for everything (UCX, NCCL) need all
//! routes between their nodes on one layer.

use super::finding::{Findings, Kind};
use super::{Checks, Finding, judge_all};
use crate::model::{DestId, Fabric, Group, Layer, LayerBudget, SwitchId, Tables};

/// The routes inside a group as (source switch, destination), those that cross a cable only.
fn routes<'a>(fabric: &'a Fabric, group: &'a Group) -> impl Iterator<Item = (SwitchId, DestId)> + 'a {
    let mut switches: Vec<SwitchId> = group.terminals.iter().map(|t| fabric.terminal(*t).switch).collect();
    switches.sort_unstable();
    switches.dedup();
    let of = move |t: &_| {
        let dest = fabric.dest_of_terminal(*t);
        let from: Vec<_> = switches.iter().filter(|s| **s != fabric.home(dest)).map(|s| (*s, dest)).collect();
        from
    };
    group.terminals.iter().flat_map(of)
}

/// Layers of the routes inside a group, ascending. O(members × their switches).
pub fn layers_of_group(fabric: &Fabric, tables: &Tables, group: &Group) -> Vec<Layer> {
    let mut layers: Vec<Layer> = routes(fabric, group).filter_map(|(s, d)| tables.layer(s, d)).collect();
    layers.sort_unstable();
    layers.dedup();
    layers
}

/// A finding for each group whose routes are on several layers.
pub(super) fn check(fabric: &Fabric, tables: &Tables, groups: &[Group], findings: &mut Findings) {
    for group in groups {
        let layers = layers_of_group(fabric, tables, group);
        if layers.len() > 1 {
            let (first, last) = (group.terminals.first(), group.terminals.last());
            let name = |t: Option<&_>| t.map_or(String::new(), |t| fabric.terminal(*t).description.clone());
            findings.add(Kind::JobOnSeveralLayers, || Finding::JobOnSeveralLayers {
                hosts: group.terminals.len(),
                first: name(first),
                last: name(last),
                layers: layers.iter().map(|l| l.get()).collect(),
            });
        }
    }
}

/// Whether no cycle arises if each of these groups sends all that it sends inside itself on its
/// layer, whatever layers the tables give its routes. O(groups) verdicts' sweeps.
pub fn is_safe_with(fabric: &Fabric, tables: &Tables, budget: LayerBudget, bound: &[(Group, Layer)]) -> bool {
    if bound.is_empty() {
        return true;
    }
    let on = |(group, layer): &&(Group, Layer)| layers_of_group(fabric, tables, group)[..] != [*layer];
    let mut together = vec![tables.clone()];
    together.extend(bound.iter().filter(on).map(|(group, layer)| moved(fabric, tables, group, *layer)));
    together.len() == 1 || judge_all(fabric, &together, budget, Checks::default()).accepted
}

/// The lowest layer, of those in use, on which each of these groups may send all that it sends
/// inside itself, whatever layers the tables give its routes; all together, one after the other.
/// `None`: there is none, a cycle would arise. `bound` are groups that send on one layer already.
///
/// The tables must have been accepted. O((groups × layers) verdicts).
pub fn safe_layers(
    fabric: &Fabric,
    tables: &Tables,
    budget: LayerBudget,
    bound: &[(Group, Layer)],
    groups: &[Group],
) -> Vec<Option<Layer>> {
    let mut together = vec![tables.clone()];
    together.extend(bound.iter().map(|(group, layer)| moved(fabric, tables, group, *layer)));
    let mut used: Vec<Layer> =
        (0..tables.layers_used()).filter_map(|l| Layer::new(u64::from(l)).ok()).collect();
    used.truncate(usize::from(budget.get()));
    let mut place = |group: &Group| {
        if let [one] = layers_of_group(fabric, tables, group)[..] {
            return Some(one);
        }
        used.iter().copied().find(|layer| {
            together.push(moved(fabric, tables, group, *layer));
            let accepted = judge_all(fabric, &together, budget, Checks::default()).accepted;
            if !accepted {
                together.pop();
            }
            accepted
        })
    };
    groups.iter().map(&mut place).collect()
}

/// The tables with all routes inside a group on one layer.
fn moved(fabric: &Fabric, tables: &Tables, group: &Group, layer: Layer) -> Tables {
    tables.clone().edited(|_, layers| {
        for (s, d) in routes(fabric, group) {
            let at = &mut layers[d.index() * fabric.switches().len() + s.index()];
            if *at != Tables::NO_LAYER {
                *at = layer.get();
            }
        }
    })
}
