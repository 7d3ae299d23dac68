//! References from one object to another, each with the group and kind it means when they are left out.

use crate::read::{Place, record};
use crate::scalar::{Group, Kind, Namespace, ObjectName, Port, SectionName};

pub const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";
pub const EXPERIMENTAL_GROUP: &str = "gateway.networking.x-k8s.io";

fn gateway_group() -> Group {
    Group::new(GATEWAY_GROUP).expect("the group is well-formed")
}

fn core_group() -> Group {
    Group::new("").expect("the core group is well-formed")
}

fn kind(name: &str) -> Kind {
    Kind::new(name).expect("the kind is well-formed")
}

record! {
    /// What a route attaches to.
    pub struct ParentReference {
        pub group: Group = "group" or gateway_group(),
        pub kind: Kind = "kind" or kind("Gateway"),
        pub namespace: Option<Namespace> = "namespace",
        pub name: ObjectName = "name",
        pub section_name: Option<SectionName> = "sectionName",
        pub port: Option<Port> = "port",
    }
}

record! {
    /// The Gateway of a ListenerSet.
    pub struct ParentGatewayReference {
        pub group: Group = "group" or gateway_group(),
        pub kind: Kind = "kind" or kind("Gateway"),
        pub namespace: Option<Namespace> = "namespace",
        pub name: ObjectName = "name",
    }
}

record! {
    /// A Service, or another kind of backend, by port.
    pub struct BackendObjectReference {
        pub group: Group = "group" or core_group(),
        pub kind: Kind = "kind" or kind("Service"),
        pub namespace: Option<Namespace> = "namespace",
        pub name: ObjectName = "name",
        pub port: Option<Port> = "port",
    }
    rules: [service_has_port("group", "kind"), xbackend_has_no_port("group", "kind")]
}

fn service_has_port(backend: &BackendObjectReference, place: &mut Place<'_>) {
    if backend.group == "" && backend.kind == "Service" && backend.port.is_none() {
        place.wrong(
            "",
            "a reference to a Service needs a port",
            "write `port:` with the number of the Service's port",
        );
    }
}

/// The standard channel has no such rule, but it has no XBackend either.
fn xbackend_has_no_port(backend: &BackendObjectReference, place: &mut Place<'_>) {
    if backend.group == EXPERIMENTAL_GROUP && backend.kind == "XBackend" && backend.port.is_some() {
        place.wrong(
            "port",
            "a reference to an XBackend has no port: the XBackend itself says it",
            "remove `port`",
        );
    }
}

record! {
    pub struct SecretReference {
        pub group: Group = "group" or core_group(),
        pub kind: Kind = "kind" or kind("Secret"),
        pub namespace: Option<Namespace> = "namespace",
        pub name: ObjectName = "name",
    }
}

record! {
    /// A reference that says its group and kind.
    pub struct ObjectReference {
        pub group: Group = "group",
        pub kind: Kind = "kind",
        pub namespace: Option<Namespace> = "namespace",
        pub name: ObjectName = "name",
    }
}

record! {
    /// The same inside one namespace.
    pub struct LocalObjectReference {
        pub group: Group = "group",
        pub kind: Kind = "kind",
        pub name: ObjectName = "name",
    }
}

record! {
    /// What a policy is about: an object, or one section of it.
    pub struct PolicyTargetReference {
        pub group: Group = "group",
        pub kind: Kind = "kind",
        pub name: ObjectName = "name",
        pub section_name: Option<SectionName> = "sectionName",
    }
}
