//! Waits until a new connection with a name is answered: how long a start takes.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::BUFFER;
use super::opening;
use crate::Result;
use crate::poll::{GONE, Poll};
use crate::record::{Label, Record};
use crate::request::{Request, RequestOptions};
use crate::target::{self, Target};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    label: Label,
    #[command(flatten)]
    target: target::Options,
    #[command(flatten)]
    request: RequestOptions,
    /// Run this first; the time counts from there
    #[arg(long, value_name = "COMMAND")]
    cmd: Option<String>,
    /// Seconds until it is given up
    #[arg(long, default_value_t = 60.0)]
    timeout: f64,
    /// Milliseconds that one attempt may take
    #[arg(long, default_value_t = 1000)]
    try_ms: u64,
}

const BETWEEN: Duration = Duration::from_millis(2);

pub(crate) fn run(options: &Options) -> Result<()> {
    let first = options.request.first("echo.test");
    if options.target.plain && first.is_none() {
        return Err("a probe has to begin with something that is answered".into());
    }
    let mut target = Target::new(&options.target, "echo.test")?;
    let start = Instant::now();
    if let Some(command) = &options.cmd {
        Command::new("sh").arg("-c").arg(command).stdout(Stdio::null()).spawn()?;
    }
    let mut attempts = 0_u64;
    while start.elapsed().as_secs_f64() < options.timeout {
        attempts += 1;
        if answers(&mut target, first, Duration::from_millis(options.try_ms)) {
            let record = Record::new(&options.label, "probe");
            record.number("ms", start.elapsed().as_secs_f64() * 1e3, 1).set("tries", attempts).print();
            return Ok(());
        }
        thread::sleep(BETWEEN);
    }
    Err(format!("{} did not answer within {} s", options.target.to, options.timeout).into())
}

/// Whether one new connection has its exchange in time.
pub(super) fn answers(target: &mut Target, first: Option<Request>, limit: Duration) -> bool {
    let start = Instant::now();
    let mut buffer = vec![0; BUFFER];
    let mut events = Vec::new();
    let Ok(mut poll) = Poll::new() else { return false };
    let Ok(mut connection) = opening::begin(target, first, &poll, 0) else { return false };
    while start.elapsed() < limit {
        if connection.pump(&mut buffer, GONE).is_err() {
            return false;
        }
        if connection.done() && !connection.wrong {
            connection.close();
            return true;
        }
        if connection.ended || connection.wrong {
            return false;
        }
        poll.wait(Some(Duration::from_millis(10)), &mut events);
    }
    false
}
