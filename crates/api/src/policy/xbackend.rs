//! XBackend: a backend that is no Service, with its protocol and its TLS.

use crate::form::is_subdomain;
use crate::kind::{Resource, Spec};
use crate::policy::BackendValidation;
use crate::read::{Map, Place, record, words};
use crate::refs::{EXPERIMENTAL_GROUP, SecretReference};
use crate::rules::field_fits;
use crate::scalar::{LabelValue, Port, PreciseHostname, shorten};
use crate::session::SessionPersistence;

pub type XBackend = Resource<XBackendSpec>;

impl Spec for XBackendSpec {
    const KIND: &'static str = "XBackend";
    const GROUP: &'static str = EXPERIMENTAL_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1alpha1"];
}

record! {
    pub struct XBackendSpec {
        pub kind: XBackendType = "type",
        pub port: XBackendPort = "port",
        pub external_hostname: Option<ExternalHostname> = "externalHostname",
        pub endpoint_selector: Option<EndpointSelector> = "endpointSelector",
        pub session_persistence: Option<SessionPersistence> = "sessionPersistence",
        pub protocol: Option<XBackendProtocol> = "protocol",
        /// Absent is mode None.
        pub tls: Option<XBackendTls> = "tls",
    }
    rules: [
        xbackend_field_fits_type("type"),
        h2c_has_no_tls("protocol", "tls.mode"),
        http2_has_tls("protocol", "tls.mode"),
        wss_has_tls("protocol", "tls.mode"),
        sessions_have_endpoints("type"),
    ]
}

words! {
    pub enum XBackendType {
        ExternalHostname = "ExternalHostname",
        EndpointSelector = "EndpointSelector",
    }
}

record! {
    pub struct XBackendPort {
        pub number: Port = "number",
    }
}

record! {
    pub struct ExternalHostname {
        pub hostname: PreciseHostname = "hostname",
    }
    rules: [external_hostname_is_outside_the_cluster]
}

record! {
    pub struct EndpointSelector {
        pub match_labels: Map<LabelValue> = "matchLabels",
    }
    rules: [
        selector_has_match_labels("matchLabels?"),
        match_labels_are_at_most_64("matchLabels?"),
        match_labels_have_label_keys("matchLabels?"),
    ]
}

words! {
    pub enum XBackendProtocol {
        Tcp = "TCP",
        Http = "HTTP",
        Http2 = "HTTP2",
        Http11 = "HTTP11",
        H2c = "H2C",
        Mcp = "MCP",
        Grpc = "GRPC",
        Wss = "WSS",
    }
}

record! {
    pub struct XBackendTls {
        pub mode: XBackendTlsMode = "mode",
        pub client_certificate_ref: Option<SecretReference> = "clientCertificateRef",
        pub validation: Option<BackendValidation> = "validation",
    }
    rules: [
        client_certificate_fits_mode("mode"),
        validation_fits_mode("mode"),
        ca_references_are_not_an_empty_list("validation.caCertificateRefs?"),
    ]
}

words! {
    pub enum XBackendTlsMode {
        None = "None",
        ServerOnly = "ServerOnly",
        ClientAndServer = "ClientAndServer",
    }
}

fn xbackend_field_fits_type(backend: &XBackendSpec, place: &mut Place<'_>) {
    let fields = [("ExternalHostname", "externalHostname"), ("EndpointSelector", "endpointSelector")];
    field_fits(place, "type", backend.kind.as_str(), &fields);
}

fn h2c_has_no_tls(backend: &XBackendSpec, place: &mut Place<'_>) {
    if backend.protocol == Some(XBackendProtocol::H2c) && backend.has_tls() {
        place.wrong(
            "tls.mode",
            "H2C is HTTP/2 without TLS",
            "write `protocol: HTTP2` for HTTP/2 with TLS, or `mode: None`",
        );
    }
}

fn http2_has_tls(backend: &XBackendSpec, place: &mut Place<'_>) {
    if backend.protocol == Some(XBackendProtocol::Http2) && !backend.has_tls() {
        place.wrong(
            "protocol",
            "HTTP2 is HTTP/2 with TLS, and `tls` does not ask for any",
            "write `protocol: H2C` for HTTP/2 without TLS, or `tls:` with `mode: ServerOnly`",
        );
    }
}

