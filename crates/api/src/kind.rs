//! Objects: which kinds there are, and how a node becomes one.

use std::fmt;
use std::sync::Arc;

use tidegate_plan::ObjectName;

use crate::core::{
    ClusterTrustBundle, ClusterTrustBundleSpec, ConfigMap, ConfigMapSpec, EndpointSlice, EndpointSliceSpec,
    NamespaceObject, NamespaceSpec, Secret, SecretSpec, Service, ServiceSpec,
};
use crate::gateway::{Gateway, GatewayClass, GatewayClassSpec, GatewaySpec, ListenerSet, ListenerSetSpec};
use crate::grpc_route::{GrpcRoute, GrpcRouteSpec};
use crate::http_route::{HttpRoute, HttpRouteSpec};
use crate::meta::{Meta, read_meta};
use crate::policy::{
    BackendTlsPolicy, BackendTlsPolicySpec, ReferenceGrant, ReferenceGrantSpec, XBackend, XBackendSpec,
    XBackendTrafficPolicy, XBackendTrafficPolicySpec,
};
use crate::problem::{Problem, Severity};
use crate::read::{At, Read};
use crate::route::{TcpRoute, TcpRouteSpec, TlsRoute, TlsRouteSpec, UdpRoute, UdpRouteSpec};
use crate::tree::{Node, Value};

/// An object of one kind: its metadata and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource<S> {
    pub meta: Meta,
    pub spec: S,
}

/// What is special about a kind besides its fields.
pub trait Spec: Read {
    const KIND: &'static str;
    const GROUP: &'static str;
    /// The served versions, newest first.
    const VERSIONS: &'static [&'static str];
    const NAMESPACED: bool = true;
    /// Where its fields are; `None`: beside the metadata.
    const FIELD: Option<&'static str> = Some("spec");
    /// Only the part of it that is asked for is read.
    const PARTIAL: bool = false;
}

/// Declares the enum of all kinds, the same names serving as keys.
macro_rules! kinds {
    ($($variant:ident($type:ty, $spec:ty),)+) => {
        /// Any object that is read here.
        #[derive(Clone, Debug)]
        pub enum Object { $($variant(Arc<$type>),)+ }

        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind { $($variant,)+ }

        impl Kind {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => <$spec>::KIND,)+ }
            }

            #[must_use]
            pub const fn group(self) -> &'static str {
                match self { $(Self::$variant => <$spec>::GROUP,)+ }
            }

            #[must_use]
            pub const fn versions(self) -> &'static [&'static str] {
                match self { $(Self::$variant => <$spec>::VERSIONS,)+ }
            }

            #[must_use]
            pub const fn is_namespaced(self) -> bool {
                match self { $(Self::$variant => <$spec>::NAMESPACED,)+ }
            }
        }

        impl Object {
            #[must_use]
            pub const fn kind(&self) -> Kind {
                match self { $(Self::$variant(_) => Kind::$variant,)+ }
            }

            #[must_use]
            pub fn meta(&self) -> &Meta {
                match self { $(Self::$variant(object) => &object.meta,)+ }
            }
        }

        fn read_kind(kind: Kind, node: &Node, at: &mut At) -> Option<Object> {
            match kind { $(Kind::$variant => read_resource::<$spec>(node, at).map(|object| Object::$variant(Arc::new(object))),)+ }
        }

        const fn is_partial(kind: Kind) -> bool {
            match kind { $(Kind::$variant => <$spec>::PARTIAL,)+ }
        }
    };
}

kinds! {
    GatewayClass(GatewayClass, GatewayClassSpec),
    Gateway(Gateway, GatewaySpec),
    ListenerSet(ListenerSet, ListenerSetSpec),
    HttpRoute(HttpRoute, HttpRouteSpec),
    GrpcRoute(GrpcRoute, GrpcRouteSpec),
    TlsRoute(TlsRoute, TlsRouteSpec),
    TcpRoute(TcpRoute, TcpRouteSpec),
    UdpRoute(UdpRoute, UdpRouteSpec),
    BackendTlsPolicy(BackendTlsPolicy, BackendTlsPolicySpec),
    ReferenceGrant(ReferenceGrant, ReferenceGrantSpec),
    XBackend(XBackend, XBackendSpec),
    XBackendTrafficPolicy(XBackendTrafficPolicy, XBackendTrafficPolicySpec),
    Namespace(NamespaceObject, NamespaceSpec),
    Service(Service, ServiceSpec),
    EndpointSlice(EndpointSlice, EndpointSliceSpec),
    Secret(Secret, SecretSpec),
    ConfigMap(ConfigMap, ConfigMapSpec),
    ClusterTrustBundle(ClusterTrustBundle, ClusterTrustBundleSpec),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which object of which kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub kind: Kind,
    pub name: ObjectName,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name.name)
        } else {
            write!(f, "{} {}", self.kind, self.name)
        }
    }
}

