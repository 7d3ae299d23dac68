//! `tidegate controller`: Gateways of a cluster, each with a data plane of its own.

mod answers;

use std::sync::Arc;

use tidegate_kubernetes::{Client, Config, Health, Level, Metrics};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::arguments::{Controller, LogLevel};
use crate::output::{Error, Outcome};
use crate::run::log::Log;

/// Following the API server and translating may go on while the link and the Lease are looked after.
const THREADS: usize = 2;

pub(crate) fn run(options: &Controller) -> Result<Outcome, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .thread_name("controller")
        .build()
        .map_err(|error| Error::Start(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(control(options));
    runtime.shutdown_background();
    outcome
}

async fn control(options: &Controller) -> Result<Outcome, Error> {
    let log = own_log(options);
    let settings = options.settings()?;
    let stop = stop_on_signals()?;
    let health = tidegate_kubernetes::listen(options.health).map_err(|error| {
        Error::Start(format!("cannot listen on {}: {error} (choose another with --health)", options.health))
    })?;
    let no_cluster =
        |error: &dyn std::fmt::Display| Error::Start(format!("there is no cluster to control: {error}"));
    let config = Config::infer().await.map_err(|error| no_cluster(&error))?;
    let client = Client::try_from(config).map_err(|error| no_cluster(&error))?;

    let (metrics, state) = (Arc::new(Metrics::default()), Arc::new(Health::default()));
    answers::serve(health, Arc::clone(&metrics), Arc::clone(&state))
        .map_err(|error| Error::Start(format!("cannot serve --health: {error}")))?;
    tidegate_kubernetes::run(client, settings, log, metrics, state, stop).await;
    Ok(Outcome::Good)
}

fn own_log(options: &Controller) -> tidegate_kubernetes::Log {
    let (log, least) = (Log::new(options.log_format), options.log_level);
    tidegate_kubernetes::Log::new(move |level, event, message| match level {
        Level::Info if least <= LogLevel::Info => log.info(event, message),
        Level::Warning if least <= LogLevel::Warning => log.warning(event, message),
        Level::Error => log.error(event, message),
        Level::Info | Level::Warning => {}
    })
}

fn stop_on_signals() -> Result<watch::Receiver<bool>, Error> {
    let failed = |error| Error::Start(format!("cannot wait for signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.send_replace(true);
    });
    Ok(stopped)
}
