//! Listeners, the same in a Gateway and in a ListenerSet.

use tidegate_plan::Hostname;

use crate::filter::ExternalAuth;
use crate::form::is_qualified_name;
use crate::read::{Entries, List, Place, record, words};
use crate::refs::{GATEWAY_GROUP, LocalObjectReference, SecretReference};
use crate::rules::{field_fits, repeated};
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
    rules: [
        plain_listener_has_no_tls("protocol"),
        https_listener_terminates("protocol", "tls.mode"),
        tls_listener_says_tls("protocol"),
        tcp_and_udp_listeners_have_no_hostname("protocol"),
    ]
}

fn plain_listener_has_no_tls(listener: &Listener, place: &mut Place<'_>) {
    let is_plain = ["HTTP", "TCP", "UDP"].contains(&listener.protocol.as_str());
    if is_plain && listener.tls.is_some() {
        let help = match listener.protocol.as_str() {
            "HTTP" => "remove `tls`, or write `protocol: HTTPS`",
            "TCP" => "remove `tls`, or write `protocol: TLS`",
            _ => "remove `tls`",
        };
        place.wrong("tls", format!("a listener of protocol {} does no TLS", listener.protocol), help);
    }
}

fn https_listener_terminates(listener: &Listener, place: &mut Place<'_>) {
    let mode = listener.tls.as_ref().and_then(|tls| tls.mode);
    if listener.protocol == "HTTPS" && mode == Some(TlsMode::Passthrough) {
        place.wrong(
            "tls.mode",
            "a listener of protocol HTTPS reads the requests and so has to terminate TLS",
            "write `mode: Terminate`, or `protocol: TLS` with TLSRoutes to pass it through",
        );
    }
}

fn tls_listener_says_tls(listener: &Listener, place: &mut Place<'_>) {
    if listener.protocol == "TLS" && listener.tls.is_none() {
        place.wrong(
            "",
            "a listener of protocol TLS has to say what it does with TLS",
            "write `tls:` with `mode: Passthrough`, or with `mode: Terminate` and `certificateRefs`",
        );
    }
}

fn tcp_and_udp_listeners_have_no_hostname(listener: &Listener, place: &mut Place<'_>) {
    if ["TCP", "UDP"].contains(&listener.protocol.as_str()) && listener.hostname.is_some() {
        place.wrong(
            "hostname",
            format!("there are no hostnames in {}", listener.protocol),
            "remove `hostname`",
        );
    }
}

/// What has listeners: a Gateway and a ListenerSet, under the same rules.
pub trait HasListeners {
    fn listeners(&self) -> &[Listener];
}

pub(crate) fn listener_names_are_unique<S: HasListeners>(spec: &S, place: &mut Place<'_>) {
    for (index, first, listener) in repeated(spec.listeners(), |listener| &listener.name) {
        place.wrong(
            &format!("listeners[{index}].name"),
            format!("the name `{}` is taken by listeners[{first}]", listener.name),
            "give each listener a name of its own: routes choose it by `sectionName`",
        );
    }
}

/// The field and the message of each listener whose filters have no requests to work on.
pub(crate) fn idle_filters<S: HasListeners>(spec: &S) -> Vec<(String, String)> {
    let idle = |listener: &Listener| {
        listener.filters.is_some() && !["HTTP", "HTTPS"].contains(&listener.protocol.as_str())
    };
    let listeners = spec.listeners().iter().enumerate().filter(|(_, listener)| idle(listener));
    let told = listeners.map(|(index, listener)| {
        let message =
            format!("filters work on requests, and a listener of protocol {} sees none", listener.protocol);
        (format!("listeners[{index}].filters"), message)
    });
    told.collect()
}

pub(crate) const IDLE_FILTERS_HELP: &str = "remove `filters`, or write `protocol: HTTP` or `HTTPS`";

pub(crate) fn listeners_are_distinct<S: HasListeners>(spec: &S, place: &mut Place<'_>) {
    let same = |listener: &Listener| (listener.port, listener.protocol.clone(), listener.hostname.clone());
    for (index, first, listener) in repeated(spec.listeners(), same) {
        let hostname = match &listener.hostname {
            Some(hostname) => format!("the hostname `{hostname}`"),
            None => "no hostname".to_owned(),
        };
        place.wrong(
            &format!("listeners[{index}]"),
            format!(
                "port {}, protocol {} and {hostname} are those of listeners[{first}] too",
                listener.port.get(),
                listener.protocol
            ),
            "change the port or the hostname, or make one listener of the two",
        );
    }
}

record! {
    pub struct ListenerTls {
        /// Absent is Terminate.
        pub mode: Option<TlsMode> = "mode",
        pub certificate_refs: List<SecretReference, 0, 64> = "certificateRefs",
        pub options: Entries<AnnotationValue, 16> = "options",
    }
    rules: [
        termination_has_certificates_or_options("mode", "certificateRefs?", "options?"),
        tls_option_keys_are_qualified_names("options?"),
    ]
}

fn termination_has_certificates_or_options(tls: &ListenerTls, place: &mut Place<'_>) {
    let terminates = tls.mode != Some(TlsMode::Passthrough);
    if terminates && tls.certificate_refs.is_empty() && tls.options.is_empty() {
        place.wrong(
            "certificateRefs",
            "to terminate TLS a listener needs a certificate",
            "write `certificateRefs:` with the name of a Secret, or `mode: Passthrough`",
        );
    }
}

/// The CRDs do not look at these keys, so that it is not an error.
fn tls_option_keys_are_qualified_names(tls: &ListenerTls, place: &mut Place<'_>) {
    for key in tls.options.keys().filter(|key| !is_qualified_name(key)) {
        place.warn_key(
            "options",
            key,
            format!("`{key}` is not the key of an option of any implementation"),
            "write a domain and a name, such as example.com/name",
        );
    }
}

words! {
    pub enum TlsMode {
        Terminate = "Terminate",
        Passthrough = "Passthrough",
    }
}

record! {
    #[derive(Default)]
    pub struct AllowedRoutes {
        pub namespaces: RouteNamespaces = "namespaces" or RouteNamespaces::default(),
        pub kinds: List<RouteGroupKind, 0, 8> = "kinds",
    }
}

record! {
    pub struct RouteNamespaces {
        pub from: FromNamespaces = "from" or FromNamespaces::Same,
        pub selector: Option<LabelSelector> = "selector",
    }
    rules: [route_selector_goes_with_from_selector("from")]
}

/// The CRDs let both pass, so that it is not an error.
fn route_selector_goes_with_from_selector(namespaces: &RouteNamespaces, place: &mut Place<'_>) {
    warn_about_selector(namespaces.from == FromNamespaces::Selector, namespaces.selector.is_some(), place);
}

pub(crate) fn warn_about_selector(from_selector: bool, has_selector: bool, place: &mut Place<'_>) {
    if from_selector && !has_selector {
        place.warn(
            "from",
            "`from: Selector` without a selector chooses no namespace",
            "write `selector:` with `matchLabels:`",
        );
    } else if !from_selector && has_selector {
        place.warn("selector", "the selector has no effect", "write `from: Selector`, or remove it");
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
    rules: [listener_filter_has_what_its_type_says("type")]
}

fn listener_filter_has_what_its_type_says(filter: &ListenerFilter, place: &mut Place<'_>) {
    let fields = [("ExternalAuth", "externalAuth"), ("ExtensionRef", "extensionRef")];
    field_fits(place, "type", filter.kind.as_str(), &fields);
}

words! {
    pub enum ListenerFilterType {
        ExternalAuth = "ExternalAuth",
        ExtensionRef = "ExtensionRef",
    }
}
