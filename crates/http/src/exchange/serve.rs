//! The way of a request: checked, decided about, through the rule's filters to a backend, and its answer back.

use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response, Version};
use tidegate_plan::{ExternalAuth, Inbound, ListenerHandle, PathMatch, Reason, Rule, RuleHandle};
use tidegate_proxy::{Backend, Ending, Lease};
use tokio::time::timeout_at;

use super::authorize::Permission;
use super::failure::Failure;
use super::forward::{Aim, forward};
use super::{Exchange, authorize, mirrored, upgrade};
use crate::auth::Changes;
use crate::body::{Body, Incoming, Source};
use crate::client::{Reply, Tie};
use crate::engine::Home;
use crate::filters::{Chain, Next, Passage, Step};
use crate::hop;
use crate::request::{self, Asked, Outgoing};
use crate::rules::{Extras, Prepared};
use crate::session::Sessions;
use crate::upstream::{Destination, Speaks};

/// Answers a request, whatever comes.
pub(crate) async fn serve(
    home: Rc<Home>,
    tie: Rc<Tie>,
    request: Request<Incoming>,
    reply: Reply,
) -> Response<Body> {
    let tunnel = upgrade::Wish::of(&request, &reply).map(Box::new);
    let (mut parts, incoming) = request.into_parts();
    let exchange = Exchange::new(home, tie, &parts, reply, tunnel.is_some());
    let answer = answer(&exchange, &mut parts, incoming, tunnel).await;
    let mut response = answer.unwrap_or_else(|failure| failure.answer(&exchange));
    exchange.status.set(response.status().as_u16());
    if exchange.version >= Version::HTTP_2 {
        hop::detach(response.headers_mut());
    }
    response
}

/// What takes the request.
struct Found<'a> {
    listener: &'a ListenerHandle,
    rule: &'a RuleHandle,
    which: usize,
    prepared: &'a Prepared,
}

impl Found<'_> {
    /// The match that a prefix replacement replaces a part of.
    fn path(&self) -> Option<&PathMatch> {
        match self.rule.rule() {
            Rule::Http(rule) => rule.matches.get(self.which).map(|matched| &matched.path),
            Rule::Grpc(_) | Rule::Stream(_) => None,
        }
    }
}

/// Futures within it that few requests need are boxed: all of it is moved when a request begins.
async fn answer(
    exchange: &Rc<Exchange>,
    parts: &mut Parts,
    mut incoming: Incoming,
    tunnel: Option<Box<upgrade::Wish>>,
) -> Result<Response<Body>, Failure> {
    request::settle(parts)?;
    exchange.home.limits.check(parts)?;
    if incoming.should_be_empty(&parts.method) {
        Box::pin(incoming.look()).await.map_err(|_| Ending::ClientReset)?;
    }
    if let Some(tunnel) = &tunnel {
        tunnel.settle(parts);
    }
    if let Some(proof) = proof(exchange, parts) {
        exchange.ends(Ending::Answered, None);
        return Ok(Response::new(Body::from(Bytes::from(proof.as_bytes().to_vec()))));
    }
    let found = find(exchange, parts)?;
    if !exchange.tie.was_let_in_by(found.listener) {
        // Nobody may go on under rules for client certificates that are no longer those of the listener.
        exchange.tie.end(std::time::Instant::now() + exchange.home.kit.bounds().drain_time, Ending::Drained);
        return Err(Reason::Misdirected.into());
    }
    let (https, local) = (exchange.tie.is_https(), exchange.tie.local);
    let mut passage = Passage::new(parts, https, local, found.path());
    let mut grants = Vec::new();
    let deadline =
        found.prepared.request_time.map(|time| tokio::time::Instant::from_std(exchange.began + time));
    let result = {
        let way = pin!(through(exchange, &found, parts, (&mut passage, &mut grants), incoming, tunnel));
        match deadline {
            None => way.await,
            Some(deadline) => {
                timeout_at(deadline, way).await.unwrap_or_else(|_| Err(Ending::RequestTimeout.into()))
            }
        }
    };
    let mut response = result.unwrap_or_else(|failure| failure.answer(exchange));
    grants.iter().for_each(|changes: &Changes| changes.on_response(response.headers_mut()));
    if !exchange.is_final.get() {
        found.prepared.chain.on_response(response.headers_mut(), &passage);
    }
    Ok(response)
}

