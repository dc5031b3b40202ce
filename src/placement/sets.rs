//! Sets worth a prediction, on a switched fabric. A *spot* is a group of nodes attached to the
//! same switches: which of them is taken makes no difference, so a set is a number per spot.

/// Nodes taken per spot: (spot, nodes), ascending, nodes at least 1.
pub type Take = Vec<(u32, u32)>;

/// Spots from which near sets are grown.
const SEEDS: usize = 12;

/// What is free, and what is known of where.
pub struct Supply<'a> {
    /// Spots with free nodes and how many: (spot, nodes), ascending.
    pub free: &'a [(u32, u32)],
    /// Nodes wanted; not more than are free.
    pub need: u32,
    /// By position in `free`: how busy the uplinks are, in any unit.
    pub busy: &'a [u64],
    /// Channels between two spots, given as positions in `free`.
    pub distance: &'a dyn Fn(usize, usize) -> u16,
}

impl Supply<'_> {
    /// The fullest spot that has room for the whole job, if there is one.
    pub fn one_spot(&self) -> Option<Take> {
        let fits = (0..self.free.len()).filter(|i| self.free[*i].1 >= self.need);
        let best = fits.min_by_key(|i| (self.free[*i].1, self.busy[*i]));
        best.map(|i| vec![(self.free[i].0, self.need)])
    }

    /// Sets on several spots, most promising kinds first, without repetition. At most about
    /// `4 × SEEDS` of them. O(SEEDS × spots × log spots).
    pub fn several_spots(&self) -> Vec<Take> {
        let mut quiet: Vec<usize> = (0..self.free.len()).collect();
        quiet.sort_by_key(|i| (self.busy[*i], std::cmp::Reverse(self.free[*i].1)));
        let mut full = quiet.clone();
        full.sort_by_key(|i| (std::cmp::Reverse(self.free[*i].1), self.busy[*i]));
        let mut takes = vec![self.packed(&full)];
        for spots in self.widths(full.len()) {
            takes.extend(self.even(&quiet[..spots]));
            takes.extend(self.even(&full[..spots]));
        }
        for seed in self.seeds(&full) {
            let mut near = quiet.clone();
            near.sort_by_key(|i| (self.distance)(seed, *i));
            takes.push(self.clump(seed));
            let wide = self.enough(&near, 1);
            takes.extend(self.even(&near[..wide]));
            takes.extend(self.even(&near[..self.enough(&near, 2)]));
        }
        let mut seen = std::collections::BTreeSet::new();
        takes.retain(|take| seen.insert(take.clone()));
        takes
    }

    /// Numbers of spots to spread over: from as few as hold the job to one node on each.
    fn widths(&self, spots: usize) -> Vec<usize> {
        let most = spots.min(self.need as usize);
        let mut widths: Vec<usize> = std::iter::successors(Some(2usize), |w| Some(w + w.div_ceil(3)))
            .take_while(|w| *w < most)
            .collect();
        widths.push(most);
        widths
    }

    /// Where to grow from: the emptiest spots, and others all over the fabric.
    fn seeds(&self, full: &[usize]) -> Vec<usize> {
        let step = full.len().div_ceil(SEEDS / 2).max(1);
        let mut seeds: Vec<usize> = full.iter().take(SEEDS / 2).copied().collect();
        seeds.extend((0..full.len()).step_by(step));
        seeds.sort_unstable();
        seeds.dedup();
        seeds
    }

    /// How many of these spots, from the front, hold the job `times` times; all if they do not.
    fn enough(&self, order: &[usize], times: u32) -> usize {
        let mut room = 0;
        let enough = order.iter().position(|i| {
            room += self.free[*i].1;
            room >= self.need.saturating_mul(times)
        });
        enough.map_or(order.len(), |last| last + 1)
    }

    /// Whole spots, fullest first, the last as full as possible. `order` lists all spots by
    /// falling room.
    fn packed(&self, order: &[usize]) -> Take {
        let (mut left, mut take) = (self.need, Vec::new());
        self.fill(order, &mut left, &mut take);
        sorted(take)
    }

    /// Grows from a spot by the one nearest to all nodes taken so far, the one with the most room of
    /// equals; the last is as full as possible. O(spots of the set × spots).
    fn clump(&self, seed: usize) -> Take {
        let (mut left, mut take) = (self.need, Vec::new());
        // Sum of distances to the nodes taken; none for spots that are.
        let mut far: Vec<Option<u64>> = vec![Some(0); self.free.len()];
        let mut next = seed;
        loop {
            let (spot, free) = self.free[next];
            let taken = free.min(left);
            take.push((spot, taken));
            left -= taken;
            far[next] = None;
            if left == 0 {
                return sorted(take);
            }
            for (i, far) in far.iter_mut().enumerate() {
                *far = far.map(|far| far + u64::from(taken) * u64::from((self.distance)(next, i)));
            }
            let room = |i: usize| match self.free[i].1 {
                free if free >= left => (0, free),
                free => (1, u32::MAX - free),
            };
            let open = (0..far.len()).filter_map(|i| Some((far[i]?, room(i), self.busy[i], i)));
            let Some((.., nearest)) = open.min() else { return sorted(take) };
            next = nearest;
        }
    }

    /// Takes whole spots in this order, which has falling room, until one of those left holds the
    /// rest: of these the one with the least room.
    fn fill(&self, order: &[usize], left: &mut u32, take: &mut Take) {
        for (n, i) in order.iter().enumerate() {
            let (spot, free) = self.free[*i];
            if free < *left {
                *left -= free;
                take.push((spot, free));
                continue;
            }
            let fits = order[n..].iter().take_while(|i| self.free[**i].1 >= *left).last().unwrap_or(i);
            take.push((self.free[*fits].0, *left));
            *left = 0;
            return;
        }
    }

    /// As evenly as the room allows over all of these spots; `None` if they do not hold the job.
    fn even(&self, spots: &[usize]) -> Option<Take> {
        let room: u32 = spots.iter().map(|i| self.free[*i].1).sum();
        if room < self.need || spots.is_empty() {
            return None;
        }
        let given = |level: u32| spots.iter().map(|i| self.free[*i].1.min(level)).sum::<u32>();
        let levels: Vec<u32> = (0..=self.need).collect();
        let level = levels.partition_point(|level| given(*level) < self.need) as u32;
        let mut surplus = given(level) - self.need;
        let mut take = Vec::with_capacity(spots.len());
        // The last ones, the busiest, get one less.
        for i in spots.iter().rev() {
            let (spot, free) = self.free[*i];
            let less = u32::from(surplus > 0 && free >= level);
            surplus -= less;
            take.push((spot, free.min(level) - less));
        }
        take.retain(|(_, nodes)| *nodes > 0);
        Some(sorted(take))
    }
}

