//! Tables by destination turned into tables by switch, and back: a matrix of bytes and its transpose.

use rayon::prelude::*;

/// Lines, and places in them, that are turned together: they stay in the cache meanwhile.
const BLOCK: usize = 64;
/// Bytes of a word.
const WORD: usize = 8;

/// Turns lines of bytes: `turned[place * lines.len() + line] = lines[line][place]`. All lines are as long as the first.
/// O(bytes), by all threads.
///
/// # Panics
/// If `turned` has not as many bytes as all lines together.
pub(super) fn turn(lines: &[&[u8]], turned: &mut [u8]) {
    let length = lines.first().map_or(0, |line| line.len());
    assert_eq!(turned.len(), length * lines.len());
    let places = (0..length).into_par_iter().step_by(BLOCK);
    turned.par_chunks_mut((BLOCK * lines.len()).max(1)).zip(places).for_each(|(turned, place)| {
        for first in (0..lines.len()).step_by(BLOCK) {
            for line in (first..lines.len().min(first + BLOCK)).step_by(WORD) {
                turn_strip(lines, (line, place), turned);
            }
        }
    });
}

/// Turns up to eight lines from `line` on, at the places of `turned` from `place` on.
fn turn_strip(lines: &[&[u8]], (line, place): (usize, usize), turned: &mut [u8]) {
    let (width, end) = (lines.len(), lines.len().min(line + WORD));
    let places = turned.len() / width;
    let whole = if end == line + WORD { places - places % WORD } else { 0 };
    for at in (0..whole).step_by(WORD) {
        let mut words = [0; WORD];
        for (word, line) in words.iter_mut().zip(&lines[line..]) {
            *word = line[place + at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        }
        for (word, row) in turned_words(words).into_iter().zip(turned.chunks_exact_mut(width).skip(at)) {
            row[line..line + WORD].copy_from_slice(&word.to_le_bytes());
        }
    }
    for (at, row) in turned.chunks_exact_mut(width).enumerate().skip(whole) {
        row[line..end].iter_mut().zip(&lines[line..]).for_each(|(value, line)| *value = line[place + at]);
    }
}

/// Eight words of eight bytes: byte `i` of word `k` becomes byte `k` of word `i` (Warren, Hacker's Delight, section 7-3,
/// with bytes for bits).
fn turned_words(mut words: [u64; WORD]) -> [u64; WORD] {
    const STEPS: [(usize, u64); 3] =
        [(1, 0x00FF_00FF_00FF_00FF), (2, 0x0000_FFFF_0000_FFFF), (4, 0x0000_0000_FFFF_FFFF)];
    for (apart, mask) in STEPS {
        for k in (0..WORD).filter(|k| k & apart == 0) {
            let exchanged = (words[k] >> (8 * apart) ^ words[k + apart]) & mask;
            words[k] ^= exchanged << (8 * apart);
            words[k + apart] ^= exchanged;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_gets_to_its_place() {
        for (count, length) in [(1, 1), (7, 70), (8, 8), (9, 16), (64, 65), (70, 7), (130, 131), (0, 0)] {
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
