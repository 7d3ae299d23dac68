//! The link's CA, and what the secrets of Gateways come from: made by the leader, kept in a Secret beside it. The CA is
//! replaced long before it runs out.
//!
//! Another CA is trusted for a day before it signs, so that every data plane has it by then; the one before stays
//! trusted for another day, in which all that it signed comes to its end.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::{hkdf, hmac, rand};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use tidegate_link::{Authority, AuthorityError, Trust};
use tidegate_plan::{ObjectName, SharedSecret};

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
    previous: Option<Previous>,
    /// Older controllers had none.
    sessions: Option<SessionRoot>,
}

/// A CA that signs no more.
#[derive(Clone, PartialEq, Eq)]
struct Previous {
    certificate: String,
    /// When it is trusted no more, in seconds since 1970. Older controllers did not say.
    until: Option<u64>,
}

/// What the link is opened with.
pub(crate) struct Keeping {
    pub(crate) trust: Trust,
    pub(crate) sessions: SessionRoot,
}

/// What the secret of every Gateway is made of. It leaves the controller never; what is made of it, for one Gateway
/// only.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SessionRoot([u8; 32]);

impl SessionRoot {
    fn random() -> Result<Self, KeepError> {
        let mut root = [0; 32];
        rand::fill(&mut root).map_err(|_| KeepError::Random)?;
        Ok(Self(root))
    }

    /// A Gateway that is made anew under an old name has another one.
    pub(crate) fn of_gateway(&self, gateway: &ObjectName, uid: &str) -> Option<SharedSecret> {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, b"tidegate secrets of gateways").extract(&self.0);
        let name = format!("{gateway} {uid}");
        let mut secret = [0; 32];
        root.expand(&[name.as_bytes()], hkdf::HKDF_SHA256).ok()?.fill(&mut secret).ok()?;
        Some(SharedSecret::new(secret))
    }
}

