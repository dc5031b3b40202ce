//! What a run counts, and the statistics of repeated runs.

use super::router::Header;

/// Bins per doubling of latency: percentiles are right to 1/16.
const BINS: u32 = 16;

/// Counters of one run. [`Stats::reset`] starts a measuring window; what was sent before it and
/// arrives in it counts.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Packets handed to switches.
    pub injected_packets: u64,
    /// Packets that terminals consumed.
    pub delivered_packets: u64,
    /// Their payload.
    pub delivered_bytes: u64,
    /// Cables that packets took, those of terminals included: the simulator's work.
    pub links: u64,
    /// Tick of the last delivery.
    pub last_delivery: u64,
    /// Payload sent by terminal.
    pub sent_by: Vec<u64>,
    /// Payload consumed by terminal.
    pub consumed_by: Vec<u64>,
    /// Packets delivered, by the terminal that sent them.
    pub accepted_from: Vec<u64>,
    /// Packets by number of channels between switches, up to the longest route that was seen.
    pub hops: Vec<u64>,
    /// Sum of latencies in ticks, from the making of a message to the consumption of a packet.
    pub latency: u64,
    bins: Vec<u64>,
}

impl Stats {
    /// Nothing counted.
    pub(super) fn new(terminals: usize) -> Self {
        Self {
            sent_by: vec![0; terminals],
            consumed_by: vec![0; terminals],
            accepted_from: vec![0; terminals],
            bins: vec![0; 64 * BINS as usize],
            ..Self::default()
        }
    }

    /// Counts anew.
    pub fn reset(&mut self) {
        *self = Self::new(self.sent_by.len());
    }

    #[inline]
    pub(super) fn injected(&mut self, t: u32, bytes: u32) {
        self.injected_packets += 1;
        self.sent_by[t as usize] += u64::from(bytes);
    }

    #[inline]
    pub(super) fn delivered(&mut self, header: &Header, bytes: u32, born: u64, now: u64) {
        self.delivered_packets += 1;
        self.delivered_bytes += u64::from(bytes);
        self.consumed_by[header.dst as usize] += u64::from(bytes);
        self.accepted_from[header.src as usize] += u64::from(bytes);
        let hops = usize::from(header.hops);
        if hops >= self.hops.len() {
            self.hops.resize(hops + 1, 0);
        }
        self.hops[hops] += 1;
        self.last_delivery = now;
        let latency = now - born;
        self.latency += latency;
        self.bins[bin(latency)] += 1;
    }

    /// Mean latency in ticks.
    pub fn mean_latency(&self) -> f64 {
        self.latency as f64 / self.delivered_packets.max(1) as f64
    }

    /// Mean number of channels between switches.
    pub fn mean_hops(&self) -> f64 {
        let sum: u64 = self.hops.iter().enumerate().map(|(h, n)| h as u64 * n).sum();
        sum as f64 / self.delivered_packets.max(1) as f64
    }

    /// Latency in ticks that a share of the packets does not exceed, rounded up by at most 1/16.
    pub fn latency_percentile(&self, share: f64) -> u64 {
        let wanted = (share * self.delivered_packets as f64).ceil() as u64;
        let mut seen = 0;
        for (i, n) in self.bins.iter().enumerate() {
            seen += n;
            if *n > 0 && seen >= wanted {
                return upper(i);
            }
        }
        0
    }
}

/// Exact below [`BINS`], then so many bins per doubling.
fn bin(latency: u64) -> usize {
    if latency < u64::from(BINS) {
        return latency as usize;
    }
    let exponent = 63 - latency.leading_zeros();
    let shift = exponent - BINS.trailing_zeros();
    ((shift + 1) * BINS) as usize + ((latency >> shift) as usize & (BINS as usize - 1))
}

/// Largest latency of a bin.
fn upper(bin: usize) -> u64 {
    let bins = BINS as usize;
    if bin < bins {
        return bin as u64;
    }
    let (shift, rest) = (bin / bins - 1, bin % bins);
    (((bins + rest + 1) as u64) << shift) - 1
}

/// Mean and half-width of its 95 % confidence interval (Student's t); `None` for fewer than two values, which tell nothing
/// of their spread.
pub fn mean_ci95(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    // A sum of nothing is minus zero.
    let mean = (0.0 + values.iter().sum::<f64>()) / n.max(1.0);
    if values.len() < 2 {
        return (mean, None);
    }
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, Some(student_t975(values.len() - 1) * (variance / n).sqrt()))
}

