//! Who makes certificates for a Gateway, and within which bounds: what its owner wrote in annotations, then what its
//! parameters say, then what holds for all.

use tidegate_api::gateway::Gateway;
use tidegate_api::parameters::{CertificateIssuer, CertificateParameters, UntilIssued};
use tidegate_api::read::Whole;
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
    /// Whether something stands in for a certificate until there is one; `None`: as whoever runs this says.
    pub(crate) stand_in: Option<bool>,
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
pub(crate) fn of(
    gateway: &Gateway,
    parameters: Option<&CertificateParameters>,
    default: Option<&Issuer>,
) -> (Option<IssuerView>, Vec<String>) {
    let mut notes = Vec::new();
    let issuer = match gateway.meta.annotation(ISSUER) {
        Some("acme") => Some(Issuer::Acme),
        Some("embedded") => Some(Issuer::Embedded),
        Some("none") => None,
        Some(other) => {
            notes.push(format!("annotation {ISSUER} is `{other}`; write acme, embedded or none"));
            None
        }
        None => cert_manager(gateway).or_else(|| match parameters.and_then(|asked| asked.issuer) {
            Some(CertificateIssuer::Acme) => Some(Issuer::Acme),
            Some(CertificateIssuer::Embedded) => Some(Issuer::Embedded),
            Some(CertificateIssuer::Nobody) => None,
            None => default.cloned(),
        }),
    };
    let Some(issuer) = issuer else { return (None, notes) };
    let mut domains = Vec::new();
    for text in gateway.meta.annotation(DOMAINS).into_iter().flat_map(|list| list.split(',')).map(str::trim) {
        match Hostname::parse(text) {
            Ok(domain) => domains.push(domain),
            Err(error) => notes.push(format!("annotation {DOMAINS}: `{text}`: {error}")),
        }
    }
    let mut number = |key: &str, asked: Option<i64>, default: usize| {
        let asked = asked.and_then(|asked| usize::try_from(asked).ok()).unwrap_or(default);
        match gateway.meta.annotation(key).map(str::parse) {
            None => asked,
            Some(Ok(number)) => number,
            Some(Err(_)) => {
                notes.push(format!("annotation {key} is not a whole number; {asked} is used"));
                asked
            }
        }
    };
    let limit = number(LIMIT, parameters.and_then(|asked| asked.limit).map(Whole::get), DEFAULT_LIMIT);
    let of_namespace = parameters.and_then(|asked| asked.limit_per_namespace).map(Whole::get);
    let namespace_limit = number(NAMESPACE_LIMIT, of_namespace, DEFAULT_NAMESPACE_LIMIT);
    if gateway.meta.annotation(DOMAINS).is_none() {
        domains.extend(parameters.and_then(|asked| asked.domains.as_ref()).into_iter().flatten().cloned());
    } else if domains.is_empty() {
        // An allow-list that cannot be read allows nothing rather than everything.
        return (None, notes);
    }
    let stand_in = parameters.and_then(|asked| asked.until_issued).map(|until| until == UntilIssued::StandIn);
    (Some(IssuerView { issuer, domains, limit, namespace_limit, stand_in }), notes)
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
