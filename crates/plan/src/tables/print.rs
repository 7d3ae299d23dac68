//! Fingerprints of names and paths, by which tables find them without reading their text.
//!
//! A print is SipHash-1-3 with 128 bits under a key that the process drew at random and shows nobody. To those who
//! do not know the key its bits are as good as thrown anew for each text, so that nobody can look for two texts
//! with one print. [`Index`](super::index::Index) says what follows from that.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Two words that tell nothing of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Print {
    /// Says where to look.
    pub(crate) place: u64,
    /// Says what to look for; never 0.
    pub(crate) tag: u64,
}

impl Print {
    #[inline]
    pub(crate) fn of(text: &[u8]) -> Self {
        static STATE: LazyLock<State> = LazyLock::new(|| {
            let random = || RandomState::new().hash_one(());
            State::new(random(), random())
        });
        let [place, tag] = STATE.hash::<1, 3>(text);
        Self { place, tag: tag.max(1) }
    }
}

#[derive(Clone, Copy)]
struct State([u64; 4]);

impl State {
    const fn new(key: u64, other_key: u64) -> Self {
        Self([
            key ^ 0x736f_6d65_7073_6575,
            other_key ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            key ^ 0x6c79_6765_6e65_7261,
            other_key ^ 0x7465_6462_7974_6573,
        ])
    }

    /// With so many rounds for each word of the text, and so many at its end for each word of the hash.
    #[inline]
    fn hash<const EACH: usize, const LAST: usize>(mut self, text: &[u8]) -> [u64; 2] {
        let (words, rest) = text.as_chunks::<8>();
        for word in words {
            self.take::<EACH>(u64::from_le_bytes(*word));
        }
        self.take::<EACH>(last_word(text, rest));
        self.0[2] ^= 0xee;
        let first = self.finish::<LAST>();
        self.0[1] ^= 0xdd;
        [first, self.finish::<LAST>()]
    }

    #[inline]
    fn take<const ROUNDS: usize>(&mut self, word: u64) {
        self.0[3] ^= word;
        self.rounds::<ROUNDS>();
        self.0[0] ^= word;
    }

    #[inline]
    fn finish<const ROUNDS: usize>(&mut self) -> u64 {
        self.rounds::<ROUNDS>();
        let [a, b, c, d] = self.0;
        a ^ b ^ c ^ d
    }

    #[inline]
    fn rounds<const COUNT: usize>(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        for _ in 0..COUNT {
            a = a.wrapping_add(b);
            c = c.wrapping_add(d);
            b = b.rotate_left(13) ^ a;
            d = d.rotate_left(16) ^ c;
            a = a.rotate_left(32).wrapping_add(d);
            c = c.wrapping_add(b);
            b = b.rotate_left(17) ^ c;
            d = d.rotate_left(21) ^ a;
            c = c.rotate_left(32);
        }
        self.0 = [a, b, c, d];
    }
}

/// What is left of the text behind its whole words, and in the uppermost byte its length.
#[inline]
fn last_word(text: &[u8], rest: &[u8]) -> u64 {
    let rest = match text.last_chunk::<8>() {
        // In one read: the bytes before the rest are shifted out.
        Some(_) if rest.is_empty() => 0,
        Some(end) => u64::from_le_bytes(*end) >> (64 - 8 * rest.len()),
        None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    rest | (text.len() as u64) << 56
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the vectors of SipHash's authors, which are for 2-4: the key is the bytes 0 to 15, the text those from
    /// 0 up.
    #[test]
    fn it_is_siphash() {
        let state = State::new(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        for (length, expected) in [
            (0, "a3817f04ba25a8e66df67214c7550293"),
            (1, "da87c1d86b99af44347659119b22fc45"),
            (3, "9c70b60c5267a94e5f33b6b02985ed51"),
            (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
            (16, "6ee2a4ca67b054bbfd3315bf85230577"),
            (17, "473d06e8738db89854c066c47ae47740"),
        ] {
            let text: Vec<u8> = (0..length).collect();
            let hash = state.hash::<2, 4>(&text).map(u64::to_le_bytes).concat();
            let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected, "{length} bytes");
        }
    }

    #[test]
    fn equal_texts_have_one_print_and_others_another() {
        let texts: Vec<String> = (0..40).map(|length| "a".repeat(length)).collect();
        for (at, text) in texts.iter().enumerate() {
            let same =
                texts.iter().position(|other| Print::of(other.as_bytes()) == Print::of(text.as_bytes()));
            assert_eq!(same, Some(at));
        }
    }
}
