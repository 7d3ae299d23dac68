//! What the proxy uses, as the kernel counts it: processor time, memory and open files of its process and of all
//! processes below it, and how busy each core was.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use clap::Args;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Proxy {
    /// The proxy's process; processes that it started count with it
    #[arg(long = "proxy-pid", value_name = "PID", value_delimiter = ',')]
    roots: Vec<i32>,
}

#[derive(Clone, Debug)]
pub(crate) struct Usage {
    pub(crate) at: Instant,
    /// Seconds, in the program and in the kernel on its behalf.
    pub(crate) processor: f64,
    /// The part of it in the program.
    pub(crate) user: f64,
    /// Seconds that each core was busy, with whatever.
    pub(crate) cores: Vec<f64>,
}

/// In KB.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    /// Resident, with pages shared by several processes counted once.
    pub(crate) proportional: u64,
    pub(crate) processes: usize,
    pub(crate) open_files: usize,
}

impl Proxy {
    pub(crate) fn usage(&self) -> Usage {
        let tick = rustix::param::clock_ticks_per_second() as f64;
        let mut usage = Usage { at: Instant::now(), processor: 0.0, user: 0.0, cores: busy_cores(tick) };
        for process in self.processes() {
            let Some(stat) = Stat::of(process) else { continue };
            usage.user += stat.user as f64 / tick;
            usage.processor += (stat.user + stat.system) as f64 / tick;
        }
        usage
    }

    pub(crate) fn memory(&self) -> Memory {
        let mut memory = Memory::default();
        for process in self.processes() {
            memory.processes += 1;
            memory.open_files += fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count);
            let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
            for line in rollup.lines() {
                let mut words = line.split_whitespace();
                let (name, size) = (words.next(), words.next().and_then(|size| size.parse().ok()));
                match name {
                    Some("Rss:") => memory.resident += size.unwrap_or(0),
                    Some("Pss:") => memory.proportional += size.unwrap_or(0),
                    _ => {}
                }
            }
        }
        memory
    }

    /// The named ones and all that descend from them.
    fn processes(&self) -> Vec<i32> {
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        if !self.roots.is_empty() {
            for process in all_processes() {
                if let Some(stat) = Stat::of(process) {
                    children.entry(stat.parent).or_default().push(process);
                }
            }
        }
        let mut found = Vec::new();
        let mut to_visit = self.roots.clone();
        while let Some(process) = to_visit.pop() {
            if !found.contains(&process) {
                found.push(process);
                to_visit.extend(children.get(&process).into_iter().flatten());
            }
        }
        found
    }
}

fn all_processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The fields of /proc/PID/stat that are of use here; times are in clock ticks.
struct Stat {
    parent: i32,
    user: u64,
    system: u64,
}

impl Stat {
    fn of(process: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn parse(line: &str) -> Option<Self> {
        // The name in parentheses may hold anything; what follows the last one is numbers.
        let (_, numbers) = line.rsplit_once(") ")?;
        let fields: Vec<&str> = numbers.split(' ').collect();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            user: fields.get(11)?.parse().ok()?,
            system: fields.get(12)?.parse().ok()?,
        })
    }
}

fn busy_cores(tick: f64) -> Vec<f64> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let cores = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    cores
        .map(|line| {
            let times: Vec<f64> =
                line.split_whitespace().skip(1).filter_map(|time| time.parse().ok()).collect();
            // user, nice, system, irq, softirq
            [0, 1, 2, 5, 6].iter().filter_map(|&field| times.get(field)).sum::<f64>() / tick
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_hold_anything() {
        let line = "7 (a) S 1 (b) S 3 7 7 0 -1 4194560 1 0 0 0 21 34 0 0 20 0 1 0 5 0 0";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.parent, stat.user, stat.system), (3, 21, 34));
    }

    #[test]
    fn this_process_has_memory_and_files() {
        let proxy = Proxy { roots: vec![std::process::id() as i32] };
        let memory = proxy.memory();
        assert!(memory.processes >= 1 && memory.resident > 100 && memory.open_files > 2, "{memory:?}");
    }
}