fn sorted(mut take: Take) -> Take {
    take.sort_unstable();
    take
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: [(u32, u32); 5] = [(0, 4), (1, 2), (2, 8), (4, 3), (7, 5)];

    fn supply<'a>(need: u32, busy: &'a [u64]) -> Supply<'a> {
        Supply { free: &FREE, need, busy, distance: &|a, b| a.abs_diff(b) as u16 }
    }

    #[test]
    fn one_spot_is_the_fullest_that_fits() {
        let take = |need| supply(need, &[0; 5]).one_spot();
        assert_eq!(take(4), Some(vec![(0, 4)]));
        assert_eq!(take(1), Some(vec![(1, 1)]));
        assert_eq!(take(8), Some(vec![(2, 8)]));
        assert_eq!(take(9), None);
        let twins = [(0, 4), (1, 4)];
        let supply = Supply { free: &twins, need: 3, busy: &[5, 1], distance: &|_, _| 1 };
        assert_eq!(supply.one_spot(), Some(vec![(1, 3)]), "the quieter of equals");
    }

    #[test]
    fn packing_ends_with_the_fullest_that_fits() {
        let supply = supply(11, &[0; 5]);
        assert_eq!(supply.packed(&[2, 4, 0, 3, 1]), [(2, 8), (4, 3)]);
        // From spot 1: the neighbour with more room, then what is nearest to its eight.
        assert_eq!(supply.clump(1), [(1, 2), (2, 8), (4, 1)]);
    }

    #[test]
    fn an_even_spread_spares_the_last() {
        let supply = supply(9, &[0; 5]);
        assert_eq!(supply.even(&[0, 2, 3]), Some(vec![(0, 3), (2, 3), (4, 3)]));
        assert_eq!(supply.even(&[1, 0, 2]), Some(vec![(0, 4), (1, 2), (2, 3)]));
        assert_eq!(supply.even(&[0, 3]), None);
    }

    #[test]
    fn every_set_has_exactly_the_nodes_asked() {
        for need in 2..=22 {
            for take in supply(need, &[3, 1, 4, 1, 5]).several_spots() {
                assert_eq!(take.iter().map(|t| t.1).sum::<u32>(), need, "{take:?}");
                let room = |t: &(u32, u32)| FREE.iter().any(|f| f.0 == t.0 && f.1 >= t.1 && t.1 > 0);
                assert!(take.iter().all(room) && take.is_sorted_by_key(|t| t.0), "{take:?}");
            }
        }
    }
}
