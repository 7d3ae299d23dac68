//! Fingerprints of names and paths, by which tables find them without reading their text.
//!
//! A print is SipHash-1-3 with 128 bits under a key that the process drew at random and shows nobody. To those who
//! do not know the key its bits are as good as thrown anew for each text, so that nobody can look for two texts
//! with one print. [`Index`](super::index::Index) says what follows from that.
//!
//! A text is hashed from its end to its beginning: the whole words of a name are then those of all that follows its
//! dots as well, and are taken once for all of them.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use crate::tables::bytes;

/// What there is to know of a text. The two tell nothing of each other, but for 16 bits that are in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Print {
    /// Says where to look, by other bits than those that are in the tag.
    pub(crate) place: u64,
    /// Says what to look for: 56 bits, never 0.
    pub(crate) tag: u64,
}

/// A print of which only the place was made yet.
#[derive(Clone, Copy, Default)]
pub(crate) struct Begun {
    pub(crate) place: u64,
    state: State,
}

impl Print {
    #[inline]
    pub(crate) fn of(text: &[u8]) -> Self {
        KEYED.walk::<1>(text, |_, _, _| {}).begin().whole()
    }
}

impl Begun {
    /// The print of a name; on the way to it, `parent` is given what follows each dot, with the number of its labels,
    /// the shortest first.
    #[inline]
    pub(crate) fn of_name(name: &[u8], mut parent: impl FnMut(usize, &Ending)) -> Self {
        let mut labels = 0;
        let all = KEYED.walk::<1>(name, |state, word, taken| {
            let mut dots = bytes::equal(word, b'.');
            while dots != 0 {
                labels += 1;
                let bits = dots.trailing_zeros() & !7;
                parent(labels, &Ending::new(*state, word & ((1 << bits) - 1), taken + bits as usize / 8));
                dots &= dots - 1;
            }
        });
        all.begin()
    }

    #[inline]
    pub(crate) fn whole(mut self) -> Print {
        let more = self.state.second_word::<3>() >> 24;
        Print { place: self.place, tag: first_of_tag(self.place) | more.max(1) << 16 }
    }
}

/// The bits of a tag that are known with the place.
#[inline]
pub(crate) const fn first_of_tag(place: u64) -> u64 {
    place >> 16 & 0xffff
}

static KEYED: LazyLock<State> = LazyLock::new(|| {
    let random = || RandomState::new().hash_one(());
    State::new(random(), random())
});

#[derive(Clone, Copy, Default)]
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

    /// From the end of the text on, with so many rounds for each word. `look` is shown each word before it is taken,
    /// the last, which is none or not whole, too; and how many bytes were taken.
    #[inline]
    fn walk<const EACH: usize>(mut self, text: &[u8], mut look: impl FnMut(&Self, u64, usize)) -> Ending {
        let mut rest = text;
        let mut taken = 0;
        while let Some((before, word)) = rest.split_last_chunk::<8>() {
            let word = u64::from_be_bytes(*word);
            look(&self, word, taken);
            self.take::<EACH>(word);
            (rest, taken) = (before, taken + 8);
        }
        let word = match text.first_chunk::<8>() {
            // In one read: the bytes behind the rest are shifted out.
            Some(_) if rest.is_empty() => 0,
            Some(start) => u64::from_be_bytes(*start) >> (64 - 8 * rest.len()),
            None => rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        look(&self, word, taken);
        Ending::new(self, word, text.len())
    }

    #[inline]
    fn take<const ROUNDS: usize>(&mut self, word: u64) {
        self.0[3] ^= word;
        self.rounds::<ROUNDS>();
        self.0[0] ^= word;
    }

    /// The first word of the hash, with so many rounds for the last of the text, and so many at the end.
    #[inline]
    fn first_word<const EACH: usize, const LAST: usize>(&mut self, last: u64) -> u64 {
        self.take::<EACH>(last);
        self.0[2] ^= 0xee;
        self.finish::<LAST>()
    }

    #[inline]
    fn second_word<const LAST: usize>(&mut self) -> u64 {
        self.0[1] ^= 0xdd;
        self.finish::<LAST>()
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

/// A text of which all whole words are taken: its hash is a few steps away, which wait for no other text's.
#[derive(Clone, Copy)]
pub(crate) struct Ending {
    state: State,
    /// What is left of the text, and in the uppermost byte its length.
    word: u64,
}

impl Ending {
    #[inline]
    const fn new(state: State, rest: u64, length: usize) -> Self {
        Self { state, word: rest | (length as u64) << 56 }
    }

    #[inline]
    pub(crate) fn begin(&self) -> Begun {
        let mut state = self.state;
        let place = state.first_word::<1, 3>(self.word);
        Begun { place, state }
    }

    /// Of a name: a longer text is not told from one that is shorter by 256 bytes.
    #[inline]
    pub(crate) const fn length(&self) -> usize {
        (self.word >> 56) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the vectors of SipHash's authors, which are for 2-4: the key is the bytes 0 to 15, the text, which is
    /// read from its end, those from 0 up.
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
            let reversed: Vec<u8> = (0..length).rev().collect();
            let Ending { mut state, word } = state.walk::<2>(&reversed, |_, _, _| {});
            let hash =
                [state.first_word::<2, 4>(word), state.second_word::<4>()].map(u64::to_le_bytes).concat();
            let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected, "{length} bytes");
        }
    }

    #[test]
    fn what_follows_a_dot_has_the_print_that_it_has_by_itself() {
        for name in ["", "a", ".", "a.b", "host-12345.apps.example.com", "a.bcdefgh.i.jklmnop.q..rstuvw.x"] {
            let mut parents = Vec::new();
            let begun = Begun::of_name(name.as_bytes(), |labels, ending| {
                parents.push((labels, ending.begin().whole()));
            });
            assert_eq!(begun.whole(), Print::of(name.as_bytes()), "{name}");
            let follows = name.rmatch_indices('.').map(|(at, _)| Print::of(&name.as_bytes()[at + 1..]));
            assert_eq!(parents, (1..).zip(follows).collect::<Vec<_>>(), "{name}");
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
