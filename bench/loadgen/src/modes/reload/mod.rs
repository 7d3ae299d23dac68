//! A change of configuration under load: connections that stay and have exchanges, and a stream of new ones, while a
//! route for a new name is added. When is the name served, and what broke on the way?

mod load;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;

use self::load::Load;
use crate::Result;
use crate::processes::{Memory, Proxy, Usage};
use crate::record::{Label, Record};
use crate::request::RequestOptions;
use crate::target;

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
    /// Connections that stay
    #[arg(long, default_value_t = 1000)]
    conns: usize,
    /// Makes the change; the time counts from when it is started
    #[arg(long, value_name = "COMMAND", required_unless_present = "rename")]
    reload_cmd: Option<String>,
    /// Makes the change for a proxy that follows files: the time counts from this one system call
    #[arg(long, value_name = "FROM,TO", conflicts_with = "reload_cmd", value_parser = rename)]
    rename: Option<Rename>,
    /// The name that the change adds
    #[arg(long, default_value = "new.test")]
    new_sni: String,
    /// Seconds to go on after the name is served
    #[arg(long, default_value_t = 5.0)]
    after: f64,
    /// Seconds to wait for the name
    #[arg(long, default_value_t = 60.0)]
    timeout: f64,
}

#[derive(Clone, Debug)]
struct Rename {
    from: PathBuf,
    to: PathBuf,
}

fn rename(text: &str) -> std::result::Result<Rename, String> {
    let (from, to) = text.split_once(',').ok_or("write two paths: FROM,TO")?;
    Ok(Rename { from: from.into(), to: to.into() })
}

/// Before the change, for comparison.
const BEFORE: Duration = Duration::from_secs(1);
/// Between exchanges on the connections that stay, all together.
const EXCHANGE_EVERY: Duration = Duration::from_micros(200);
const NEW_EVERY: Duration = Duration::from_millis(5);
const PROBE_EVERY: Duration = Duration::from_millis(2);

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut load = Load::new(options)?;
    let memory = options.proxy.memory();
    let start = Instant::now();
    let (mut next_exchange, mut next_new, mut next_probe) = (start, start, start);
    let mut change: Option<Change> = None;
    loop {
        let now = Instant::now();
        if let Some(change) = &mut change {
            if change.is_over(options, load.served, now) {
                break;
            }
        } else if now - start > BEFORE {
            change = Some(Change::make(options)?);
            load.changed = true;
        }
        while next_exchange <= now {
            next_exchange += EXCHANGE_EVERY;
            load.exchange(now);
        }
        if next_new <= now {
            next_new = now + NEW_EVERY;
            load.connect_new();
        }
        if load.changed && load.served.is_none() && next_probe <= now {
            next_probe = now + PROBE_EVERY;
            load.connect_probe();
        }
        load.turn(EXCHANGE_EVERY);
    }
    if let Some(change) = change {
        let record = change.describe(options, &load, Record::new(&options.label, "reload"));
        describe_memory(memory, options.proxy.memory(), load.describe(record)).print();
    }
    Ok(())
}

fn describe_memory(before: Memory, after: Memory, record: Record) -> Record {
    record
        .set("rss0_kb", before.resident)
        .set("rss1_kb", after.resident)
        .set("pss0_kb", before.proportional)
        .set("pss1_kb", after.proportional)
        .set("procs", after.processes)
}

/// The change under way.
struct Change {
    at: Instant,
    usage: Usage,
    command: Option<Child>,
    /// How long it took to make it, whether or not it is served.
    took: Option<Duration>,
}

impl Change {
    fn make(options: &Options) -> Result<Self> {
        let usage = options.proxy.usage();
        let at = Instant::now();
        if let Some(Rename { from, to }) = &options.rename {
            fs::rename(from, to)?;
            return Ok(Self { at, usage, command: None, took: Some(at.elapsed()) });
        }
        let mut shell = Command::new("sh");
        shell.arg("-c").args(&options.reload_cmd).stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Self { at, usage, command: Some(shell.spawn()?), took: None })
    }

    /// Whether the new name was served for long enough, or will not be.
    fn is_over(&mut self, options: &Options, served: Option<Instant>, now: Instant) -> bool {
        if let Some(child) = &mut self.command
            && let Ok(Some(_)) = child.try_wait()
        {
            self.took = Some(self.at.elapsed());
            self.command = None;
        }
        match served {
            Some(served) => (now - served).as_secs_f64() > options.after,
            None => (now - self.at).as_secs_f64() > options.timeout,
        }
    }

    fn describe(&self, options: &Options, load: &Load, record: Record) -> Record {
        let milliseconds = |time: Option<Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
        record
            .number("route_ms", milliseconds(load.served.map(|served| served - self.at)), 1)
            .number("cmd_ms", milliseconds(self.took), 1)
            .number("cpu_s", options.proxy.usage().processor - self.usage.processor, 2)
    }
}
