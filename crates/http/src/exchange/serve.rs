//! The way of a request: checked, decided about, through the rule's filters to a backend, and its answer back.

use std::rc::Rc;
use std::time::SystemTime;

use http::header;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use tidegate_plan::{Inbound, ListenerHandle, PathMatch, Reason, Rule, RuleHandle};
use tidegate_proxy::Ending;
use tokio::time::timeout_at;

use super::failure::Failure;
use super::forward::{Aim, forward};
use super::{Exchange, authorize, mirrored, upgrade};
use crate::body::{Body, Source};
use crate::client::Tie;
use crate::engine::Home;
use crate::filters::{Chain, Next, Passage};
use crate::hop;
use crate::request::{self, Asked};
use crate::rules::Prepared;
use crate::upstream::{Destination, Speaks};

/// Answers a request, whatever comes.
pub(crate) async fn serve(home: Rc<Home>, tie: Rc<Tie>, mut request: Request<Incoming>) -> Response<Body> {
    let tunnel = upgrade::Wish::of(&mut request);
    let (parts, incoming) = request.into_parts();
    let exchange = Exchange::new(home, tie, &parts, tunnel.is_some());
    let answer = answer(&exchange, parts, incoming, tunnel).await;
    let response = answer.unwrap_or_else(|failure| failure.answer(&exchange));
    exchange.status.set(response.status().as_u16());
    response
}

/// What takes the request.
struct Found {
    listener: ListenerHandle,
    rule: RuleHandle,
    which: usize,
    prepared: Rc<Prepared>,
}

impl Found {
    /// The match that a prefix replacement replaces a part of.
    fn path(&self) -> Option<&PathMatch> {
        match self.rule.rule() {
            Rule::Http(rule) => rule.matches.get(self.which).map(|matched| &matched.path),
            Rule::Grpc(_) | Rule::Stream(_) => None,
        }
    }
}

async fn answer(
    exchange: &Rc<Exchange>,
    mut parts: Parts,
    incoming: Incoming,
    tunnel: Option<upgrade::Wish>,
) -> Result<Response<Body>, Failure> {
    request::settle(&mut parts)?;
    check_size(exchange, &parts)?;
    if let Some(tunnel) = &tunnel {
        tunnel.settle(&mut parts);
    }
    let found = find(exchange, &parts)?;
    if !exchange.tie.was_let_in_by(&found.listener) {
        // Nobody may go on under rules for client certificates that are no longer those of the listener.
        exchange.tie.end(std::time::Instant::now() + exchange.home.kit.bounds().drain_time, Ending::Drained);
        return Err(Reason::Misdirected.into());
    }
    let (https, local) = (exchange.tie.is_https(), exchange.tie.local);
    let mut passage = Passage::new(&parts, https, local, found.path());
    let deadline =
        found.prepared.request_time.map(|time| tokio::time::Instant::from_std(exchange.began + time));
    let way = through(exchange, &found, parts, &mut passage, incoming, tunnel);
    let result = match deadline {
        None => way.await,
        Some(deadline) => {
            timeout_at(deadline, way).await.unwrap_or_else(|_| Err(Ending::RequestTimeout.into()))
        }
    };
    let mut response = result.unwrap_or_else(|failure| failure.answer(exchange));
    found.prepared.chain.on_response(response.headers_mut(), &passage);
    Ok(response)
}

/// What hyper has no bound for.
fn check_size(exchange: &Exchange, parts: &Parts) -> Result<(), Failure> {
    let bounds = exchange.home.kit.bounds();
    let target = parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target > bounds.uri_size || parts.headers.len() > bounds.header_count {
        return Err(Ending::RequestTooLarge.into());
    }
    Ok(())
}