fn wss_has_tls(backend: &XBackendSpec, place: &mut Place<'_>) {
    if backend.protocol == Some(XBackendProtocol::Wss) && !backend.has_tls() {
        place.wrong(
            "protocol",
            "WSS is WebSocket with TLS, and `tls` does not ask for any",
            "write `tls:` with `mode: ServerOnly`",
        );
    }
}

fn sessions_have_endpoints(backend: &XBackendSpec, place: &mut Place<'_>) {
    if backend.session_persistence.is_some() && backend.kind != XBackendType::EndpointSelector {
        place.wrong(
            "sessionPersistence",
            format!(
                "a session sticks to an endpoint, and a backend of type {} has one name only",
                backend.kind
            ),
            "remove `sessionPersistence`, or write `type: EndpointSelector`",
        );
    }
}

impl XBackendSpec {
    fn has_tls(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.mode != XBackendTlsMode::None)
    }
}

fn external_hostname_is_outside_the_cluster(external: &ExternalHostname, place: &mut Place<'_>) {
    if external.hostname.0.as_str().ends_with(".cluster.local") {
        place.wrong(
            "hostname",
            format!("`{}` is a name inside the cluster", external.hostname.0),
            "refer to the Service itself, or write a name outside the cluster",
        );
    }
}

fn selector_has_match_labels(selector: &EndpointSelector, place: &mut Place<'_>) {
    if selector.match_labels.is_empty() {
        place.wrong(
            "matchLabels",
            "nothing says which labels the endpoints have",
            "write `matchLabels:` with at least one label of the Pods",
        );
    }
}

fn match_labels_are_at_most_64(selector: &EndpointSelector, place: &mut Place<'_>) {
    let count = selector.match_labels.len();
    if count > 64 {
        place.wrong("matchLabels", format!("{count} labels where at most 64 may be"), "remove some");
    }
}

fn match_labels_have_label_keys(selector: &EndpointSelector, place: &mut Place<'_>) {
    for key in selector.match_labels.keys().filter(|key| !is_qualified_name(key)) {
        place.wrong(
            "matchLabels",
            format!("`{}` is not the key of a label", shorten(key)),
            "write a name of at most 63 letters, digits, `-`, `_` and `.`, such as app or example.com/app",
        );
    }
}

fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(|prefix| prefix.len() <= 253 && is_subdomain(prefix))
        && !name.is_empty()
        && LabelValue::new(name).is_some()
}

fn client_certificate_fits_mode(tls: &XBackendTls, place: &mut Place<'_>) {
    match (tls.mode, tls.client_certificate_ref.is_some()) {
        (XBackendTlsMode::ClientAndServer, false) => place.wrong(
            "",
            "in mode ClientAndServer we show a certificate, and `clientCertificateRef` is missing",
            "write `clientCertificateRef:` with a Secret, or `mode: ServerOnly`",
        ),
        (XBackendTlsMode::None | XBackendTlsMode::ServerOnly, true) => place.wrong(
            "clientCertificateRef",
            format!("in mode {} we show no certificate", tls.mode),
            "remove `clientCertificateRef`, or write `mode: ClientAndServer`",
        ),
        _ => {}
    }
}

fn validation_fits_mode(tls: &XBackendTls, place: &mut Place<'_>) {
    match (tls.mode, tls.validation.is_some()) {
        (XBackendTlsMode::None, true) => place.wrong(
            "validation",
            "in mode None there is no certificate to check",
            "remove `validation`, or write `mode: ServerOnly`",
        ),
        (XBackendTlsMode::ServerOnly | XBackendTlsMode::ClientAndServer, false) => place.wrong(
            "",
            format!("in mode {} the backend's certificate is checked, and `validation` is missing", tls.mode),
            "write `validation:` with `hostname` and `wellKnownCACertificates` or `caCertificateRefs`",
        ),
        _ => {}
    }
}

/// BackendTLSPolicy is laxer here, see there.
fn ca_references_are_not_an_empty_list(tls: &XBackendTls, place: &mut Place<'_>) {
    let is_empty = |validation: &BackendValidation| validation.ca_certificate_refs.is_empty();
    if tls.validation.as_ref().is_some_and(is_empty) && place.has("validation.caCertificateRefs") {
        place.wrong("validation.caCertificateRefs", "an empty list", "remove it, or write a reference");
    }
}
