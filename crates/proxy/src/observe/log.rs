//! The access log: workers write lines into buffers of their own and hand them over in blocks; one thread writes
//! these out. Nobody waits for it: what it cannot take is dropped and counted, and later lines are written again as
//! soon as that can be done.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::line::{Format, Record};

/// A block is handed over when it has this many bytes, or earlier by [`LogWriter::flush`].
const BLOCK: usize = 128 * 1024;
/// Room for the line that goes over it.
const SLACK: usize = 8 * 1024;
/// Blocks that wait for the thread, of all workers together: 2 MB.
const QUEUE: usize = 16;

/// Where lines of the access log go.
pub enum Target {
    /// Appended to, and opened again when asked to, so that it can be rotated.
    File(PathBuf),
    Stdout,
    Stderr,
    Other(Box<dyn Write + Send>),
}

/// The log as a whole. [`LogWriter`]s are for the workers.
pub struct AccessLog {
    format: Format,
    messages: SyncSender<Message>,
    state: Arc<LogState>,
    /// Nothing is ever sent: it ends with the thread.
    ended: Mutex<Receiver<()>>,
}

/// What went wrong with the log, for metrics and status.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    /// Lines that came while too many waited.
    behind: AtomicU64,
    /// Lines that could not be written.
    failed: AtomicU64,
    reopen: AtomicBool,
    trouble: Mutex<Option<String>>,
}

enum Message {
    Block(Block),
    /// Look whether something is asked for.
    Wake,
}

struct Block {
    bytes: Vec<u8>,
    lines: u64,
    /// Where the empty buffer goes.
    home: SyncSender<Vec<u8>>,
}

impl AccessLog {
    /// Fails if the file cannot be opened.
    pub fn start(target: Target, format: Format) -> io::Result<Self> {
        let (messages, queue) = sync_channel(QUEUE);
        let (alive, ended) = sync_channel(0);
        let state = Arc::new(LogState::default());
        let output = Output::open(target, Arc::clone(&state))?;
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            output.write_all_of(&queue);
            drop(alive);
        })?;
        Ok(Self { format, messages, state, ended: Mutex::new(ended) })
    }

    /// For one worker.
    pub(crate) fn writer(&self) -> LogWriter {
        let (home, returned) = sync_channel(4);
        LogWriter {
            format: self.format,
            bytes: Vec::with_capacity(BLOCK + SLACK),
            lines: 0,
            messages: self.messages.clone(),
            home,
            returned,
            state: Arc::clone(&self.state),
        }
    }

    pub(crate) fn state(&self) -> &Arc<LogState> {
        &self.state
    }

    /// Opens the file anew, where it was renamed or removed.
    pub(crate) fn reopen(&self) {
        self.state.reopen.store(true, Relaxed);
        // If it is full the thread is awake.
        let _ = self.messages.try_send(Message::Wake);
    }

    /// Waits until everything is written that the writers, which must be gone by now, have handed over; `false` if
    /// that was not so in time.
    pub(crate) fn finish(self, patience: Duration) -> bool {
        drop(self.messages);
        self.ended.into_inner().unwrap_or_else(PoisonError::into_inner).recv_timeout(patience)
            == Err(RecvTimeoutError::Disconnected)
    }
}

impl LogState {
    pub(crate) fn lines_behind(&self) -> u64 {
        self.behind.load(Relaxed)
    }

    pub(crate) fn lines_failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    /// Why lines cannot be written at the moment.
    #[cfg(test)]
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Said once when it begins and once when it is over.
    fn set_trouble(&self, trouble: Option<String>) {
        let mut known = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*known, &trouble) {
            (None, Some(why)) => {
                eprintln!("tidegate: lines of the access log are dropped and counted: {why}");
            }
            (Some(_), None) => eprintln!("tidegate: the access log is written again"),
            _ => {}
        }
        *known = trouble;
    }
}

/// One worker's end of the log.
pub(crate) struct LogWriter {
    format: Format,
    bytes: Vec<u8>,
    lines: u64,
    messages: SyncSender<Message>,
    home: SyncSender<Vec<u8>>,
    returned: Receiver<Vec<u8>>,
    state: Arc<LogState>,
}

