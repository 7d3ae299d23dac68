//! One listener by itself: its protocol, certificates, client-certificate rule and the routes it could take.

use std::net::IpAddr;
use std::sync::Arc;

use tidegate_api::gateway::{Gateway, ListenerSet};
use tidegate_api::listener::{FromNamespaces, Listener, ListenerFilterType, RouteNamespaces, TlsMode};
use tidegate_api::read::Map;
use tidegate_api::refs::GATEWAY_GROUP;
use tidegate_api::scalar::port_number;
use tidegate_api::status::{GroupKind, Reason};
use tidegate_plan::{
    BackendId, Blob, Body, ExternalAuth, Handling, Hostname, ListenerId, ObjectName, Reason as Refusal,
    RouteKind, ServerTls, TlsVersion,
};

use super::authorities::{ClientRule, client_rule};
use crate::certificate;
use crate::conditions::{Fault, kind_name};
use crate::lookup::{Lookup, Referrer};
use crate::options::{self, TlsOptions};
use crate::route::filters;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Https,
    Tls,
    Tcp,
    Udp,
}

impl Protocol {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "HTTP" => Self::Http,
            "HTTPS" => Self::Https,
            "TLS" => Self::Tls,
            "TCP" => Self::Tcp,
            "UDP" => Self::Udp,
            _ => return None,
        })
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
            Self::Tls => "TLS",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }

    /// The kinds of route that the protocol can carry.
    pub(crate) const fn kinds(self) -> &'static [RouteKind] {
        match self {
            Self::Http | Self::Https => &[RouteKind::Http, RouteKind::Grpc],
            Self::Tls => &[RouteKind::Tls],
            Self::Tcp => &[RouteKind::Tcp],
            Self::Udp => &[RouteKind::Udp],
        }
    }
}

/// The object that a listener is written in.
pub(super) struct Owner {
    kind: &'static str,
    name: ObjectName,
    gateway: ObjectName,
    /// Whether somebody makes certificates for the Gateway.
    has_issuer: bool,
}

impl Owner {
    pub(super) fn gateway(gateway: &Gateway, has_issuer: bool) -> Self {
        let name = gateway.meta.object_name();
        Self { kind: "Gateway", gateway: name.clone(), name, has_issuer }
    }

    pub(super) fn set(set: &ListenerSet, gateway: &Gateway, has_issuer: bool) -> Self {
        let (name, gateway) = (set.meta.object_name(), gateway.meta.object_name());
        Self { kind: "ListenerSet", name, gateway, has_issuer }
    }

    fn id(&self, listener: &Listener) -> ListenerId {
        let listener_set = (self.kind == "ListenerSet").then(|| self.name.clone());
        ListenerId { gateway: self.gateway.clone(), listener_set, name: listener.name.shared() }
    }

    fn referrer(&self) -> Referrer<'_> {
        Referrer { group: GATEWAY_GROUP, kind: self.kind, namespace: &self.name.namespace }
    }
}

/// What became of a listener.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListenerView {
    pub(crate) id: ListenerId,
    /// Of the object that it is written in: what `Same` means for its routes.
    pub(crate) namespace: Arc<str>,
    pub(crate) port: u16,
    /// `None`: not one of ours.
    pub(crate) protocol: Option<Protocol>,
    pub(crate) hostname: Option<Hostname>,
    pub(crate) kinds: Vec<RouteKind>,
    pub(crate) supported_kinds: Vec<GroupKind>,
    pub(crate) from: RouteNamespaces,
    pub(crate) conflict: Option<Fault>,
    /// Why it is not accepted, conflicts aside.
    pub(crate) fault: Option<Fault>,
    pub(crate) unresolved: Option<Fault>,
    pub(crate) overlapping: Option<String>,
    /// `None` where the protocol is not ours.
    handling: Option<Handling>,
    external_auth: Vec<ExternalAuth>,
    pub(crate) refuse: Option<Refusal>,
    /// The Secret that an issuer would write.
    pub(crate) secret: Option<ObjectName>,
    pub(crate) blobs: Vec<Arc<Blob>>,
    /// Backends of its own filters.
    pub(crate) backends: Vec<BackendId>,
    pub(crate) notes: Vec<String>,
}

