//! Which channels of a switch lead nearer to a target, stay level or lead away.

use super::Distances;
use crate::simulate::fetch::prefetch;
use crate::simulate::net::Net;

/// Channels of one word.
pub(super) const WORD: u32 = 28;

/// For each switch and target, a bit per channel of the switch in each of two words.
#[derive(Debug, Clone)]
pub(super) struct Ways {
    switches: usize,
    /// Words of a switch with the most channels.
    words: usize,
    bits: Vec<Turns>,
}

/// Up to 28 channels of a switch: those that lead nearer to a target, and those that lead away.
/// Above the bits of the first is the distance, so that one read says both.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Turns {
    nearer: u32,
    farther: u32,
}

impl Turns {
    /// Channels that lead nearer.
    #[inline]
    pub(super) fn nearer(self) -> u32 {
        self.nearer & ((1 << WORD) - 1)
    }
    /// Channels that lead away.
    #[inline]
    pub(super) fn farther(self) -> u32 {
        self.farther
    }
    /// Neither; bits of channels that do not exist are set as well.
    #[inline]
    pub(super) fn level(self) -> u32 {
        !(self.nearer | self.farther)
    }
    /// Channels to the target, 15 for more.
    #[inline]
    pub(super) fn distance(self) -> u32 {
        self.nearer >> WORD
    }
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
            turns.iter_mut().for_each(|t| t.nearer = u32::from(here.min(15)) << WORD);
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

    /// Has the turns of a switch and target brought near.
    #[inline]
    pub(super) fn fetch(&self, at: u32, target: u32) {
        prefetch(&self.bits, (target as usize * self.switches + at as usize) * self.words);
    }
    /// By words of [`WORD`] channels.
    #[inline]
    pub(super) fn turns(&self, at: u32, target: u32) -> &[Turns] {
        let first = (target as usize * self.switches + at as usize) * self.words;
        &self.bits[first..first + self.words]
    }

    /// Channels that lead nearer, ascending. `first` is the switch's first channel.
    #[inline]
    pub(super) fn nearer(&self, at: u32, target: u32, first: u32) -> impl Iterator<Item = u32> {
        let words = self.turns(at, target).iter().enumerate();
        words.flat_map(move |(i, turns)| channels(turns.nearer(), first + i as u32 * WORD))
    }
}

/// Channels of a word, ascending.
#[inline]
pub(super) fn channels(mut word: u32, first: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < u32::BITS).then_some(first + bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    #[test]
    fn bits_say_what_distances_say_on_switches_of_several_words() {
        let net = Net::of_fabric(&generate("regular:60,37,hosts=1").unwrap());
        let far = Distances::new(&net).unwrap();
        let ways = Ways::new(&net, &far);
        assert_eq!(ways.words, 2);
        let mut level = 0;
        for (at, target) in (0..60).flat_map(|at| (0..60).map(move |target| (at, target))) {
            let here = far.of(at, target);
            assert_eq!(ways.turns(at, target)[1].distance(), u32::from(here));
            let found: Vec<u32> = ways.nearer(at, target, net.out(at).start).collect();
            let nearer: Vec<u32> = net.out(at).filter(|c| far.of(net.to(*c), target) < here).collect();
            assert_eq!(found, nearer);
            let farther =
                ways.turns(at, target).iter().map(|t| t.farther().count_ones() as usize).sum::<usize>();
            assert_eq!(farther, net.out(at).filter(|c| far.of(net.to(*c), target) > here).count());
            level += net.out(at).len() - nearer.len() - farther;
        }
        assert!(level > 0);
    }
}