impl SessionRoot {
    /// What orders for certificates are sealed with, so that nobody else's pass for ours.
    pub(crate) fn seal(&self) -> hmac::Key {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, b"tidegate orders for certificates").extract(&self.0);
        let mut key = [0; 32];
        // It fails for keys of another length alone; one of zeros would seal nothing.
        root.expand(&[b"seal"], hkdf::HKDF_SHA256)
            .and_then(|expanded| expanded.fill(&mut key))
            .expect("32 bytes");
        hmac::Key::new(hmac::HMAC_SHA256, &key)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    #[error("the Secret {SECRET} cannot be read or written: {0}")]
    Api(#[from] Error),
    #[error("the Secret {SECRET} does not hold a CA: {0}; delete it, and another one is made")]
    Authority(#[from] AuthorityError),
    #[error("the machine gives no random numbers")]
    Random,
}

/// Reads what is kept, makes what is missing, and takes the next step of a rotation where it is time.
pub(crate) async fn keep(client: &Client, settings: &Settings) -> Result<Keeping, KeepError> {
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
    let sessions = kept.sessions.clone().ok_or(AuthorityError::NoCa)?;
    Ok(Keeping { trust: kept.trust()?, sessions })
}

/// What the Secret should hold at this time.
fn due(kept: Option<Kept>, now: SystemTime) -> Result<Kept, KeepError> {
    let made = || Authority::generate(LIFETIME).map(|ca| (ca.certificate_pem(), ca.key_pem()));
    let Some(mut kept) = kept else {
        let (certificate, key) = made()?;
        return Ok(Kept {
            certificate,
            key,
            next: None,
            previous: None,
            sessions: Some(SessionRoot::random()?),
        });
    };
    if kept.sessions.is_none() {
        kept.sessions = Some(SessionRoot::random()?);
    }
    let left = |certificate: &str, key: &str| {
        Authority::from_pem(certificate, key).map(|ca| ca.not_after().duration_since(now).unwrap_or_default())
    };
    let tomorrow = Some((now + DAY).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
    if let Some(previous) = &mut kept.previous {
        previous.until = previous.until.or(tomorrow);
    }
    let is_over = |until: u64| UNIX_EPOCH + Duration::from_secs(until) <= now;
    kept.previous.take_if(|previous| previous.until.is_some_and(is_over));
    let present = left(&kept.certificate, &kept.key)?;
    match kept.next.take() {
        None if present < LEFT => kept.next = Some(made()?),
        None => {}
        Some((certificate, key)) => {
            let known_for = LIFETIME.saturating_sub(left(&certificate, &key)?);
            if known_for >= DAY || present < DAY {
                let before = std::mem::replace(&mut kept.certificate, certificate);
                kept.previous = Some(Previous { certificate: before, until: tomorrow });
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
            previous: text("previous.crt").map(|certificate| Previous {
                certificate,
                until: text("previous.until").and_then(|until| until.parse().ok()),
            }),
            sessions: data
                .get("sessions.key")
                .and_then(|bytes| Some(SessionRoot(bytes.0.as_slice().try_into().ok()?))),
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
            put("previous.crt", &previous.certificate);
            if let Some(until) = previous.until {
                put("previous.until", &until.to_string());
            }
        }
        if let Some(SessionRoot(root)) = &self.sessions {
            data.insert("sessions.key".to_owned(), ByteString(root.to_vec()));
        }
        data
    }

    fn trust(&self) -> Result<Trust, AuthorityError> {
        let mut trust = Trust::new(Authority::from_pem(&self.certificate, &self.key)?);
        let previous = self.previous.iter().map(|previous| &previous.certificate);
        for other in self.next.iter().map(|(certificate, _)| certificate).chain(previous) {
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
        let previous = |kept: &Kept| kept.previous.as_ref().map(|previous| previous.certificate.clone());
        assert_eq!((turned.next.clone(), previous(&turned)), (None, Some(first.certificate.clone())));
        assert_eq!(turned.trust().expect("trust").bundle_pem().matches("BEGIN CERTIFICATE").count(), 2);
        assert_eq!(due(Some(turned.clone()), after(2)).expect("a CA"), turned);
        let alone = due(Some(turned.clone()), after(3)).expect("a CA");
        assert_eq!((&alone.certificate, previous(&alone)), (&turned.certificate, None));
        assert_eq!(alone.trust().expect("trust").bundle_pem().matches("BEGIN CERTIFICATE").count(), 1);
    }

    #[test]
    fn an_older_ca_of_which_nobody_said_until_when_goes_a_day_later() {
        let mut kept = due(None, after(0)).expect("a CA");
        kept.previous = Some(Previous { certificate: kept.certificate.clone(), until: None });
        let told = due(Some(kept), after(0)).expect("a CA");
        assert!(told.previous.as_ref().is_some_and(|previous| previous.until.is_some()));
        let secret = Secret { data: Some(told.data()), ..Secret::default() };
        assert_eq!(Kept::of(&secret), Some(told.clone()));
        assert!(due(Some(told), after(2)).expect("a CA").previous.is_none());
    }

    #[test]
    fn the_secret_gives_back_what_was_put_into_it() {
        let kept = due(Some(due(None, after(0)).expect("a CA")), after(300)).expect("a CA");
        let secret = Secret { data: Some(kept.data()), ..Secret::default() };
        assert_eq!(Kept::of(&secret), Some(kept.clone()));
        assert!(!format!("{kept:?}").contains("PRIVATE"));
    }

    #[test]
    fn a_secret_of_an_older_version_gets_what_it_lacks_and_keeps_its_ca() {
        let first = due(None, after(0)).expect("a CA");
        let older = Kept { sessions: None, ..first.clone() };
        let now = due(Some(older), after(0)).expect("a CA");
        assert_eq!(now.certificate, first.certificate);
        assert!(now.sessions.is_some() && now.sessions != first.sessions);
    }

    #[test]
    fn each_gateway_has_a_secret_of_its_own_that_stays() {
        let root = SessionRoot([1; 32]);
        let secret = |root: &SessionRoot, name: &str, uid: &str| {
            root.of_gateway(&ObjectName::new("shop", name), uid).expect("a secret")
        };
        let first = secret(&root, "web", "1");
        assert_eq!(first, secret(&root, "web", "1"));
        for other in
            [secret(&root, "web", "2"), secret(&root, "api", "1"), secret(&SessionRoot([2; 32]), "web", "1")]
        {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn a_secret_that_holds_something_else_is_an_error() {
        let kept = Kept {
            certificate: "x".to_owned(),
            key: "y".to_owned(),
            next: None,
            previous: None,
            sessions: None,
        };
        assert!(due(Some(kept), after(0)).is_err());
    }
}
