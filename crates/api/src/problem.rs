//! What is wrong with an object, where it stands and what to write instead.

use std::fmt;

use crate::tree::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The object is not used.
    Error,
    /// The object is used; something in it has no effect or will bite later.
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// The name of the rule that was broken, the same for every object that breaks it.
    pub rule: &'static str,
    /// `Gateway default/web`; empty for what belongs to no object, such as broken YAML.
    pub object: String,
    /// `spec.listeners[0].port`; empty for the object as a whole.
    pub field: String,
    pub span: Span,
    pub message: String,
    /// What to write instead; may be empty.
    pub help: String,
}

/// One line, without the source.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.object, &self.field] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        write!(f, "{}", self.message)?;
        if !self.help.is_empty() {
            write!(f, " ({})", self.help)?;
        }
        write!(f, " [{}]", self.rule)
    }
}
