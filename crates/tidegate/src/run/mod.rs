//! `tidegate run`: the manifests of a folder, served by this machine.

pub(crate) mod admin;
mod certificates;
pub(crate) mod challenges;
mod control;
pub(crate) mod kept;
mod live;
pub(crate) mod log;
mod overview;
pub(crate) mod phase;
mod programmed;
pub(crate) mod signals;
pub(crate) mod sockets;
pub(crate) mod times;
mod watch;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tidegate_http::Engine;
use tidegate_proxy::{LogFormat as LineFormat, LogTarget, Proxy};
use tidegate_translate::Settings;

use crate::arguments::{AccessLog, LogFormat, Run};
use crate::certs::default_issuer;
use crate::check::findings;
use crate::meaning::Meaning;
use crate::output::{Error, Outcome, Terminal};
use crate::run::admin::Answers;
use crate::run::certificates::Certificates;
use crate::run::challenges::DataPlane;
use crate::run::control::Control;
use crate::run::live::Live;
use crate::run::log::Log;
use crate::run::signals::Signals;
use crate::run::watch::Watcher;
use crate::source::{Manifests, Unwatched, Watch};

pub(crate) fn run(options: &Run, terminal: &mut Terminal) -> Result<Outcome, Error> {
    if options.dry_run {
        return dry_run(options, terminal);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("control")
        .build()
        .map_err(|error| Error::Start(format!("cannot start: {error}")))?;
    let served = runtime.block_on(serve(options, terminal));
    // An answer that somebody is still waiting for does not hold up the end.
    runtime.shutdown_background();
    let (outcome, live) = served?;
    // Only whoever writes such an answer has it still.
    if let Some(live) = Arc::into_inner(live) {
        live.proxy.stop();
    }
    Ok(outcome)
}

fn dry_run(options: &Run, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let own: Vec<SocketAddr> = [options.admin].into_iter().chain(options.health).collect();
    let meaning = Meaning::under(&options.paths, translation_settings(options, &own))?;
    meaning.report(terminal);
    terminal.print(&overview::render(&meaning, &options.settings(own), None))?;
    Ok(Outcome::good_if(findings::find(&meaning).is_empty()))
}

async fn serve(options: &Run, terminal: &mut Terminal) -> Result<(Outcome, Arc<Live>), Error> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| Error::Start(format!("{what}: {error}"))
    };
    let log = Log::new(options.log_format);
    tidegate_proxy::raise_descriptor_limit();
    let signals = Signals::new().map_err(failed("cannot wait for signals"))?;
    let admin = bind(options.admin, "--admin")?;
    let health = options.health.map(|address| bind(address, "--health")).transpose()?;
    let own: Vec<SocketAddr> =
        [&admin].into_iter().chain(&health).filter_map(|socket| socket.local_addr().ok()).collect();

    let mut watcher =
        if options.once { None } else { Some(Watcher::new().map_err(failed("cannot watch files"))?) };
    let watch: &mut dyn Watch = match &mut watcher {
        Some(watcher) => watcher,
        None => &mut Unwatched,
    };
    let (manifests, update) = Manifests::open(&options.paths, watch);
    for failure in update.failures {
        let is_root = matches!(&failure, Error::Read { path, .. } if options.paths.contains(path));
        if is_root {
            return Err(failure);
        }
        log.error("unreadable", failure);
    }
    for (folder, error) in watcher.iter_mut().flat_map(Watcher::failures) {
        log.error("unwatched", format_args!("{} cannot be watched: {error}", folder.display()));
    }
    let meaning = Meaning::new(manifests, translation_settings(options, &own));
    if options.log_format == LogFormat::Text {
        meaning.report(terminal);
    }

    let settings = options.settings(own.clone());
    let lines =
        access_log(&options.access_log, options.log_format).map_err(failed("cannot write the access log"))?;
    let http = options.http().map_err(failed("cannot start the HTTP engine"))?;
    let http = Box::new(Engine::new(http));
    let proxy = Proxy::start(settings.clone(), lines, http).map_err(failed("cannot start the data plane"))?;
    let live = Arc::new(Live::new(meaning, proxy));
    admin::serve(admin, Answers::All, &live).map_err(failed("cannot serve --admin"))?;
    if let Some(health) = health {
        admin::serve(health, Answers::Health, &live).map_err(failed("cannot serve --health"))?;
    }
    let challenges = Arc::new(DataPlane::new(&live));
    let certificates = Certificates::start(&options.certificates, challenges, log).await?;
    let mut control = Control::new(Arc::clone(&live), watcher, certificates, log, signals);
    control.start().await;
    if options.log_format == LogFormat::Text {
        terminal.remark(&overview::render(&live.meaning(), &settings, Some(&live.proxy.sockets())));
    }
    live.progress.ready();
    let names: Vec<String> = own.iter().map(ToString::to_string).collect();
    log.info("ready", format_args!("serving; status and metrics at http://{}", names.join(", http://")));
    let outcome = match control.live().await {
        None => Outcome::Good,
        Some(signal) => Outcome::Interrupted(signal),
    };
    Ok((outcome, live))
}

pub(crate) fn access_log(
    target: &AccessLog,
    format: LogFormat,
) -> std::io::Result<Option<tidegate_proxy::AccessLog>> {
    let target = match target {
        AccessLog::Off => return Ok(None),
        AccessLog::StandardOutput => LogTarget::Stdout,
        AccessLog::File(path) => LogTarget::File(path.clone()),
    };
    let format = match format {
        LogFormat::Text => LineFormat::Text,
        LogFormat::Json => LineFormat::Json,
    };
    tidegate_proxy::AccessLog::start(target, format).map(Some)
}

/// What there is to end, in words.
pub(crate) fn underway(proxy: &Proxy) -> String {
    let connections = format!("{} connections", proxy.connections());
    match proxy.flows() {
        0 => connections,
        flows => format!("{connections} and {flows} flows"),
    }
}

/// Ports of Tidegate itself are none for listeners, which name theirs before the offset.
fn translation_settings(options: &Run, own: &[SocketAddr]) -> Settings {
    let reserved = own.iter().filter_map(|address| address.port().checked_sub(options.port_offset));
    Settings {
        reserved_ports: reserved.filter(|port| *port > 0).collect(),
        issuer: default_issuer(options.certificates.certs),
        ..Settings::folder()
    }
}

pub(crate) fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Error> {
    tidegate_kubernetes::listen(address).map_err(|error| {
        let owner =
            if error.kind() == std::io::ErrorKind::AddrInUse { tidegate_proxy::owner(address) } else { None };
        let owner = owner.map(|owner| format!("; {owner} has it")).unwrap_or_default();
        Error::Start(format!("cannot listen on {address}: {error}{owner} (choose another with {flag})"))
    })
}
