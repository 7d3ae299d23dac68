//! Listeners, the same in a Gateway and in a ListenerSet.

use tidegate_plan::Hostname;

use crate::filter::ExternalAuth;
use crate::read::{List, Map, record, words};
use crate::refs::{GATEWAY_GROUP, LocalObjectReference, SecretReference};
use crate::scalar::{AnnotationValue, Group, Kind, Port, Protocol, SectionName};
use crate::selector::LabelSelector;

record! {
    pub struct Listener {
        pub name: SectionName = "name",
        pub hostname: Option<Hostname> = "hostname",
        pub port: Port = "port",
        pub protocol: Protocol = "protocol",
        pub tls: Option<ListenerTls> = "tls",
        pub allowed_routes: AllowedRoutes = "allowedRoutes" or AllowedRoutes::default(),
        pub filters: Option<ListenerFilters> = "filters",
    }
}

record! {
    pub struct ListenerTls {
        /// Absent is Terminate, but protocol TLS has it written.
        pub mode: Option<TlsMode> = "mode",
        pub certificate_refs: List<SecretReference, 0, 64> = "certificateRefs",
        pub options: Map<AnnotationValue> = "options",
    }
}

words! {
    pub enum TlsMode {
        Terminate = "Terminate",
        Passthrough = "Passthrough",
    }
}

record! {
    pub struct AllowedRoutes {
        pub namespaces: RouteNamespaces = "namespaces" or RouteNamespaces::default(),
        pub kinds: List<RouteGroupKind, 0, 8> = "kinds",
    }
}

impl Default for AllowedRoutes {
    fn default() -> Self {
        Self { namespaces: RouteNamespaces::default(), kinds: List::default() }
    }
}

record! {
    pub struct RouteNamespaces {
        pub from: FromNamespaces = "from" or FromNamespaces::Same,
        pub selector: Option<LabelSelector> = "selector",
    }
}

impl Default for RouteNamespaces {
    fn default() -> Self {
        Self { from: FromNamespaces::Same, selector: None }
    }
}

words! {
    pub enum FromNamespaces {
        All = "All",
        Selector = "Selector",
        Same = "Same",
    }
}

record! {
    pub struct RouteGroupKind {
        pub group: Group = "group" or Group::new(GATEWAY_GROUP).expect("the group is well-formed"),
        pub kind: Kind = "kind",
    }
}

record! {
    pub struct ListenerFilters {
        pub requests: List<ListenerFilter, 0, 16> = "requests",
    }
}

record! {
    pub struct ListenerFilter {
        pub kind: ListenerFilterType = "type",
        pub external_auth: Option<ExternalAuth> = "externalAuth",
        pub extension_ref: Option<LocalObjectReference> = "extensionRef",
    }
}

words! {
    pub enum ListenerFilterType {
        ExternalAuth = "ExternalAuth",
        ExtensionRef = "ExtensionRef",
    }
}
