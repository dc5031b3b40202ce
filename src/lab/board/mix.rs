//! A mix of jobs on a cluster that has been in use for a while.

use crate::model::rng::Rng;
use crate::model::{Fabric, Group, TerminalId};

/// Hosts in a row that a job gets, drawn until it has enough.
const BLOCKS: [usize; 8] = [1, 2, 3, 4, 6, 9, 12, 18];

/// Jobs of sizes drawn from `sizes` on 95 % of the hosts: blocks of 1 to 18 hosts from random places of
/// what is free, ranks in the order of hosts. The last job may be smaller. O(hosts²).
pub fn mix(fabric: &Fabric, seed: u64, sizes: &[usize]) -> Vec<Group> {
    let mut rng = Rng::new(seed);
    let mut free: Vec<TerminalId> = fabric.host_ids().collect();
    let most = free.len() * 95 / 100;
    let mut left = most;
    let mut jobs = Vec::new();
    while left > 1 && !sizes.is_empty() {
        let size = sizes[rng.below(sizes.len())].min(left);
        if size < 2 {
            break;
        }
        let mut ranks: Vec<TerminalId> = Vec::with_capacity(size);
        while ranks.len() < size {
            let block = BLOCKS[rng.below(BLOCKS.len())].min(size - ranks.len());
            let first = rng.below(free.len() - block + 1);
            ranks.extend(free.drain(first..first + block));
        }
        left -= size;
        ranks.sort_unstable();
        jobs.push(Group::new(ranks));
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    #[test]
    fn jobs_share_no_host_and_fill_the_cluster() {
        let fabric = generate("kary:6,3").unwrap();
        let jobs = mix(&fabric, 7, &[16, 32, 64]);
        let mut hosts: Vec<TerminalId> = jobs.iter().flat_map(|g| g.ranks.clone()).collect();
        let placed = hosts.len();
        hosts.sort_unstable();
        hosts.dedup();
        assert_eq!((hosts.len(), placed), (205, 205));
        assert!(jobs.iter().all(|g| g.ranks.is_sorted()));
        assert_ne!(jobs[0].ranks, mix(&fabric, 8, &[16, 32, 64])[0].ranks);
    }
}
