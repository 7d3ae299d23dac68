//! The part of a run that counts: it opens when the load has warmed up, and closes after a set time.

use std::time::{Duration, Instant};

use clap::Args;

use crate::processes::{Proxy, Usage};
use crate::record::{Label, Record};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    label: Label,
    #[command(flatten)]
    proxy: Proxy,
    /// Seconds before it counts
    #[arg(long, default_value_t = 1.0)]
    warm: f64,
    /// Seconds that count
    #[arg(long, default_value_t = 3.0)]
    dur: f64,
}

#[derive(Debug)]
pub(crate) struct Window<'a> {
    options: &'a Options,
    warm_until: Instant,
    opened: Option<Usage>,
}

/// What a look at the clock may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Whatever was counted until now was for warming up: begin at zero.
    Opened,
    Closed,
}

impl<'a> Window<'a> {
    pub(crate) fn new(options: &'a Options) -> Self {
        let warm_until = Instant::now() + Duration::from_secs_f64(options.warm);
        Self { options, warm_until, opened: None }
    }

    pub(crate) fn turn(&mut self, now: Instant) -> Option<Turn> {
        match &self.opened {
            None if now >= self.warm_until => {
                self.opened = Some(self.options.proxy.usage());
                Some(Turn::Opened)
            }
            Some(opened) if (now - opened.at).as_secs_f64() >= self.options.dur => Some(Turn::Closed),
            _ => None,
        }
    }

    /// What the proxy spent on `operations` since the window opened.
    pub(crate) fn record(&self, mode: &str, operations: f64) -> Record {
        let record = Record::new(&self.options.label, mode);
        let Some(opened) = &self.opened else { return record };
        let now = self.options.proxy.usage();
        let seconds = (now.at - opened.at).as_secs_f64();
        let spent = now.processor - opened.processor;
        let busy = now.cores.iter().zip(&opened.cores).map(|(now, then)| share((now - then) / seconds));
        record
            .number("secs", seconds, 3)
            .number("n", operations, 6)
            .number("per_s", operations / seconds, 3)
            .number("proxy_cpu_s", spent, 3)
            .number("proxy_user_frac", (now.user - opened.user) / spent.max(1e-9), 2)
            .number("proxy_us_per_op", spent * 1e6 / operations, 3)
            .set("core_busy", busy.collect::<Vec<f64>>())
    }
}

fn share(of: f64) -> f64 {
    (of * 100.0).round() / 100.0
}
