//! Documents as Secrets, and back. Certificates are the Secrets that listeners name; orders stand beside them; what is
//! nobody's but the controller's is in its own namespace.
//!
//! Who may write Secrets in a namespace may write these, too. So each is taken for what its place says, never for what
//! it says of another place, and an order counts only with our seal: it says what was paid for.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::hmac;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use tidegate_certs::{Certificate, Document, Intent, Shelf, StoreError};
use tidegate_issuing::issuer_named;
use tidegate_plan::ObjectName;
use tidegate_translate::{CERTIFICATE_OF, ISSUED_BY, short_hash};

use crate::certmanager::BY_CERT_MANAGER;

/// Marks what is ours, and says what it is.
pub(crate) const SHELF_LABEL: &str = "gateway.tidegate.io/certificates";
/// Whose it is, where several controllers share a cluster.
pub(crate) const CONTROLLER: &str = "gateway.tidegate.io/controller-name";
const SEAL: &str = "gateway.tidegate.io/seal";

const TLS: &str = "kubernetes.io/tls";
const OPAQUE: &str = "Opaque";
/// The field of all that is no certificate.
pub(crate) const DOCUMENT: &str = "document";

/// What the metadata of a Secret say: that it is a certificate of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// `None`: cert-manager made it, for a Certificate of a controller.
    controller: Option<String>,
    /// The listener's Secret that had no room.
    of: Option<String>,
}

impl Mark {
    pub(crate) fn read(meta: &ObjectMeta) -> Option<Self> {
        let annotations = meta.annotations.as_ref()?;
        let issuer = annotations.get(ISSUED_BY)?;
        let of = annotations.get(CERTIFICATE_OF).cloned();
        if issuer == BY_CERT_MANAGER {
            return Some(Self { controller: None, of });
        }
        let shelf = meta.labels.as_ref()?.get(SHELF_LABEL)?;
        let is_certificate = *shelf == label(Shelf::Certificates);
        let controller = annotations.get(CONTROLLER).filter(|_| is_certificate)?.clone();
        Some(Self { controller: Some(controller), of })
    }

    pub(crate) fn is_of(&self, controller: &str) -> bool {
        self.controller.as_deref() == Some(controller)
    }

    pub(crate) const fn is_of_cert_manager(&self) -> bool {
        self.controller.is_none()
    }

    /// The Secret, in the same namespace, beside which it stands.
    pub(crate) fn target(&self, namespace: &Arc<str>) -> Option<ObjectName> {
        self.of.as_ref().map(|of| ObjectName::new(Arc::clone(namespace), of.as_str()))
    }
}

/// How documents of one controller look.
pub(crate) struct Form {
    pub(crate) controller: Arc<str>,
    /// The controller's own.
    pub(crate) namespace: String,
    pub(crate) seal: hmac::Key,
}

impl Form {
    /// Where a document is.
    pub(crate) fn place(&self, shelf: Shelf, name: &str) -> Result<ObjectName, StoreError> {
        let split = || {
            let (namespace, name) =
                name.split_once('/').ok_or_else(|| StoreError::Other(format!("{name} is no Secret")))?;
            Ok((namespace, name))
        };
        Ok(match shelf {
            Shelf::Certificates => {
                let (namespace, name) = split()?;
                ObjectName::new(namespace, name)
            }
            Shelf::Orders => {
                let (namespace, name) = split()?;
                ObjectName::new(namespace, order_name(name))
            }
            Shelf::Accounts => ObjectName::new(self.namespace.as_str(), format!("tidegate-acme-{name}")),
            Shelf::Authority => ObjectName::new(self.namespace.as_str(), format!("tidegate-{name}-ca")),
            Shelf::Ledger => {
                ObjectName::new(self.namespace.as_str(), format!("tidegate-certificates-{name}"))
            }
        })
    }

