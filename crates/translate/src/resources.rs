//! All objects, by kind and name, with the indexes that translation asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_api::core::{ClusterTrustBundle, ConfigMap, EndpointSlice, NamespaceObject, Secret, Service};
use tidegate_api::gateway::{Gateway, GatewayClass, ListenerSet};
use tidegate_api::grpc_route::GrpcRoute;
use tidegate_api::http_route::HttpRoute;
use tidegate_api::parameters::GatewayParameters;
use tidegate_api::policy::{BackendTlsPolicy, ReferenceGrant, XBackend, XBackendTrafficPolicy};
use tidegate_api::route::{TcpRoute, TlsRoute, UdpRoute};
use tidegate_api::{Kind, Object, ObjectKey};
use tidegate_plan::ObjectName;

/// Objects of one kind.
pub type Objects<T> = BTreeMap<ObjectName, Arc<T>>;

/// The label by which an EndpointSlice names its Service.
const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// The annotation by which a Secret with a certificate names the listener's Secret that had no room for it.
pub const CERTIFICATE_OF: &str = "gateway.tidegate.io/certificate-of";

/// The annotation by which a Secret that we made names its issuer.
pub const ISSUED_BY: &str = "gateway.tidegate.io/issued-by";

/// The issuer of one that vouches for itself until there is another.
pub const STAND_IN: &str = "stand-in";

macro_rules! resources {
    ($($variant:ident, $field:ident: $type:ty;)+) => {
        #[derive(Clone, Debug, Default)]
        pub struct Resources {
            $(pub $field: Objects<$type>,)+
            index: Index,
        }

        impl Resources {
            /// Puts an object in and gives back the one it replaces.
            pub fn insert(&mut self, object: Object) -> Option<Object> {
                let name = object.meta().object_name();
                let old = match &object {
                    $(Object::$variant(new) => self.$field.insert(name, Arc::clone(new)).map(Object::$variant),)+
                };
                if let Some(old) = &old {
                    self.index.remove(old);
                }
                self.index.insert(&object);
                old
            }

            pub fn remove(&mut self, key: &ObjectKey) -> Option<Object> {
                let old = match key.kind {
                    $(Kind::$variant => self.$field.remove(&key.name).map(Object::$variant),)+
                }?;
                self.index.remove(&old);
                Some(old)
            }

            #[must_use]
            pub fn get(&self, key: &ObjectKey) -> Option<Object> {
                match key.kind {
                    $(Kind::$variant => self.$field.get(&key.name).cloned().map(Object::$variant),)+
                }
            }

            /// Every object, kind by kind, each in the order of names.
            pub fn iter(&self) -> impl Iterator<Item = Object> {
                std::iter::empty()$(.chain(self.$field.values().cloned().map(Object::$variant)))+
            }
        }
    };
}

resources! {
    GatewayClass, gateway_classes: GatewayClass;
    Gateway, gateways: Gateway;
    ListenerSet, listener_sets: ListenerSet;
    HttpRoute, http_routes: HttpRoute;
    GrpcRoute, grpc_routes: GrpcRoute;
    TlsRoute, tls_routes: TlsRoute;
    TcpRoute, tcp_routes: TcpRoute;
    UdpRoute, udp_routes: UdpRoute;
    BackendTlsPolicy, backend_tls_policies: BackendTlsPolicy;
    ReferenceGrant, reference_grants: ReferenceGrant;
    XBackend, xbackends: XBackend;
    XBackendTrafficPolicy, xbackend_traffic_policies: XBackendTrafficPolicy;
    GatewayParameters, gateway_parameters: GatewayParameters;
    Namespace, namespaces: NamespaceObject;
    Service, services: Service;
    EndpointSlice, endpoint_slices: EndpointSlice;
    Secret, secrets: Secret;
    ConfigMap, config_maps: ConfigMap;
    ClusterTrustBundle, cluster_trust_bundles: ClusterTrustBundle;
}

impl Resources {
    /// The ListenerSets that name this Gateway.
    pub fn listener_sets_of(&self, gateway: &ObjectName) -> impl Iterator<Item = &Arc<ListenerSet>> {
        names(&self.index.listener_sets, gateway).filter_map(|name| self.listener_sets.get(name))
    }

