//! Gateway, GatewayClass and ListenerSet.

use std::sync::Arc;

use crate::bounded::Text;
use crate::form::{is_qualified_name, is_subdomain};
use crate::kind::{Resource, Spec};
use crate::listener::{
    HasListeners, IDLE_FILTERS_HELP, Listener, idle_filters, listener_names_are_unique,
    listeners_are_distinct, warn_about_selector,
};
use crate::meta::KEY_HELP;
use crate::read::{Entries, List, Map, Place, record, words};
use crate::refs::{
    GATEWAY_GROUP, LocalObjectReference, ObjectReference, ParentGatewayReference, SecretReference,
};
use crate::rules::repeated;
use crate::scalar::{
    AddressType, AnnotationValue, ControllerName, LabelValue, Namespace, ObjectName, Port, quote,
};
use crate::selector::LabelSelector;

pub type GatewayClass = Resource<GatewayClassSpec>;
pub type Gateway = Resource<GatewaySpec>;
pub type ListenerSet = Resource<ListenerSetSpec>;

impl Spec for GatewayClassSpec {
    const KIND: &'static str = "GatewayClass";
    const GROUP: &'static str = GATEWAY_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1", "v1beta1"];
    const NAMESPACED: bool = false;
}

impl Spec for GatewaySpec {
    const KIND: &'static str = "Gateway";
    const GROUP: &'static str = GATEWAY_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1", "v1beta1"];
}

impl Spec for ListenerSetSpec {
    const KIND: &'static str = "ListenerSet";
    const GROUP: &'static str = GATEWAY_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1"];
}

record! {
    pub struct GatewayClassSpec {
        pub controller_name: ControllerName = "controllerName",
        pub parameters_ref: Option<ObjectReference> = "parametersRef",
        pub description: Option<Text<0, 64>> = "description",
    }
}

record! {
    pub struct GatewaySpec {
        pub gateway_class_name: ObjectName = "gatewayClassName",
        pub listeners: List<Listener, 1, 64> = "listeners",
        pub addresses: List<GatewayAddress, 0, 16> = "addresses",
        pub infrastructure: Option<Infrastructure> = "infrastructure",
        pub allowed_listeners: Option<AllowedListeners> = "allowedListeners",
        pub tls: Option<GatewayTls> = "tls",
        /// Routes that ask for a default Gateway get this one.
        pub default_scope: Scope = "defaultScope" or Scope::None,
    }
    rules: [
        listener_names_are_unique("listeners[].name"),
        listeners_are_distinct("listeners[].port", "listeners[].protocol", "listeners[].hostname"),
        only_http_listeners_have_filters("listeners[*].protocol"),
        addresses_are_distinct("addresses[].type", "addresses[].value"),
    ]
}

impl HasListeners for GatewaySpec {
    fn listeners(&self) -> &[Listener] {
        &self.listeners
    }
}

fn only_http_listeners_have_filters(spec: &GatewaySpec, place: &mut Place<'_>) {
    for (field, message) in idle_filters(spec) {
        place.wrong(&field, message, IDLE_FILTERS_HELP);
    }
}

fn addresses_are_distinct(spec: &GatewaySpec, place: &mut Place<'_>) {
    for (index, first, address) in repeated(&spec.addresses, |address| (&address.kind, &address.value)) {
        if ["IPAddress", "Hostname"].contains(&address.kind.as_str()) && !address.value.is_empty() {
            place.wrong(
                &format!("addresses[{index}]"),
                format!("the address {} is written in addresses[{first}] already", address.value),
                "remove one of them",
            );
        }
    }
}

words! {
    pub enum Scope {
        All = "All",
        None = "None",
    }
}

record! {
    pub struct GatewayAddress {
        pub kind: AddressType = "type" or AddressType::new("IPAddress").expect("the type is well-formed"),
        /// Empty: any address of the type.
        pub value: Text<0, 253> = "value" or Text::default(),
        /// Empty: as the implementation does it.
        pub routability: Text<0, 253> = "routability" or Text::default(),
    }
    rules: [
        ip_address_is_one("type", "value"),
        hostname_address_is_a_hostname("type", "value"),
        routability_is_known_or_prefixed("routability"),
    ]
}

fn ip_address_is_one(address: &GatewayAddress, place: &mut Place<'_>) {
    let is_ip = address.value.parse::<std::net::IpAddr>().is_ok();
    if address.kind == "IPAddress" && place.has("value") && !is_ip {
        place.wrong(
            "value",
            format!("{} is not an IP address", quote(&address.value)),
            "write one such as 192.0.2.1 or 2001:db8::1, leave `value` out for any, or write `type: Hostname`",
        );
    }
}

fn hostname_address_is_a_hostname(address: &GatewayAddress, place: &mut Place<'_>) {
    let name = address.value.strip_prefix("*.").unwrap_or(&address.value);
    if address.kind == "Hostname" && place.has("value") && !is_subdomain(name) {
        place.wrong(
            "value",
            format!("{} is not a hostname", quote(&address.value)),
            "write one such as gateway.example.com, in lower case, or leave `value` out for any",
        );
    }
}

fn routability_is_known_or_prefixed(address: &GatewayAddress, place: &mut Place<'_>) {
    let text = &*address.routability;
    let is_ours = |domain: &str| domain == "k8s.io" || domain.ends_with(".k8s.io");
    let is_prefixed = text.split_once('/').is_some_and(|(domain, path)| {
        domain.len() <= 253 && is_subdomain(domain) && !is_ours(domain) && !path.is_empty()
    });
    if !text.is_empty() && text != "Cluster" && !is_prefixed {
        place.wrong(
            "routability",
            format!("{} is not a routability", quote(text)),
            "write `Cluster`, or a path after a domain other than k8s.io such as example.com/private, or leave it out",
        );
    }
}

