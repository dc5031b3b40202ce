//! Which channels of a switch lead nearer to a target, stay level or lead away.

use super::Distances;
use crate::simulate::net::Net;

/// Channels of one word.
const WORD: u32 = u32::BITS;

/// For each switch and target, a bit per channel of the switch in each of two words.
#[derive(Debug, Clone)]
pub(super) struct Ways {
    switches: usize,
    /// Words of a switch with the most channels.
    words: usize,
    bits: Vec<Turns>,
}

/// Up to 32 channels of a switch: those that lead nearer to a target, and those that lead away.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Turns {
    pub(super) nearer: u32,
    pub(super) farther: u32,
}

impl Ways {
    /// Switches² × ports / 4 bytes.
    pub(super) fn new(net: &Net, far: &Distances) -> Self {
        let switches = net.switches();
        let most = (0..switches as u32).map(|s| net.out(s).len()).max().unwrap_or(0);
        let words = most.div_ceil(WORD as usize).max(1);
        let mut bits = vec![Turns::default(); switches * switches * words];
        for (row, turns) in bits.chunks_mut(words).enumerate() {
            let (target, at) = ((row / switches) as u32, (row % switches) as u32);
            let here = far.of(at, target);
            for (i, c) in net.out(at).enumerate() {
                let (word, bit) = (&mut turns[i / WORD as usize], 1 << (i as u32 % WORD));
                match far.of(net.to(c), target).cmp(&here) {
                    std::cmp::Ordering::Less => word.nearer |= bit,
                    std::cmp::Ordering::Equal => {}
                    std::cmp::Ordering::Greater => word.farther |= bit,
                }
            }
        }
        Self { switches, words, bits }
    }

    /// By words of 32 channels.
    #[inline]
    pub(super) fn turns(&self, at: u32, target: u32) -> &[Turns] {
        let first = (target as usize * self.switches + at as usize) * self.words;
        &self.bits[first..first + self.words]
    }

    /// Channels that lead nearer, ascending. `first` is the switch's first channel.
    #[inline]
    pub(super) fn nearer(&self, at: u32, target: u32, first: u32) -> impl Iterator<Item = u32> {
        let words = self.turns(at, target).iter().enumerate();
        words.flat_map(move |(i, turns)| channels(turns.nearer, first + i as u32 * WORD))
    }
}

/// Channels of a word, ascending.
#[inline]
pub(super) fn channels(mut word: u32, first: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < WORD).then_some(first + bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::generate;

    #[test]
    fn bits_say_what_distances_say_on_switches_of_several_words() {
        let net = Net::of_fabric(&generate("regular:60,37,hosts=1").unwrap());
        let far = Distances::new(&net).unwrap();
        let ways = Ways::new(&net, &far);
        assert_eq!(ways.words, 2);
        let mut level = 0;
        for (at, target) in (0..60).flat_map(|at| (0..60).map(move |target| (at, target))) {
            let here = far.of(at, target);
            let found: Vec<u32> = ways.nearer(at, target, net.out(at).start).collect();
            let nearer: Vec<u32> = net.out(at).filter(|c| far.of(net.to(*c), target) < here).collect();
            assert_eq!(found, nearer);
            let farther =
                ways.turns(at, target).iter().map(|t| t.farther.count_ones() as usize).sum::<usize>();
            assert_eq!(farther, net.out(at).filter(|c| far.of(net.to(*c), target) > here).count());
            level += net.out(at).len() - nearer.len() - farther;
        }
        assert!(level > 0);
    }
}
