//! Tables by destination turned into tables by switch, and back: a matrix of bytes and its transpose.

use rayon::prelude::*;

/// Lines, and places in them, that are turned together: they stay in the cache meanwhile.
const BLOCK: usize = 128;
/// Bytes of a word.
const WORD: usize = 8;

/// A part of some lines.
type Block = [[u8; BLOCK]; BLOCK];

/// Turns lines of bytes: `turned[place * lines.len() + line] = lines[line][place]`. All lines are as long as the first.
/// O(bytes), by all threads.
///
/// # Panics
/// If `turned` has not as many bytes as all lines together.
pub(super) fn turn(lines: &[&[u8]], turned: &mut [u8]) {
    let (width, length) = (lines.len(), lines.first().map_or(0, |line| line.len()));
    assert_eq!(turned.len(), length * width);
    let start = || [0; 2].map(|_| Box::new([[0; BLOCK]; BLOCK]));
    let places = (0..length).into_par_iter().step_by(BLOCK);
    let rows = turned.par_chunks_mut((BLOCK * width).max(1)).zip(places);
    rows.for_each_init(start, |[from, to], (rows, place)| {
        let places = place..length.min(place + BLOCK);
        for (some, first) in lines.chunks(BLOCK).zip((0..).step_by(BLOCK)) {
            for (own, line) in from.iter_mut().zip(some) {
                own[..places.len()].copy_from_slice(&line[places.clone()]);
            }
            turn_block(from, to);
            for (row, own) in rows.chunks_exact_mut(width).zip(to.iter()) {
                row[first..first + some.len()].copy_from_slice(&own[..some.len()]);
            }
        }
    });
}

/// Turns a block, eight words of eight bytes at a time.
fn turn_block(from: &Block, to: &mut Block) {
    for line in (0..BLOCK).step_by(WORD) {
        for place in (0..BLOCK).step_by(WORD) {
            let mut words = [0; WORD];
            for (word, own) in words.iter_mut().zip(&from[line..]) {
                *word = own[place..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            }
            exchange::<1>(&mut words, 0x00FF_00FF_00FF_00FF);
            exchange::<2>(&mut words, 0x0000_FFFF_0000_FFFF);
            exchange::<4>(&mut words, 0x0000_0000_FFFF_FFFF);
            for (word, own) in words.iter().zip(&mut to[place..]) {
                own[line..line + WORD].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

/// One of three steps after which byte `i` of word `k` is byte `k` of word `i` (Warren, Hacker's Delight, section 7-3,
/// with bytes for bits): exchanges bytes that are so far apart.
#[inline(always)]
fn exchange<const APART: usize>(words: &mut [u64; WORD], mask: u64) {
    for k in 0..WORD {
        if k & APART == 0 {
            let exchanged = (words[k] >> (8 * APART) ^ words[k + APART]) & mask;
            words[k] ^= exchanged << (8 * APART);
            words[k + APART] ^= exchanged;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_gets_to_its_place() {
        for (count, length) in [(1, 1), (7, 70), (8, 8), (9, 16), (128, 129), (140, 7), (260, 131), (0, 0)] {
            let value = |line: usize, place: usize| (line * 31 + place * 7 + line * place) as u8;
            let lines: Vec<Vec<u8>> =
                (0..count).map(|line| (0..length).map(|place| value(line, place)).collect()).collect();
            let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
            let mut turned = vec![0; count * length];
            turn(&lines, &mut turned);
            for (at, byte) in turned.iter().enumerate() {
                assert_eq!(*byte, value(at % count, at / count), "{count} x {length} at {at}");
            }
        }
    }
}
