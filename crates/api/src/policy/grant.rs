//! ReferenceGrant: who may refer to what from another namespace.

use crate::kind::{Resource, Spec};
use crate::read::{List, record};
use crate::refs::GATEWAY_GROUP;
use crate::scalar::{Group, Kind, Namespace, ObjectName};

pub type ReferenceGrant = Resource<ReferenceGrantSpec>;

impl Spec for ReferenceGrantSpec {
    const KIND: &'static str = "ReferenceGrant";
    const GROUP: &'static str = GATEWAY_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1", "v1beta1"];
}

record! {
    pub struct ReferenceGrantSpec {
        pub from: List<GrantFrom, 1, 16> = "from",
        pub to: List<GrantTo, 1, 16> = "to",
    }
}

record! {
    pub struct GrantFrom {
        pub group: Group = "group",
        pub kind: Kind = "kind",
        pub namespace: Namespace = "namespace",
    }
}

record! {
    pub struct GrantTo {
        pub group: Group = "group",
        pub kind: Kind = "kind",
        pub name: Option<ObjectName> = "name",
    }
}