impl ListenerView {
    pub(crate) fn not_accepted(&self) -> Option<&Fault> {
        self.conflict.as_ref().or(self.fault.as_ref())
    }

    pub(crate) fn is_accepted(&self) -> bool {
        self.not_accepted().is_none()
    }

    /// Whether it carries traffic.
    pub(crate) fn serves(&self) -> bool {
        self.is_accepted() && self.refuse.is_none()
    }

    /// Whether nothing but a certificate is missing, and an issuer is to make it.
    pub(crate) fn awaits_certificate(&self) -> bool {
        let is_pending = self.unresolved.as_ref().is_some_and(|fault| fault.reason == Reason::Pending);
        self.is_accepted() && self.refuse == Some(Refusal::NoCertificate) && is_pending
    }

    /// Whether there may be data planes that serve it all the same, with what they had.
    pub(crate) fn may_go_on(&self) -> bool {
        let tls = self.handling.as_ref().and_then(Handling::server_tls);
        self.refuse == Some(Refusal::NoCertificate) && tls.is_some_and(|tls| !tls.last_good.is_empty())
    }

    /// Whether its port and names are its own, be it only to refuse.
    pub(crate) const fn occupies(&self) -> bool {
        self.conflict.is_none() && (self.fault.is_none() || self.refuse.is_some())
    }

    pub(crate) fn is_passthrough(&self) -> bool {
        matches!(self.handling, Some(Handling::Passthrough))
    }

    pub(super) fn terminates(&self) -> bool {
        self.handling.as_ref().is_some_and(|handling| handling.server_tls().is_some())
    }

    /// Whether it takes routes of this namespace.
    pub(crate) fn allows_namespace(&self, namespace: &str, lookup: &Lookup<'_>) -> bool {
        match self.from.from {
            FromNamespaces::All => true,
            FromNamespaces::Same => *namespace == *self.namespace,
            FromNamespaces::Selector => {
                let labels = lookup.namespace(namespace).map(|namespace| &namespace.meta.labels);
                self.from
                    .selector
                    .as_ref()
                    .zip(labels)
                    .is_some_and(|(selector, labels)| selector.matches(labels))
            }
        }
    }

    /// What a data plane does for it. One that cannot check client certificates, or has no certificate, keeps
    /// its names and refuses them; one that lost a conflict leaves them to the winner.
    pub(super) fn body(&self, addresses: &[IpAddr]) -> Option<Body> {
        if !self.occupies() {
            return None;
        }
        Some(Body::Listener(tidegate_plan::Listener {
            id: self.id.clone(),
            addresses: addresses.to_vec(),
            port: self.port,
            hostname: self.hostname.clone(),
            handling: self.handling.clone()?,
            external_auth: self.external_auth.clone(),
            refuse: self.refuse,
        }))
    }
}

pub(super) fn evaluate(
    listener: &Listener,
    owner: &Owner,
    gateway: &Gateway,
    lookup: &Lookup<'_>,
) -> ListenerView {
    let port = port_number(listener.port);
    let protocol = Protocol::parse(listener.protocol.as_str());
    let mut view = ListenerView {
        id: owner.id(listener),
        namespace: Arc::clone(&owner.name.namespace),
        port,
        protocol,
        hostname: listener.hostname.clone(),
        kinds: Vec::new(),
        supported_kinds: Vec::new(),
        from: listener.allowed_routes.namespaces.clone(),
        conflict: None,
        fault: None,
        unresolved: None,
        overlapping: None,
        handling: None,
        external_auth: Vec::new(),
        refuse: None,
        secret: None,
        blobs: Vec::new(),
        backends: Vec::new(),
        notes: Vec::new(),
    };
    let Some(protocol) = protocol else {
        let message =
            format!("protocol {} is not supported; use HTTP, HTTPS, TLS, TCP or UDP", listener.protocol);
        view.fault = Some(Fault::new(Reason::UnsupportedProtocol, message));
        return view;
    };
    let mut faults = Vec::new();
    read_kinds(listener, protocol, &mut view, &mut faults);
    view.handling = match protocol {
        Protocol::Http => Some(Handling::Http),
        Protocol::Tcp => Some(Handling::Tcp),
        Protocol::Udp => Some(Handling::Udp),
        Protocol::Https | Protocol::Tls => {
            read_tls(listener, protocol, owner, gateway, lookup, &mut view, &mut faults)
        }
    };
    read_filters(listener, owner, lookup, &mut view, &mut faults);
    if lookup.settings.reserved_ports.contains(&port) && protocol != Protocol::Udp {
        let message =
            format!("port {port} is where Tidegate itself answers for health and metrics; use another");
        view.fault = Some(Fault::new(Reason::PortUnavailable, message));
        view.refuse = None;
    }
    // What only waits does not hide what is wrong.
    faults.sort_by_key(|fault| fault.reason == Reason::Pending);
    view.unresolved = Fault::joined(&faults);
    view
}

