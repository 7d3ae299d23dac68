//! The time as the requests of a worker need it: what may be late by a tenth of a second is not asked of the machine.

use std::cell::{Cell, Ref, RefCell};
use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use http::HeaderValue;

/// Turned with every tick of the worker.
pub(crate) struct Clock {
    now: Cell<Instant>,
    /// The time of day at an instant of the same moment.
    noon: Cell<(Instant, SystemTime)>,
    date: RefCell<(u64, HeaderValue)>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let (now, time) = (Instant::now(), SystemTime::now());
        let date = RefCell::new((seconds(time), date(time)));
        Self { now: Cell::new(now), noon: Cell::new((now, time)), date }
    }

    pub(crate) fn turn(&self) {
        let (now, time) = (Instant::now(), SystemTime::now());
        self.now.set(now);
        self.noon.set((now, time));
        let mut known = self.date.borrow_mut();
        if known.0 != seconds(time) {
            *known = (seconds(time), date(time));
        }
    }

    /// Late by a tenth of a second at most, if the worker is not late itself.
    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    /// The time of day at an instant of the last few seconds.
    pub(crate) fn time_of_day(&self, at: Instant) -> SystemTime {
        let (instant, time) = self.noon.get();
        match at.checked_duration_since(instant) {
            Some(since) => time + since,
            None => time.checked_sub(instant - at).unwrap_or(time),
        }
    }

    /// As the header of that name has it.
    pub(crate) fn date(&self) -> Ref<'_, HeaderValue> {
        Ref::map(self.date.borrow(), |(_, date)| date)
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

fn date(time: SystemTime) -> HeaderValue {
    let text = httpdate::fmt_http_date(time);
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"))
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({:?})", self.date())
    }
}
