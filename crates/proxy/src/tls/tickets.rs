//! Session tickets: what a server wrote down for itself, kept by the client. Their keys are derived, so that every
//! worker and replica with the same secret opens them, and nobody else: not another listener, not the same listener
//! under another rule for client certificates, and no one after their time.

use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::{hkdf, rand};
use rustls::server::ProducesTickets;
use rustls::time_provider::TimeProvider;
use tidegate_plan::{ClientCertificates, ListenerId};

/// So long a key is used for new tickets; for as long again it opens them.
const EPOCH_SECONDS: u64 = 4 * 3600;

/// What all ticket keys come from; all clones are one.
#[derive(Clone)]
pub(crate) struct TicketSecret(Arc<ArcSwap<hkdf::Prk>>);

impl TicketSecret {
    /// One that dies with the process.
    pub(crate) fn random() -> Result<Self, aws_lc_rs::error::Unspecified> {
        let mut secret = [0; 32];
        rand::fill(&mut secret)?;
        Ok(Self::new(&secret))
    }

    /// One that replicas share.
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(root(secret))))
    }

    /// Another one from now on: tickets of the one before are no good any more.
    pub(crate) fn set(&self, secret: &[u8; 32]) {
        self.0.store(Arc::new(root(secret)));
    }
}

fn root(secret: &[u8; 32]) -> hkdf::Prk {
    hkdf::Salt::new(hkdf::HKDF_SHA256, b"tidegate session tickets").extract(secret)
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketSecret")
    }
}

/// The tickets of one listener under one rule for client certificates.
pub(super) struct Tickets {
    secret: TicketSecret,
    scope: Vec<u8>,
    clock: Arc<dyn TimeProvider>,
    /// Swapped, not locked, when an epoch begins: two workers that do it at once come to the same keys.
    keys: ArcSwapOption<Keys>,
}

struct Keys {
    root: Arc<hkdf::Prk>,
    epoch: u64,
    current: RandomizedNonceKey,
    previous: RandomizedNonceKey,
}

impl Tickets {
    pub(super) fn new(
        secret: &TicketSecret,
        listener: &ListenerId,
        rule: Option<&ClientCertificates>,
        clock: Arc<dyn TimeProvider>,
    ) -> Self {
        Self { secret: secret.clone(), scope: scope(listener, rule), clock, keys: ArcSwapOption::empty() }
    }

    fn keys(&self) -> Option<Guard<Option<Arc<Keys>>>> {
        let epoch = self.clock.current_time()?.as_secs() / EPOCH_SECONDS;
        let root = self.secret.0.load();
        let keys = self.keys.load();
        if keys.as_ref().is_some_and(|keys| keys.epoch == epoch && Arc::ptr_eq(&keys.root, &root)) {
            return Some(keys);
        }
        let current = self.derive(&root, epoch)?;
        let previous = self.derive(&root, epoch.wrapping_sub(1))?;
        self.keys.store(Some(Arc::new(Keys { root: Arc::clone(&root), epoch, current, previous })));
        Some(self.keys.load())
    }

    fn derive(&self, root: &hkdf::Prk, epoch: u64) -> Option<RandomizedNonceKey> {
        let mut key = [0; 32];
        let epoch = epoch.to_be_bytes();
        let info = [&self.scope[..], &epoch];
        root.expand(&info, hkdf::HKDF_SHA256).ok()?.fill(&mut key).ok()?;
        RandomizedNonceKey::new(&AES_256_GCM, &key).ok()
    }
}

/// A ticket is the number of its epoch, the nonce, and the sealed session.
const HEADER: usize = size_of::<u64>() + NONCE_LEN;

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        EPOCH_SECONDS as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.keys()?;
        let keys = keys.as_ref()?;
        let epoch = keys.epoch.to_be_bytes();
        let mut ticket = Vec::with_capacity(HEADER + plain.len() + AES_256_GCM.tag_len());
        ticket.extend_from_slice(&epoch);
        ticket.extend_from_slice(&[0; NONCE_LEN]);
        ticket.extend_from_slice(plain);
        let (nonce, tag) =
            keys.current.seal_in_place_separate_tag(Aad::from(epoch), &mut ticket[HEADER..]).ok()?;
        ticket[epoch.len()..HEADER].copy_from_slice(nonce.as_ref());
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let keys = self.keys()?;
        let keys = keys.as_ref()?;
        let (epoch, rest) = ticket.split_first_chunk()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = match u64::from_be_bytes(*epoch) {
            epoch if epoch == keys.epoch => &keys.current,
            epoch if epoch == keys.epoch.wrapping_sub(1) => &keys.previous,
            _ => return None,
        };
        let mut opened = sealed.to_vec();
        let length = key.open_in_place(Nonce::from(nonce), Aad::from(*epoch), &mut opened).ok()?.len();
        opened.truncate(length);
        Some(opened)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets")
    }
}

/// Each part with its length before it, so that no two lists of parts give the same bytes.
fn scope(listener: &ListenerId, rule: Option<&ClientCertificates>) -> Vec<u8> {
    let mut scope = Vec::new();
    let mut part = |bytes: &[u8]| {
        scope.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        scope.extend_from_slice(bytes);
    };
    part(listener.gateway.namespace.as_bytes());
    part(listener.gateway.name.as_bytes());
    if let Some(set) = &listener.listener_set {
        part(b"listener set");
        part(set.namespace.as_bytes());
        part(set.name.as_bytes());
    }
    part(b"listener");
    part(listener.name.as_bytes());
    if let Some(rule) = rule {
        part(if rule.allow_insecure { b"any client certificate" } else { b"client certificates" });
        rule.trust.iter().for_each(|bundle| part(bundle.0.as_bytes()));
    }
    scope
}
