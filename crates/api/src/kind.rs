//! Objects: which kinds there are, and how a node becomes one.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use tidegate_plan::{ObjectName, RouteKind};

use crate::core::{
    ClusterTrustBundle, ClusterTrustBundleSpec, ConfigMap, ConfigMapSpec, EndpointSlice, EndpointSliceSpec,
    NamespaceObject, NamespaceSpec, Secret, SecretSpec, Service, ServiceSpec,
};
use crate::gateway::{Gateway, GatewayClass, GatewayClassSpec, GatewaySpec, ListenerSet, ListenerSetSpec};
use crate::grpc_route::{GrpcRoute, GrpcRouteSpec};
use crate::http_route::{HttpRoute, HttpRouteSpec};
use crate::meta::{Meta, NameForm, read_meta};
use crate::parameters::{GatewayParameters, GatewayParametersSpec};
use crate::policy::{
    BackendTlsPolicy, BackendTlsPolicySpec, ReferenceGrant, ReferenceGrantSpec, XBackend, XBackendSpec,
    XBackendTrafficPolicy, XBackendTrafficPolicySpec,
};
use crate::problem::{Problem, Severity};
use crate::read::{At, Place, Read, nearest, step};
use crate::route::{TcpRoute, TcpRouteSpec, TlsRoute, TlsRouteSpec, UdpRoute, UdpRouteSpec};
use crate::tree::{Key, Node, Value};

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
    const NAME: NameForm = NameForm::Subdomain;

    /// Rules that hold between its fields and its metadata.
    fn check(_object: &Resource<Self>, _place: &mut Place<'_>) {}
}

/// Declares the enum of all kinds, the same names serving as keys.
macro_rules! kinds {
    ($($variant:ident($type:ty, $spec:ty),)+) => {
        /// Any object that is read here.
        #[derive(Clone, Debug, PartialEq)]
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

            /// The rules that are asked when an object of this kind is read, besides those of its metadata.
            #[must_use]
            pub fn rules(self) -> BTreeSet<&'static str> {
                let mut names = BTreeSet::new();
                match self { $(Self::$variant => <$spec as Read>::rules(&mut names),)+ }
                names
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
    GatewayParameters(GatewayParameters, GatewayParametersSpec),
    Namespace(NamespaceObject, NamespaceSpec),
    Service(Service, ServiceSpec),
    EndpointSlice(EndpointSlice, EndpointSliceSpec),
    Secret(Secret, SecretSpec),
    ConfigMap(ConfigMap, ConfigMapSpec),
    ClusterTrustBundle(ClusterTrustBundle, ClusterTrustBundleSpec),
}

impl From<RouteKind> for Kind {
    fn from(kind: RouteKind) -> Self {
        match kind {
            RouteKind::Http => Self::HttpRoute,
            RouteKind::Grpc => Self::GrpcRoute,
            RouteKind::Tls => Self::TlsRoute,
            RouteKind::Tcp => Self::TcpRoute,
            RouteKind::Udp => Self::UdpRoute,
        }
    }
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
    /// An object that is wrong and could be read to the end, to look for more that is wrong with it and for nothing else.
    pub draft: Option<Object>,
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
    let written = |field: &str| node.get("metadata").and_then(|meta| meta.get(field)).and_then(Node::as_str);
    let name = written("name").unwrap_or("(no name)");
    let kind = Kind::ALL.iter().copied().find(|kind| kind.as_str() == kind_name && kind.group() == group);

    let Some(kind) = kind else {
        let object = format!("{kind_name} {}", written("name").unwrap_or_default());
        let mut at = At::new(object.trim(), version);
        describe_unknown(node, group, kind_name, &mut at);
        return Reading { object: None, draft: None, key: None, problems: at.into_problems() };
    };
    let namespace = if kind.is_namespaced() { written("namespace").unwrap_or("default") } else { "" };
    let key = ObjectKey { kind, name: ObjectName::new(namespace, name) };
    let mut at = At::new(key.to_string(), version);
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
    let whole = at.is_whole();
    let problems = at.into_problems();
    let broken = problems.iter().any(|problem| problem.severity == Severity::Error);
    let (object, draft) = if broken { (None, object.filter(|_| whole)) } else { (object, None) };
    Reading { object, draft, key: Some(key), problems }
}

fn read_resource<S: Spec>(node: &Node, at: &mut At) -> Option<Resource<S>> {
    let fields = at.fields(node)?;
    note_keys(fields, at);
    let meta = read_meta(node, S::NAMESPACED, S::NAME, at);
    let spec = match S::FIELD {
        Some(field) => {
            at.unknown(fields, &[&["apiVersion", "kind", "metadata", "status", field]]);
            at.field(node, field, None)
        }
        None => S::read(node, at)?,
    };
    let object = Resource { meta: meta?, spec };
    S::check(&object, &mut Place::new(at, node));
    Some(object)
}

/// YAML has no answer to which of two values behind one key counts; the API server refuses such an object. And a key
/// that is a boolean in YAML 1.1 reaches the API server as `true` or `false`.
pub(crate) fn note_keys(fields: &[(Key, Node)], at: &mut At) {
    for (index, (key, node)) in fields.iter().enumerate() {
        at.within(&step(&key.text), |at| {
            let key_node = Node { span: key.span, value: Value::Null };
            if let Some(value) = key.bare {
                at.wrong(
                    "unquoted",
                    &key_node,
                    format!(
                        "`{}` without quotes is the boolean {value} in YAML, and a key is a string",
                        key.text
                    ),
                    format!("write \"{}\":", key.text),
                );
            }
            if fields[..index].iter().any(|(other, _)| other.text == key.text) {
                at.wrong(
                    "duplicate-key",
                    &key_node,
                    format!("the key `{}` is written twice in one map", key.text),
                    "keep one of them: the other would be lost without a word",
                );
            }
            note_keys_below(node, at);
        });
    }
}

fn note_keys_below(node: &Node, at: &mut At) {
    match &node.value {
        Value::Map(fields) => note_keys(fields, at),
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                at.within(&format!("[{index}]"), |at| note_keys_below(item, at));
            }
        }
        _ => {}
    }
}

