//! What is to be seen of traffic: counters, metrics, the access log, and the journal of refused connections. It
//! hears of everything and decides nothing.

mod closed_sets;
mod count;
mod counters;
mod fields;
mod journal;
mod ledger;
mod line;
mod log;
mod metrics;
mod mishaps;
mod process;
mod requests;
mod stats;
mod time;

pub(crate) use self::closed_sets::{ConnectFailure, Side};
pub(crate) use self::counters::Counters;
pub(crate) use self::journal::Journal;
pub use self::journal::{Recent, Refused};
pub(crate) use self::ledger::Ledger;
pub use self::line::{Format, RequestRecord};
pub(crate) use self::line::{Record, Tls};
pub(crate) use self::log::LogWriter;
pub use self::log::{AccessLog, Target};
pub(crate) use self::metrics::Metrics;
pub(crate) use self::mishaps::Mishaps;
pub use self::requests::RequestStats;
pub(crate) use self::stats::{ListenerStats, TrafficStats};
