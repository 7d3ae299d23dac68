//! A plan is fragments, upserted and removed by id, with endpoints and blobs beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    Backend, BlobId, Capability, Challenge, Endpoints, EndpointsId, Filter, FragmentId, Gateway, Handling,
    Listener, Route, Rules, Upstream, WeightedBackend,
};

/// All that a data plane must do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub fragments: BTreeMap<FragmentId, Arc<Fragment>>,
    pub endpoints: BTreeMap<EndpointsId, Arc<Endpoints>>,
    pub blobs: BTreeMap<BlobId, Arc<Blob>>,
}

impl Plan {
    pub fn gateways(&self) -> impl Iterator<Item = &Gateway> {
        self.fragments.values().filter_map(|f| if let Body::Gateway(g) = &f.body { Some(g) } else { None })
    }

    pub fn listeners(&self) -> impl Iterator<Item = &Listener> {
        self.fragments.values().filter_map(|f| if let Body::Listener(l) = &f.body { Some(l) } else { None })
    }

    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.fragments.values().filter_map(|f| if let Body::Route(r) = &f.body { Some(r) } else { None })
    }

    pub fn backends(&self) -> impl Iterator<Item = &Backend> {
        self.fragments.values().filter_map(|f| if let Body::Backend(b) = &f.body { Some(b) } else { None })
    }

    pub fn insert(&mut self, body: Body) {
        let fragment = Fragment::new(body);
        self.fragments.insert(fragment.id(), Arc::new(fragment));
    }
}

/// One part of a plan, with what it takes to carry it out and a hash to tell whether it changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragment {
    pub hash: String,
    pub needs: BTreeSet<Capability>,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Body {
    Gateway(Gateway),
    Listener(Listener),
    Route(Route),
    Backend(Backend),
    Challenge(Challenge),
}

impl Fragment {
    #[must_use]
    pub fn new(body: Body) -> Self {
        Self { hash: content_hash(&body), needs: body.needs(), body }
    }

    #[must_use]
    pub fn id(&self) -> FragmentId {
        self.body.id()
    }
}

impl Body {
    #[must_use]
    pub fn id(&self) -> FragmentId {
        match self {
            Self::Gateway(gateway) => FragmentId::Gateway(gateway.id.clone()),
            Self::Listener(listener) => FragmentId::Listener(listener.id.clone()),
            Self::Route(route) => FragmentId::Route(route.id.clone()),
            Self::Backend(backend) => FragmentId::Backend(backend.id.clone()),
            Self::Challenge(challenge) => FragmentId::Challenge(challenge.name.clone()),
        }
    }

    /// What a data plane must be able to do to carry this out.
    #[must_use]
    pub fn needs(&self) -> BTreeSet<Capability> {
        needs(self)
    }
}

fn content_hash(body: &Body) -> String {
    struct Hasher(Sha256);
    impl std::io::Write for Hasher {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut hasher = Hasher(Sha256::new());
    serde_json::to_writer(&mut hasher, body)
        .expect("plan types serialise to JSON and the hasher takes all bytes");
    short_hex(&hasher.0.finalize())
}

/// Sixteen bytes of a hash in hexadecimal: enough that nobody finds two contents with one id.
fn short_hex(hash: &[u8]) -> String {
    use fmt::Write;
    hash.iter().take(16).fold(String::with_capacity(32), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn needs(body: &Body) -> BTreeSet<Capability> {
    let mut needs = BTreeSet::new();
    match body {
        Body::Gateway(gateway) => {
            needs.extend(gateway.client_certificate.as_ref().map(|_| Capability::BackendClientCertificate));
        }
        Body::Listener(listener) => {
            needs.insert(match &listener.handling {
                Handling::Http | Handling::Https(_) => Capability::Http,
                Handling::Passthrough => Capability::TlsPassthrough,
                Handling::Terminate(_) => Capability::TlsTerminate,
                Handling::Tcp => Capability::Tcp,
                Handling::Udp => Capability::Udp,
            });
            if let Some(tls) = listener.handling.server_tls() {
                needs.extend(tls.client_certificates.as_ref().map(|_| Capability::ClientCertificates));
                needs.extend(tls.alpn.first().map(|_| Capability::Alpn));
            }
            if !listener.external_auth.is_empty() {
                needs.insert(Capability::ExternalAuth);
            }
        }
        Body::Route(route) => match &route.rules {
            Rules::Http(rules) => {
                needs.insert(Capability::Http);
                for rule in rules {
                    needs_of_filters(&rule.filters, &rule.backends.0, &mut needs);
                    needs.extend(rule.retry.as_ref().map(|_| Capability::Retry));
                    needs.extend(rule.session.as_ref().map(|_| Capability::SessionPersistence));
                }
            }
            Rules::Grpc(rules) => {
                needs.insert(Capability::Grpc);
                for rule in rules {
                    needs_of_filters(&rule.filters, &rule.backends.0, &mut needs);
                    needs.extend(rule.session.as_ref().map(|_| Capability::SessionPersistence));
                }
            }
            Rules::Stream(_) => {}
        },
        Body::Backend(backend) => {
            if let Upstream::Tls(tls) = &backend.upstream {
                needs.insert(Capability::BackendTls);
                needs.extend(tls.client_certificate.as_ref().map(|_| Capability::BackendClientCertificate));
                needs.extend(tls.alpn.first().map(|_| Capability::Alpn));
            }
            needs.extend(backend.session.as_ref().map(|_| Capability::SessionPersistence));
            needs.extend(backend.retry_budget.as_ref().map(|_| Capability::RetryBudget));
        }
        Body::Challenge(_) => _ = needs.insert(Capability::AcmeChallenges),
    }
    needs
}

fn needs_of_filters(rule: &[Filter], backends: &[WeightedBackend], needs: &mut BTreeSet<Capability>) {
    for filter in rule.iter().chain(backends.iter().flat_map(|backend| &backend.filters)) {
        needs.extend(match filter {
            Filter::Mirror { .. } => Some(Capability::Mirror),
            Filter::Cors(_) => Some(Capability::Cors),
            Filter::ExternalAuth(_) => Some(Capability::ExternalAuth),
            Filter::RequestHeaders(_)
            | Filter::ResponseHeaders(_)
            | Filter::Redirect(_)
            | Filter::Rewrite(_) => None,
        });
    }
}

/// Key material, kept out of the fragments so that these can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blob {
    Key(CertifiedKey),
    /// CA certificates in DER.
    Bundle(Vec<Vec<u8>>),
}

impl Blob {
    /// The id of this content.
    #[must_use]
    pub fn id(&self) -> BlobId {
        let mut hasher = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hasher.update((bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        };
        match self {
            Self::Key(key) => {
                part(b"key");
                part(&key.key);
                key.chain.iter().for_each(|certificate| part(certificate));
            }
            Self::Bundle(certificates) => {
                part(b"bundle");
                certificates.iter().for_each(|certificate| part(certificate));
            }
        }
        BlobId(short_hex(&hasher.finalize()).into())
    }
}

/// A certificate chain and its private key, both in DER.
#[derive(Clone, PartialEq, Eq)]
pub struct CertifiedKey {
    pub chain: Vec<Vec<u8>>,
    /// PKCS#8, PKCS#1 or SEC1.
    pub key: Vec<u8>,
}

/// The key is never shown.
impl fmt::Debug for CertifiedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertifiedKey").field("chain", &self.chain.len()).finish_non_exhaustive()
    }
}
