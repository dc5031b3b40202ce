//! What a job says that it exchanges, as placement looks at it: some steps of each of its patterns.
//!
//! A step takes as long as its fullest channel: the job's own messages in it, and what running jobs send there in the
//! mean of their own steps. What that makes of the whole exchange is the law of [`crate::measure::slowdowns`].

use crate::measure::slowdown_of_steps;
use crate::model::{Adapters, Mix, Partners, Pattern, Phase};

/// Steps of a pattern that are looked at; of longer ones so many, evenly spaced.
const MOST_STEPS: usize = 8;

/// What a job of a question exchanges, ready for sets of as many ranks.
#[derive(Debug)]
pub struct Asked<'q> {
    mix: &'q Mix,
    made: Option<(usize, Adapters, Exchange)>,
}

/// The steps that are looked at.
#[derive(Debug)]
pub struct Exchange(Vec<Part>);

/// A pattern of the mix.
#[derive(Debug)]
struct Part {
    pattern: Pattern,
    /// Its part of the job's traffic.
    share: f64,
    /// Each with its part of the pattern.
    steps: Vec<(f64, Phase)>,
}

impl<'q> Asked<'q> {
    /// A job with this mix.
    pub fn new(mix: &'q Mix) -> Self {
        Self { mix, made: None }
    }

    /// Exchanges of the job, with weights.
    pub fn mix(&self) -> &'q Mix {
        self.mix
    }

    /// The steps among so many ranks; made anew only for another number of them.
    pub fn among(&mut self, ranks: usize, adapters: Adapters) -> &Exchange {
        let made = self.made.take().filter(|(n, among, _)| (*n, *among) == (ranks, adapters));
        let new = || (ranks, adapters, Exchange::of(self.mix, ranks, adapters));
        &self.made.insert(made.unwrap_or_else(new)).2
    }
}

impl Exchange {
    fn of(mix: &Mix, ranks: usize, adapters: Adapters) -> Self {
        let all: f64 = mix.parts().iter().map(|part| f64::from(part.1)).sum();
        let part = |(pattern, weight): &(Pattern, u16)| {
            let phases = pattern.phases_among(ranks, adapters);
            let n = phases.len().min(MOST_STEPS);
            // The middle ones of n equal stretches.
            let chosen = (0..n).map(|i| phases[(2 * i + 1) * phases.len() / (2 * n)].clone());
            let chosen: Vec<Phase> = chosen.collect();
            let sum: f64 = chosen.iter().map(|phase| f64::from(phase.share)).sum();
            let steps = chosen.into_iter().map(|phase| (f64::from(phase.share) / sum, phase)).collect();
            Part { pattern: *pattern, share: f64::from(*weight) / all, steps }
        };
        Self(mix.parts().iter().map(part).collect())
    }

    /// Slow-down of the exchange. `time` is asked how many times what the hosts' cables need a step takes, and is told
    /// the step's part of the job's traffic.
    pub fn slowdown(&self, mut time: impl FnMut(&Partners, f64) -> f64) -> f64 {
        let of = |part: &Part| {
            let steps = part.steps.iter();
            let mean: f64 =
                steps.map(|(share, step)| share * time(&step.partners, part.share * share).max(1.0)).sum();
            part.share * slowdown_of_steps(part.pattern, mean)
        };
        self.0.iter().map(of).sum()
    }
}

/// What decides between slow-downs: differences below a thousandth are none.
pub fn grade(slowdown: f64) -> u64 {
    (slowdown * 1000.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_by_weight_and_steps_by_share() {
        let mix: Mix = "3*neighbor+halo2d".parse().unwrap();
        let mut asked = Asked::new(&mix);
        let mut seen = 0.0;
        let slowdown = asked.among(4, Adapters::default()).slowdown(|_, part| {
            seen += part;
            1.0
        });
        assert!((seen - 1.0).abs() < 1e-6 && (slowdown - 1.0).abs() < 1e-6, "{seen} {slowdown}");
        // Steps that take twice as long cost the power of the pattern's law, in its share.
        let of = |pattern| slowdown_of_steps(pattern, 2.0);
        let slowdown = asked.among(4, Adapters::default()).slowdown(|_, _| 2.0);
        let want = 0.75 * of(Pattern::Neighbor) + 0.25 * of("halo2d".parse().unwrap());
        assert!((slowdown - want).abs() < 1e-6, "{slowdown} {want}");
        assert!(of(Pattern::Neighbor) > of("halo2d".parse().unwrap()));
    }
}
