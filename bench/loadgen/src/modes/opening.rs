//! Opens connections that are to stay: many in all, some at a time.

use std::io;
use std::time::{Duration, Instant};

use super::BUFFER;
use crate::connection::Connection;
use crate::poll::Poll;
use crate::request::Request;
use crate::target::Target;

/// What is not open by then will not be.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Opened {
    /// By token; those that failed are missing.
    pub(super) connections: Vec<Option<Connection>>,
    pub(super) open: usize,
    pub(super) failed: usize,
}

/// With a request to begin with, a connection is open when that was answered.
pub(super) fn open(
    target: &mut Target,
    first: Option<Request>,
    count: usize,
    at_a_time: usize,
    poll: &mut Poll,
) -> Opened {
    let mut opened =
        Opened { connections: std::iter::repeat_with(|| None).take(count).collect(), open: 0, failed: 0 };
    let mut is_open = vec![false; count];
    let mut buffer = vec![0; BUFFER];
    let mut events = Vec::new();
    let (mut next, mut under_way) = (0, 0);
    let start = Instant::now();
    while opened.open + opened.failed < count && start.elapsed() < PATIENCE {
        while under_way < at_a_time && next < count {
            match begin(target, first, poll, next) {
                Ok(connection) => {
                    opened.connections[next] = Some(connection);
                    under_way += 1;
                }
                Err(_) => opened.failed += 1,
            }
            next += 1;
        }
        poll.wait(Some(Duration::from_millis(50)), &mut events);
        for event in &events {
            let Some(connection) = opened.connections[event.token].as_mut() else { continue };
            let pumped = connection.pump(&mut buffer, event.flags);
            if is_open[event.token] {
                continue;
            }
            if connection.done() && pumped.is_ok() && !connection.wrong {
                connection.busy = false;
                is_open[event.token] = true;
                opened.open += 1;
                under_way -= 1;
            } else if pumped.is_err() || connection.ended || connection.wrong {
                opened.connections[event.token] = None;
                opened.failed += 1;
                under_way -= 1;
            }
        }
    }
    opened
}

pub(super) fn begin(
    target: &mut Target,
    first: Option<Request>,
    poll: &Poll,
    token: usize,
) -> io::Result<Connection> {
    let mut connection = target.connect()?;
    connection.register(poll, token)?;
    match first {
        Some(request) => connection.ask(request, Instant::now())?,
        None => connection.flush()?,
    }
    Ok(connection)
}