/// Asks the newest plan.
fn find(exchange: &Exchange, parts: &Parts) -> Result<Found, Failure> {
    let snapshot = exchange.home.kit.snapshot();
    let asked = Asked::new(parts);
    let (tie, request) = (&exchange.tie, asked.request());
    let inbound = Inbound { local: tie.local, https: tie.listener.as_ref().map(|listener| &listener.id) };
    let matched = match snapshot.tables().matched(&inbound, &request, &mut ()) {
        Ok(matched) => matched,
        Err(refusal) => {
            refusal.listener.map(|listener| exchange.listener.set(listener.clone()));
            refusal.rule.map(|rule| exchange.rule.set(rule.clone()));
            if exchange.home.kit.wants_refusal(SystemTime::now()) {
                let mut steps = Vec::new();
                // The same again, step by step.
                let _ = snapshot.tables().matched(&inbound, &request, &mut steps);
                exchange.keep_refusal(refusal.reason.into(), steps);
            }
            return Err(refusal.reason.into());
        }
    };
    let (listener, rule) = (matched.listener.clone(), matched.rule.clone());
    let _ = exchange.listener.set(listener.clone());
    let _ = exchange.rule.set(rule.clone());
    let prepared = exchange.home.rules.of(&rule, &snapshot);
    let prepared = prepared
        .map_err(|error| Failure::new(Reason::FilterInvalid.into(), Some(error.to_string().into())))?;
    let _ = exchange.prepared.set(Rc::clone(&prepared));
    Ok(Found { listener, rule, which: matched.which, prepared })
}

/// Through the filters to a backend.
async fn through(
    exchange: &Rc<Exchange>,
    found: &Found,
    mut parts: Parts,
    passage: &mut Passage<'_>,
    incoming: Incoming,
    tunnel: Option<upgrade::Wish>,
) -> Result<Response<Body>, Failure> {
    let bounds = exchange.home.kit.bounds();
    let is_grpc = exchange.is_grpc || matches!(found.rule.rule(), Rule::Grpc(_));
    // A stream of messages may be quiet for as long as any connection.
    let body_time = if is_grpc { bounds.idle_time } else { bounds.body_time };
    let keep = if found.prepared.retry.is_some() { bounds.retry_size } else { 0 };
    let source = Source::new(incoming, exchange, keep, body_time);
    for auth in &found.listener.external_auth {
        authorize::ask(exchange, &found.listener, auth, &mut parts, source.as_ref()).await?;
    }
    exchange.tie.forwarded.announce(&mut parts.headers);
    hop::strip_request(&mut parts.headers);
    // The client is told to go on when the backend wants its body.
    parts.headers.remove(header::EXPECT);
    parts.extensions.clear();

    let chain = &found.prepared.chain;
    if let Some(answer) = filter(exchange, found, chain, &mut parts, passage, source.as_ref()).await? {
        return Ok(answer);
    }
    let (to, index) = choose(exchange, found, is_grpc && tunnel.is_none())?;
    let of_backend = found.prepared.backends.get(index);
    if let Some(chain) = of_backend.filter(|chain| !chain.is_empty())
        && let Some(answer) = filter(exchange, found, chain, &mut parts, passage, source.as_ref()).await?
    {
        return Ok(answer);
    }
    let mut response = match tunnel {
        Some(tunnel) => upgrade::forward(exchange, to, parts, tunnel).await?,
        None => {
            let aim = Aim { to, prepared: &found.prepared };
            forward(exchange, aim, parts, source).await?
        }
    };
    if let Some(chain) = of_backend {
        chain.on_response(response.headers_mut(), passage);
    }
    Ok(response)
}

/// One chain of filters. An answer means that the request goes no further.
async fn filter(
    exchange: &Rc<Exchange>,
    found: &Found,
    chain: &Chain,
    parts: &mut Parts,
    passage: &mut Passage<'_>,
    source: Option<&Rc<Source>>,
) -> Result<Option<Response<Body>>, Failure> {
    for step in chain.steps() {
        match step.on_request(parts, passage) {
            Next::On => {}
            Next::Answer(answer) => {
                exchange.ends(Ending::Answered, None);
                return Ok(Some(answer.map(Body::from)));
            }
            Next::Mirror(mirror) => mirrored::send(exchange, &found.listener, mirror, parts, source),
            Next::Authorize(auth) => {
                authorize::ask(exchange, &found.listener, auth, parts, source).await?;
            }
            Next::Refuse(reason) => return Err(reason.into()),
        }
    }
    Ok(None)
}

/// The backend whose turn it is, and which of the rule's it is.
fn choose(exchange: &Exchange, found: &Found, is_grpc: bool) -> Result<(Destination, usize), Failure> {
    let snapshot = exchange.home.kit.snapshot();
    let chosen = snapshot.deal(&found.rule)?;
    *exchange.backend.borrow_mut() = Some(chosen.backend.clone());
    let gateway = &found.listener.id.gateway;
    let tls = snapshot.tls_to(chosen.backend, gateway)?;
    let to = Destination {
        speaks: Speaks::to(chosen.backend, is_grpc),
        backend: chosen.backend.clone(),
        tls,
        gateway: gateway.clone(),
    };
    Ok((to, chosen.index))
}
