//! Certificates as Secrets, in the form in which translation finds them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_api::core::{Secret, SecretSpec};
use tidegate_api::{Meta, Object};
use tidegate_certs::{Certificate, Issuer, Picture, Seconds, stand_in};
use tidegate_plan::{Hostname, ListenerId, ObjectName};
use tidegate_translate::{CERTIFICATE_OF, ISSUED_BY, STAND_IN, Wants};

/// A certificate of ours.
#[must_use]
pub fn secret(certificate: &Certificate) -> Object {
    let Certificate { held, chain, key } = certificate;
    object(&held.secret, &held.target, &held.issuer.to_string(), chain, key)
}

/// The issuer of which a Secret says that it made it.
#[must_use]
pub fn issuer_named(text: &str) -> Option<Issuer> {
    match text {
        "embedded" => Some(Issuer::Embedded),
        "acme" => Some(Issuer::acme()),
        other => other.strip_prefix("acme (")?.strip_suffix(')').map(|account| Issuer::Acme(account.into())),
    }
}

/// What is shown until there are certificates: one for each listener's Secret, which vouches for itself.
#[derive(Debug, Default)]
pub struct StandIns {
    /// By the listener's Secret, with the names they are for.
    by_target: BTreeMap<ObjectName, (Vec<Hostname>, Object)>,
}

impl StandIns {
    /// Those for the names that have no certificate, where the Gateway asks for it; `default`: where it does not say.
    pub fn renew(
        &mut self,
        picture: &Picture,
        wants: &BTreeMap<ListenerId, Arc<Wants>>,
        default: bool,
        now: Seconds,
    ) -> impl Iterator<Item = &Object> + use<'_> {
        let asking = wants.values().filter(|wants| wants.stand_in.unwrap_or(default));
        let asking: BTreeSet<&ObjectName> = asking.filter_map(|wants| wants.secret.as_ref()).collect();
        let mut missing: BTreeMap<&ObjectName, Vec<Hostname>> = BTreeMap::new();
        for (target, name) in picture.missing.keys().filter(|(target, _)| asking.contains(target)) {
            missing.entry(target).or_default().push(name.clone());
        }
        self.by_target.retain(|target, (names, _)| missing.get(target) == Some(names));
        for (target, names) in missing {
            if self.by_target.contains_key(target) {
                continue;
            }
            if let Ok((chain, key)) = stand_in(&names, now) {
                let own = ObjectName::new(Arc::clone(&target.namespace), format!("{}-stand-in", target.name));
                let object = object(&own, target, STAND_IN, &chain, &key);
                self.by_target.insert(target.clone(), (names, object));
            }
        }
        self.by_target.values().map(|(_, object)| object)
    }
}

fn object(name: &ObjectName, target: &ObjectName, issuer: &str, chain: &str, key: &str) -> Object {
    let mut meta = Meta::new(Arc::clone(&name.namespace), Arc::clone(&name.name));
    meta.annotations.insert(ISSUED_BY.to_owned(), issuer.to_owned());
    if name != target {
        meta.annotations.insert(CERTIFICATE_OF.to_owned(), target.name.to_string());
    }
    let data = [("tls.crt", chain), ("tls.key", key)];
    let data = data.into_iter().map(|(field, pem)| (field.to_owned(), pem.as_bytes().to_vec())).collect();
    let spec = SecretSpec { kind: "kubernetes.io/tls".to_owned(), data };
    Object::Secret(Arc::new(Secret { meta, spec }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_read_as_it_is_written() {
        for issuer in [Issuer::Embedded, Issuer::acme(), Issuer::Acme("staging".into())] {
            assert_eq!(issuer_named(&issuer.to_string()), Some(issuer));
        }
        assert_eq!(issuer_named(STAND_IN), None);
    }

    #[test]
    fn a_stand_in_stays_while_the_same_names_wait() {
        let target = ObjectName::new("infra", "tls");
        let missing = |names: &[&str]| Picture {
            missing: names
                .iter()
                .map(|name| ((target.clone(), Hostname::parse(name).unwrap()), tidegate_certs::State::Queued))
                .collect(),
            ..Picture::default()
        };
        let mut stand_ins = StandIns::default();
        let now = 1_800_000_000;
        let listener =
            ListenerId { gateway: ObjectName::new("infra", "web"), listener_set: None, name: "https".into() };
        let wants = |stand_in| {
            let wants = Wants {
                listener: listener.clone(),
                issuer: tidegate_translate::Issuer::Embedded,
                secret: Some(target.clone()),
                names: Vec::new(),
                stand_in,
                left_out: Vec::new(),
            };
            BTreeMap::from([(listener.clone(), Arc::new(wants))])
        };
        let mut renew = |names: &[&str], asked: bool| {
            let objects = stand_ins.renew(&missing(names), &wants(Some(asked)), !asked, now);
            objects.cloned().collect::<Vec<Object>>()
        };
        let first = renew(&["a.example.com"], true);
        assert_eq!(first[0].meta().name.as_ref(), "tls-stand-in");
        assert_eq!(first[0].meta().annotation(CERTIFICATE_OF), Some("tls"));
        let data = |objects: &[Object]| match &objects[0] {
            Object::Secret(secret) => secret.spec.data.clone(),
            _ => panic!("no Secret"),
        };
        assert_eq!(data(&renew(&["a.example.com"], true)), data(&first));
        assert_ne!(data(&renew(&["a.example.com", "b.example.com"], true)), data(&first));
        assert!(renew(&["a.example.com"], false).is_empty() && renew(&[], true).is_empty());
    }
}
