//! The link's CA: made by the leader, kept in a Secret beside it, and replaced long before it runs out.
//!
//! Another CA is trusted for a day before it signs, so that every data plane has it by then; the one before stays
//! trusted until the next rotation.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use tidegate_link::{Authority, AuthorityError, Trust};

use crate::settings::Settings;
use crate::status::code;

const DAY: Duration = Duration::from_secs(86_400);
const LIFETIME: Duration = Duration::from_secs(365 * 86_400);
/// The next CA is made when so much is left of the present one.
const LEFT: Duration = Duration::from_secs(120 * 86_400);

pub(crate) const SECRET: &str = "tidegate-link-ca";

/// What the Secret holds, in PEM.
#[derive(Clone, PartialEq, Eq)]
struct Kept {
    certificate: String,
    key: String,
    next: Option<(String, String)>,
    previous: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    #[error("the Secret {SECRET} cannot be read or written: {0}")]
    Api(#[from] Error),
    #[error("the Secret {SECRET} does not hold a CA: {0}; delete it, and another one is made")]
    Authority(#[from] AuthorityError),
}

/// Reads the CA, makes one where there is none, and takes the next step of a rotation where it is time.
pub(crate) async fn keep(client: &Client, settings: &Settings) -> Result<Trust, KeepError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &settings.namespace);
    let mut there = api.get_opt(SECRET).await?;
    for _ in 0..3 {
        let kept = there.as_ref().and_then(Kept::of);
        let wanted = due(kept.clone(), SystemTime::now())?;
        if kept.as_ref() == Some(&wanted) {
            break;
        }
        let mut secret = there.take().unwrap_or_default();
        secret.metadata.name = Some(SECRET.to_owned());
        secret.data = Some(wanted.data());
        let written = match secret.metadata.resource_version {
            None => api.create(&PostParams::default(), &secret).await,
            Some(_) => api.replace(SECRET, &PostParams::default(), &secret).await,
        };
        match written {
            Ok(secret) => there = Some(secret),
            Err(error) if code(&error) == Some(409) => there = api.get_opt(SECRET).await?,
            Err(error) => return Err(error.into()),
        }
    }
    let kept = there.as_ref().and_then(Kept::of).ok_or(AuthorityError::NoCa)?;
    Ok(kept.trust()?)
}

/// What the Secret should hold at this time.
fn due(kept: Option<Kept>, now: SystemTime) -> Result<Kept, AuthorityError> {
    let made = || Authority::generate(LIFETIME).map(|ca| (ca.certificate_pem(), ca.key_pem()));
    let Some(mut kept) = kept else {
        let (certificate, key) = made()?;
        return Ok(Kept { certificate, key, next: None, previous: None });
    };
    let left = |certificate: &str, key: &str| {
        Authority::from_pem(certificate, key).map(|ca| ca.not_after().duration_since(now).unwrap_or_default())
    };
    let present = left(&kept.certificate, &kept.key)?;
    match kept.next.take() {
        None if present < LEFT => kept.next = Some(made()?),
        None => {}
        Some((certificate, key)) => {
            let known_for = LIFETIME.saturating_sub(left(&certificate, &key)?);
            if known_for >= DAY || present < DAY {
                kept.previous = Some(std::mem::replace(&mut kept.certificate, certificate));
                kept.key = key;
            } else {
                kept.next = Some((certificate, key));
            }
        }
    }
    Ok(kept)
}

impl Kept {
    fn of(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| data.get(key).and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
        Some(Self {
            certificate: text("ca.crt")?,
            key: text("ca.key")?,
            next: text("next.crt").zip(text("next.key")),
            previous: text("previous.crt"),
        })
    }

    fn data(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::new();
        let mut put = |key: &str, text: &str| {
            data.insert(key.to_owned(), ByteString(text.as_bytes().to_vec()));
        };
        put("ca.crt", &self.certificate);
        put("ca.key", &self.key);
        if let Some((certificate, key)) = &self.next {
            put("next.crt", certificate);
            put("next.key", key);
        }
        if let Some(previous) = &self.previous {
            put("previous.crt", previous);
        }
        data
    }

    fn trust(&self) -> Result<Trust, AuthorityError> {
        let mut trust = Trust::new(Authority::from_pem(&self.certificate, &self.key)?);
        for other in self.next.iter().map(|(certificate, _)| certificate).chain(&self.previous) {
            trust = trust.and(other)?;
        }
        Ok(trust)
    }
}

/// Keys are never shown.
impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("next", &self.next.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(days: u32) -> SystemTime {
        SystemTime::now() + DAY * days
    }

    #[test]
    fn a_ca_is_made_once() {
        let first = due(None, after(0)).expect("a CA");
        assert_eq!(due(Some(first.clone()), after(0)).expect("a CA"), first);
        assert_eq!(due(Some(first.clone()), after(200)).expect("a CA"), first);
    }

    #[test]
    fn the_next_is_trusted_before_it_signs_and_the_last_one_after() {
        let first = due(None, after(0)).expect("a CA");
        let both = due(Some(first.clone()), after(246)).expect("a CA");
        assert_eq!((&both.certificate, both.next.is_some()), (&first.certificate, true));
        assert_eq!(both.trust().expect("trust").bundle_pem().matches("BEGIN CERTIFICATE").count(), 2);
        let same = due(Some(both.clone()), after(0)).expect("a CA");
        assert_eq!(same, both, "not before everybody knows it");
        let turned = due(Some(both.clone()), after(2)).expect("a CA");
        assert_eq!(Some((&turned.certificate, &turned.key)), both.next.as_ref().map(|(c, k)| (c, k)));
        assert_eq!((turned.next.clone(), turned.previous.as_ref()), (None, Some(&first.certificate)));
        assert_eq!(turned.trust().expect("trust").bundle_pem().matches("BEGIN CERTIFICATE").count(), 2);
    }

    #[test]
    fn the_secret_gives_back_what_was_put_into_it() {
        let kept = due(Some(due(None, after(0)).expect("a CA")), after(300)).expect("a CA");
        let secret = Secret { data: Some(kept.data()), ..Secret::default() };
        assert_eq!(Kept::of(&secret), Some(kept.clone()));
        assert!(!format!("{kept:?}").contains("PRIVATE"));
    }

    #[test]
    fn a_secret_that_holds_something_else_is_an_error() {
        let kept = Kept { certificate: "x".to_owned(), key: "y".to_owned(), next: None, previous: None };
        assert!(due(Some(kept), after(0)).is_err());
    }
}
