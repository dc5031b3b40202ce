//! Which engine to run until how many faults.

use serde::Serialize;

use crate::simulate::stats::Line;

/// What is known of one engine.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its name.
    pub engine: String,
    /// Throughput over faults.
    pub line: Line,
    /// The first number of faults at which a run failed or deadlocked, if any.
    pub fails_at: Option<usize>,
}

/// Run this engine from so many faults on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The engine.
    pub engine: String,
    /// First number of faults.
    pub from: usize,
    /// Last number of faults.
    pub until: usize,
}

/// For each number of faults up to `most` the engine with the highest line among those that still
/// work there (thesis section 4.4.2: change where the lines cross). Nothing where none works.
pub fn advise(candidates: &[Candidate], most: usize) -> Vec<Advice> {
    let mut advice: Vec<Advice> = Vec::new();
    for faults in 0..=most {
        let at = |c: &Candidate| c.line.intercept + c.line.slope * faults as f64;
        let works = candidates.iter().filter(|c| c.fails_at.is_none_or(|f| faults < f));
        let Some(best) = works.max_by(|a, b| at(a).total_cmp(&at(b))) else { continue };
        match advice.last_mut() {
            Some(last) if last.engine == best.engine && last.until + 1 == faults => last.until = faults,
            _ => advice.push(Advice { engine: best.engine.clone(), from: faults, until: faults }),
        }
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(engine: &str, intercept: f64, slope: f64, fails_at: Option<usize>) -> Candidate {
        Candidate { engine: engine.into(), line: Line { intercept, slope, r2: 1.0 }, fails_at }
    }

    #[test]
    fn the_engine_changes_where_lines_cross_and_where_one_fails() {
        let one = |engine: &str, from, until| Advice { engine: engine.into(), from, until };
        let candidates = [
            candidate("steep", 100.0, -5.0, None),
            candidate("flat", 80.0, -1.0, Some(9)),
            candidate("safe", 10.0, 0.0, None),
        ];
        assert_eq!(advise(&candidates, 12), [one("steep", 0, 4), one("flat", 5, 8), one("steep", 9, 12)]);
        assert_eq!(advise(&candidates[1..], 10), [one("flat", 0, 8), one("safe", 9, 10)]);
        assert_eq!(advise(&candidates[1..2], 10), [one("flat", 0, 8)]);
    }
}
