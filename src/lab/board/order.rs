//! Whether a prediction puts tables in the order of their simulated times.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Cell;

/// Times that differ by less are the same.
const DIFFERENT: f64 = 1.05;

/// How well a prediction orders tables.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct Order {
    /// Pairs of tables, of one fabric, pattern and mix, whose simulated times differ by more than 5 %.
    pub pairs: usize,
    /// Share of them in the right order, 0..=1; pairs predicted equal count half.
    pub right: f64,
    /// How much longer jobs take with the tables predicted best than with the best, mean, 0 and more.
    pub regret: f64,
}

/// Of a prediction: what is smaller should be faster.
pub fn order(cells: &[Cell], prediction: impl Fn(&Cell) -> f64) -> Order {
    let mut sets: BTreeMap<_, Vec<(f64, f64)>> = BTreeMap::new();
    for cell in cells.iter().filter(|c| c.slowdown > 0.0) {
        if let Some(time) = cell.time_ns {
            let key = (&cell.fabric, cell.pattern, &cell.mix);
            sets.entry(key).or_default().push((time, prediction(cell)));
        }
    }
    let (mut pairs, mut right, mut regret) = (0, 0.0, 0.0);
    for set in sets.values() {
        for (i, a) in set.iter().enumerate() {
            for b in &set[..i] {
                let (fast, slow) = if a.0 < b.0 { (a, b) } else { (b, a) };
                if slow.0 > fast.0 * DIFFERENT {
                    pairs += 1;
                    right += if fast.1 < slow.1 {
                        1.0
                    } else if fast.1 > slow.1 {
                        0.0
                    } else {
                        0.5
                    };
                }
            }
        }
        let best = set.iter().map(|s| s.0).fold(f64::INFINITY, f64::min);
        let chosen = set.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(best, |s| s.0);
        regret += chosen / best - 1.0;
    }
    Order { pairs, right: right / pairs.max(1) as f64, regret: regret / sets.len().max(1) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Pattern;

    #[test]
    fn pairs_that_differ_count_and_the_chosen_one_may_be_slower() {
        let cell = |time, slowdown| Cell {
            fabric: "f".to_string(),
            pattern: Pattern::Shift,
            engine: String::new(),
            knows_jobs: false,
            layers: 8,
            mix: "seed 1".to_string(),
            time_ns: Some(time),
            alone_ns: 1.0,
            slowdown,
            efi_max: 0,
        };
        let cells = [cell(100.0, 2.0), cell(103.0, 9.0), cell(120.0, 3.0), cell(110.0, 1.0)];
        let found = order(&cells, |c| c.slowdown);
        assert_eq!((found.pairs, found.right), (5, 2.0 / 5.0));
        assert!((found.regret - 0.1).abs() < 1e-9);
    }
}
