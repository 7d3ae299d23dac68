//! Strings of which only the length matters: paths, header values, patterns.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::read::{At, Read, text};
use crate::tree::Node;

/// A string of `MIN` to `MAX` characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<const MIN: usize, const MAX: usize>(Arc<str>);

impl<const MIN: usize, const MAX: usize> Text<MIN, MAX> {
    /// `None` where the text is too short or too long.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        (MIN..=MAX).contains(&text.chars().count()).then(|| Self(text.into()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same text, shared.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl<const MAX: usize> Default for Text<0, MAX> {
    fn default() -> Self {
        Self("".into())
    }
}

impl<const MIN: usize, const MAX: usize> Deref for Text<MIN, MAX> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const MIN: usize, const MAX: usize> fmt::Display for Text<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const MIN: usize, const MAX: usize> PartialEq<str> for Text<MIN, MAX> {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl<const MIN: usize, const MAX: usize> PartialEq<&str> for Text<MIN, MAX> {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl<const MIN: usize, const MAX: usize> Read for Text<MIN, MAX> {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let text = text(node, at)?;
        let value = Self::new(text);
        if value.is_none() {
            // The API server counts characters, not bytes.
            let count = text.chars().count();
            if count == 0 {
                at.wrong("too-short", node, "an empty string where something must be", "write a value");
            } else if count < MIN {
                let message = format!("{count} characters where at least {MIN} must be");
                at.wrong("too-short", node, message, "write more of it");
            } else {
                let message = format!("{count} characters where at most {MAX} may be");
                at.wrong("too-long", node, message, format!("shorten it to {MAX} characters"));
            }
            return at.stand_in(Self(text.into()));
        }
        value
    }

    fn placeholder() -> Self {
        Self("".into())
    }
}
