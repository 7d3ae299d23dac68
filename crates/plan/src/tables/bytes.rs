//! Eight bytes of a word looked at together.

pub(crate) const ONES: u64 = u64::from_le_bytes([1; 8]);
const LOWER_BITS: u64 = 0x7f * ONES;

/// The uppermost bit of each byte that is this one, and nothing else.
#[inline]
pub(crate) const fn equal(word: u64, byte: u8) -> u64 {
    zero(word ^ byte as u64 * ONES)
}

/// The uppermost bit of each byte that is 0, and nothing else.
#[inline]
pub(crate) const fn zero(word: u64) -> u64 {
    !(((word & LOWER_BITS) + LOWER_BITS) | word | LOWER_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_wherever_it_is_and_no_other_is_taken_for_it() {
        for (bytes, found) in [
            ([0, 1, 0, 0x80, 0xff, 0x7f, 1, 0], [0x80, 0, 0x80, 0, 0, 0, 0, 0x80]),
            ([1; 8], [0; 8]),
            ([0; 8], [0x80; 8]),
        ] {
            assert_eq!(zero(u64::from_le_bytes(bytes)), u64::from_le_bytes(found));
        }
        assert_eq!(equal(u64::from_be_bytes(*b"a./b.-.."), b'.'), 0x0080_0000_8000_8080);
    }
}
