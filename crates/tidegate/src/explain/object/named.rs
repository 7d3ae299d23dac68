//! Which object is meant by `KIND/NAME[.NAMESPACE]`.

use tidegate_api::{Kind, ObjectKey};
use tidegate_translate::Resources;

use crate::output::Error;
use crate::words;

/// The kinds that can be explained, with the short names that kubectl knows.
const KINDS: &[(Kind, &[&str])] = &[
    (Kind::HttpRoute, &["httproute", "httproutes"]),
    (Kind::GrpcRoute, &["grpcroute", "grpcroutes"]),
    (Kind::TlsRoute, &["tlsroute", "tlsroutes"]),
    (Kind::TcpRoute, &["tcproute", "tcproutes"]),
    (Kind::UdpRoute, &["udproute", "udproutes"]),
    (Kind::Gateway, &["gateway", "gateways", "gtw"]),
    (Kind::ListenerSet, &["listenerset", "listenersets", "lset"]),
    (Kind::BackendTlsPolicy, &["backendtlspolicy", "backendtlspolicies", "btlspolicy"]),
    (Kind::XBackendTrafficPolicy, &["xbackendtrafficpolicy", "xbackendtrafficpolicies", "xbtrafficpolicy"]),
    (Kind::XBackend, &["xbackend", "xbackends"]),
];

pub(crate) fn find(resources: &Resources, text: &str) -> Result<ObjectKey, Error> {
    let wrong = |message: String| Err(Error::Usage(message));
    let Some((kind, name)) = text.split_once('/') else {
        return wrong(format!("`{text}` does not name an object; write KIND/NAME or KIND/NAME.NAMESPACE"));
    };
    let Some(kind) = kind_named(kind) else {
        let kinds: Vec<Kind> = KINDS.iter().map(|(kind, _)| *kind).collect();
        return wrong(format!("`{kind}` cannot be explained; write one of {}", words::all_of(&kinds)));
    };
    let all: Vec<ObjectKey> =
        resources.iter().map(|object| object.key()).filter(|key| key.kind == kind).collect();
    // A name may have dots itself, so both readings are tried.
    let full = |key: &&ObjectKey| format!("{}.{}", key.name.name, key.name.namespace) == name;
    let mut found: Vec<&ObjectKey> = all.iter().filter(full).collect();
    if found.is_empty() {
        found = all.iter().filter(|key| &*key.name.name == name).collect();
    }
    match found.as_slice() {
        [key] => Ok((*key).clone()),
        [] if all.is_empty() => wrong(format!("there is no {kind} in these manifests")),
        [] => {
            let names: Vec<String> = all.iter().map(|key| key.name.to_string()).collect();
            wrong(format!("there is no {kind} `{name}`; there are: {}", words::some_of(&names, 12)))
        }
        several => {
            let names: Vec<String> =
                several.iter().map(|key| format!("{}.{}", key.name.name, key.name.namespace)).collect();
            wrong(format!("`{name}` is in several namespaces; write one of {}", names.join(", ")))
        }
    }
}

fn kind_named(name: &str) -> Option<Kind> {
    let name = name.to_ascii_lowercase();
    KINDS.iter().find(|(_, names)| names.contains(&name.as_str())).map(|(kind, _)| *kind)
}
