//! `tidegate proxy`: the data plane of one Gateway, told by a controller what to serve.

mod live;
mod plane;
mod settings;

use std::sync::Arc;
use std::thread;

use tidegate_http::Engine;
use tidegate_link::{Client, ClientOptions};
use tidegate_plan::Capability;
use tidegate_proxy::Proxy;
use tokio::sync::oneshot;

use crate::arguments;
use crate::output::{Error, Outcome};
use crate::proxy::live::Live;
use crate::proxy::plane::Plane;
use crate::run::admin::{self, Answers};
use crate::run::log::Log;
use crate::run::signals::Signals;
use crate::run::{access_log, bind, underway};

pub(crate) fn run(options: &arguments::Proxy) -> Result<Outcome, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Start(format!("cannot start: {error}")))?;
    let served = runtime.block_on(serve(options));
    // An answer that somebody is still waiting for does not hold up the end.
    runtime.shutdown_background();
    let (outcome, live) = served?;
    // Only whoever writes such an answer has it still.
    if let Some(live) = Arc::into_inner(live) {
        live.proxy.stop();
    }
    Ok(outcome)
}

async fn serve(options: &arguments::Proxy) -> Result<(Outcome, Arc<Live>), Error> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| Error::Start(format!("{what}: {error}"))
    };
    let log = Log::new(options.log_format);
    tidegate_proxy::raise_descriptor_limit();
    let mut signals = Signals::new().map_err(failed("cannot wait for signals"))?;
    let admin = bind(options.admin, "--admin")?;
    let health = bind(options.health, "--health")?;
    let own: Vec<_> = [&admin, &health].into_iter().filter_map(|socket| socket.local_addr().ok()).collect();
    let settings = options.settings(own.clone());
    let bounds = settings.bounds.clone();
    let lines =
        access_log(&options.access_log, options.log_format).map_err(failed("cannot write the access log"))?;
    let http = options.http().map_err(failed("cannot start the HTTP engine"))?;
    let sessions = http.secret.clone();
    let proxy = Proxy::start(settings, lines, Box::new(Engine::new(http)))
        .map_err(failed("cannot start the data plane"))?;
    let live = Arc::new(Live::new(proxy));
    admin::serve(admin, Answers::All, &live).map_err(failed("cannot serve --admin"))?;
    admin::serve(health, Answers::Health, &live).map_err(failed("cannot serve --health"))?;
    let names: Vec<String> = own.iter().map(ToString::to_string).collect();
    log.info("started", format_args!("status and metrics at http://{}", names.join(", http://")));

    let plane = Plane::new(Arc::clone(&live), log, bounds, sessions);
    let (following, stopped) = oneshot::channel();
    let follower = follow(client(options), plane, stopped).map_err(failed("cannot follow a controller"))?;
    let outcome = live_on(options, &live, log, &mut signals).await;
    drop(following);
    // A thread that panicked has said so.
    let _ = follower.join();
    Ok((outcome, live))
}

fn client(options: &arguments::Proxy) -> Client {
    Client::new(ClientOptions {
        controller: options.controller,
        ca: options.ca.clone(),
        token: options.token.clone(),
        name: options.name.clone(),
        capabilities: Capability::ALL.iter().copied().collect(),
        cache: options.cache.clone(),
    })
}

/// On a thread of its own: a large plan takes a while, in which probes are to be answered.
fn follow(
    client: Client,
    mut plane: Plane,
    stopped: oneshot::Receiver<()>,
) -> std::io::Result<thread::JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("link".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                never = client.run(&mut plane) => match never {},
                _ = stopped => {}
            }
        });
        runtime.shutdown_background();
    })
}

/// Until it is told to end, and has.
async fn live_on(options: &arguments::Proxy, live: &Live, log: Log, signals: &mut Signals) -> Outcome {
    loop {
        tokio::select! {
            _ = signals.hangup.recv() => live.proxy.reopen_log(),
            _ = signals.interrupt.recv() => break,
            _ = signals.terminate.recv() => break,
        }
    }
    live.progress.drain();
    let delay = humantime::format_duration(options.pre_stop_delay);
    log.info("ending", format_args!("not ready any more; goes on accepting for {delay}"));
    let drained = async {
        tokio::time::sleep(options.pre_stop_delay).await;
        let time = live.proxy.bounds().drain_time;
        let shown = humantime::format_duration(time);
        log.info("draining", format_args!("{} have {shown} to end", underway(&live.proxy)));
        live.proxy.drain(time).await;
    };
    tokio::select! {
        () = drained => {
            log.info("ended", format_args!("{} were cut off", underway(&live.proxy)));
            Outcome::Good
        }
        number = signals.end() => {
            log.warning("ended", format_args!("ended at once, {} were cut off", underway(&live.proxy)));
            Outcome::Interrupted(number)
        }
    }
}
