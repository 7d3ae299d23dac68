//! Messages that are nearly right: some bytes of one removed, and words put in that mean something there.

use proptest::prelude::*;
use proptest::sample::Index;

/// One of the messages with a few edits, each with one of the words, a byte or nothing.
pub(crate) fn mutated(
    messages: &'static [&'static str],
    words: &'static [&'static str],
) -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((any::<Index>(), edit(words)), 1..6);
    (any::<Index>(), edits).prop_map(|(which, edits)| {
        let mut bytes = messages[which.index(messages.len())].as_bytes().to_vec();
        for (at, (removed, put)) in edits {
            let at = at.index(bytes.len() + 1);
            let end = (at + removed).min(bytes.len());
            bytes.splice(at..end, put.iter().copied());
        }
        bytes
    })
}

/// So many bytes are removed, and these put in their place.
fn edit(words: &'static [&'static str]) -> impl Strategy<Value = (usize, Vec<u8>)> {
    let word = prop::sample::select(words).prop_map(|word| word.as_bytes().to_vec());
    let bytes = prop_oneof![3 => word, 1 => any::<u8>().prop_map(|byte| vec![byte]), 1 => Just(Vec::new())];
    (0..4_usize, bytes)
}
