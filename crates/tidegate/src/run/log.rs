//! Tidegate's own log: what happened to files, ports and the process, a line each on standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::SystemTime;

use anstyle::Style;
use serde_json::{Value, json};
use tidegate_plan::LogLevel;

use crate::arguments::LogFormat;
use crate::output::{BAD, CARE, FAINT, styled};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    format: LogFormat,
}

/// Of the whole process: the least important lines that are written.
static LEAST: AtomicU8 = AtomicU8::new(LogLevel::Info as u8);

impl Log {
    pub(crate) const fn new(format: LogFormat) -> Self {
        Self { format }
    }

    /// Lines that are less important are left out from now on.
    pub(crate) fn least(level: LogLevel) {
        LEAST.store(level as u8, Relaxed);
    }

    pub(crate) fn info(self, event: &str, message: impl Display) {
        self.write(LogLevel::Info, event, &message.to_string());
    }

    pub(crate) fn warning(self, event: &str, message: impl Display) {
        self.write(LogLevel::Warning, event, &message.to_string());
    }

    pub(crate) fn error(self, event: &str, message: impl Display) {
        self.write(LogLevel::Error, event, &message.to_string());
    }

    /// Whether nobody reads it but machines.
    pub(crate) fn is_for_machines(self) -> bool {
        self.format == LogFormat::Json
    }

    /// Where a person looks on, there is room for more than a line.
    pub(crate) fn detail(self, text: &str) {
        if self.format == LogFormat::Text && io::stderr().is_terminal() {
            let _ = writeln!(anstream::stderr(), "{}", text.trim_end());
        }
    }

    fn write(self, level: LogLevel, event: &str, message: &str) {
        if (level as u8) < LEAST.load(Relaxed) {
            return;
        }
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let line = match self.format {
            LogFormat::Text => text_line(level, &time, message),
            LogFormat::Json => json_line(level, &time, event, message),
        };
        // That nobody reads it is no reason to stop serving.
        let _ = anstream::stderr().write_all(line.as_bytes());
    }
}

fn text_line(level: LogLevel, time: &str, message: &str) -> String {
    let (style, word) = match level {
        LogLevel::Info => (Style::new(), "info "),
        LogLevel::Warning => (CARE, "warn "),
        LogLevel::Error => (BAD, "error"),
    };
    format!("{} {} {}\n", styled(FAINT, time), styled(style, word), message.replace('\n', " "))
}

fn json_line(level: LogLevel, time: &str, event: &str, message: &str) -> String {
    let level = match level {
        LogLevel::Info => "info",
        LogLevel::Warning => "warn",
        LogLevel::Error => "error",
    };
    let line: Value = json!({ "time": time, "level": level, "event": event, "message": message });
    format!("{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_whatever_the_message() {
        let text = text_line(LogLevel::Warning, "2026-11-16T00:00:00.000Z", "two\nlines");
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(plain, "2026-11-16T00:00:00.000Z warn  two lines\n");
        let json = json_line(LogLevel::Error, "t", "file-bad", "two\n\"lines\"");
        assert_eq!(json.lines().count(), 1);
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["message"], "two\n\"lines\"");
    }
}
