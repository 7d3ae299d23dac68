//! Which certificate a client is shown: the one that the plan chooses for the server name, among equals the first
//! whose type of key the client knows.

use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tidegate_plan::{Certificates, Name};

#[derive(Debug)]
pub(super) struct Resolver {
    pub(super) certificates: Certificates,
    /// In the order of the listener's certificates, without those that could not be opened.
    pub(super) keys: Vec<Option<Arc<CertifiedKey>>>,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().and_then(Name::from_sni);
        let ranked = self.certificates.ranked(name.as_ref());
        let mut keys = ranked.filter_map(|index| self.keys.get(index)?.as_ref());
        let fits = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        keys.find(fits).map(Arc::clone)
    }
}
