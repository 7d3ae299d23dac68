//! Who makes certificates for a Gateway, and within which bounds: what its owner wrote in annotations.

use tidegate_api::gateway::Gateway;
use tidegate_plan::Hostname;

use crate::translation::Issuer;

const ISSUER: &str = "gateway.tidegate.io/issuer";
const DOMAINS: &str = "gateway.tidegate.io/certificate-domains";
const LIMIT: &str = "gateway.tidegate.io/certificate-limit";
const NAMESPACE_LIMIT: &str = "gateway.tidegate.io/certificate-limit-per-namespace";

const DEFAULT_LIMIT: usize = 1_000;
const DEFAULT_NAMESPACE_LIMIT: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IssuerView {
    pub(crate) issuer: Issuer,
    /// Names are asked for only at or below one of these; empty: no restriction.
    pub(crate) domains: Vec<Hostname>,
    pub(crate) limit: usize,
    pub(crate) namespace_limit: usize,
}

impl IssuerView {
    pub(crate) fn allows(&self, name: &Hostname) -> bool {
        self.domains.is_empty()
            || self.domains.iter().any(|domain| {
                let base = name.base();
                base == domain.base() || base.ends_with(&format!(".{}", domain.base()))
            })
    }
}

/// The issuer of a Gateway, if it has one, and what is wrong with what was written about it.
pub(crate) fn of(gateway: &Gateway, default: Option<&Issuer>) -> (Option<IssuerView>, Vec<String>) {
    let mut notes = Vec::new();
    let issuer = match gateway.meta.annotation(ISSUER) {
        Some("acme") => Some(Issuer::Acme),
        Some("embedded") => Some(Issuer::Embedded),
        Some(other) => {
            notes.push(format!("annotation {ISSUER} is `{other}`; write acme or embedded"));
            None
        }
        None => cert_manager(gateway).or_else(|| default.cloned()),
    };
    let Some(issuer) = issuer else { return (None, notes) };
    let mut domains = Vec::new();
    for text in gateway.meta.annotation(DOMAINS).into_iter().flat_map(|list| list.split(',')).map(str::trim) {
        match Hostname::parse(text) {
            Ok(domain) => domains.push(domain),
            Err(error) => notes.push(format!("annotation {DOMAINS}: `{text}`: {error}")),
        }
    }
    let mut number = |key: &str, default: usize| match gateway.meta.annotation(key).map(str::parse) {
        None => default,
        Some(Ok(number)) => number,
        Some(Err(_)) => {
            notes.push(format!("annotation {key} is not a whole number; {default} is used"));
            default
        }
    };
    let (limit, namespace_limit) =
        (number(LIMIT, DEFAULT_LIMIT), number(NAMESPACE_LIMIT, DEFAULT_NAMESPACE_LIMIT));
    // An allow-list that cannot be read allows nothing rather than everything.
    if domains.is_empty() && gateway.meta.annotation(DOMAINS).is_some() {
        return (None, notes);
    }
    (Some(IssuerView { issuer, domains, limit, namespace_limit }), notes)
}

fn cert_manager(gateway: &Gateway) -> Option<Issuer> {
    let annotation = |key: &str| gateway.meta.annotation(&format!("cert-manager.io/{key}"));
    let group = annotation("issuer-group").unwrap_or("cert-manager.io").to_owned();
    let issuer = |name: &str, kind: &str| Issuer::CertManager {
        name: name.to_owned(),
        kind: kind.to_owned(),
        group: group.clone(),
    };
    let of_namespace =
        annotation("issuer").map(|name| issuer(name, annotation("issuer-kind").unwrap_or("Issuer")));
    of_namespace.or_else(|| annotation("cluster-issuer").map(|name| issuer(name, "ClusterIssuer")))
}
