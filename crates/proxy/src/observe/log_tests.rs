use std::sync::mpsc::channel;
use std::time::Instant;

use super::super::line::tests::{ids, record};
use super::*;

/// A writer that the test can hold up, break and mend.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<DiskState>>);

#[derive(Default)]
struct DiskState {
    bytes: Vec<u8>,
    /// How much fits; `None`: all.
    room: Option<usize>,
}

impl Disk {
    fn set_room(&self, room: Option<usize>) {
        self.0.lock().unwrap().room = room;
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().bytes.clone()).unwrap()
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut disk = self.0.lock().unwrap();
        let count = disk.room.unwrap_or(usize::MAX).min(bytes.len());
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        disk.room = disk.room.map(|room| room - count);
        disk.bytes.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn start(target: Target) -> (AccessLog, LogWriter) {
    let log = AccessLog::start(target, Format::Text).unwrap();
    let writer = log.writer();
    (log, writer)
}

fn write(writer: &mut LogWriter, numbers: std::ops::Range<u64>) {
    let ids = ids();
    for up in numbers {
        writer.write(&Record { up, ..record(&ids, "www.example.com") });
    }
}

/// The number that each whole line of the log has.
fn numbers(text: &str) -> Vec<u64> {
    let number = |line: &str| {
        let (_, rest) = line.split_once(" bytes_up=")?;
        let whole = line.matches("protocol=").count() == 1 && line.ends_with("ending=\"done\"");
        whole.then(|| rest.split(' ').next().unwrap().parse().unwrap())
    };
    text.lines().filter_map(number).collect()
}

#[test]
fn every_line_of_every_worker_is_written_once_and_in_order() {
    let disk = Disk::default();
    let (log, first) = start(Target::Other(Box::new(disk.clone())));
    std::thread::scope(|scope| {
        for (worker, mut writer) in [first, log.writer(), log.writer()].into_iter().enumerate() {
            scope.spawn(move || {
                for block in 0..50 {
                    let from = worker as u64 * 1_000_000 + block * 100;
                    write(&mut writer, from..from + 100);
                    // At the pace of a disk: this is not about what happens to those who run ahead of it.
                    until("handed over", || {
                        writer.flush();
                        writer.lines == 0
                    });
                }
            });
        }
    });
    let state = Arc::clone(log.state());
    assert!(log.finish(PATIENCE));
    let numbers = numbers(&disk.text());
    for worker in 0..3 {
        let range = worker * 1_000_000..worker * 1_000_000 + 5_000;
        let own: Vec<u64> = numbers.iter().copied().filter(|number| range.contains(number)).collect();
        assert_eq!(own, range.collect::<Vec<_>>());
    }
    assert_eq!((state.lines_behind(), state.lines_failed(), state.trouble()), (0, 0, None));
}

/// A pipe whose reader does not read.
struct Stuck(Receiver<()>);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Ends when the test lets go of the other end.
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_block_is_handed_over_without_a_flush_and_buffers_come_back() {
    let (release, stuck) = channel();
    let (_log, mut writer) = start(Target::Other(Box::new(Stuck(stuck))));
    write(&mut writer, 0..1_000);
    assert!(writer.lines < 1_000 && writer.bytes.len() < BLOCK);
    // The thread has had it until now: the writer went on with another.
    drop(release);
    let buffer = writer.returned.recv_timeout(PATIENCE).unwrap();
    assert!(buffer.is_empty() && buffer.capacity() == BLOCK + SLACK, "no line made it grow");
}

#[test]
fn nobody_waits_for_a_writer_that_is_stuck() {
    let (release, stuck) = channel();
    let (log, mut writer) = start(Target::Other(Box::new(Stuck(stuck))));
    let state = Arc::clone(log.state());
    write(&mut writer, 0..40_000);
    let dropped = state.lines_behind();
    assert!(dropped > 10_000 && dropped < 40_000, "{dropped}");
    let waiting = writer.lines;
    writer.flush();
    assert_eq!(writer.lines, waiting, "what is not full yet may still find room");
    drop(release);
    until("room again", || {
        writer.flush();
        writer.lines == 0
    });
    assert_eq!(state.lines_behind(), dropped, "it has recovered");
    drop(writer);
    assert!(log.finish(PATIENCE));
}

#[test]
fn a_log_that_is_stuck_does_not_hold_up_the_end() {
    let (release, stuck) = channel::<()>();
    let (log, mut writer) = start(Target::Other(Box::new(Stuck(stuck))));
    write(&mut writer, 0..1);
    drop(writer);
    assert!(!log.finish(Duration::from_millis(10)));
    drop(release);
}

#[test]
fn a_full_disk_loses_lines_counts_them_and_recovers_with_whole_lines() {
    let disk = Disk::default();
    let (log, mut writer) = start(Target::Other(Box::new(disk.clone())));
    let state = Arc::clone(log.state());
    disk.set_room(Some(1_000));
    write(&mut writer, 0..10);
    writer.flush();
    until("full", || state.lines_failed() > 0);
    assert!(state.trouble().is_some());
    let whole = numbers(&disk.text()).len() as u64;
    assert_eq!(state.lines_failed(), 10 - whole);
    assert!(!disk.text().ends_with('\n'), "this is about a line that was torn");

    write(&mut writer, 10..20);
    writer.flush();
    until("still full", || state.lines_failed() == 20 - whole);
    disk.set_room(None);
    write(&mut writer, 20..30);
    drop(writer);
    assert!(log.finish(PATIENCE));
    let expected: Vec<u64> = (0..whole).chain(20..30).collect();
    assert_eq!(numbers(&disk.text()), expected);
    assert_eq!((state.lines_failed(), state.trouble()), (20 - whole, None));
}

#[test]
fn a_device_that_is_always_full() {
    let (log, mut writer) = start(Target::File("/dev/full".into()));
    let state = Arc::clone(log.state());
    write(&mut writer, 0..7);
    drop(writer);
    assert!(log.finish(PATIENCE));
    assert_eq!(state.lines_failed(), 7);
    assert!(state.trouble().unwrap().contains("No space left"));
}

#[test]
fn a_file_is_appended_to_and_opened_again_when_it_was_renamed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, old) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    std::fs::write(&path, "before\n").unwrap();
    let (log, mut writer) = start(Target::File(path.clone()));
    write(&mut writer, 0..1);
    writer.flush();
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    until("written", || numbers(&read(&path)) == [0]);
    assert!(read(&path).starts_with("before\n"));

    std::fs::rename(&path, &old).unwrap();
    write(&mut writer, 1..2);
    writer.flush();
    until("still the old one", || numbers(&read(&old)) == [0, 1]);
    log.reopen();
    until("a new one, before there is a line for it", || path.exists());
    write(&mut writer, 2..3);
    drop(writer);
    assert!(log.finish(PATIENCE));
    assert_eq!((numbers(&read(&old)), numbers(&read(&path))), (vec![0, 1], vec![2]));
}

#[test]
fn a_file_that_cannot_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing/access.log");
    assert!(AccessLog::start(Target::File(missing), Format::Text).is_err());

    let path = folder.path().join("logs/access.log");
    std::fs::create_dir(folder.path().join("logs")).unwrap();
    let (log, mut writer) = start(Target::File(path.clone()));
    let state = Arc::clone(log.state());
    let (moved, inside) = (folder.path().join("moved"), folder.path().join("moved/access.log"));
    std::fs::rename(folder.path().join("logs"), &moved).unwrap();
    log.reopen();
    until("trouble", || state.trouble().is_some_and(|trouble| trouble.contains("cannot be opened")));
    write(&mut writer, 0..1);
    drop(writer);
    assert!(log.finish(PATIENCE));
    assert_eq!(numbers(&std::fs::read_to_string(inside).unwrap()), [0], "the old file is better than none");
}
