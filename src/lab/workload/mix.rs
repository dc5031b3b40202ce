//! A month of jobs like those of thesis Figure 5.1: seeded arrivals, sizes and run times.

use super::schedule::Request;
use crate::model::rng::Rng;

/// What is submitted on a system.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// Name on the command line.
    pub name: &'static str,
    /// Sizes in nodes and their relative frequency.
    sizes: &'static [(usize, f64)],
    /// Median run time, hours, and the standard deviation of its logarithm.
    run: (f64, f64),
    /// Longest run time, hours.
    longest: f64,
    /// Nodes asked for on average, as a share of the system's.
    load: f64,
}

/// Sizes of the jobs of the thesis' second system.
const SIZES_OF_TSUBAME2: &[(usize, f64)] =
    &[(1, 26.0), (2, 10.0), (4, 12.0), (8, 10.0), (16, 11.0), (32, 7.0), (64, 2.2), (128, 0.9), (200, 0.5)];

/// The thesis fixes neither sizes nor run times of its two systems, only results. Chosen here are
/// those with which `sar` gets the thesis' mean per-job figures on the generated fabric, at least
/// the shares of multi-switch jobs in section 5.1 (66 % and 50 %), and for Taurus about the 14
/// epochs a day of section 5.3.3.2.
const MIXES: &[Mix] = &[
    Mix {
        name: "taurus",
        sizes: &[
            (1, 5.0),
            (2, 12.0),
            (4, 16.0),
            (8, 14.0),
            (16, 10.0),
            (24, 6.0),
            (32, 4.0),
            (64, 2.0),
            (128, 0.6),
        ],
        run: (16.0, 1.0),
        longest: 168.0,
        load: 0.85,
    },
    Mix { name: "tsubame2", sizes: SIZES_OF_TSUBAME2, run: (3.0, 1.1), longest: 24.0, load: 0.88 },
    // The same jobs, a fifteenth as long: 10,000 a day on 2,016 nodes.
    Mix { name: "short-jobs", sizes: SIZES_OF_TSUBAME2, run: (0.2, 1.1), longest: 24.0, load: 0.88 },
];

/// The mix of that name.
pub fn mix(name: &str) -> Option<&'static Mix> {
    MIXES.iter().find(|m| m.name == name)
}

/// Names of all mixes.
pub fn names() -> Vec<&'static str> {
    MIXES.iter().map(|m| m.name).collect()
}

/// Seconds in an hour and in a day.
const HOUR: f64 = 3_600.0;
const DAY: i64 = 86_400;
/// Days before the first one, so that the system is full when it begins.
const WARM_UP: i64 = 7;

impl Mix {
    /// Jobs for a system of so many nodes, sorted by submission, from a week before `start` (in
    /// seconds) to so many days after it. Arrivals are a Poisson process, half as dense at night as
    /// in the afternoon and sparser at weekends.
    pub fn requests(&self, nodes: usize, start: i64, days: u32, seed: u64) -> Vec<Request> {
        let mut rng = Rng::new(seed);
        let total: f64 = self.sizes.iter().map(|s| s.1).sum();
        let mean_size = self.sizes.iter().map(|(n, f)| (*n).min(nodes) as f64 * f).sum::<f64>() / total;
        let mean_run = self.mean_run();
        let rate = self.load * nodes as f64 / (mean_size * mean_run);
        let begin = start - WARM_UP * DAY;
        let end = start + i64::from(days) * DAY;
        let mut requests = Vec::new();
        let mut now = begin as f64;
        loop {
            // Thinning: candidates at the highest rate, kept with the share of their hour.
            now -= (1.0 - rng.unit()).ln() / (rate * PEAK);
            if now >= end as f64 {
                return requests;
            }
            if rng.unit() * PEAK > activity(now as i64) {
                continue;
            }
            let size = self.size(&mut rng, total).min(nodes);
            let run = self.run_time(&mut rng) as i64;
            requests.push(Request { submit: now as i64, run, size });
        }
    }

    fn size(&self, rng: &mut Rng, total: f64) -> usize {
        let mut ticket = rng.unit() * total;
        for (size, share) in self.sizes {
            if ticket < *share {
                return *size;
            }
            ticket -= share;
        }
        1
    }

    /// Log-normal, cut at the longest. Seconds.
    fn run_time(&self, rng: &mut Rng) -> f64 {
        let normal = (-2.0 * (1.0 - rng.unit()).ln()).sqrt() * (std::f64::consts::TAU * rng.unit()).cos();
        (self.run.0 * (self.run.1 * normal).exp()).min(self.longest) * HOUR
    }

    /// Mean run time by a fixed sample: the cut has no handy formula. Seconds.
    fn mean_run(&self) -> f64 {
        const SAMPLE: usize = 20_000;
        let mut rng = Rng::new(1);
        (0..SAMPLE).map(|_| self.run_time(&mut rng)).sum::<f64>() / SAMPLE as f64
    }
}

/// The highest of [`activity`].
const PEAK: f64 = 1.5;

/// Arrivals at a time relative to the mean: over a week they average about 1.
fn activity(now: i64) -> f64 {
    let hour = (now.rem_euclid(DAY)) as f64 / HOUR;
    let daily = 1.0 + 0.33 * (std::f64::consts::TAU * (hour - 9.0) / 24.0).sin();
    // The first day of 1970 was a Thursday.
    let weekday = (now.div_euclid(DAY) + 3).rem_euclid(7);
    daily * if weekday >= 5 { 0.72 } else { 1.11 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_everything_and_the_load_is_as_asked() {
        let mix = mix("tsubame2").unwrap();
        let requests = mix.requests(1408, 0, 60, 3);
        assert_eq!(requests, mix.requests(1408, 0, 60, 3));
        assert_ne!(requests, mix.requests(1408, 0, 60, 4));
        assert!(requests.is_sorted_by_key(|r| r.submit));
        let work: f64 = requests.iter().map(|r| r.size as f64 * r.run as f64).sum();
        let load = work / (1408.0 * 67.0 * DAY as f64);
        assert!((load - mix.load).abs() < 0.05, "{load}");
        let widest = (0..7 * 24).map(|h| activity(h * 3600)).fold(0.0, f64::max);
        assert!(widest <= PEAK, "{widest}");
    }
}
