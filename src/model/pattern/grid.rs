//! Sides of grids of ranks.

/// Sides of a grid of ranks, the last one running fastest; 0 is a side left open, 1 none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grid([u16; 3]);

impl Grid {
    /// Two sides, both open.
    pub const PLANE: Self = Self([0, 0, 1]);
    /// Three sides, all open.
    pub const SPACE: Self = Self([0, 0, 0]);

    /// With given sides.
    pub const fn given(a: u16, b: u16, c: u16) -> Self {
        Self([a, b, c])
    }

    /// The sides as given.
    pub const fn sides(self) -> [u16; 3] {
        self.0
    }

    /// The sides for `n` ranks: those left open as `MPI_Dims_create` makes them, so that the grid
    /// has at most `n` places. Given sides that do not fit count as open.
    ///
    /// ```
    /// use sarouter_core::model::Grid;
    /// assert_eq!(Grid::SPACE.for_ranks(60), [5, 4, 3]);
    /// assert_eq!(Grid::given(4, 0, 1).for_ranks(14), [4, 3, 1]);
    /// assert_eq!(Grid::given(4, 4, 1).for_ranks(15), [5, 3, 1]);
    /// ```
    pub fn for_ranks(self, n: u32) -> [u32; 3] {
        let product = |sides: &[u16; 3]| sides.iter().map(|s| u64::from(*s).max(1)).product::<u64>();
        let fits = product(&self.0) <= u64::from(n);
        let sides = if fits { self.0 } else { self.0.map(|s| u16::from(s == 1)) };
        let open = sides.iter().filter(|s| **s == 0).count();
        let mut rest = balanced_factors(n / product(&sides) as u32, open).into_iter();
        sides.map(|s| if s > 0 { u32::from(s) } else { rest.next().unwrap_or(1) })
    }
}

/// `n` as a product of `parts` (at most 3) factors in descending order, as close to each other as
/// can be: the least largest, then the greatest smallest. O(√n × √n).
///
/// This is what the MPI standard asks of `MPI_Dims_create`; libraries differ for a few numbers
/// (Träff and Lübbe, EuroMPI 2015).
pub fn balanced_factors(n: u32, parts: usize) -> Vec<u32> {
    match parts {
        0 => Vec::new(),
        1 => vec![n],
        _ => {
            // The largest factor ascending from the least that it can be: the first that fits.
            let fits = |largest: u32| -> Option<Vec<u32>> {
                let rest = (n % largest == 0).then(|| balanced_factors(n / largest, parts - 1))?;
                (rest[0] <= largest).then(|| [vec![largest], rest].concat())
            };
            (1..=n).find_map(fits).unwrap_or_else(|| [vec![n], vec![1; parts - 1]].concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_as_close_as_can_be() {
        for (n, parts, want) in [
            (1, 3, vec![1, 1, 1]),
            (13, 2, vec![13, 1]),
            (16, 2, vec![4, 4]),
            (32, 2, vec![8, 4]),
            (64, 3, vec![4, 4, 4]),
            (72, 3, vec![6, 4, 3]),
            (2000, 3, vec![16, 25 / 2, 0]),
        ] {
            let found = balanced_factors(n, parts);
            assert_eq!(found.iter().product::<u32>(), n);
            assert!(found.is_sorted_by(|a, b| a >= b), "{n}: {found:?}");
            if want.iter().product::<u32>() == n {
                assert_eq!(found, want);
            }
        }
    }
}
