//! Access to resources that remembers what was asked for.
//!
//! What a part of the translation looked at is what it must be made again for when that changes; objects that
//! were looked for and not found count as well.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_api::core::{ClusterTrustBundle, ConfigMap, EndpointSlice, NamespaceObject, Secret, Service};
use tidegate_api::gateway::{Gateway, GatewayClass, ListenerSet};
use tidegate_api::parameters::GatewayParameters;
use tidegate_api::policy::{BackendTlsPolicy, XBackend, XBackendTrafficPolicy};
use tidegate_api::{Kind, Object, ObjectKey};
use tidegate_plan::ObjectName;

use crate::credentials::Credentials;
use crate::resources::{Resources, targets};
use crate::settings::Settings;

/// Something a part of the translation may look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Dependency {
    Object(ObjectKey),
    GrantsIn(Arc<str>),
    ListenerSetsOf(ObjectName),
    TlsPoliciesOf(ObjectName),
    TrafficPoliciesOf(ObjectName),
    EndpointSlicesOf(ObjectName),
    CertificatesOf(ObjectName),
    /// What became of a Gateway, not the object.
    GatewayView(ObjectName),
    DefaultGateways,
}

/// What is touched when an object comes, goes or changes; asked of its old and its new form.
pub(crate) fn touched(object: &Object) -> Vec<Dependency> {
    let of_targets = |wrap: fn(ObjectName) -> Dependency| targets(object).into_iter().map(wrap);
    let mut touched = vec![Dependency::Object(object.key())];
    match object {
        Object::ReferenceGrant(grant) => {
            touched.push(Dependency::GrantsIn(Arc::clone(&grant.meta.namespace)));
        }
        Object::ListenerSet(_) => touched.extend(of_targets(Dependency::ListenerSetsOf)),
        Object::BackendTlsPolicy(_) => touched.extend(of_targets(Dependency::TlsPoliciesOf)),
        Object::XBackendTrafficPolicy(_) => touched.extend(of_targets(Dependency::TrafficPoliciesOf)),
        Object::EndpointSlice(_) => touched.extend(of_targets(Dependency::EndpointSlicesOf)),
        Object::Secret(_) => touched.extend(of_targets(Dependency::CertificatesOf)),
        _ => {}
    }
    touched
}