/// The kinds that are allowed and carried; those that the protocol cannot carry are named.
fn read_kinds(listener: &Listener, protocol: Protocol, view: &mut ListenerView, faults: &mut Vec<Fault>) {
    let carried = protocol.kinds();
    if listener.allowed_routes.kinds.is_empty() {
        view.kinds = carried.to_vec();
    }
    for (index, entry) in listener.allowed_routes.kinds.iter().enumerate() {
        let kind = carried.iter().find(|kind| entry.kind == kind.as_str() && entry.group == GATEWAY_GROUP);
        match kind {
            Some(kind) if !view.kinds.contains(kind) => view.kinds.push(*kind),
            Some(_) => {}
            None => {
                let names: Vec<&str> = carried.iter().map(|kind| kind.as_str()).collect();
                faults.push(Fault::new(
                    Reason::InvalidRouteKinds,
                    format!(
                        "allowedRoutes.kinds[{index}]: {} cannot attach to a listener with protocol {}; it takes {}",
                        kind_name(entry.group.as_str(), entry.kind.as_str()),
                        protocol.as_str(),
                        names.join(" and ")
                    ),
                ));
            }
        }
    }
    let group_kind =
        |kind: &RouteKind| GroupKind { group: GATEWAY_GROUP.to_owned(), kind: kind.as_str().to_owned() };
    view.supported_kinds = view.kinds.iter().map(group_kind).collect();
}

fn read_tls(
    listener: &Listener,
    protocol: Protocol,
    owner: &Owner,
    gateway: &Gateway,
    lookup: &Lookup<'_>,
    view: &mut ListenerView,
    faults: &mut Vec<Fault>,
) -> Option<Handling> {
    let mode = listener.tls.as_ref().and_then(|tls| tls.mode);
    let whose = format!("listener {}", listener.name);
    let none = Map::new();
    let options = listener.tls.as_ref().map_or(&none, |tls| &tls.options);
    match (protocol, mode) {
        (Protocol::Tls, None) => {
            let message = "protocol TLS needs tls.mode: write Passthrough or Terminate";
            view.fault = Some(Fault::new(Reason::UnsupportedValue, message));
            return None;
        }
        (Protocol::Tls, Some(TlsMode::Passthrough)) => {
            view.notes.extend(options::without_effect(options, &whose));
            return Some(Handling::Passthrough);
        }
        (Protocol::Https, Some(TlsMode::Passthrough)) => {
            let message = "protocol HTTPS cannot pass TLS through; use protocol TLS for that";
            view.fault = Some(Fault::new(Reason::UnsupportedValue, message));
            return None;
        }
        _ => {}
    }
    let mut tls = ServerTls::default();
    read_certificates(listener, owner, lookup, view, &mut tls, faults);
    let ClientRule { rule, blobs, faults: mut client_faults, unusable } =
        client_rule(gateway, view.port, lookup);
    if owner.kind == "ListenerSet" {
        let whose = format!("Gateway {}", owner.gateway);
        client_faults = client_faults.into_iter().map(|fault| fault.at(&whose)).collect();
    }
    if unusable {
        let message = Fault::joined(&client_faults).map(|fault| fault.message).unwrap_or_default();
        view.fault = Some(Fault::new(Reason::NoValidCACertificate, message));
        view.refuse = Some(Refusal::NoClientCa);
    }
    faults.extend(client_faults);
    view.blobs.extend(blobs);
    tls.client_certificates = rule;
    let (TlsOptions { minimum_version, alpn }, notes) = options::read(options, &whose);
    tls.minimum_version = minimum_version.filter(|version| *version > TlsVersion::V1_2);
    view.notes.extend(notes);
    if protocol == Protocol::Https {
        if !alpn.is_empty() {
            let alpn = options::ALPN;
            view.notes
                .push(format!("{whose}: option {alpn} has no effect: HTTPS is h2, http/1.1 or http/1.0"));
        }
        return Some(Handling::Https(tls));
    }
    tls.alpn = alpn;
    Some(Handling::Terminate(tls))
}

