//! The choice of one endpoint among several, with nothing locked and nothing allocated.
//!
//! Endpoints that were set aside are passed over, unless nothing else is left: a guess that they are bad is no
//! reason to refuse a client that could be served.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use super::endpoint::Endpoint;
use super::random::Random;

/// Draws before everything is counted: where most endpoints are fit one or two do.
const DRAWS: usize = 4;

/// The less busy of two that chance names.
pub(super) fn by_load<'e>(
    all: &'e [Arc<Endpoint>],
    tried: &[SocketAddr],
    random: &mut Random,
    now: Instant,
) -> Option<&'e Arc<Endpoint>> {
    let is_new = |endpoint: &Endpoint| !tried.contains(&endpoint.address);
    let is_fit = |endpoint: &Endpoint| endpoint.is_fit(now) && is_new(endpoint);
    // Another connection may take the only trial of an endpoint between the look at it and the choice.
    for _ in 0..DRAWS {
        let Some(chosen) = less_busy(all, is_fit, random) else { break };
        if chosen.take(now) {
            return Some(chosen);
        }
    }
    less_busy(all, is_new, random)
}

/// The one with the highest claim on the client.
pub(super) fn by_client<'e>(
    all: &'e [Arc<Endpoint>],
    client: u64,
    tried: &[SocketAddr],
    now: Instant,
) -> Option<&'e Arc<Endpoint>> {
    let is_new = |endpoint: &&Arc<Endpoint>| !tried.contains(&endpoint.address);
    let claim = |endpoint: &&Arc<Endpoint>| endpoint.claim_on(client);
    for _ in 0..DRAWS {
        let fit = all.iter().filter(|endpoint| endpoint.is_fit(now) && is_new(endpoint));
        let Some(chosen) = fit.max_by_key(claim) else { break };
        if chosen.take(now) {
            return Some(chosen);
        }
    }
    all.iter().filter(is_new).max_by_key(claim)
}

fn less_busy<'e>(
    all: &'e [Arc<Endpoint>],
    is_fit: impl Fn(&Endpoint) -> bool,
    random: &mut Random,
) -> Option<&'e Arc<Endpoint>> {
    let first = draw(all, &is_fit, random)?;
    let other = |endpoint: &Endpoint| endpoint.address != first.address && is_fit(endpoint);
    match draw(all, &other, random) {
        Some(second) if second.active() < first.active() => Some(second),
        _ => Some(first),
    }
}

/// Any that is fit, each as likely as the other.
fn draw<'e>(
    all: &'e [Arc<Endpoint>],
    is_fit: &impl Fn(&Endpoint) -> bool,
    random: &mut Random,
) -> Option<&'e Arc<Endpoint>> {
    for _ in 0..DRAWS {
        let endpoint = all.get(random.below(all.len()))?;
        if is_fit(endpoint) {
            return Some(endpoint);
        }
    }
    let fit = || all.iter().filter(|endpoint| is_fit(endpoint));
    let count = fit().count();
    // What was fit at the count may no longer be so a moment later; then any that is will do.
    fit().nth(random.below(count)).or_else(|| fit().next())
}
