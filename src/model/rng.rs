//! A small seeded generator (SplitMix64, Steele et al. 2014): same seed, same numbers, on every
//! platform and in every version of this program, which no library promises.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }
    /// 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// Uniform in `0..n`. `n` must not be 0.
    #[inline]
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }
    /// Uniform in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Fisher–Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        self.draw(items, items.len());
    }
    /// Draws `n` of the items, in an order drawn too, and leaves them at the end: where [`Self::shuffle`] would leave
    /// them. O(n).
    pub fn draw<T>(&mut self, items: &mut [T], n: usize) {
        for i in (1..items.len()).rev().take(n) {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_is_what_shuffling_would_leave_at_the_end() {
        let all: Vec<u32> = (0..20).collect();
        let (mut shuffled, mut drawn) = (all.clone(), all);
        Rng::new(7).shuffle(&mut shuffled);
        Rng::new(7).draw(&mut drawn, 5);
        assert_eq!(drawn[15..], shuffled[15..]);
        assert_ne!(drawn[15..], [15, 16, 17, 18, 19]);
    }
}
