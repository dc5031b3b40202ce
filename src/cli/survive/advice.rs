//! Which engine to run until how many faults.

use schemars::JsonSchema;
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
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Advice {
    /// Name of the engine that loses least.
    pub engine: String,
    /// First number of faults.
    pub from: usize,
    /// Last number of faults.
    pub until: usize,
    /// Engines that the spread of the runs does not tell from it, in the order in which they were asked for.
    pub alike: Vec<String>,
}

impl Advice {
    /// In words, without the number of faults.
    pub fn choice(&self) -> String {
        match self.alike.as_slice() {
            [] => self.engine.clone(),
            alike => format!(
                "no difference beyond the spread of the runs between {} and {}",
                self.engine,
                alike.join(", ")
            ),
        }
    }
}

/// For each number of faults up to `most` the engine with the highest line among those that still work there (thesis
/// section 4.4.2: change where the lines cross). Beside it those that may be as good: the 95 % confidence interval of
/// the difference has 0. Nothing where none works.
pub fn advise(candidates: &[Candidate], most: usize) -> Vec<Advice> {
    let mut advice: Vec<Advice> = Vec::new();
    for faults in 0..=most {
        let x = faults as f64;
        let at = |c: &Candidate| c.line.intercept + c.line.slope * x;
        let works: Vec<&Candidate> =
            candidates.iter().filter(|c| c.fails_at.is_none_or(|f| faults < f)).collect();
        let Some(best) = works.iter().max_by(|a, b| at(a).total_cmp(&at(b))) else { continue };
        let is_alike = |c: &Candidate| at(best) - at(c) <= best.line.ci95(x).hypot(c.line.ci95(x));
        let others = works.iter().filter(|c| c.engine != best.engine && is_alike(c));
        let alike: Vec<String> = others.map(|c| c.engine.clone()).collect();
        match advice.last_mut() {
            Some(last) if last.engine == best.engine && last.alike == alike && last.until + 1 == faults => {
                last.until = faults;
            }
            _ => advice.push(Advice { engine: best.engine.clone(), from: faults, until: faults, alike }),
        }
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::stats::regression;

    /// Three runs at each of 0, 5 and 10 faults, which differ by so much from the line.
    fn candidate(
        engine: &str,
        (intercept, slope): (f64, f64),
        noise: f64,
        fails_at: Option<usize>,
    ) -> Candidate {
        let at = |faults: f64| intercept + slope * faults;
        let points = [0.0, 5.0, 10.0].map(|x| [(x, at(x) - noise), (x, at(x)), (x, at(x) + noise)]);
        Candidate { engine: engine.into(), line: regression(&points.concat()).unwrap(), fails_at }
    }

    fn one(engine: &str, from: usize, until: usize, alike: &[&str]) -> Advice {
        Advice { engine: engine.into(), from, until, alike: alike.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn the_engine_changes_where_lines_cross_and_where_one_fails() {
        let candidates = [
            candidate("steep", (100.0, -5.0), 0.1, None),
            candidate("flat", (80.5, -1.0), 0.1, Some(9)),
            candidate("safe", (10.0, 0.0), 0.1, None),
        ];
        let wanted = [one("steep", 0, 4, &[]), one("flat", 5, 8, &[]), one("steep", 9, 12, &[])];
        assert_eq!(advise(&candidates, 12), wanted);
        assert_eq!(advise(&candidates[1..], 10), [one("flat", 0, 8, &[]), one("safe", 9, 10, &[])]);
        assert_eq!(advise(&candidates[1..2], 10), [one("flat", 0, 8, &[])]);
    }

    #[test]
    fn what_runs_do_not_tell_apart_is_not_advised() {
        // The lines differ by 2, the runs by 40: R² is 0.12 and less.
        let near = [
            candidate("a", (100.0, -1.5), 20.0, None),
            candidate("b", (102.0, -1.5), 20.0, None),
            candidate("c", (10.0, 0.0), 20.0, None),
        ];
        assert!(near[0].line.r2 < 0.13, "{}", near[0].line.r2);
        let advice = advise(&near, 10);
        assert_eq!(advice, [one("b", 0, 10, &["a"])]);
        assert_eq!(advice[0].choice(), "no difference beyond the spread of the runs between b and a");
        // Two points tell nothing of their spread.
        let line = |y: f64| regression(&[(0.0, y), (5.0, y - 1.0)]).unwrap();
        let two = [("d", 9.0), ("e", 99.0)].map(|(name, y)| Candidate {
            engine: name.into(),
            line: line(y),
            fails_at: None,
        });
        assert_eq!(advise(&two, 1), [one("e", 0, 1, &["d"])]);
    }
}
