//! A Gateway with its listeners and ListenerSets: what they are worth before any route is looked at.

mod addresses;
mod authorities;
mod conflicts;
mod infrastructure;
mod listener;
mod ports;
mod sets;
mod status;

use std::net::IpAddr;
use std::sync::Arc;

use tidegate_api::gateway::{FrontendValidationMode, Gateway, Scope};
use tidegate_api::parameters::merged;
use tidegate_api::refs::GATEWAY_GROUP;
use tidegate_api::status::Reason;
use tidegate_plan::{Body, ObjectName};

pub use self::addresses::AskedAddress;
pub use self::infrastructure::{Infrastructure, short_hash, shortened};
pub(crate) use self::listener::{ListenerView, Protocol};
pub(crate) use self::ports::share_ports;
pub(crate) use self::sets::SetView;
pub(crate) use self::status::{gateway_status, listener_set_status};
use crate::certificate;
use crate::conditions::Fault;
use crate::credentials::KeyMaterial;
use crate::issuer::IssuerView;
use crate::lookup::{Lookup, Referrer};
use crate::settings::Source;

/// What became of a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GatewayView {
    pub(crate) name: ObjectName,
    pub(crate) generation: i64,
    pub(crate) created: i64,
    /// Why the Gateway as a whole is not accepted, its listeners aside.
    pub(crate) fault: Option<Fault>,
    /// Written in the Gateway itself.
    pub(crate) listeners: Vec<ListenerView>,
    pub(crate) sets: Vec<SetView>,
    /// What listeners bind to; empty: every address.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) client_certificate: Result<Option<Arc<KeyMaterial>>, Fault>,
    pub(crate) insecure_fallback: bool,
    pub(crate) is_default: bool,
    pub(crate) infrastructure: Infrastructure,
    pub(crate) issuer: Option<IssuerView>,
    pub(crate) notes: Vec<String>,
}

/// The view of a Gateway, or `None` where its class is not ours.
pub(crate) fn view(gateway: &Gateway, lookup: &Lookup<'_>) -> Option<GatewayView> {
    let class = lookup.gateway_class(gateway.spec.gateway_class_name.as_str())?;
    if class.spec.controller_name != *lookup.settings.controller_name {
        return None;
    }
    let name = gateway.meta.object_name();
    let mut notes = Vec::new();
    let (asked, address_fault) = addresses::requested(gateway, lookup.settings.source);
    let (parameters, parameters_fault) = match crate::parameters::of_gateway(gateway, class, lookup) {
        Ok(parameters) => (parameters, None),
        Err(fault) => (merged(None, None), Some(fault)),
    };
    let (issuer, issuer_notes) =
        crate::issuer::of(gateway, parameters.certificates.as_ref(), lookup.settings);
    let mut listeners: Vec<ListenerView> = {
        let owner = listener::Owner::gateway(gateway, issuer.is_some());
        gateway
            .spec
            .listeners
            .iter()
            .map(|entry| listener::evaluate(entry, &owner, gateway, lookup))
            .collect()
    };
    let mut sets = sets::views(gateway, issuer.is_some(), lookup);
    conflicts::resolve(&mut listeners, &mut sets);
    let all = || listeners.iter().chain(sets.iter().flat_map(|set| &set.listeners));
    notes.extend(all().flat_map(|listener| listener.notes.iter().cloned()));
    notes.extend(authorities::without_effect(gateway, |port| {
        all().any(|listener| listener.port == port && listener.terminates())
    }));
    notes.extend(issuer_notes);
    let fault = parameters_fault.or(address_fault);
    Some(GatewayView {
        generation: gateway.meta.generation,
        created: gateway.meta.created,
        fault,
        listeners,
        sets,
        addresses: if lookup.settings.source == Source::Folder {
            asked.iter().filter_map(|address| address.ip).collect()
        } else {
            Vec::new()
        },
        client_certificate: client_certificate(gateway, lookup),
        insecure_fallback: allows_insecure_fallback(gateway),
        is_default: gateway.spec.default_scope == Scope::All,
        infrastructure: Infrastructure::of(gateway, &asked, parameters),
        issuer,
        notes,
        name,
    })
}

impl GatewayView {
    /// The listeners of the Gateway and of the ListenerSets that are attached to it.
    pub(crate) fn all_listeners(&self) -> impl Iterator<Item = &ListenerView> {
        let sets = self.sets.iter().filter(|set| set.fault.is_none());
        self.listeners.iter().chain(sets.flat_map(|set| &set.listeners))
    }

    pub(crate) fn all_listeners_mut(&mut self) -> impl Iterator<Item = &mut ListenerView> {
        let sets = self.sets.iter_mut().filter(|set| set.fault.is_none());
        self.listeners.iter_mut().chain(sets.flat_map(|set| &mut set.listeners))
    }

    /// Whether it is at every address that the other one is at.
    pub(crate) fn is_wherever(&self, other: &Self) -> bool {
        let is_here = |address: &IpAddr| self.addresses.contains(address);
        self.addresses.is_empty() || !other.addresses.is_empty() && other.addresses.iter().all(is_here)
    }

    /// Why the Gateway is not accepted; one good listener is enough.
    pub(crate) fn not_accepted(&self) -> Option<Fault> {
        self.fault.clone().or_else(|| {
            let no_good_listener = self.listeners.iter().all(|listener| !listener.is_accepted());
            no_good_listener.then(|| Fault::new(Reason::ListenersNotValid, self.bad_listeners()))
        })
    }

    /// The listeners that are not accepted, in words.
    pub(crate) fn bad_listeners(&self) -> String {
        let bad = self.listeners.iter().filter_map(|listener| Some((listener, listener.not_accepted()?)));
        bad.map(|(listener, fault)| fault.clone().at(&format!("listener {}", listener.id.name)).message)
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// What a data plane has to know of the Gateway: nothing, where it is not accepted.
    pub(crate) fn bodies(&self) -> Vec<Body> {
        if self.not_accepted().is_some() {
            return Vec::new();
        }
        let client_certificate = self.client_certificate.as_ref().ok().cloned().flatten();
        let gateway = tidegate_plan::Gateway {
            id: self.name.clone(),
            client_certificate: client_certificate.map(|key| key.certificate.clone()),
        };
        let listeners = self.all_listeners().filter_map(|listener| listener.body(&self.addresses));
        std::iter::once(Body::Gateway(gateway)).chain(listeners).collect()
    }
}

fn client_certificate(gateway: &Gateway, lookup: &Lookup<'_>) -> Result<Option<Arc<KeyMaterial>>, Fault> {
    let reference =
        gateway.spec.tls.as_ref().and_then(|tls| tls.backend.as_ref()?.client_certificate_ref.as_ref());
    let Some(reference) = reference else { return Ok(None) };
    let referrer = Referrer { group: GATEWAY_GROUP, kind: "Gateway", namespace: &gateway.meta.namespace };
    certificate::resolve(reference, &referrer, Reason::InvalidClientCertificateRef, lookup)
        .map(Some)
        .map_err(|fault| fault.at("spec.tls.backend.clientCertificateRef"))
}

fn allows_insecure_fallback(gateway: &Gateway) -> bool {
    let Some(frontend) = gateway.spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref()) else {
        return false;
    };
    std::iter::once(&frontend.default)
        .chain(frontend.per_port.iter().map(|port| &port.tls))
        .filter_map(|config| config.validation.as_ref())
        .any(|validation| validation.mode == FrontendValidationMode::AllowInsecureFallback)
}
