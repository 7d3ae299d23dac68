//! Numbers that look random and are the same at every start, for jitter and for names of Secrets.

/// FNV-1a, with a last stir so that close texts give far numbers.
pub(crate) fn hash(parts: &[&str]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

/// Below `range`; 0 where there is no range.
pub(crate) fn below(hash: u64, range: i64) -> i64 {
    match u64::try_from(range) {
        Ok(range) if range > 0 => i64::try_from(hash % range).unwrap_or(0),
        _ => 0,
    }
}