    /// The BackendTLSPolicies that name this Service.
    pub fn tls_policies_of(&self, service: &ObjectName) -> impl Iterator<Item = &Arc<BackendTlsPolicy>> {
        names(&self.index.tls_policies, service).filter_map(|name| self.backend_tls_policies.get(name))
    }

    /// The XBackendTrafficPolicies that name this Service or XBackend.
    pub fn traffic_policies_of(
        &self,
        backend: &ObjectName,
    ) -> impl Iterator<Item = &Arc<XBackendTrafficPolicy>> {
        names(&self.index.traffic_policies, backend)
            .filter_map(|name| self.xbackend_traffic_policies.get(name))
    }

    /// The EndpointSlices of this Service.
    pub fn endpoint_slices_of(&self, service: &ObjectName) -> impl Iterator<Item = &Arc<EndpointSlice>> {
        names(&self.index.endpoint_slices, service).filter_map(|name| self.endpoint_slices.get(name))
    }

    /// The Secrets that hold further certificates for this one.
    pub fn certificates_of(&self, secret: &ObjectName) -> impl Iterator<Item = &Arc<Secret>> {
        names(&self.index.certificates, secret).filter_map(|name| self.secrets.get(name))
    }

    /// The grants that a namespace gives.
    pub fn grants_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<ReferenceGrant>> {
        let first = ObjectName::new(namespace, "");
        self.reference_grants
            .range(first..)
            .take_while(move |(name, _)| &*name.namespace == namespace)
            .map(|(_, grant)| grant)
    }
}

type NamesBy = BTreeMap<ObjectName, BTreeSet<ObjectName>>;

fn names<'a>(index: &'a NamesBy, key: &ObjectName) -> impl Iterator<Item = &'a ObjectName> {
    index.get(key).into_iter().flatten()
}

/// Who names whom, so that no question walks over all objects.
#[derive(Clone, Debug, Default)]
struct Index {
    listener_sets: NamesBy,
    tls_policies: NamesBy,
    traffic_policies: NamesBy,
    endpoint_slices: NamesBy,
    certificates: NamesBy,
}

impl Index {
    fn insert(&mut self, object: &Object) {
        let name = object.meta().object_name();
        for target in targets(object) {
            if let Some(index) = self.of(object.kind()) {
                index.entry(target).or_default().insert(name.clone());
            }
        }
    }

    fn remove(&mut self, object: &Object) {
        let name = object.meta().object_name();
        for target in targets(object) {
            let Some(index) = self.of(object.kind()) else { return };
            if let Some(names) = index.get_mut(&target) {
                names.remove(&name);
                if names.is_empty() {
                    index.remove(&target);
                }
            }
        }
    }

    fn of(&mut self, kind: Kind) -> Option<&mut NamesBy> {
        match kind {
            Kind::ListenerSet => Some(&mut self.listener_sets),
            Kind::BackendTlsPolicy => Some(&mut self.tls_policies),
            Kind::XBackendTrafficPolicy => Some(&mut self.traffic_policies),
            Kind::EndpointSlice => Some(&mut self.endpoint_slices),
            Kind::Secret => Some(&mut self.certificates),
            _ => None,
        }
    }
}

/// What an object that is found through an index names.
pub(crate) fn targets(object: &Object) -> Vec<ObjectName> {
    let namespace = &object.meta().namespace;
    match object {
        Object::ListenerSet(set) => {
            vec![set.spec.gateway(namespace)]
        }
        Object::BackendTlsPolicy(policy) => policy
            .spec
            .target_refs
            .iter()
            .map(|target| ObjectName::new(Arc::clone(namespace), target.name.shared()))
            .collect(),
        Object::XBackendTrafficPolicy(policy) => policy
            .spec
            .target_refs
            .iter()
            .map(|target| ObjectName::new(Arc::clone(namespace), target.name.shared()))
            .collect(),
        Object::EndpointSlice(slice) => {
            let service = slice.meta.labels.get(SERVICE_NAME_LABEL);
            service
                .map(|service| ObjectName::new(Arc::clone(namespace), service.as_str()))
                .into_iter()
                .collect()
        }
        Object::Secret(secret) => {
            let of = secret.meta.annotation(CERTIFICATE_OF);
            of.map(|of| ObjectName::new(Arc::clone(namespace), of)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
