//! Memory for each connection that is open and silent. All of the process counts: the difference between before and
//! with connections is taken from what the kernel holds for it, not from what an allocator says.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::opening;
use crate::Result;
use crate::poll::Poll;
use crate::processes::Proxy;
use crate::record::{Label, Record};
use crate::request::RequestOptions;
use crate::target::{self, Target};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    label: Label,
    #[command(flatten)]
    proxy: Proxy,
    #[command(flatten)]
    target: target::Options,
    #[command(flatten)]
    request: RequestOptions,
    #[arg(long, default_value_t = 9000)]
    conns: usize,
    /// Opened at a time
    #[arg(long, default_value_t = 128)]
    par: usize,
    /// Seconds of silence before memory is looked at
    #[arg(long, default_value_t = 2.0)]
    hold: f64,
}

/// How long the proxy is watched for what it does when there is nothing to do.
const WATCHED: Duration = Duration::from_secs(2);

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut target = Target::new(&options.target, "echo.test")?;
    let before = options.proxy.memory();
    let start = Instant::now();
    let mut poll = Poll::new()?;
    let opened =
        opening::open(&mut target, options.request.first("echo.test"), options.conns, options.par, &mut poll);
    let opening = start.elapsed();
    thread::sleep(Duration::from_secs_f64(options.hold));
    let after = options.proxy.memory();
    let usage = options.proxy.usage();
    thread::sleep(WATCHED);
    let busy = (options.proxy.usage().processor - usage.processor) / WATCHED.as_secs_f64();

    let connections = opened.open.max(1) as f64;
    let more = |after: f64, before: f64| (after - before) / connections;
    Record::new(&options.label, "idle")
        .set("conns", options.conns)
        .set("ok", opened.open)
        .set("bad", opened.failed)
        .number("open_s", opening.as_secs_f64(), 2)
        .set("rss0_kb", before.resident)
        .set("rss1_kb", after.resident)
        .set("pss0_kb", before.proportional)
        .set("pss1_kb", after.proportional)
        .set("procs", after.processes)
        .number("kb_per_conn", more(after.proportional as f64, before.proportional as f64), 2)
        .number("files_per_conn", more(after.open_files as f64, before.open_files as f64), 2)
        .number("idle_cpu_pct", busy * 100.0, 1)
        .print();
    Ok(())
}