pub(crate) struct Lookup<'a> {
    pub(crate) settings: &'a Settings,
    resources: &'a Resources,
    credentials: &'a Credentials,
    seen: RefCell<BTreeSet<Dependency>>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(
        resources: &'a Resources,
        settings: &'a Settings,
        credentials: &'a Credentials,
    ) -> Self {
        Self { settings, resources, credentials, seen: RefCell::default() }
    }

    /// Everything that was looked at.
    pub(crate) fn into_seen(self) -> BTreeSet<Dependency> {
        self.seen.into_inner()
    }

    pub(crate) fn saw(&self, dependency: Dependency) {
        self.seen.borrow_mut().insert(dependency);
    }

    fn saw_object(&self, kind: Kind, name: &ObjectName) {
        self.saw(Dependency::Object(ObjectKey { kind, name: name.clone() }));
    }

    pub(crate) fn gateway_class(&self, name: &str) -> Option<&'a Arc<GatewayClass>> {
        let name = ObjectName::new("", name);
        self.saw_object(Kind::GatewayClass, &name);
        self.resources.gateway_classes.get(&name)
    }

    pub(crate) fn gateway(&self, name: &ObjectName) -> Option<&'a Arc<Gateway>> {
        self.saw_object(Kind::Gateway, name);
        self.resources.gateways.get(name)
    }

    pub(crate) fn parameters(&self, name: &ObjectName) -> Option<&'a Arc<GatewayParameters>> {
        self.saw_object(Kind::GatewayParameters, name);
        self.resources.gateway_parameters.get(name)
    }

    pub(crate) fn namespace(&self, name: &str) -> Option<&'a Arc<NamespaceObject>> {
        let name = ObjectName::new("", name);
        self.saw_object(Kind::Namespace, &name);
        self.resources.namespaces.get(&name)
    }

    pub(crate) fn service(&self, name: &ObjectName) -> Option<&'a Arc<Service>> {
        self.saw_object(Kind::Service, name);
        self.resources.services.get(name)
    }

    pub(crate) fn xbackend(&self, name: &ObjectName) -> Option<&'a Arc<XBackend>> {
        self.saw_object(Kind::XBackend, name);
        self.resources.xbackends.get(name)
    }

    pub(crate) fn secret(&self, name: &ObjectName) -> Option<&'a Arc<Secret>> {
        self.saw_object(Kind::Secret, name);
        self.resources.secrets.get(name)
    }

    pub(crate) fn config_map(&self, name: &ObjectName) -> Option<&'a Arc<ConfigMap>> {
        self.saw_object(Kind::ConfigMap, name);
        self.resources.config_maps.get(name)
    }

    pub(crate) fn cluster_trust_bundle(&self, name: &str) -> Option<&'a Arc<ClusterTrustBundle>> {
        let name = ObjectName::new("", name);
        self.saw_object(Kind::ClusterTrustBundle, &name);
        self.resources.cluster_trust_bundles.get(&name)
    }

    pub(crate) fn listener_set(&self, name: &ObjectName) -> Option<&'a Arc<ListenerSet>> {
        self.saw_object(Kind::ListenerSet, name);
        self.resources.listener_sets.get(name)
    }

    pub(crate) fn listener_sets_of(&self, gateway: &ObjectName) -> Vec<&'a Arc<ListenerSet>> {
        self.saw(Dependency::ListenerSetsOf(gateway.clone()));
        self.resources.listener_sets_of(gateway).collect()
    }

    pub(crate) fn tls_policies_of(&self, service: &ObjectName) -> Vec<&'a Arc<BackendTlsPolicy>> {
        self.saw(Dependency::TlsPoliciesOf(service.clone()));
        self.resources.tls_policies_of(service).collect()
    }

    pub(crate) fn traffic_policies_of(&self, backend: &ObjectName) -> Vec<&'a Arc<XBackendTrafficPolicy>> {
        self.saw(Dependency::TrafficPoliciesOf(backend.clone()));
        self.resources.traffic_policies_of(backend).collect()
    }

    pub(crate) fn endpoint_slices_of(&self, service: &ObjectName) -> Vec<&'a Arc<EndpointSlice>> {
        self.saw(Dependency::EndpointSlicesOf(service.clone()));
        self.resources.endpoint_slices_of(service).collect()
    }

    /// The Secrets that hold further certificates for this one.
    pub(crate) fn certificates_of(&self, secret: &ObjectName) -> Vec<&'a Arc<Secret>> {
        self.saw(Dependency::CertificatesOf(secret.clone()));
        self.resources.certificates_of(secret).collect()
    }

    pub(crate) fn credentials(&self) -> &'a Credentials {
        self.credentials
    }

    /// Whether `from` may refer to `to`: inside one namespace always, across only with a ReferenceGrant.
    pub(crate) fn permits(&self, from: &Referrer<'_>, to: &Referent<'_>) -> bool {
        if from.namespace == to.namespace {
            return true;
        }
        self.saw(Dependency::GrantsIn(to.namespace.into()));
        self.resources.grants_in(to.namespace).any(|grant| {
            let from_matches = grant.spec.from.iter().any(|entry| {
                entry.group == from.group && entry.kind == from.kind && entry.namespace == from.namespace
            });
            let to_matches = grant.spec.to.iter().any(|entry| {
                let named = entry.name.as_ref().is_none_or(|name| *name == to.name);
                entry.group == to.group && entry.kind == to.kind && named
            });
            from_matches && to_matches
        })
    }
}

/// What to say where `permits` says no.
pub(crate) fn not_permitted(from: &Referrer<'_>, to: &Referent<'_>) -> String {
    format!(
        "no ReferenceGrant in namespace {} lets {}s of namespace {} refer to {} {}; add one there, or use a {} of namespace {}",
        to.namespace, from.kind, from.namespace, to.kind, to.name, to.kind, from.namespace
    )
}

/// Who refers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Referrer<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
}

/// To what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Referent<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}