    /// Whether a Secret is one of ours that may be written over.
    pub(crate) fn is_ours(&self, shelf: Shelf, secret: &Secret) -> bool {
        let kind = if shelf == Shelf::Certificates { TLS } else { OPAQUE };
        secret.labels().get(SHELF_LABEL).is_some_and(|found| *found == label(shelf))
            && secret.annotations().get(CONTROLLER).is_some_and(|found| **found == *self.controller)
            && secret.type_.as_deref() == Some(kind)
            && secret.immutable != Some(true)
    }

    /// Puts a document into a Secret, which may be one that is there: what others noted on it stays.
    pub(crate) fn write(
        &self,
        shelf: Shelf,
        place: &ObjectName,
        content: &[u8],
        owners: Vec<OwnerReference>,
        mut secret: Secret,
    ) -> Result<Secret, StoreError> {
        secret.metadata.name = Some(place.name.to_string());
        secret.metadata.namespace = Some(place.namespace.to_string());
        secret.labels_mut().insert(SHELF_LABEL.to_owned(), label(shelf).to_owned());
        let controller = self.controller.to_string();
        let annotations = secret.annotations_mut();
        annotations.insert(CONTROLLER.to_owned(), controller);
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        if shelf == Shelf::Certificates {
            let Certificate { held, chain, key } = Certificate::parse(&place.to_string(), content)?;
            annotations.insert(ISSUED_BY.to_owned(), held.issuer.to_string());
            if held.target == held.secret {
                annotations.remove(CERTIFICATE_OF);
            } else {
                annotations.insert(CERTIFICATE_OF.to_owned(), held.target.name.to_string());
            }
            secret.type_ = Some(TLS.to_owned());
            let data = [("tls.crt", bytes(&chain)), ("tls.key", bytes(&key))];
            secret.data = Some(data.into_iter().map(|(field, bytes)| (field.to_owned(), bytes)).collect());
        } else {
            if shelf == Shelf::Orders {
                annotations.insert(SEAL.to_owned(), self.seal(place, content));
            }
            secret.type_ = Some(OPAQUE.to_owned());
            secret.data = Some(BTreeMap::from([(DOCUMENT.to_owned(), ByteString(content.to_vec()))]));
        }
        secret.metadata.owner_references = Some(owners).filter(|owners| !owners.is_empty());
        Ok(secret)
    }

    /// The document of a Secret, where it is one of ours and says nothing of another place.
    pub(crate) fn read(&self, shelf: Shelf, secret: &Secret) -> Option<Document> {
        if !self.is_ours(shelf, secret) {
            return None;
        }
        let place = ObjectName::new(secret.namespace()?, secret.name_any());
        let data = secret.data.as_ref()?;
        if shelf == Shelf::Certificates {
            let certificate = certificate(place, secret)?;
            let name = certificate.held.secret.to_string();
            return Some(Document { name, content: serde_json::to_vec(&certificate).ok()? });
        }
        let content = data.get(DOCUMENT)?.0.clone();
        let name = match shelf {
            Shelf::Orders => {
                let sealed = secret.annotations().get(SEAL)?;
                if *sealed != self.seal(&place, &content) {
                    return None;
                }
                let intent: Intent = serde_json::from_slice(&content).ok()?;
                intent.order.secret.to_string()
            }
            Shelf::Accounts => place.name.strip_prefix("tidegate-acme-")?.to_owned(),
            Shelf::Authority => place.name.strip_prefix("tidegate-")?.strip_suffix("-ca")?.to_owned(),
            Shelf::Ledger | Shelf::Certificates => {
                place.name.strip_prefix("tidegate-certificates-")?.to_owned()
            }
        };
        (self.place(shelf, &name).ok()? == place).then_some(Document { name, content })
    }

