//! The steps of what a job exchanges, as optimisers ask for them.

use std::collections::BTreeMap;

use crate::model::{Adapters, Mix, Partners};

/// The steps of a mix among `n` ranks, on nodes with so many each, at most so many, each with its share; the shares sum up to `weight`. Equal
/// steps of several patterns are one. O(phases of its patterns).
pub(super) fn of(mix: &Mix, n: usize, adapters: Adapters, weight: f32, most: usize) -> Vec<(f32, Partners)> {
    let sum: f32 = mix.parts().iter().map(|(_, weight)| f32::from(*weight)).sum();
    let (mut steps, mut known): (Vec<(f32, Partners)>, _) = (Vec::new(), BTreeMap::new());
    for (pattern, part) in mix.parts() {
        let weight = weight * f32::from(*part) / sum;
        for phase in pattern.phases_among(n, adapters) {
            let key = (phase.partners.as_shift(), phase.partners.as_xor());
            let at = if key == (None, None) { steps.len() } else { *known.entry(key).or_insert(steps.len()) };
            match steps.get_mut(at) {
                Some((share, _)) => *share += weight * phase.share,
                None => steps.push((weight * phase.share, phase.partners)),
            }
        }
    }
    sample(steps, most)
}

/// So many of the steps at most, that stand for all: those that weigh much, and of the others each n-th.
pub(super) fn sample(steps: Vec<(f32, Partners)>, most: usize) -> Vec<(f32, Partners)> {
    if steps.len() <= most {
        return steps;
    }
    let sum: f32 = steps.iter().map(|(weight, _)| weight).sum();
    let is_heavy = |weight: f32| weight * most as f32 > 2.0 * sum;
    let (heavy, light): (Vec<_>, Vec<_>) = steps.into_iter().partition(|(weight, _)| is_heavy(*weight));
    let every = light.len().div_ceil((most - heavy.len()).max(1));
    let total: f32 = light.iter().map(|(weight, _)| weight).sum();
    let mut chosen: Vec<_> = light.into_iter().skip(every / 2).step_by(every).collect();
    let kept: f32 = chosen.iter().map(|(weight, _)| weight).sum();
    chosen.iter_mut().for_each(|(weight, _)| *weight *= total / kept);
    chosen.extend(heavy);
    chosen
}
