//! CRC-64/XZ, eight bytes at a time (M. Kounavis and F. Berry, "slicing-by-8", 2005).

use rayon::prelude::*;

/// The polynomial of ECMA-182, reflected.
const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;

/// `TABLES[k][b]`: what byte `b`, followed by `k` zero bytes, adds to the remainder.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        tables[0][byte] = rest;
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[k - 1][byte];
            tables[k][byte] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
}

/// Bytes that are summed by one thread at a time.
const PART: usize = 1 << 20;

/// The checksum of some bytes, by all threads. O(length).
pub(super) fn crc64(bytes: &[u8]) -> u64 {
    let parts: Vec<(u64, usize)> =
        bytes.par_chunks(PART).map(|part| (remainder(0, part), part.len())).collect();
    let whole = zeros(PART);
    let and = |rest, (own, length): &(u64, usize)| {
        times(rest, if *length == PART { whole } else { zeros(*length) }) ^ own
    };
    !parts.iter().fold(!0, and)
}

/// The remainder after some bytes, from the one before them.
fn remainder(before: u64, bytes: &[u8]) -> u64 {
    let mut rest = before;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut sum = 0;
        for (i, byte) in word.iter().enumerate() {
            sum ^= TABLES[7 - i][usize::from(*byte ^ (rest >> (8 * i)) as u8)];
        }
        rest = sum;
    }
    for byte in words.remainder() {
        rest = rest >> 8 ^ TABLES[0][usize::from(*byte ^ rest as u8)];
    }
    rest
}

/// The power of x that as many zero bytes multiply a remainder by. O(log).
fn zeros(bytes: usize) -> u64 {
    let (mut power, mut square, mut left) = (1 << 63, 1 << (63 - 8), bytes);
    while left > 0 {
        if left & 1 == 1 {
            power = times(power, square);
        }
        square = times(square, square);
        left >>= 1;
    }
    power
}

/// The product of two reflected polynomials, modulo [`POLYNOMIAL`].
fn times(a: u64, b: u64) -> u64 {
    let (mut product, mut shifted) = (0, b);
    for bit in (0..64).rev() {
        if a >> bit & 1 == 1 {
            product ^= shifted;
        }
        shifted = if shifted & 1 == 1 { shifted >> 1 ^ POLYNOMIAL } else { shifted >> 1 };
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        assert_eq!(crc64(b""), 0);
        assert_eq!(crc64(b"123456789"), 0x995D_C9BB_DF19_39FA);
    }

    #[test]
    fn eight_at_a_time_is_one_at_a_time() {
        let bytes: Vec<u8> = (0..100u32).map(|i| (i * i * 37 + i) as u8).collect();
        for length in 0..bytes.len() {
            let slow = bytes[..length]
                .iter()
                .fold(!0u64, |rest, byte| rest >> 8 ^ TABLES[0][usize::from(*byte ^ rest as u8)]);
            assert_eq!(crc64(&bytes[..length]), !slow, "length {length}");
        }
    }

    #[test]
    fn parts_together_are_the_whole() {
        let bytes: Vec<u8> = (0..2 * PART as u32 + 77).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        for length in [PART - 1, PART, PART + 1, 2 * PART, bytes.len()] {
            assert_eq!(crc64(&bytes[..length]), !remainder(!0, &bytes[..length]), "length {length}");
        }
    }
}