fn read_certificates(
    listener: &Listener,
    owner: &Owner,
    lookup: &Lookup<'_>,
    view: &mut ListenerView,
    tls: &mut ServerTls,
    faults: &mut Vec<Fault>,
) {
    let references = listener.tls.as_ref().map_or(&[][..], |tls| &tls.certificate_refs);
    if references.is_empty() {
        let message = "the listener terminates TLS and has no tls.certificateRefs; name a Secret with `tls.crt` and `tls.key`";
        faults.push(Fault::new(Reason::InvalidCertificateRef, message));
    }
    let mut all_issued = true;
    for (index, reference) in references.iter().enumerate() {
        let name = certificate::secret_name(reference, &owner.name.namespace);
        let resolved =
            certificate::resolve(reference, &owner.referrer(), Reason::InvalidCertificateRef, lookup);
        let is_permitted = !resolved.as_ref().is_err_and(|fault| fault.reason == Reason::RefNotPermitted);
        if index == 0 && is_permitted && reference.kind == "Secret" {
            view.secret = Some(name.clone());
        }
        let is_awaited = owner.has_issuer && view.secret.as_ref() == Some(&name);
        let beside = if is_awaited { certificate::beside(&name, lookup) } else { Vec::new() };
        let mut shown = Vec::new();
        match resolved {
            Ok(key) => {
                all_issued &= is_awaited && certificate::is_issued(&name, lookup);
                shown.push(key);
            }
            // Where one Secret had no room for all names, what is left may be in those beside it.
            Err(_) if !beside.is_empty() && lookup.secret(&name).is_none() => {}
            Err(mut fault) => {
                let place = tls.certificates.len() + tls.last_good.len();
                let last_good = certificate::last_good(reference, &fault, &name, place, lookup);
                if is_awaited && lookup.secret(&name).is_none() {
                    let message =
                        format!("Secret {name} does not exist yet; the Gateway's issuer is to make it");
                    fault = Fault::new(Reason::Pending, message);
                } else if let Some(last_good) = &last_good {
                    fault.message = format!("{}; {}", fault.message, certificate::kept(last_good));
                }
                faults.push(fault.at(&format!("tls.certificateRefs[{index}]")));
                tls.last_good.extend(last_good);
            }
        }
        shown.extend(beside);
        certificate::newest_first(&mut shown, lookup);
        for key in shown {
            tls.certificates.push(key.certificate.clone());
            view.blobs.push(Arc::clone(&key.blob));
        }
    }
    if tls.certificates.is_empty() {
        view.refuse = Some(Refusal::NoCertificate);
    } else {
        tls.named_only = all_issued;
    }
}

fn read_filters(
    listener: &Listener,
    owner: &Owner,
    lookup: &Lookup<'_>,
    view: &mut ListenerView,
    faults: &mut Vec<Fault>,
) {
    let requests = listener.filters.as_ref().map_or(&[][..], |filters| &filters.requests);
    for (index, filter) in requests.iter().enumerate() {
        match (filter.kind, &filter.external_auth) {
            (ListenerFilterType::ExternalAuth, Some(auth)) => {
                let mut context = filters::Context::new(owner.referrer(), lookup);
                let field = format!("filters.requests[{index}]");
                view.external_auth.push(filters::external_auth(auth, &field, &mut context));
                faults.extend(context.faults);
                view.backends.extend(context.backends);
            }
            _ => {
                let message =
                    format!("filters.requests[{index}]: {} is not supported; use ExternalAuth", filter.kind);
                view.fault = Some(Fault::new(Reason::UnsupportedValue, message));
                view.refuse = Some(Refusal::FilterUnsupported);
            }
        }
    }
}
