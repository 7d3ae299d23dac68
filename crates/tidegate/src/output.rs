//! How a command ends and where its words go: the result, and nothing else, to standard output.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use tidegate_kubernetes::remote::RemoteError;

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const CARE: Style = AnsiColor::Yellow.on_default();
pub(crate) const STRONG: Style = Style::new().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();

/// Text in a style; where there is no colour, the streams take it out again.
pub(crate) fn styled(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// What a command found, as its exit status says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    /// Something was refused, or differs.
    Refused,
    Failed,
    /// By a signal, with its number, before all was done.
    Interrupted(u8),
}

impl Outcome {
    pub(crate) const fn good_if(good: bool) -> Self {
        if good { Self::Good } else { Self::Refused }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Good => Self::SUCCESS,
            Outcome::Refused => Self::from(1),
            Outcome::Failed => Self::from(2),
            Outcome::Interrupted(signal) => Self::from(128 + signal),
        }
    }
}

/// Why a command could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("cannot write {}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("cannot write the result: {0}")]
    Output(io::Error),
    #[error("{0}")]
    Usage(String),
    /// What was to be served, or asked, could not be.
    #[error("{0}")]
    Start(String),
}

impl From<RemoteError> for Error {
    fn from(error: RemoteError) -> Self {
        Self::Start(error.to_string())
    }
}

/// The two streams, with colour only where it is wanted.
pub(crate) struct Terminal {
    result: anstream::AutoStream<io::Stdout>,
    remarks: anstream::AutoStream<io::Stderr>,
}

impl Terminal {
    pub(crate) fn new() -> Self {
        Self {
            result: anstream::AutoStream::auto(io::stdout()),
            remarks: anstream::AutoStream::auto(io::stderr()),
        }
    }

    /// Whoever closes a pipe has seen enough; what the command found is the same.
    pub(crate) fn print(&mut self, result: &str) -> Result<(), Error> {
        match self.result.write_all(result.as_bytes()).and_then(|()| self.result.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::Output(error)),
            _ => Ok(()),
        }
    }

    pub(crate) fn print_json(&mut self, result: &impl serde::Serialize) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(result).map_err(|error| Error::Output(error.into()))?;
        self.print(&format!("{text}\n"))
    }

    /// A remark beside the result. That nobody reads it is no reason to stop.
    pub(crate) fn remark(&mut self, text: &str) {
        let _ = writeln!(self.remarks, "{text}");
    }

    pub(crate) fn error(&mut self, message: &str) {
        self.remark(&format!("{}: {message}", styled(BAD.bold(), "error")));
    }

    pub(crate) fn warning(&mut self, message: &str) {
        self.remark(&format!("{}: {message}", styled(CARE.bold(), "warning")));
    }
}
