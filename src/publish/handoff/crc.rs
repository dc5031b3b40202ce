//! CRC-64/XZ, eight bytes at a time (M. Kounavis and F. Berry, "slicing-by-8", 2005).

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

/// The checksum of some bytes. O(length).
pub(super) fn crc64(bytes: &[u8]) -> u64 {
    let mut rest = !0u64;
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
    !rest
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
}
