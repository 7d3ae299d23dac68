//! What the kernel says of this process, under the names that Prometheus clients of every language use.

use std::fs;

/// Each is missing where `/proc` does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Process {
    pub(super) open_files: Option<u64>,
    pub(super) open_files_limit: Option<u64>,
    pub(super) resident_bytes: Option<u64>,
    pub(super) cpu_seconds: Option<f64>,
    /// Since 1970.
    pub(super) start_seconds: Option<f64>,
}

impl Process {
    pub(super) fn now() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").ok();
        let fields = stat.as_deref().and_then(Fields::of);
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let page = rustix::param::page_size() as u64;
        let boot = fs::read_to_string("/proc/stat").ok().as_deref().and_then(boot_seconds);
        Self {
            // The listing itself has one open.
            open_files: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|files| (files.count() as u64).saturating_sub(1)),
            open_files_limit: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            resident_bytes: fields.map(|fields| fields.resident_pages * page),
            cpu_seconds: fields.map(|fields| fields.cpu_ticks as f64 / ticks),
            start_seconds: fields
                .zip(boot)
                .map(|(fields, boot)| boot as f64 + fields.start_ticks as f64 / ticks),
        }
    }
}

/// What is of interest in `/proc/self/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    cpu_ticks: u64,
    start_ticks: u64,
    resident_pages: u64,
}

impl Fields {
    fn of(stat: &str) -> Option<Self> {
        // The second field is the command, which may have blanks and parentheses of its own.
        let (_, after_command) = stat.rsplit_once(')')?;
        let field = |number: usize| after_command.split_whitespace().nth(number - 3)?.parse::<u64>().ok();
        Some(Self { cpu_ticks: field(14)? + field(15)?, start_ticks: field(22)?, resident_pages: field(24)? })
    }
}

fn boot_seconds(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn fields_are_found_behind_an_odd_command() {
        let stat =
            "7 (a) b (c) S 1 7 7 0 -1 4194560 2 0 0 0 150 50 0 0 20 0 3 0 12345 1000 42 18446744073709551615";
        let fields = Fields { cpu_ticks: 200, start_ticks: 12_345, resident_pages: 42 };
        assert_eq!(Fields::of(stat), Some(fields));
        assert_eq!(Fields::of("7 (a) S 1"), None);
        assert_eq!(boot_seconds("cpu 1 2\nbtime 1794800475\nprocesses 3\n"), Some(1_794_800_475));
    }

    #[test]
    fn this_process() {
        let process = Process::now();
        assert!(process.open_files.unwrap() >= 3);
        assert!(process.open_files_limit.is_none_or(|limit| limit >= process.open_files.unwrap()));
        assert!(process.resident_bytes.unwrap() > 1 << 20);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let start = process.start_seconds.unwrap();
        assert!(start < now + 1.0 && start > now - 86_400.0, "{start} {now}");
        assert!(process.cpu_seconds.unwrap() >= 0.0);
    }
}
