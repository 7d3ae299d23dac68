//! Gateway, GatewayClass and ListenerSet.

use crate::kind::{Resource, Spec};
use crate::listener::Listener;
use crate::read::{List, Map, record, words};
use crate::refs::{
    GATEWAY_GROUP, LocalObjectReference, ObjectReference, ParentGatewayReference, SecretReference,
};
use crate::scalar::{AddressType, AnnotationValue, ControllerName, LabelValue, ObjectName, Port};
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
        pub description: Option<String> = "description",
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
        pub value: String = "value" or String::new(),
        /// Empty: as the implementation does it.
        pub routability: String = "routability" or String::new(),
    }
}

record! {
    pub struct Infrastructure {
        pub labels: Map<LabelValue> = "labels",
        pub annotations: Map<AnnotationValue> = "annotations",
        pub parameters_ref: Option<LocalObjectReference> = "parametersRef",
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
}
