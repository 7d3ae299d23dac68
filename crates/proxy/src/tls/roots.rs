//! Whom to trust: bundles of the plan, or what the system trusts.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tidegate_plan::{Blob, BlobId};

use super::keys::Unusable;

/// The authorities of all bundles. One that is not there, or has no usable certificate, spoils the whole: what it
/// was to let in is then known to nobody.
pub(super) fn of_bundles(
    bundles: &[BlobId],
    blobs: &BTreeMap<BlobId, Arc<Blob>>,
) -> Result<RootCertStore, Unusable> {
    let mut roots = RootCertStore::empty();
    for id in bundles {
        let Some(Blob::Bundle(certificates)) = blobs.get(id).map(Arc::as_ref) else { return Err(Unusable) };
        let (usable, _) =
            roots.add_parsable_certificates(certificates.iter().cloned().map(CertificateDer::from));
        if usable == 0 {
            return Err(Unusable);
        }
    }
    if roots.is_empty() { Err(Unusable) } else { Ok(roots) }
}

/// What the machine, or `SSL_CERT_FILE` and `SSL_CERT_DIR`, name; read once.
pub(super) fn of_system() -> Arc<RootCertStore> {
    static ROOTS: LazyLock<Arc<RootCertStore>> =
        LazyLock::new(|| Arc::new(or_embedded(rustls_native_certs::load_native_certs().certs)));
    Arc::clone(&ROOTS)
}

/// An image without a system has no roots of one, and takes Mozilla's as they were when Tidegate was built.
fn or_embedded(native: Vec<CertificateDer<'static>>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(native);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_roots_stand_in_only_for_none() {
        let own = rcgen::generate_simple_self_signed(["ca.example.com".to_owned()]).unwrap().cert;
        assert_eq!(or_embedded(vec![own.der().clone()]).len(), 1);
        assert_eq!(or_embedded(Vec::new()).len(), webpki_roots::TLS_SERVER_ROOTS.len());
        assert_eq!(
            or_embedded(vec![CertificateDer::from(vec![1, 2, 3])]).len(),
            webpki_roots::TLS_SERVER_ROOTS.len()
        );
    }
}
