//! What jobs of other exchanges add to an exchange: their mean traffic.

use super::step::{Flows, Law};
use super::{LEAST_STEPS, Steps, patterns, share};
use crate::model::{Adapters, Mix, Pattern};

/// Mean flows of the jobs that do not exchange in a pattern, by pattern and channel. They are never in step with those
/// that do.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// As [`patterns`]; without an entry where all jobs have all patterns.
    by_pattern: Vec<(Pattern, Vec<f32>)>,
}

impl Others {
    /// Of groups of these sizes and mixes; `collect` has the flows of a step of groups that take part. Nothing, at
    /// once, where all have the same patterns. O(patterns² × steps × hosts of jobs × hops) with few steps.
    pub(super) fn of(
        sizes: &[(usize, Adapters)],
        mixes: &[&Mix],
        channels: usize,
        collect: impl Fn(&[Steps], usize) -> Option<Flows>,
    ) -> Self {
        let all = patterns(mixes.iter().copied());
        let has = |j: usize, pattern: Pattern| mixes[j].parts().iter().any(|part| part.0 == pattern);
        let lacks = |pattern: &Pattern| (0..mixes.len()).any(|j| !has(j, *pattern));
        let mut by_pattern: Vec<(Pattern, Vec<f32>)> =
            all.iter().copied().filter(lacks).map(|pattern| (pattern, vec![0.0; channels])).collect();
        if by_pattern.is_empty() {
            return Self::default();
        }
        for pattern in all {
            let steps = Steps::all(sizes, pattern, LEAST_STEPS, |j| has(j, pattern));
            let weight = |j: usize| share(mixes[j], pattern) as f32 / steps[j].phases.len().max(1) as f32;
            let weight: Vec<f32> = (0..mixes.len()).map(weight).collect();
            let longest = steps.iter().map(|s| s.phases.len()).max().unwrap_or(0);
            // What does not arrive is found, and said, where the exchange itself is looked at.
            for flows in (0..longest).filter_map(|s| collect(&steps, s)) {
                for (other, mean) in &mut by_pattern {
                    let apart = (0..flows.len()).filter(|flow| !has(flows.job(*flow), *other));
                    apart.for_each(|flow| {
                        flows.hops(flow).iter().for_each(|c| mean[*c as usize] += weight[flows.job(flow)]);
                    });
                }
            }
        }
        // Flows of the same pattern meet in a step, and on average; these on average only, and they are as many.
        for (pattern, mean) in &mut by_pattern {
            mean.iter_mut().for_each(|flows| *flows *= Law::of(*pattern).of_others());
        }
        Self { by_pattern }
    }

    /// Beside a pattern, by channel; empty if there are none.
    pub(super) fn beside(&self, pattern: Pattern) -> &[f32] {
        self.by_pattern.iter().find(|(of, _)| *of == pattern).map_or(&[], |(_, mean)| mean)
    }
}
