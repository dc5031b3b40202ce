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
