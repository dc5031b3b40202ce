//! What a batch system would choose by itself: the yardstick of a placement.
//!
//! Slurm without a topology plugin looks for the run of neighbouring free nodes, in the order of
//! its node table, that the job fills best; without one that fits it takes the longest runs first
//! (`select/cons_tres`, "consecutive"). Node numbers stand for that order.

/// The usual choice: `nodes` of the candidates, ascending. At least that many candidates are
/// needed. O(candidates × log candidates).
pub fn usual(nodes: usize, candidates: &[u32]) -> Vec<u32> {
    let mut runs: Vec<&[u32]> = candidates.chunk_by(|a, b| b - a == 1).collect();
    let mut taken = Vec::with_capacity(nodes);
    while taken.len() < nodes {
        let left = nodes - taken.len();
        // Shortest that fits; the first of equals.
        let fits = (0..runs.len()).filter(|r| runs[*r].len() >= left).min_by_key(|r| runs[*r].len());
        if let Some(r) = fits {
            taken.extend_from_slice(&runs[r][..left]);
            break;
        }
        let Some(r) = (0..runs.len()).max_by_key(|r| (runs[*r].len(), usize::MAX - r)) else { break };
        taken.extend_from_slice(runs.remove(r));
    }
    taken.sort_unstable();
    taken
}

/// Sets that follow each other in the list, for a job whose ranks talk to their neighbours: the beginnings of the
/// shortest runs that hold it, and stretches all over the candidates. At most `2 * WINDOWS`, some may be there twice.
/// O(candidates × log candidates).
pub fn windows(nodes: usize, candidates: &[u32]) -> Vec<Vec<u32>> {
    let mut runs: Vec<&[u32]> = candidates.chunk_by(|a, b| b - a == 1).collect();
    runs.retain(|run| run.len() >= nodes);
    runs.sort_by_key(|run| run.len());
    let room = candidates.len().saturating_sub(nodes);
    let step = (room / WINDOWS).max(1);
    let spread = (0..=room).step_by(step).map(|at| &candidates[at..at + nodes]);
    let runs = runs.into_iter().take(WINDOWS).map(|run| &run[..nodes]);
    runs.chain(spread.take(WINDOWS)).map(<[u32]>::to_vec).collect()
}

/// Stretches of each kind.
const WINDOWS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_begin_with_the_runs_that_are_filled_best() {
        let all = windows(2, &[1, 2, 3, 7, 8, 11]);
        assert_eq!(all[..2], [[7, 8], [1, 2]]);
        assert!(all.contains(&vec![8, 11]));
        let many: Vec<u32> = (0..1000).collect();
        let all = windows(64, &many);
        assert!(all.len() <= 2 * WINDOWS && all.iter().all(|set| set.len() == 64), "{}", all.len());
        assert!(all.last().unwrap()[0] > 800, "they are all over the candidates");
    }

    #[test]
    fn the_run_that_is_filled_best_is_taken() {
        assert_eq!(usual(2, &[1, 2, 3, 7, 8, 11]), [7, 8]);
        assert_eq!(usual(3, &[1, 2, 3, 4, 7, 8, 9]), [7, 8, 9]);
        assert_eq!(usual(1, &[1, 2, 5]), [5]);
    }

    #[test]
    fn without_one_that_fits_the_longest_go_first() {
        assert_eq!(usual(5, &[1, 2, 5, 7, 8, 9, 20]), [1, 2, 7, 8, 9]);
        assert_eq!(usual(4, &[1, 3, 4, 6, 8]), [1, 3, 4, 6]);
    }
}