    fn seal(&self, place: &ObjectName, content: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.seal);
        context.update(place.to_string().as_bytes());
        context.update(b"\n");
        context.update(content);
        context.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The listener's Secret for whose sake a document of the first two shelves is written.
pub(crate) fn target(shelf: Shelf, name: &str, content: &[u8]) -> Result<Option<ObjectName>, StoreError> {
    Ok(match shelf {
        Shelf::Certificates => Some(Certificate::parse(name, content)?.held.target),
        Shelf::Orders => {
            let intent: Intent = serde_json::from_slice(content).map_err(|error| StoreError::Content {
                shelf,
                name: name.to_owned(),
                error,
            })?;
            Some(intent.order.target)
        }
        Shelf::Accounts | Shelf::Authority | Shelf::Ledger => None,
    })
}

/// The selector of a shelf.
pub(crate) fn selector(shelf: Shelf) -> String {
    format!("{SHELF_LABEL}={}", label(shelf))
}

const fn label(shelf: Shelf) -> &'static str {
    match shelf {
        Shelf::Accounts => "account",
        Shelf::Authority => "authority",
        Shelf::Certificates => "certificate",
        Shelf::Orders => "order",
        Shelf::Ledger => "ledger",
    }
}

/// What a Secret of ours holds.
pub(crate) fn certificate(place: ObjectName, secret: &Secret) -> Option<Certificate> {
    let data = secret.data.as_ref()?;
    let text = |field: &str| data.get(field).and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
    let issuer = issuer_named(secret.annotations().get(ISSUED_BY)?)?;
    let of = secret.annotations().get(CERTIFICATE_OF);
    let target =
        of.map_or_else(|| place.clone(), |of| ObjectName::new(Arc::clone(&place.namespace), of.as_str()));
    Certificate::read(place, target, issuer, text("tls.crt")?, text("tls.key")?).ok()
}

/// Names of Secrets have at most 253 characters.
fn order_name(secret: &str) -> String {
    let stem: String = secret.chars().take(230).collect();
    format!("{}-order-{}", stem.trim_end_matches(['.', '-']), short_hash(secret))
}

#[cfg(test)]
mod tests {
    use tidegate_certs::{Issuer, Order, Why};
    use tidegate_plan::Hostname;

    use super::*;

    fn form(controller: &str) -> Form {
        let seal = hmac::Key::new(hmac::HMAC_SHA256, controller.as_bytes());
        Form { controller: controller.into(), namespace: "tidegate-system".to_owned(), seal }
    }

    fn name(name: &str) -> ObjectName {
        ObjectName::new("shop", name)
    }

