//! Names and what keeps them from a certificate, for people.

use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

use tidegate_certs::{DEFAULT_ACCOUNT, Late, Seconds, State};
use tidegate_plan::{Hostname, ObjectName};
use tidegate_translate::{LeftOut, Source, Wants, WhyLeftOut};

/// Of so many names it is said what they wait for.
const SHOWN: usize = 5;

/// The first of them, and how many there are besides.
#[must_use]
pub fn some_of(each: impl IntoIterator<Item = String>) -> String {
    let mut each = each.into_iter();
    let shown: Vec<String> = each.by_ref().take(SHOWN).collect();
    let more = each.count();
    let more = if more > 0 { format!("; and {more} more names") } else { String::new() };
    format!("{}{more}", shown.join("; "))
}

/// The names of a listener that are not asked for and are served nowhere else, the first of them, each with why.
#[must_use]
pub fn not_asked_for(wants: &Wants) -> Vec<String> {
    let each = wants.left_out.iter().filter(|left| !left.why.is_served_elsewhere());
    let each = each.map(|left| {
        let whose = left.route.as_ref().map(|route| format!(" of {route}")).unwrap_or_default();
        let name = left.name.as_ref().map_or("no name", |name| name.as_str());
        format!("{name}{whose}: {}", left_out_in_words(left))
    });
    each.collect()
}

/// Whose certificate ends when, and why it is not renewed.
#[must_use]
pub fn late_in_words(name: &Hostname, late: &Late, wants: &Wants, source: Source) -> String {
    let why = state_in_words(&late.state, wants, source);
    format!("the certificate of {name} ends at {} and is not renewed: {why}", time(late.ends))
}

/// Why a name is not asked for, and what to do about it.
#[must_use]
pub fn left_out_in_words(left: &LeftOut) -> Cow<'static, str> {
    let words = match left.why {
        WhyLeftOut::WildcardOfRoute => {
            "a wildcard is never asked for on the word of a route; write it as the listener's hostname"
        }
        WhyLeftOut::IssuerWithoutWildcards => {
            "this issuer gives no wildcards; the names of attached routes are asked for instead"
        }
        WhyLeftOut::OutsideListenerHostname => "outside the listener's hostname",
        WhyLeftOut::NotOnAllowList => "not at or below a domain of gateway.tidegate.io/certificate-domains",
        WhyLeftOut::OverLimit => "over the Gateway's limit (gateway.tidegate.io/certificate-limit)",
        WhyLeftOut::OverNamespaceLimit => {
            "over the limit of its namespace (gateway.tidegate.io/certificate-limit-per-namespace)"
        }
        WhyLeftOut::RouteNotAccepted => "the route is not accepted here",
        WhyLeftOut::RouteWithoutHostnames => "the route has no hostnames",
        WhyLeftOut::Passthrough => "the listener passes TLS through; the backend has the certificate",
        WhyLeftOut::NarrowerListener => {
            let taker = left.taken_by.as_ref().map(|taker| format!(" {taker}")).unwrap_or_default();
            return format!("a narrower listener{taker} on the same port takes it, with its own certificate")
                .into();
        }
    };
    words.into()
}

/// Why a name that a listener wants has no certificate, and what to do about it.
#[must_use]
pub fn state_in_words(state: &State, wants: &Wants, source: Source) -> String {
    match state {
        State::Gathering { .. } => "waits a moment for other names".to_owned(),
        State::Ordered => "is being asked for".to_owned(),
        State::Queued => "waits for its turn".to_owned(),
        State::SetAside { until, message } => {
            format!("failed: {message}; it is tried again at {}", time(*until))
        }
        State::IssuerHeld { until, message } => {
            format!("the issuer is asked again at {}: {message}", time(*until))
        }
        State::OverBudget(pool) => format!(
            "{pool} has had its orders of this week; raise the budget, or have fewer names (--orders-per-gateway, --orders-per-namespace, --orders-per-domain)"
        ),
        State::NoIssuer => no_issuer(wants, source),
        State::NotPermitted => {
            let (account, namespace) =
                (account(wants).unwrap_or_default(), &wants.listener.gateway.namespace);
            let place = places(source);
            format!(
                "ACME account {account} is not for Gateways of namespace {namespace}; name another ({NAMED_BY}), or have the namespace added to it ({place})"
            )
        }
    }
}

/// Where a Gateway's owner names an ACME account.
const NAMED_BY: &str = "gateway.tidegate.io/acme-account, certificates.acmeAccount of GatewayParameters";

/// Where an operator sets ACME accounts up.
const fn places(source: Source) -> &'static str {
    match source {
        Source::Folder => "--acme-account",
        Source::Cluster => "--acme-account, certificates.acme.accounts of the chart",
    }
}

/// The ACME account that a Gateway names.
fn account(wants: &Wants) -> Option<&str> {
    match &wants.issuer {
        tidegate_translate::Issuer::Acme { account } => account.as_deref(),
        _ => None,
    }
}

fn no_issuer(wants: &Wants, source: Source) -> String {
    match (account(wants), source) {
        (Some(account), _) if account != DEFAULT_ACCOUNT => format!(
            "there is no ACME account {account} here; name another ({NAMED_BY}), or have it set up ({})",
            places(source)
        ),
        (_, Source::Folder) => "the issuer is not set up here; start with --certs and --state".to_owned(),
        (_, Source::Cluster) => {
            "the controller does not have this issuer; switch it on (--issuer, certificates.issuers of the chart)"
                .to_owned()
        }
    }
}

/// `Secret infra/tls`.
#[must_use]
pub fn secret_in_words(secret: &ObjectName) -> String {
    format!("Secret {secret}")
}

pub(crate) fn time(seconds: Seconds) -> String {
    let since = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}
