//! Copies of requests for mirrors. The request itself never waits for one.

use std::cell::Cell;
use std::rc::Rc;

use http::request::Parts;
use http_body_util::BodyExt;
use tidegate_plan::ListenerHandle;
use tidegate_proxy::Ending;

use super::Exchange;
use crate::body::{Source, Upload};
use crate::engine::Home;
use crate::mirror::Mirror;
use crate::upstream::{Destination, Speaks, reach_any};

/// Sends a copy on its way, if this request is to have one and there is room.
pub(super) fn send(
    exchange: &Exchange,
    listener: &ListenerHandle,
    mirror: &Mirror,
    parts: &Parts,
    source: Option<&Rc<Source>>,
) {
    let home = &exchange.home;
    if exchange.is_tunnel || !mirror.is_due() {
        return;
    }
    let Some(copy) = mirror.copy(parts) else { return };
    let Some(place) = Place::take(home) else { return home.kit.reached(Ending::TooManyMirrors) };
    let Some(to) = destination(home, listener, mirror, exchange.is_grpc) else { return };
    let upload = match source {
        None => Upload::Empty,
        Some(source) => match source.copy() {
            Some(upload) => upload,
            None => return,
        },
    };
    let client = exchange.tie.client.ip();
    let time = home.kit.bounds().idle_time;
    let home = Rc::clone(home);
    tokio::task::spawn_local(async move {
        let _place = place;
        let sent = async {
            let reached = reach_any(&home, &to, client).await.ok()?;
            let endpoint = reached.lease.address;
            let sent = reached.line.send((&copy).into(), &to, endpoint, upload, |_, _| ()).await;
            let (response, _hold) = sent.ok()?;
            let mut body = response.into_body();
            // What a mirror answers is nobody's concern; read to its end, its connection can be used again.
            while let Some(frame) = body.frame().await {
                frame.ok()?;
            }
            body.release();
            Some(())
        };
        let _ = tokio::time::timeout(time, sent).await;
    });
}

fn destination(
    home: &Home,
    listener: &ListenerHandle,
    mirror: &Mirror,
    is_grpc: bool,
) -> Option<Destination> {
    let snapshot = home.kit.snapshot();
    let backend = snapshot.target(&mirror.target).ok()?;
    let gateway = listener.id.gateway.clone();
    let tls = snapshot.tls_to(backend, &gateway).ok()?;
    Some(Destination { backend: backend.clone(), tls, gateway, speaks: Speaks::to(backend, is_grpc) })
}

/// One of the copies that there may be at a time.
struct Place(Rc<Home>);

impl Place {
    fn take(home: &Rc<Home>) -> Option<Self> {
        let taken: &Cell<usize> = &home.mirrors;
        (taken.get() < home.kit.bounds().mirrors).then(|| {
            taken.set(taken.get() + 1);
            Self(Rc::clone(home))
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.mirrors.set(self.0.mirrors.get() - 1);
    }
}