    fn certificate(secret: &str, target: &str) -> Certificate {
        let names = vec!["b.example.com".to_owned(), "a.example.com".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        Certificate::read(name(secret), name(target), Issuer::acme(), chain, key).expect("readable")
    }

    fn intent(secret: &str) -> Intent {
        let order = Order {
            secret: name(secret),
            target: name("tls"),
            issuer: Issuer::acme(),
            names: vec![Hostname::parse("a.example.com").expect("a name")],
            asked: Vec::new(),
            why: Why::NewNames,
        };
        Intent::new(order, 17).expect("a key")
    }

    fn put(form: &Form, shelf: Shelf, name: &str, content: &[u8]) -> Secret {
        let place = form.place(shelf, name).expect("a place");
        let owner = OwnerReference { uid: "1".to_owned(), ..OwnerReference::default() };
        form.write(shelf, &place, content, vec![owner], Secret::default()).expect("a Secret")
    }

    #[test]
    fn what_was_put_is_found_again() {
        let form = form("us");
        let held = certificate("tls-1", "tls");
        let content = serde_json::to_vec(&held).expect("JSON");
        let secret = put(&form, Shelf::Certificates, "shop/tls-1", &content);
        assert_eq!((secret.type_.as_deref(), secret.name_any().as_str()), (Some(TLS), "tls-1"));
        assert_eq!(secret.annotations().get(CERTIFICATE_OF).map(String::as_str), Some("tls"));
        let found = form.read(Shelf::Certificates, &secret).expect("a document");
        assert_eq!(found.name, "shop/tls-1");
        assert_eq!(Certificate::parse(&found.name, &found.content).expect("a certificate"), held);
        assert_eq!(
            Mark::read(&secret.metadata).and_then(|mark| mark.target(&"shop".into())),
            Some(name("tls"))
        );

        let content = serde_json::to_vec(&intent("tls")).expect("JSON");
        for (shelf, name, content) in [
            (Shelf::Orders, "shop/tls", &content[..]),
            (Shelf::Accounts, "default-0123abcd", b"{}"),
            (Shelf::Authority, "root", b"{}"),
            (Shelf::Ledger, "ledger", b"{}"),
        ] {
            let secret = put(&form, shelf, name, content);
            assert_eq!(secret.type_.as_deref(), Some(OPAQUE));
            let expected = Document { name: name.to_owned(), content: content.to_vec() };
            assert_eq!(form.read(shelf, &secret), Some(expected), "{shelf:?}");
            assert!(Mark::read(&secret.metadata).is_none());
        }
    }

    #[test]
    fn what_others_noted_on_a_secret_stays() {
        let (form, held) = (form("us"), certificate("tls", "tls"));
        let content = serde_json::to_vec(&held).expect("JSON");
        let mut there = put(&form, Shelf::Certificates, "shop/tls", &content);
        there.labels_mut().insert("team".to_owned(), "shop".to_owned());
        there.metadata.resource_version = Some("17".to_owned());
        let again = form.write(Shelf::Certificates, &name("tls"), &content, Vec::new(), there);
        let again = again.expect("a Secret");
        assert_eq!(again.labels().get("team").map(String::as_str), Some("shop"));
        assert_eq!(again.metadata.resource_version.as_deref(), Some("17"));
        assert!(!again.annotations().contains_key(CERTIFICATE_OF));
    }

    #[test]
    fn what_is_not_ours_is_not_read_and_not_written_over() {
        let content = serde_json::to_vec(&certificate("tls", "tls")).expect("JSON");
        let ours = put(&form("us"), Shelf::Certificates, "shop/tls", &content);
        assert!(form("us").is_ours(Shelf::Certificates, &ours));
        let theirs = put(&form("them"), Shelf::Certificates, "shop/tls", &content);
        let mut unmarked = ours.clone();
        unmarked.labels_mut().clear();
        let other_kind = Secret { type_: Some(OPAQUE.to_owned()), ..ours.clone() };
        let fixed = Secret { immutable: Some(true), ..ours.clone() };
        for secret in [theirs, unmarked, other_kind, fixed] {
            assert!(!form("us").is_ours(Shelf::Certificates, &secret));
            assert!(form("us").read(Shelf::Certificates, &secret).is_none());
        }
        assert!(!form("us").is_ours(Shelf::Orders, &ours));
    }

    #[test]
    fn an_order_counts_with_our_seal_and_in_its_place_alone() {
        let form = form("us");
        let content = serde_json::to_vec(&intent("tls")).expect("JSON");
        let good = put(&form, Shelf::Orders, "shop/tls", &content);
        assert!(form.read(Shelf::Orders, &good).is_some());
        let mut unsealed = good.clone();
        unsealed.annotations_mut().remove(SEAL);
        let mut moved = good.clone();
        moved.metadata.namespace = Some("bank".to_owned());
        let mut changed = good.clone();
        let other = serde_json::to_vec(&intent("tls")).expect("JSON");
        changed.data = Some(BTreeMap::from([(DOCUMENT.to_owned(), ByteString(other))]));
        for secret in [unsealed, moved, changed] {
            assert!(form.read(Shelf::Orders, &secret).is_none());
        }
        // Sealed by us, and yet about another Secret: nothing that we would write.
        let elsewhere = serde_json::to_vec(&intent("other")).expect("JSON");
        let secret = put(&form, Shelf::Orders, "shop/tls", &elsewhere);
        assert!(form.read(Shelf::Orders, &secret).is_none());
    }

    #[test]
    fn long_names_have_room_for_an_order() {
        let name = order_name(&"a".repeat(253));
        assert!(name.len() <= 253 && name.contains("-order-"));
        assert_ne!(order_name(&"a".repeat(252)), name);
    }
}