impl Object {
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey { kind: self.kind(), name: self.meta().object_name() }
    }
}

/// What became of one node that should be an object.
#[derive(Debug)]
pub struct Reading {
    /// The object, where it is right; also where there are warnings.
    pub object: Option<Object>,
    /// Which object it is, also where it is wrong, as far as it can be told.
    pub key: Option<ObjectKey>,
    pub problems: Vec<Problem>,
}

/// Reads one object. Kinds that are not ours are passed over with a warning.
#[must_use]
pub fn read_object(node: &Node) -> Reading {
    let api_version = node.get("apiVersion").and_then(Node::as_str).unwrap_or_default();
    let kind_name = node.get("kind").and_then(Node::as_str).unwrap_or_default();
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let name = node.nearest("metadata.name").as_str().unwrap_or("(no name)");
    let kind = Kind::ALL.iter().copied().find(|kind| kind.as_str() == kind_name && kind.group() == group);

    let Some(kind) = kind else {
        let mut at = At::new(format!("{kind_name} {name}").trim().to_owned(), version);
        describe_unknown(node, api_version, kind_name, &mut at);
        return Reading { object: None, key: None, problems: at.into_problems() };
    };
    let namespace = match (kind.is_namespaced(), node.nearest("metadata.namespace").as_str()) {
        (true, Some(namespace))
            if node.get("metadata").is_some_and(|meta| meta.get("namespace").is_some()) =>
        {
            namespace
        }
        (true, _) => "default",
        (false, _) => "",
    };
    let key = ObjectKey { kind, name: ObjectName::new(namespace, name) };
    let mut at = At::new(key.to_string(), version).partial(is_partial(kind));
    let object = if kind.versions().contains(&version) {
        read_kind(kind, node, &mut at)
    } else {
        let newest = format!("{}/{}", kind.group(), kind.versions()[0]);
        at.within("apiVersion", |at| {
            at.wrong(
                "api-version",
                node.nearest("apiVersion"),
                format!("{kind} is not served in version `{version}`"),
                format!("write {}", newest.trim_start_matches('/')),
            );
        });
        None
    };
    let problems = at.into_problems();
    let broken = problems.iter().any(|problem| problem.severity == Severity::Error);
    Reading { object: object.filter(|_| !broken), key: Some(key), problems }
}

fn read_resource<S: Spec>(node: &Node, at: &mut At) -> Option<Resource<S>> {
    at.fields(node)?;
    let meta = read_meta(node, S::NAMESPACED, at);
    let spec = match S::FIELD {
        Some(field) => at.field(node, field, None),
        None => S::read(node, at),
    };
    Some(Resource { meta: meta?, spec: spec? })
}

fn describe_unknown(node: &Node, api_version: &str, kind: &str, at: &mut At) {
    let is_ours = api_version.contains("gateway.networking.");
    if !matches!(node.value, Value::Map(_)) {
        at.wrong(
            "type",
            node,
            format!("expected an object, found {}", node.describe()),
            "write apiVersion, kind, metadata and spec",
        );
    } else if kind.is_empty() || api_version.is_empty() {
        at.wrong(
            "required",
            node,
            "an object needs `apiVersion` and `kind`",
            "write both at the top of the document",
        );
    } else if is_ours && Kind::ALL.iter().any(|known| known.as_str() == kind) {
        at.within("apiVersion", |at| {
            at.wrong(
                "api-version",
                node.nearest("apiVersion"),
                format!("{kind} is not a kind of `{api_version}`"),
                "check the group",
            );
        });
    } else {
        at.within("kind", |at| {
            let span = node.nearest("kind").span;
            at.warn("unknown-kind", span, format!("{kind} of {api_version} is not used here"), "");
        });
    }
}
