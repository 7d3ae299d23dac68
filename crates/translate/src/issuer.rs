//! Who makes certificates for a Gateway, and within which bounds: what its owner wrote in annotations, then what its
//! parameters say, then what holds for all.

use std::sync::Arc;

use tidegate_api::gateway::Gateway;
use tidegate_api::parameters::{CertificateIssuer, CertificateParameters, UntilIssued};
use tidegate_api::read::Whole;
use tidegate_api::scalar::AccountName;
use tidegate_plan::Hostname;

use crate::settings::{Settings, Source};
use crate::translation::Issuer;

const ISSUER: &str = "gateway.tidegate.io/issuer";
const ACME_ACCOUNT: &str = "gateway.tidegate.io/acme-account";
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
    settings: &Settings,
) -> (Option<IssuerView>, Vec<String>) {
    let mut notes = Vec::new();
    let acme = || Issuer::Acme { account: None };
    let issuer = match gateway.meta.annotation(ISSUER) {
        Some("acme") => Some(acme()),
        Some("embedded") => Some(Issuer::Embedded),
        Some("none") => None,
        Some(other) => {
            notes.push(format!("annotation {ISSUER} is `{other}`; write acme, embedded or none"));
            None
        }
        None => cert_manager(gateway, settings).or_else(|| match parameters.and_then(|asked| asked.issuer) {
            Some(CertificateIssuer::Acme) => Some(acme()),
            Some(CertificateIssuer::Embedded) => Some(Issuer::Embedded),
            Some(CertificateIssuer::Nobody) => None,
            None => settings.issuer.clone(),
        }),
    };
    let Some(mut issuer) = issuer else { return (None, notes) };
    if let Issuer::Acme { account } = &mut issuer {
        match account_of(gateway, parameters) {
            Ok(named) => *account = named,
            // An account that nobody can tell is no reason to use another.
            Err(note) => {
                notes.push(note);
                return (None, notes);
            }
        }
    }
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

/// The account that somebody names.
fn account_of(
    gateway: &Gateway,
    parameters: Option<&CertificateParameters>,
) -> Result<Option<Arc<str>>, String> {
    let Some(text) = gateway.meta.annotation(ACME_ACCOUNT) else {
        let of_parameters = parameters.and_then(|asked| asked.acme_account.as_ref());
        return Ok(of_parameters.map(AccountName::shared));
    };
    AccountName::new(text).map(|name| Some(name.shared())).ok_or_else(|| {
        format!("annotation {ACME_ACCOUNT} is not the name of an account: lower-case letters, digits and `-`")
    })
}

/// In a folder there is no cert-manager: who says who else makes certificates there means Gateways of clusters, too.
fn cert_manager(gateway: &Gateway, settings: &Settings) -> Option<Issuer> {
    if settings.source == Source::Folder && settings.issuer.is_some() {
        return None;
    }
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
