//! Certificates kept beside the control loop, on a thread of their own: what is wanted goes there, what there is comes
//! back as Secrets, the same way as those that users write.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::thread;

use tidegate_api::core::{Secret, SecretSpec};
use tidegate_api::{Meta, Object, ObjectKey};
use tidegate_certs::{
    Acme, AcmeSettings, Authority, Certificate, Challenges, Demand, EmbeddedSettings, ExternalAccount,
    FolderStore, Issuance, Issuer, Issuers, Picture, State, stand_in,
};
use tidegate_plan::{Hostname, ObjectName};
use tidegate_translate::{CERTIFICATE_OF, ISSUED_BY};
use tokio::sync::watch;

use crate::arguments::{CertificateOptions, IssuerChoice, Until};
use crate::output::Error;
use crate::run::log::Log;
use crate::words;

pub(crate) struct Certificates {
    demand: watch::Sender<Arc<Demand>>,
    pictures: watch::Receiver<Arc<Picture>>,
    until: Until,
    /// By the listener's Secret, with the names they are for.
    stand_ins: BTreeMap<ObjectName, (Vec<Hostname>, Object)>,
}

impl Certificates {
    /// `None` where there is no state to keep them in.
    pub(crate) async fn start(
        options: &CertificateOptions,
        challenges: Arc<dyn Challenges>,
        log: Log,
    ) -> Result<Option<Self>, Error> {
        let Some(state) = &options.state else { return Ok(None) };
        let failed = |error: &dyn std::fmt::Display| Error::Start(format!("--state: {error}"));
        let store = Arc::new(FolderStore::open(state).map_err(|error| failed(&error))?);
        let settings = EmbeddedSettings {
            leaf_life: options.leaf_lifetime.map_or(EmbeddedSettings::default().leaf_life, |life| {
                i64::try_from(life.as_secs()).unwrap_or(i64::MAX).max(1)
            }),
            domains: options.root_domain.clone(),
        };
        let mut policies = options.grouping.policies();
        let mut issuers = Issuers::default();
        let authority = Authority::open(&*store, &settings, words::now()).await;
        issuers.embedded = Some(authority.map_err(|error| failed(&error))?);
        // A public CA is asked only where somebody said so.
        if options.certs == Some(IssuerChoice::Acme) {
            let acme = Acme::new(acme_settings(options)?).map_err(|error| Error::Start(error.to_string()))?;
            issuers.acme.insert("default".into(), acme);
        } else {
            policies.remove(&Issuer::acme());
        }
        let mut complain = |error: &tidegate_certs::StoreError| log.error("state", error);
        let issuance = Issuance::open(store, issuers, challenges, policies, words::now, &mut complain).await;
        let issuance = issuance.map_err(|error| failed(&error))?;
        let (demand, wanted) = watch::channel(Arc::default());
        let (show, pictures) = watch::channel(Arc::new(issuance.picture()));
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(issuance.keep(wanted, &show)),
                Err(error) => log.error("certificates", format_args!("none can be made: {error}")),
            }
        };
        let started = thread::Builder::new().name("certificates".to_owned()).spawn(run);
        started.map_err(|error| failed(&error))?;
        Ok(Some(Self { demand, pictures, until: options.until_issued, stand_ins: BTreeMap::new() }))
    }

    /// Says what is wanted now.
    pub(crate) fn want(&self, demand: Demand) {
        self.demand.send_if_modified(|known| {
            let is_new = **known != demand;
            if is_new {
                *known = Arc::new(demand);
            }
            is_new
        });
    }

    /// Waits for something new; for ever, where nobody makes anything any more.
    pub(crate) async fn changed(&mut self) {
        if self.pictures.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn picture(&mut self) -> Arc<Picture> {
        Arc::clone(&self.pictures.borrow_and_update())
    }

    /// Whether what an authority of our own makes is there, so far as it can be.
    pub(crate) fn is_settled(&self) -> bool {
        let picture = self.pictures.borrow();
        let is_coming =
            |state: &State| matches!(state, State::Ordered | State::Queued | State::Gathering { .. });
        let waits = picture.missing.iter().any(|((secret, _), state)| {
            let target = picture.demand.targets.get(secret);
            target.is_some_and(|target| target.issuer == Issuer::Embedded) && is_coming(state)
        });
        *picture.demand == **self.demand.borrow() && !waits
    }

    /// What there is, as Secrets.
    pub(crate) fn secrets(&mut self, picture: &Picture) -> BTreeMap<ObjectKey, Object> {
        let mut secrets: BTreeMap<ObjectKey, Object> = picture
            .certificates
            .values()
            .map(|certificate| secret(certificate))
            .map(|object| (object.key(), object))
            .collect();
        if self.until == Until::StandIn {
            self.renew_stand_ins(picture);
            secrets.extend(self.stand_ins.values().map(|(_, object)| (object.key(), object.clone())));
        }
        secrets
    }

    fn renew_stand_ins(&mut self, picture: &Picture) {
        let mut missing: BTreeMap<&ObjectName, Vec<Hostname>> = BTreeMap::new();
        for (target, name) in picture.missing.keys() {
            missing.entry(target).or_default().push(name.clone());
        }
        self.stand_ins.retain(|target, (names, _)| missing.get(target) == Some(names));
        for (target, names) in missing {
            if self.stand_ins.contains_key(target) {
                continue;
            }
            if let Ok((chain, key)) = stand_in(&names, words::now()) {
                let own = ObjectName::new(Arc::clone(&target.namespace), format!("{}-stand-in", target.name));
                self.stand_ins
                    .insert(target.clone(), (names, object(&own, target, "stand-in", &chain, &key)));
            }
        }
    }
}

fn secret(certificate: &Certificate) -> Object {
    let Certificate { held, chain, key } = certificate;
    object(&held.secret, &held.target, &held.issuer.to_string(), chain, key)
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

fn acme_settings(options: &CertificateOptions) -> Result<AcmeSettings, Error> {
    let read =
        |path: &std::path::PathBuf| fs::read(path).map_err(|error| Error::Read { path: path.clone(), error });
    let external_account = match (&options.acme_external_account, &options.acme_external_key) {
        (Some(id), Some(path)) => Some(ExternalAccount { id: id.clone(), key: decoded(&read(path)?)? }),
        _ => None,
    };
    Ok(AcmeSettings {
        roots: options.acme_ca.as_ref().map(read).transpose()?,
        contacts: options.acme_contact.clone(),
        profile: options.acme_profile.clone(),
        external_account,
        ..AcmeSettings::new(&options.acme_directory)
    })
}

/// Base64 with either alphabet, as CAs give such keys.
fn decoded(text: &[u8]) -> Result<Vec<u8>, Error> {
    let wrong = || Error::Usage("--acme-external-key: the file is not in base64".to_owned());
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.iter().filter(|byte| !byte.is_ascii_whitespace() && **byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return Err(wrong()),
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap_or_default());
        }
    }
    if bytes.is_empty() { Err(wrong()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_either_alphabet() {
        assert_eq!(decoded(b"aGVsbG8=\n").unwrap(), b"hello");
        assert_eq!(decoded(b"-_8").unwrap(), decoded(b"+/8=").unwrap());
        assert!(decoded(b"").is_err() && decoded(b"a!b").is_err());
    }
}
