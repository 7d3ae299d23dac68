//! Private keys out of the plan's blobs, each opened once for as long as a configuration uses it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use tidegate_plan::{Blob, BlobId};

use super::provider;

/// The keys that are in use. They belong to the configurations; this only finds them again.
#[derive(Default)]
pub(crate) struct Keys {
    opened: BTreeMap<BlobId, Weak<CertifiedKey>>,
    /// How many there may be before those that nobody uses any more are looked for.
    room: usize,
}

/// The blob is missing, or no key that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unusable;

impl Keys {
    pub(crate) fn open(
        &mut self,
        id: &BlobId,
        blobs: &BTreeMap<BlobId, Arc<Blob>>,
    ) -> Result<Arc<CertifiedKey>, Unusable> {
        if let Some(key) = self.opened.get(id).and_then(Weak::upgrade) {
            return Ok(key);
        }
        let Some(Blob::Key(blob)) = blobs.get(id).map(Arc::as_ref) else { return Err(Unusable) };
        let key = Arc::new(certified(blob)?);
        self.remember(id, &key);
        Ok(key)
    }

    fn remember(&mut self, id: &BlobId, key: &Arc<CertifiedKey>) {
        if self.opened.len() >= self.room {
            self.opened.retain(|_, key| key.strong_count() > 0);
            self.room = (self.opened.len() * 2).max(16);
        }
        self.opened.insert(id.clone(), Arc::downgrade(key));
    }
}

fn certified(blob: &tidegate_plan::CertifiedKey) -> Result<CertifiedKey, Unusable> {
    let key = PrivateKeyDer::try_from(blob.key.clone()).map_err(|_| Unusable)?;
    let key = provider().key_provider.load_private_key(key).map_err(|_| Unusable)?;
    let chain = blob.chain.iter().cloned().map(CertificateDer::from).collect();
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        // A certificate that webpki cannot read, one of X.509 version 1 for instance, can still be shown.
        Ok(()) | Err(Error::InvalidCertificate(_) | Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
            Ok(certified)
        }
        Err(_) => Err(Unusable),
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("opened", &self.opened.len()).finish_non_exhaustive()
    }
}
