//! Regular expressions as routes write them: they must match the whole text.

use std::fmt;

use regex::bytes::{Regex, RegexBuilder};

/// A compiled pattern. It reads bytes, because header values need not be UTF-8.
#[derive(Clone)]
pub struct Pattern(Regex);

#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(#[from] regex::Error);

impl Pattern {
    /// A pattern that would need more memory than this, compiled, is refused: routes come from many hands.
    const SIZE_LIMIT: usize = 1 << 20;

    /// Whoever accepts a pattern asks this, so that nothing is accepted that the data plane cannot compile.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        // By itself first: "a)(b" is no pattern, but would become one between the anchors.
        build(text)?;
        // A pattern in extended mode may end in a comment, which only a line's end closes.
        build(&format!(r"\A(?:{text})\z"))
            .or_else(|error| build(&format!("\\A(?:{text}\n)\\z")).map_err(|_| error))
            .map(Self)
            .map_err(PatternError)
    }

    #[must_use]
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.0.is_match(text)
    }
}

fn build(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(Pattern::SIZE_LIMIT).build()
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({})", self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).unwrap().is_match(text.as_bytes())
    }

    #[test]
    fn the_whole_text_must_match() {
        assert!(matches("/a", "/a"));
        assert!(!matches("/a", "/ab"));
        assert!(!matches("/a", "x/a"));
        assert!(matches("a|ab", "ab"));
        assert!(!matches("a|b", "ab"));
        assert!(!matches("(?m)a$", "a\nb"));
    }

    #[test]
    fn anchors_do_not_make_a_pattern_out_of_what_is_none() {
        assert!(Pattern::parse("a)(b").is_err());
        assert!(Pattern::parse("(").is_err());
        assert!(Pattern::parse("a{1000}{1000}").is_err());
    }

    #[test]
    fn a_comment_at_the_end_does_not_swallow_the_anchor() {
        assert!(matches("(?x) a b # and no more", "ab"));
        assert!(!matches("(?x) a b # and no more", "abc"));
    }
}