/// Kinds of the API that are left out, each with what to know about it.
const PASSED_OVER: &[(&str, &str)] = &[
    ("XMesh", "it is for service meshes"),
    (
        "XTelemetryPolicy",
        "Tidegate writes no traces; its metrics and its access log are set up for a whole process (docs/gateway-api.md)",
    ),
];

/// Whether a group was meant to be that of a kind of this name. Kinds of other projects may be called the same: there is
/// a Gateway in `networking.istio.io`.
fn is_slip(group: &str, kind: Kind) -> bool {
    let of_kubernetes = group.is_empty() || group == "k8s.io" || group.ends_with(".k8s.io");
    of_kubernetes || nearest(group, &[kind.group()]).is_some()
}

fn describe_unknown(node: &Node, group: &str, kind: &str, at: &mut At) {
    let is_gateway_api = group.starts_with("gateway.networking.");
    let known: Vec<&str> =
        Kind::ALL.iter().filter(|known| known.group() == group).map(|known| known.as_str()).collect();
    let meant = nearest(kind, &known);
    let elsewhere = Kind::ALL.iter().find(|known| known.as_str() == kind);
    let api_version = node.get("apiVersion");
    if !matches!(node.value, Value::Map(_)) {
        at.wrong(
            "type",
            node,
            format!("expected an object, found {}", node.describe()),
            "write apiVersion, kind, metadata and spec, and `---` between objects",
        );
    } else if let (Some(version), false) = (api_version, kind.is_empty()) {
        let span = node.nearest("kind").span;
        if let Some(kind) = elsewhere.filter(|kind| is_gateway_api || is_slip(group, **kind)) {
            at.within("apiVersion", |at| {
                let newest = format!("{}/{}", kind.group(), kind.versions()[0]);
                let message = format!("`{}` has no kind {kind}", version.as_str().unwrap_or_default());
                at.wrong(
                    "api-version",
                    version,
                    message,
                    format!("write {}", newest.trim_start_matches('/')),
                );
            });
        } else if let (Some(meant), true) = (meant, is_gateway_api) {
            at.within("kind", |at| {
                let message = format!("there is no kind `{kind}` in {group}");
                at.wrong("unknown-kind", node.nearest("kind"), message, format!("did you mean `{meant}`?"));
            });
        } else if let (Some((_, why)), true) =
            (PASSED_OVER.iter().find(|(name, _)| *name == kind), is_gateway_api)
        {
            at.within("kind", |at| at.warn("unknown-kind", span, format!("{kind} has no effect: {why}"), ""));
        } else if is_gateway_api {
            at.within("kind", |at| {
                let message = format!("there is no kind `{kind}` in {group}");
                at.wrong(
                    "unknown-kind",
                    node.nearest("kind"),
                    message,
                    format!("write one of {}", known.join(", ")),
                );
            });
        } else if let Some(meant) = meant {
            // Deployments and the like stand in every folder and are nobody's mistake.
            let help = format!("did you mean `{meant}`?");
            at.within("kind", |at| {
                at.warn("unknown-kind", span, format!("objects of kind {kind} are not used here"), help);
            });
        }
    } else {
        at.wrong(
            "required",
            node,
            "an object needs `apiVersion` and `kind`",
            "write both at the top of the document",
        );
    }
}
