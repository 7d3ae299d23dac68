//! A route: where it attaches, what it asks of its backends, and what a data plane makes of it.

mod attach;
mod backends;
pub(crate) mod filters;
mod grpc;
mod http;
mod matches;
mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_api::refs::GATEWAY_GROUP;
use tidegate_api::route::Parents;
use tidegate_api::status::{ConditionStatus, ConditionType, Reason, RouteParentStatus, RouteStatus};
use tidegate_api::{Meta, Object};
use tidegate_plan::{BackendId, Hostname, ListenerId, ObjectName, Route, RouteId, RouteKind, Rules};

pub(crate) use self::backends::{Usage, resolve as resolve_backend};
use crate::conditions::{Fault, condition, holds};
use crate::gateway::GatewayView;
use crate::lookup::{Lookup, Referrer};
use crate::translation::{RouteAttachments, Verdict};

pub(crate) type Gateways = BTreeMap<ObjectName, Arc<GatewayView>>;

/// What became of a route.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RouteOutput {
    /// `None` where no listener took it.
    pub(crate) body: Option<Route>,
    pub(crate) status: RouteStatus,
    pub(crate) attachments: RouteAttachments,
    pub(crate) accepted: Vec<Accepted>,
    pub(crate) backends: BTreeSet<BackendId>,
    pub(crate) notes: Vec<String>,
}

/// A listener that took the route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Accepted {
    pub(crate) listener: ListenerId,
    /// What the route's backends are asked here goes unchanged, so that no policy of theirs is used.
    pub(crate) passthrough: bool,
    pub(crate) hostnames: Vec<Hostname>,
}

/// What all kinds of route have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common<'a> {
    pub(crate) kind: RouteKind,
    pub(crate) meta: &'a Meta,
    parents: &'a Parents,
    hostnames: &'a [Hostname],
}

impl<'a> Common<'a> {
    pub(crate) fn of(object: &'a Object) -> Option<Self> {
        Some(match object {
            Object::HttpRoute(route) => Self {
                kind: RouteKind::Http,
                meta: &route.meta,
                parents: &route.spec.parents,
                hostnames: &route.spec.hostnames,
            },
            Object::GrpcRoute(route) => Self {
                kind: RouteKind::Grpc,
                meta: &route.meta,
                parents: &route.spec.parents,
                hostnames: &route.spec.hostnames,
            },
            Object::TlsRoute(route) => Self {
                kind: RouteKind::Tls,
                meta: &route.meta,
                parents: &route.spec.parents,
                hostnames: &route.spec.hostnames,
            },
            Object::TcpRoute(route) => {
                Self { kind: RouteKind::Tcp, meta: &route.meta, parents: &route.spec.parents, hostnames: &[] }
            }
            Object::UdpRoute(route) => {
                Self { kind: RouteKind::Udp, meta: &route.meta, parents: &route.spec.parents, hostnames: &[] }
            }
            _ => return None,
        })
    }

    pub(crate) fn id(&self) -> RouteId {
        RouteId { kind: self.kind, object: self.meta.object_name() }
    }

    pub(crate) const fn hostnames(&self) -> &'a [Hostname] {
        self.hostnames
    }

    fn referrer(&self) -> Referrer<'a> {
        Referrer { group: GATEWAY_GROUP, kind: self.kind.as_str(), namespace: &self.meta.namespace }
    }
}

/// What the rules of a route came to.
#[derive(Debug)]
struct RulesOutput {
    rules: Rules,
    /// References that do not resolve.
    faults: Vec<Fault>,
    /// Rules that had to be left out, and those that answer 500 because no data plane can do what they ask for.
    dropped: Vec<String>,
    /// Nothing is left of the route without them.
    all_dropped: bool,
    backends: BTreeSet<BackendId>,
    notes: Vec<String>,
}

pub(crate) fn translate(object: &Object, gateways: &Gateways, lookup: &Lookup<'_>) -> Option<RouteOutput> {
    let common = Common::of(object)?;
    let (parents, mut notes) = attach::parents(&common, gateways, lookup);
    let rules = match object {
        Object::HttpRoute(route) => http::rules(route, common.referrer(), lookup),
        Object::GrpcRoute(route) => grpc::rules(route, common.referrer(), lookup),
        Object::TlsRoute(route) => stream::rules(&route.spec.rules, Usage::Bytes, common.referrer(), lookup),
        Object::TcpRoute(route) => stream::rules(&route.spec.rules, Usage::Bytes, common.referrer(), lookup),
        Object::UdpRoute(route) => {
            stream::rules(&route.spec.rules, Usage::Datagrams, common.referrer(), lookup)
        }
        _ => return None,
    };
    let unusable = rules.all_dropped.then(|| Fault::new(Reason::UnsupportedValue, rules.dropped.join("; ")));
    let statuses = parents.iter().map(|parent| {
        let fault = parent.fault.as_ref().or(unusable.as_ref());
        parent_status(parent, fault, &rules, common.meta.generation, &lookup.settings.controller_name)
    });
    let status = RouteStatus { parents: statuses.collect() };
    let accepted = if unusable.is_some() { Vec::new() } else { accepted(&parents) };
    notes.extend(rules.notes);
    let body = (!accepted.is_empty()).then(|| Route {
        id: common.id(),
        created: common.meta.created,
        listeners: accepted.iter().map(|accepted| accepted.listener.clone()).collect(),
        hostnames: common.hostnames.to_vec(),
        rules: rules.rules,
    });
    let backends = if body.is_some() { rules.backends } else { BTreeSet::new() };
    let attachments =
        RouteAttachments { parents: parents.into_iter().map(|parent| parent.attachment).collect() };
    Some(RouteOutput { body, status, attachments, accepted, backends, notes })
}

/// Every listener that took the route, once.
fn accepted(parents: &[attach::Parent]) -> Vec<Accepted> {
    let mut all: Vec<Accepted> = parents
        .iter()
        .flat_map(|parent| parent.attachment.listeners.iter().zip(&parent.passthrough))
        .filter_map(|((listener, verdict), passthrough)| match verdict {
            Verdict::Attached(hostnames) => Some(Accepted {
                listener: listener.clone(),
                passthrough: *passthrough,
                hostnames: hostnames.clone(),
            }),
            _ => None,
        })
        .collect();
    all.sort();
    all.dedup_by(|a, b| a.listener == b.listener);
    all
}

fn parent_status(
    parent: &attach::Parent,
    fault: Option<&Fault>,
    rules: &RulesOutput,
    generation: i64,
    controller: &Arc<str>,
) -> RouteParentStatus {
    let unresolved = Fault::joined(&rules.faults);
    let mut conditions = vec![
        holds(ConditionType::Accepted, fault, (Reason::Accepted, "the route is accepted"), generation),
        holds(
            ConditionType::ResolvedRefs,
            unresolved.as_ref(),
            (Reason::ResolvedRefs, "all references are resolved"),
            generation,
        ),
    ];
    if fault.is_none() && !rules.dropped.is_empty() {
        let message = format!("Dropped Rule: {}", rules.dropped.join("; "));
        conditions.push(condition(
            ConditionType::PartiallyInvalid,
            ConditionStatus::True,
            Reason::UnsupportedValue,
            message,
            generation,
        ));
    }
    RouteParentStatus {
        parent_ref: parent.attachment.parent_ref.clone(),
        controller_name: Arc::clone(controller),
        conditions,
    }
}