/// 97.5th percentile of Student's t distribution.
fn student_t975(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    // Beyond the table, 1.96 + 2.4/n is right to 0.002.
    TABLE.get(degrees.wrapping_sub(1)).copied().unwrap_or(1.96 + 2.4 / degrees.max(1) as f64)
}

/// A straight line through points.
#[derive(Debug, Clone, Copy, PartialEq, schemars::JsonSchema, serde::Serialize)]
pub struct Line {
    /// Value at 0.
    pub intercept: f64,
    /// Change per unit.
    pub slope: f64,
    /// Share of the variance that the line explains (coefficient of determination).
    pub r2: f64,
    #[serde(skip)]
    spread: Spread,
}

/// How sure a line is.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    /// Number of points.
    points: usize,
    /// Mean of their `x`, and sum of the squares of the distances from it.
    mean: f64,
    squares: f64,
    /// Standard deviation of the points from the line.
    residual: f64,
}

impl Line {
    /// Half-width of the 95 % confidence interval of the line at `x` (Student's t). Infinite for two points, which
    /// tell nothing of their spread.
    pub fn ci95(&self, x: f64) -> f64 {
        let Spread { points, mean, squares, residual } = self.spread;
        match points.saturating_sub(2) {
            0 => f64::INFINITY,
            degrees => {
                let share = 1.0 / points as f64 + (x - mean).powi(2) / squares;
                student_t975(degrees) * residual * share.sqrt()
            }
        }
    }
}

/// Least squares (thesis section 4.4.2). `None` unless there are two different `x`.
pub fn regression(points: &[(f64, f64)]) -> Option<Line> {
    let n = points.len() as f64;
    let (mx, my) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
    let sum = |f: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| f(x - mx, y - my)).sum::<f64>();
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if points.len() < 2 || xx <= 0.0 {
        return None;
    }
    let slope = xy / xx;
    let r2 = if yy > 0.0 { (xy * xy / (xx * yy)).min(1.0) } else { 1.0 };
    let left = (yy - slope * xy).max(0.0) / (n - 2.0).max(1.0);
    let spread = Spread { points: points.len(), mean: mx, squares: xx, residual: left.sqrt() };
    Some(Line { intercept: my - slope * mx, slope, r2, spread })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_what_they_say() {
        for latency in (0..5000).chain([1 << 20, (1 << 40) + 12345, u64::MAX >> 1]) {
            let top = upper(bin(latency));
            assert!(top >= latency && top - latency <= latency / 16, "{latency} in a bin up to {top}");
        }
    }

    #[test]
    fn regression_and_interval_are_right() {
        // Anscombe's first set: 3.00 + 0.500 x, R² 0.667.
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let points: Vec<(f64, f64)> = x.into_iter().zip(y).collect();
        let line = regression(&points).unwrap();
        assert!((line.intercept - 3.0001).abs() < 1e-3 && (line.slope - 0.5001).abs() < 1e-3);
        assert!((line.r2 - 0.6665).abs() < 1e-3);
        // Standard deviation 1.237, squares 110, t(9) 2.262: at the mean, 9, and five from it.
        assert!((line.ci95(9.0) - 0.8436).abs() < 1e-3, "{}", line.ci95(9.0));
        assert!((line.ci95(14.0) - 1.5779).abs() < 1e-3, "{}", line.ci95(14.0));
        assert_eq!(regression(&points[..2]).unwrap().ci95(9.0), f64::INFINITY);
        assert_eq!(regression(&[(1.0, 2.0), (1.0, 3.0)]), None);
        // Mean 5, standard deviation 2, n = 4: 3.182 × 2 / 2.
        let (mean, half) =
            mean_ci95(&[5.0 - 3f64.sqrt(), 5.0 + 3f64.sqrt(), 5.0 - 3f64.sqrt(), 5.0 + 3f64.sqrt()]);
        assert!((mean - 5.0).abs() < 1e-9 && (half.unwrap() - 3.182).abs() < 1e-9, "{half:?}");
        assert_eq!(mean_ci95(&[5.0]), (5.0, None));
    }
}
