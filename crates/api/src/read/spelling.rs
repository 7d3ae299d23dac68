//! Which word was meant by one that is not known.

/// The word of `words` that was most likely meant.
pub(crate) fn nearest<'w>(text: &str, words: &[&'w str]) -> Option<&'w str> {
    let limit = if text.len() < 5 { 1 } else { 2 };
    words
        .iter()
        .map(|word| (distance(&text.to_ascii_lowercase(), &word.to_ascii_lowercase()), *word))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, word)| word)
}

/// Levenshtein's.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