impl LogWriter {
    #[inline]
    pub(crate) fn write(&mut self, record: &Record<'_>) {
        record.write(self.format, &mut self.bytes);
        self.lines += 1;
        if self.bytes.len() >= BLOCK {
            self.flush();
        }
    }

    /// Hands over what there is; to be called about every 100 ms.
    pub(crate) fn flush(&mut self) {
        if self.lines == 0 {
            return;
        }
        let full = self.bytes.len() >= BLOCK;
        let lines = std::mem::take(&mut self.lines);
        let bytes = std::mem::take(&mut self.bytes);
        let message = Message::Block(Block { bytes, lines, home: self.home.clone() });
        match self.messages.try_send(message) {
            Ok(()) => {
                let fresh = || Vec::with_capacity(BLOCK + SLACK);
                self.bytes = self.returned.try_recv().unwrap_or_else(|_| fresh());
            }
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => {
                let Message::Block(block) = message else { return };
                self.bytes = block.bytes;
                if full {
                    self.state.behind.fetch_add(lines, Relaxed);
                    self.bytes.clear();
                } else {
                    self.lines = lines;
                }
            }
        }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.flush();
        // Whatever could not be handed over is lost.
        self.state.behind.fetch_add(self.lines, Relaxed);
    }
}

/// The thread's side.
struct Output {
    path: Option<PathBuf>,
    out: Box<dyn Write + Send>,
    /// The last thing written is a part of a line.
    torn: bool,
    /// The last block could not be written.
    failing: bool,
    state: Arc<LogState>,
}

impl Output {
    fn open(target: Target, state: Arc<LogState>) -> io::Result<Self> {
        let (path, out): (_, Box<dyn Write + Send>) = match target {
            Target::File(path) => {
                let file = append_to(&path)?;
                (Some(path), Box::new(file))
            }
            Target::Stdout => (None, Box::new(io::stdout())),
            Target::Stderr => (None, Box::new(io::stderr())),
            Target::Other(out) => (None, out),
        };
        Ok(Self { path, out, torn: false, failing: false, state })
    }

    fn write_all_of(mut self, queue: &Receiver<Message>) {
        while let Ok(message) = queue.recv() {
            if self.state.reopen.swap(false, Relaxed) {
                self.reopen();
            }
            if let Message::Block(mut block) = message {
                self.write_block(&block);
                block.bytes.clear();
                // A worker that has buffers enough, or is gone, wants none.
                let _ = block.home.try_send(block.bytes);
            }
        }
    }

    fn reopen(&mut self) {
        let Some(path) = &self.path else { return };
        match append_to(path) {
            Ok(file) => {
                self.out = Box::new(file);
                self.torn = false;
                self.state.set_trouble(None);
            }
            // The old file is better than none.
            Err(error) => {
                self.state.set_trouble(Some(format!("{} cannot be opened: {error}", path.display())));
            }
        }
    }

    fn write_block(&mut self, block: &Block) {
        // What is left of a torn line is not to swallow the next.
        let mended = if self.torn { self.write(b"\n").1 } else { Ok(()) };
        let (written, result) = match mended {
            Ok(()) => self.write(&block.bytes),
            failed => (0, failed),
        };
        if written > 0 {
            self.torn = block.bytes[written - 1] != b'\n';
        }
        match result.and_then(|()| self.out.flush()) {
            Ok(()) if !self.failing => {}
            Ok(()) => {
                self.failing = false;
                self.state.set_trouble(None);
            }
            Err(error) => {
                self.failing = true;
                let whole = block.bytes[..written].iter().filter(|byte| **byte == b'\n').count() as u64;
                self.state.failed.fetch_add(block.lines - whole, Relaxed);
                self.state.set_trouble(Some(error.to_string()));
            }
        }
    }

    /// How much was written, and why not all.
    fn write(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < bytes.len() {
            match self.out.write(&bytes[written..]) {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.fmt(f),
            Self::Stdout => f.write_str("stdout"),
            Self::Stderr => f.write_str("stderr"),
            Self::Other(_) => f.write_str("a writer"),
        }
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").field("state", &self.state).finish_non_exhaustive()
    }
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWriter").field("lines", &self.lines).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