record! {
    pub struct Infrastructure {
        pub labels: Entries<LabelValue, 8> = "labels",
        pub annotations: Entries<AnnotationValue, 16> = "annotations",
        pub parameters_ref: Option<LocalObjectReference> = "parametersRef",
    }
    rules: [infrastructure_label_keys("labels?"), infrastructure_annotation_keys("annotations?")]
}

fn infrastructure_label_keys(infrastructure: &Infrastructure, place: &mut Place<'_>) {
    keys_are_qualified_names("labels", &infrastructure.labels, place);
}

fn infrastructure_annotation_keys(infrastructure: &Infrastructure, place: &mut Place<'_>) {
    keys_are_qualified_names("annotations", &infrastructure.annotations, place);
}

fn keys_are_qualified_names<V>(field: &str, entries: &Map<V>, place: &mut Place<'_>) {
    for key in entries.keys() {
        // The CRDs count one character less here than Kubernetes does for labels of objects.
        let fits = key.split('/').next().is_some_and(|first| first.len() < 253);
        if !fits || !is_qualified_name(key) {
            place.wrong_key(field, key, format!("{} is not a key for {field}", quote(key)), KEY_HELP);
        }
    }
}

record! {
    pub struct AllowedListeners {
        pub namespaces: ListenerNamespaces = "namespaces" or ListenerNamespaces { from: FromListenerNamespaces::None, selector: None },
    }
}

record! {
    pub struct ListenerNamespaces {
        pub from: FromListenerNamespaces = "from" or FromListenerNamespaces::None,
        pub selector: Option<LabelSelector> = "selector",
    }
    rules: [listener_selector_goes_with_from_selector("from")]
}

/// The CRDs let both pass, so that it is not an error.
fn listener_selector_goes_with_from_selector(namespaces: &ListenerNamespaces, place: &mut Place<'_>) {
    warn_about_selector(
        namespaces.from == FromListenerNamespaces::Selector,
        namespaces.selector.is_some(),
        place,
    );
}

words! {
    pub enum FromListenerNamespaces {
        All = "All",
        Selector = "Selector",
        Same = "Same",
        None = "None",
    }
}

record! {
    pub struct GatewayTls {
        pub backend: Option<GatewayBackendTls> = "backend",
        pub frontend: Option<FrontendTls> = "frontend",
    }
}

record! {
    pub struct GatewayBackendTls {
        pub client_certificate_ref: Option<SecretReference> = "clientCertificateRef",
    }
}

record! {
    pub struct FrontendTls {
        pub default: TlsConfig = "default",
        pub per_port: List<TlsPortConfig, 0, 64> = "perPort",
    }
    rules: [frontend_ports_are_unique("perPort[].port")]
}

fn frontend_ports_are_unique(tls: &FrontendTls, place: &mut Place<'_>) {
    for (index, first, port) in repeated(&tls.per_port, |config| config.port) {
        place.wrong(
            &format!("perPort[{index}].port"),
            format!("port {} is configured in perPort[{first}] already", port.port.get()),
            "keep one entry per port",
        );
    }
}

record! {
    pub struct TlsConfig {
        pub validation: Option<FrontendValidation> = "validation",
    }
}

record! {
    pub struct TlsPortConfig {
        pub port: Port = "port",
        pub tls: TlsConfig = "tls",
    }
}

record! {
    pub struct FrontendValidation {
        pub ca_certificate_refs: List<ObjectReference, 1, 16> = "caCertificateRefs",
        pub mode: FrontendValidationMode = "mode" or FrontendValidationMode::AllowValidOnly,
    }
    rules: [trust_bundle_reference_has_no_namespace("caCertificateRefs[*].group", "caCertificateRefs[*].kind")]
}

fn trust_bundle_reference_has_no_namespace(validation: &FrontendValidation, place: &mut Place<'_>) {
    for (index, reference) in validation.ca_certificate_refs.iter().enumerate() {
        let is_bundle = reference.group == "certificates.k8s.io" && reference.kind == "ClusterTrustBundle";
        if is_bundle && reference.namespace.is_some() {
            place.wrong(
                &format!("caCertificateRefs[{index}].namespace"),
                "a ClusterTrustBundle is in no namespace",
                "remove `namespace`",
            );
        }
    }
}

words! {
    pub enum FrontendValidationMode {
        AllowValidOnly = "AllowValidOnly",
        AllowInsecureFallback = "AllowInsecureFallback",
    }
}

record! {
    pub struct ListenerSetSpec {
        pub parent_ref: ParentGatewayReference = "parentRef",
        pub listeners: List<Listener, 1, 64> = "listeners",
    }
    rules: [
        listener_names_are_unique("listeners[].name"),
        listeners_are_distinct("listeners[].port", "listeners[].protocol", "listeners[].hostname"),
        filters_without_requests_are_idle("listeners[*].protocol"),
    ]
}

impl ListenerSetSpec {
    /// The Gateway that is meant by a set in this namespace.
    #[must_use]
    pub fn gateway(&self, own: &Arc<str>) -> tidegate_plan::ObjectName {
        let namespace = self.parent_ref.namespace.as_ref().map_or_else(|| Arc::clone(own), Namespace::shared);
        tidegate_plan::ObjectName { namespace, name: self.parent_ref.name.shared() }
    }
}

impl HasListeners for ListenerSetSpec {
    fn listeners(&self) -> &[Listener] {
        &self.listeners
    }
}

/// What the CRD of a Gateway refuses, that of a ListenerSet lets pass.
fn filters_without_requests_are_idle(spec: &ListenerSetSpec, place: &mut Place<'_>) {
    for (field, message) in idle_filters(spec) {
        place.warn(&field, message, IDLE_FILTERS_HELP);
    }
}