/// What a CA looks for that wants a name proved: it asks before there are routes for the name, or whatever they say.
fn proof(exchange: &Exchange, parts: &Parts) -> Option<Arc<str>> {
    exchange.home.kit.proof(request::host_text(&parts.headers)?, parts.uri.path())
}

/// Asks the newest plan. What it says is kept with the exchange: all workers count those who hold it.
fn find<'a>(exchange: &'a Exchange, parts: &Parts) -> Result<Found<'a>, Failure> {
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
    let listener = exchange.listener.get_or_init(|| matched.listener.clone());
    let rule = exchange.rule.get_or_init(|| matched.rule.clone());
    let prepared = exchange.home.rules.of(rule, &snapshot);
    let prepared = prepared.map_err(|words| Failure::new(Reason::FilterInvalid.into(), Some(words)))?;
    let prepared = exchange.prepared.get_or_init(|| prepared);
    Ok(Found { listener, rule, which: matched.which, prepared })
}

/// Through the filters to a backend.
async fn through(
    exchange: &Rc<Exchange>,
    found: &Found<'_>,
    parts: &mut Parts,
    (passage, grants): (&mut Passage<'_>, &mut Vec<Changes>),
    incoming: Incoming,
    tunnel: Option<Box<upgrade::Wish>>,
) -> Result<Response<Body>, Failure> {
    let bounds = exchange.home.kit.bounds();
    let is_grpc = exchange.is_grpc || matches!(found.rule.rule(), Rule::Grpc(_));
    // A stream of messages may be quiet for as long as any connection.
    let body_time = if is_grpc { bounds.idle_time } else { bounds.body_time };
    let keep = if found.prepared.keeps_bodies { bounds.retry_size } else { 0 };
    let source = Source::new(incoming, exchange, keep, body_time);
    // Whether somebody looks at the headers on the way.
    let is_seen = found.prepared.has_filters || !found.listener.external_auth.is_empty() || tunnel.is_some();
    hop::strip_request(&mut parts.headers);
    let announced = if is_seen { None } else { exchange.tie.forwarded.announced(&parts.headers) };
    if announced.is_none() {
        exchange.tie.forwarded.announce(&mut parts.headers);
    }
    parts.extensions.clear();

    let mut way = Way { exchange, found, parts, passage, grants, source: source.as_ref() };
    for auth in &found.listener.external_auth {
        if let Some(answer) = Box::pin(way.authorize(auth)).await? {
            return Ok(answer);
        }
    }
    if let Some(answer) = way.filter(&found.prepared.chain).await? {
        return Ok(answer);
    }
    let chosen = choose(exchange, found, way.parts, is_grpc && tunnel.is_none())?;
    let chain = found.prepared.backends.get(chosen.index);
    if let Some(chain) = chain.filter(|chain| !chain.is_empty())
        && let Some(answer) = way.filter(chain).await?
    {
        return Ok(answer);
    }
    let Way { parts, passage, .. } = way;
    let Chosen { to, session, extras, .. } = chosen;
    let kept = sessions(found, extras.as_deref()).map(|sessions| {
        let before = session.as_ref().map(|lease| lease.address);
        (sessions, Arc::clone(&to.backend), before)
    });
    let mut response = match tunnel {
        Some(tunnel) => Box::pin(upgrade::forward(exchange, to, parts, *tunnel)).await?,
        None => {
            let budget = extras.as_ref().and_then(|extras| extras.budget.as_deref());
            let chains = [chain, Some(&found.prepared.chain)];
            let aim = Aim { to, session, prepared: found.prepared, budget, chains, passage };
            let request = Outgoing { head: parts, announced: announced.as_deref() };
            forward(exchange, aim, request, source.as_ref()).await?
        }
    };
    if let (Some((sessions, backend, before)), Some(served)) = (kept, exchange.endpoint.get()) {
        remember(exchange, sessions, &backend, served, before, &mut response);
    }
    if let Some(chain) = chain {
        chain.on_response(response.headers_mut(), passage);
    }
    Ok(response)
}

/// The session that a rule keeps, or else the backend.
fn sessions<'a>(found: &Found<'a>, extras: Option<&'a Extras>) -> Option<&'a Sessions> {
    found.prepared.sessions.as_ref().or_else(|| extras.and_then(|extras| extras.sessions.as_ref()))
}

fn remember(
    exchange: &Exchange,
    sessions: &Sessions,
    backend: &Backend,
    served: SocketAddr,
    before: Option<SocketAddr>,
    response: &mut Response<Body>,
) {
    let secret = &exchange.home.options.secret;
    let tag = |address| secret.tag(&backend.plan.id, address);
    let (https, now) = (exchange.tie.is_https(), exchange.seconds());
    sessions.remember(response.headers_mut(), tag(served), before.map(tag), secret, https, now);
}

/// A request between its filters.
struct Way<'a, 'p> {
    exchange: &'a Rc<Exchange>,
    found: &'a Found<'a>,
    parts: &'a mut Parts,
    passage: &'a mut Passage<'p>,
    grants: &'a mut Vec<Changes>,
    source: Option<&'a Rc<Source>>,
}

impl Way<'_, '_> {
    /// One chain of filters. An answer means that the request goes no further.
    async fn filter(&mut self, chain: &Chain) -> Result<Option<Response<Body>>, Failure> {
        for step in chain.steps() {
            let next = step.on_request(self.parts, self.passage);
            match next {
                Next::On => {}
                Next::Answer(answer) => {
                    self.exchange.ends(Ending::Answered, None);
                    // The answer to a preflight is the filter's own, and final.
                    self.exchange.is_final.set(matches!(step, Step::Cors(_)));
                    return Ok(Some(answer.map(Body::from)));
                }
                Next::Mirror(mirror) => {
                    mirrored::send(self.exchange, self.found.listener, mirror, self.parts, self.source);
                }
                Next::Authorize(auth) => {
                    if let Some(answer) = Box::pin(self.authorize(auth)).await? {
                        return Ok(Some(answer));
                    }
                }
                Next::Refuse(reason) => return Err(reason.into()),
            }
        }
        Ok(None)
    }

    async fn authorize(&mut self, auth: &ExternalAuth) -> Result<Option<Response<Body>>, Failure> {
        let listener = self.found.listener;
        match authorize::ask(self.exchange, listener, auth, self.parts, self.source).await? {
            Permission::Granted(changes) => {
                self.grants.push(changes);
                Ok(None)
            }
            Permission::Denied(answer) => {
                self.exchange.ends(Ending::Denied, None);
                Ok(Some(answer.map(Body::from)))
            }
        }
    }
}

/// The backend that a request goes to.
struct Chosen {
    to: Destination,
    /// Which of the rule's it is.
    index: usize,
    /// Where the client's session is.
    session: Option<Lease>,
    extras: Option<Rc<Extras>>,
}

/// The backend of the client's session, or else the one whose turn it is.
fn choose(exchange: &Exchange, found: &Found<'_>, parts: &Parts, is_grpc: bool) -> Result<Chosen, Failure> {
    let snapshot = exchange.home.kit.snapshot();
    let of_rule = found.prepared.sessions.as_ref();
    let kept = of_rule.and_then(|sessions| {
        let members = found.rule.group().0.iter().enumerate();
        let mut members =
            members.filter_map(|(index, member)| Some((index, snapshot.target(&member.target).ok()?)));
        members.find_map(|(index, backend)| {
            Some((index, backend, resumed(exchange, sessions, backend, &parts.headers)?))
        })
    });
    let (index, backend, mut session) = match kept {
        Some((index, backend, lease)) => (index, backend, Some(lease)),
        None => {
            let dealt = snapshot.deal(found.rule)?;
            (dealt.index, dealt.backend, None)
        }
    };
    *exchange.backend.borrow_mut() = Some(Arc::clone(backend));
    let extras = exchange.home.extras.of(backend);
    if let (None, None, Some(sessions)) =
        (&session, of_rule, extras.as_ref().and_then(|extras| extras.sessions.as_ref()))
    {
        session = resumed(exchange, sessions, backend, &parts.headers);
    }
    let gateway = found.listener.id.gateway.clone();
    let tls = snapshot.tls_to(backend, &gateway)?;
    let speaks = Speaks::to(backend, is_grpc);
    Ok(Chosen {
        to: Destination { backend: Arc::clone(backend), tls, gateway, speaks },
        index,
        session,
        extras,
    })
}

/// The endpoint of this backend that the client had before.
fn resumed(
    exchange: &Exchange,
    sessions: &Sessions,
    backend: &Backend,
    headers: &HeaderMap,
) -> Option<Lease> {
    let secret = &exchange.home.options.secret;
    let tag = sessions.find(headers, secret, exchange.seconds())?;
    backend.endpoint_of(|address| secret.tag(&backend.plan.id, address) == tag)
}
