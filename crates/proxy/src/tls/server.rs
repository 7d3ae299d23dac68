//! How a listener that ends TLS speaks it. One that cannot do all that it was told to has no configuration at all:
//! it must not serve with less.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::server::NoServerSessionStorage;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::{ConfigBuilder, ServerConfig, WantsVerifier, server::WantsServerCert};
use tidegate_plan::{Blob, BlobId, Certificates, Handling, Listener, Reason, ServerTls};

use super::keys::Keys;
use super::resolver::Resolver;
use super::tickets::{TicketSecret, Tickets};
use super::{client_certificates, provider, versions};

pub(crate) fn server_config(
    listener: &Listener,
    keys: &mut Keys,
    blobs: &BTreeMap<BlobId, Arc<Blob>>,
    secret: &TicketSecret,
) -> Result<Arc<ServerConfig>, Reason> {
    at(listener, keys, blobs, secret, Arc::new(DefaultTimeProvider))
}

/// The same by any clock.
pub(super) fn at(
    listener: &Listener,
    keys: &mut Keys,
    blobs: &BTreeMap<BlobId, Arc<Blob>>,
    secret: &TicketSecret,
    clock: Arc<dyn TimeProvider>,
) -> Result<Arc<ServerConfig>, Reason> {
    let tls = listener.handling.server_tls().ok_or(Reason::ListenerInvalid)?;
    let builder = ServerConfig::builder_with_details(provider(), Arc::clone(&clock))
        .with_protocol_versions(versions(tls.minimum_version))
        .map_err(|_| Reason::ListenerInvalid)?;
    let builder = with_client_certificates(builder, tls, blobs)?;
    let mut config = builder.with_cert_resolver(Arc::new(resolver(tls, keys, blobs)?));
    config.alpn_protocols = protocols(&listener.handling);
    // Sessions are kept by clients, in tickets, so that any worker and replica can resume them.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = Arc::new(Tickets::new(secret, &listener.id, tls.client_certificates.as_ref(), clock));
    Ok(Arc::new(config))
}

fn with_client_certificates(
    builder: ConfigBuilder<ServerConfig, WantsVerifier>,
    tls: &ServerTls,
    blobs: &BTreeMap<BlobId, Arc<Blob>>,
) -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, Reason> {
    let Some(rule) = &tls.client_certificates else { return Ok(builder.with_no_client_auth()) };
    let verifier = client_certificates::verifier(rule, blobs).map_err(|_| Reason::NoClientCa)?;
    Ok(builder.with_client_cert_verifier(verifier))
}

fn resolver(
    tls: &ServerTls,
    keys: &mut Keys,
    blobs: &BTreeMap<BlobId, Arc<Blob>>,
) -> Result<Resolver, Reason> {
    let certificates = tls.certificates.iter();
    let keys: Vec<_> = certificates.map(|certificate| keys.open(&certificate.id, blobs).ok()).collect();
    if keys.iter().all(Option::is_none) {
        return Err(Reason::NoCertificate);
    }
    Ok(Resolver { certificates: Certificates::new(tls), keys })
}

/// What the plan takes for HTTP; what is in other TLS only its owner can say.
fn protocols(handling: &Handling) -> Vec<Vec<u8>> {
    match handling {
        Handling::Https(_) => ["h2", "http/1.1", "http/1.0"].map(|name| name.as_bytes().to_vec()).to_vec(),
        Handling::Terminate(tls) => tls.alpn.iter().map(|name| name.as_bytes().to_vec()).collect(),
        Handling::Http | Handling::Passthrough | Handling::Tcp | Handling::Udp => Vec::new(),
    }
}
