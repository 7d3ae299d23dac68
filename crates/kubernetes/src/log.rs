//! The controller's log, whose lines somebody else writes.

use std::fmt::{self, Display};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Info,
    Warning,
    Error,
}

type Write = dyn Fn(Level, &str, &str) + Send + Sync;

/// Takes a level, an event's short name, and a message of one line.
#[derive(Clone)]
pub struct Log(Arc<Write>);

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

impl Log {
    pub fn new(write: impl Fn(Level, &str, &str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    pub(crate) fn info(&self, event: &str, message: impl Display) {
        (self.0)(Level::Info, event, &message.to_string());
    }

    pub(crate) fn warning(&self, event: &str, message: impl Display) {
        (self.0)(Level::Warning, event, &message.to_string());
    }

    pub(crate) fn error(&self, event: &str, message: impl Display) {
        (self.0)(Level::Error, event, &message.to_string());
    }
}
