//! Session persistence: which endpoint a client had before, as a token that it keeps in a cookie or a header.
//!
//! The token names an endpoint of a backend by a keyed hash and never by its address. A client cannot make one up, so
//! it can go only where it was sent before.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::{digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use tidegate_plan::{BackendId, SessionKey, SessionPersistence};

/// What all tokens are made with; all clones are one. Replicas with the same secret take each other's tokens.
#[derive(Clone)]
pub struct SessionSecret(Arc<ArcSwap<hmac::Key>>);

impl SessionSecret {
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(key(secret))))
    }

    /// Another one from now on: whoever has a token of the one before begins a new session.
    pub fn set(&self, secret: &[u8; 32]) {
        self.0.store(Arc::new(key(secret)));
    }

    /// What an endpoint of a backend is called in tokens.
    #[must_use]
    pub fn tag(&self, backend: &BackendId, endpoint: SocketAddr) -> Tag {
        let mac = hmac::sign(&self.0.load(), format!("endpoint {backend} {endpoint}").as_bytes());
        let mut tag = [0; 8];
        tag.copy_from_slice(&mac.as_ref()[..8]);
        Tag(tag)
    }

    fn seal(&self, body: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0.load());
        context.update(b"token ");
        context.update(body);
        context.sign()
    }
}

fn key(secret: &[u8; 32]) -> hmac::Key {
    let root = hmac::Key::new(hmac::HMAC_SHA256, secret);
    hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&root, b"tidegate session persistence").as_ref())
}

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecret")
    }
}

/// An endpoint of a backend, by keyed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag([u8; 8]);

/// How a rule or a backend keeps its sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sessions {
    carrier: Carrier,
    /// A session ends so long after it began.
    lifetime: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Carrier {
    Cookie { name: String, path: String, permanent: bool },
    Header(HeaderName),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error("`{0}` is no name of a cookie")]
    CookieName(String),
    #[error("`{0}` is no path of a cookie")]
    CookiePath(String),
    #[error("`{0}` is no name of a header")]
    HeaderName(String),
}

impl Sessions {
    /// `owner` is the rule or backend in words, of which a cookie without a name gets one that no other has.
    pub fn compile(session: &SessionPersistence, owner: &str) -> Result<Self, SessionError> {
        let carrier = match &session.key {
            SessionKey::Header(name) => {
                let parsed = HeaderName::from_bytes(name.as_bytes());
                Carrier::Header(parsed.map_err(|_| SessionError::HeaderName(name.clone()))?)
            }
            SessionKey::Cookie(cookie) => {
                let name = cookie.name.clone().unwrap_or_else(|| own_name(owner));
                // A token is what a cookie's name must be, and so must a method.
                if http::Method::from_bytes(name.as_bytes()).is_err() {
                    return Err(SessionError::CookieName(name));
                }
                let path = cookie.path.clone().unwrap_or_else(|| "/".to_owned());
                if path.bytes().any(|byte| !(b' '..=b'~').contains(&byte) || byte == b';') {
                    return Err(SessionError::CookiePath(path));
                }
                Carrier::Cookie { name, path, permanent: cookie.permanent }
            }
        };
        Ok(Self { carrier, lifetime: session.absolute_timeout.filter(|timeout| !timeout.is_zero()) })
    }

    /// The endpoint that the client had before, if its session is still good. Whether that endpoint is still there is
    /// for the caller to see. `now` is in seconds since the epoch.
    #[must_use]
    pub fn find(&self, headers: &HeaderMap, secret: &SessionSecret, now: u64) -> Option<Tag> {
        let opened = |token: &[u8]| self.open(token, secret, now);
        match &self.carrier {
            Carrier::Header(name) => headers.get(name).and_then(|value| opened(value.as_bytes())),
            Carrier::Cookie { name, .. } => {
                let lines = headers.get_all(header::COOKIE).iter();
                let mut cookies = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
                cookies.find_map(|cookie| {
                    let value = cookie.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                    opened(value)
                })
            }
        }
    }

    /// Gives the client a token for the endpoint that served it, unless it is where it was `before`.
    pub fn remember(
        &self,
        response: &mut HeaderMap,
        endpoint: Tag,
        before: Option<Tag>,
        secret: &SessionSecret,
        https: bool,
        now: u64,
    ) {
        if before == Some(endpoint) {
            return;
        }
        let token = token(endpoint, secret, now);
        let (line, value) = match &self.carrier {
            Carrier::Header(name) => (name.clone(), token),
            Carrier::Cookie { name, path, permanent } => {
                let lasting = self.lifetime.filter(|_| *permanent);
                let age =
                    lasting.map(|age| format!("; Max-Age={}", age.as_secs().max(1))).unwrap_or_default();
                let secure = if https { "; Secure" } else { "" };
                (header::SET_COOKIE, format!("{name}={token}; Path={path}; HttpOnly{secure}{age}"))
            }
        };
        let Ok(value) = HeaderValue::try_from(value) else { return };
        match &self.carrier {
            Carrier::Header(_) => response.insert(line, value).is_some(),
            Carrier::Cookie { .. } => response.append(line, value),
        };
    }

    fn open(&self, token: &[u8], secret: &SessionSecret, now: u64) -> Option<Tag> {
        // Anything longer is no token, and need not be decoded to know.
        let token = (token.len() == ENCODED).then(|| URL_SAFE_NO_PAD.decode(token).ok())??;
        let (body, mac) = token.split_at_checked(BODY)?;
        aws_lc_rs::constant_time::verify_slices_are_equal(mac, secret.seal(body).as_ref().get(..MAC)?)
            .ok()?;
        let (began, tag) = body.split_at_checked(8)?;
        let began = u64::from_be_bytes(began.try_into().ok()?);
        let over =
            self.lifetime.is_some_and(|lifetime| now.saturating_sub(began) >= lifetime.as_secs().max(1));
        (!over).then_some(Tag(tag.try_into().ok()?))
    }
}

/// When the session began and where, then what proves it.
const BODY: usize = 16;
const MAC: usize = 16;
const ENCODED: usize = 43;

fn token(endpoint: Tag, secret: &SessionSecret, now: u64) -> String {
    let mut token = Vec::with_capacity(BODY + MAC);
    token.extend_from_slice(&now.to_be_bytes());
    token.extend_from_slice(&endpoint.0);
    let mac = secret.seal(&token);
    token.extend_from_slice(&mac.as_ref()[..MAC]);
    URL_SAFE_NO_PAD.encode(token)
}

fn own_name(owner: &str) -> String {
    let hash = digest::digest(&digest::SHA256, owner.as_bytes());
    format!("tidegate-{}", URL_SAFE_NO_PAD.encode(&hash.as_ref()[..9]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_plan::{BackendKind, Cookie, ObjectName, Transport};

    use super::*;
    use crate::testing::headers;

    const NOW: u64 = 1_800_000_000;

    fn secret(byte: u8) -> SessionSecret {
        SessionSecret::new(&[byte; 32])
    }

    fn backend(name: &str) -> BackendId {
        let object = ObjectName::new("default", name);
        BackendId { kind: BackendKind::Service, object, port: 80, transport: Transport::Tcp }
    }

    fn endpoint(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 8080))
    }

    fn by_cookie(cookie: Cookie, lifetime: Option<u64>) -> Sessions {
        let absolute_timeout = lifetime.map(Duration::from_secs);
        let session = SessionPersistence { key: SessionKey::Cookie(cookie), absolute_timeout };
        Sessions::compile(&session, "HTTPRoute default/web rule 0").unwrap()
    }

    fn named(name: &str) -> Cookie {
        Cookie { name: Some(name.to_owned()), path: None, permanent: false }
    }

    /// The `Set-Cookie` that a client gets.
    fn given(sessions: &Sessions, tag: Tag, https: bool) -> String {
        let mut response = HeaderMap::new();
        sessions.remember(&mut response, tag, None, &secret(1), https, NOW);
        response["set-cookie"].to_str().unwrap().to_owned()
    }

    #[test]
    fn a_client_comes_back_to_its_endpoint() {
        let sessions = by_cookie(named("sid"), None);
        let tag = secret(1).tag(&backend("web"), endpoint(1));
        let cookie = given(&sessions, tag, true);
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(attributes, "Path=/; HttpOnly; Secure");
        for lines in [
            vec![("cookie", pair.to_owned())],
            vec![("cookie", format!("a=b; {pair}; sid2=x"))],
            vec![("cookie", "a=b".to_owned()), ("cookie", format!("sid=forged;{pair}"))],
        ] {
            let lines: Vec<_> = lines.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(sessions.find(&headers(&lines), &secret(1), NOW), Some(tag), "{lines:?}");
        }
        let mut response = HeaderMap::new();
        sessions.remember(&mut response, tag, Some(tag), &secret(1), true, NOW);
        assert!(response.is_empty());
    }

    #[test]
    fn replicas_that_are_told_one_secret_know_each_others_sessions() {
        let sessions = by_cookie(named("sid"), None);
        let (one, other) = (secret(1), secret(2));
        let told = one.clone();
        for secret in [&told, &other] {
            secret.set(&[3; 32]);
        }
        let tag = one.tag(&backend("web"), endpoint(1));
        let mut response = HeaderMap::new();
        sessions.remember(&mut response, tag, None, &one, false, NOW);
        let cookie = response["set-cookie"].to_str().unwrap().to_owned();
        let known = |secret: &SessionSecret| sessions.find(&headers(&[("cookie", &cookie)]), secret, NOW);
        assert_eq!(known(&other), Some(tag));
        assert_eq!(other.tag(&backend("web"), endpoint(1)), tag);
        assert_eq!(known(&secret(1)), None, "not with the secret that it had before");
    }

    #[test]
    fn by_header() {
        let session =
            SessionPersistence { key: SessionKey::Header("x-session".into()), absolute_timeout: None };
        let sessions = Sessions::compile(&session, "").unwrap();
        let tag = secret(1).tag(&backend("web"), endpoint(1));
        let mut response = headers(&[("x-session", "the backend's own")]);
        sessions.remember(&mut response, tag, None, &secret(1), false, NOW);
        assert_eq!(response.get_all("x-session").iter().count(), 1);
        assert_eq!(sessions.find(&response, &secret(1), NOW), Some(tag));
    }

    #[test]
    fn sessions_end_in_time() {
        let sessions =
            by_cookie(Cookie { permanent: true, path: Some("/app".into()), ..named("sid") }, Some(60));
        let cookie = given(&sessions, secret(1).tag(&backend("web"), endpoint(1)), false);
        assert!(cookie.ends_with("; Path=/app; HttpOnly; Max-Age=60"), "{cookie}");
        let request = headers(&[("cookie", cookie.split(';').next().unwrap())]);
        assert!(sessions.find(&request, &secret(1), NOW + 59).is_some());
        assert!(sessions.find(&request, &secret(1), NOW + 60).is_none());
    }

    #[test]
    fn a_token_tells_nothing_and_fits_nowhere_else() {
        let tags = [
            secret(1).tag(&backend("web"), endpoint(1)),
            secret(1).tag(&backend("web"), endpoint(2)),
            secret(1).tag(&backend("api"), endpoint(1)),
            secret(2).tag(&backend("web"), endpoint(1)),
        ];
        assert!(tags.iter().enumerate().all(|(at, tag)| !tags[..at].contains(tag)));
        let sessions = by_cookie(named("sid"), None);
        let cookie = given(&sessions, tags[0], false);
        let request = headers(&[("cookie", cookie.split(';').next().unwrap())]);
        assert_eq!(sessions.find(&request, &secret(2), NOW), None);
    }

    proptest! {
        #[test]
        fn nobody_makes_one_up(at in 0_usize..43, with in "[A-Za-z0-9_-]", other: u64) {
            let sessions = by_cookie(named("sid"), None);
            let tag = secret(1).tag(&backend("web"), endpoint(1));
            let mut token = token(tag, &secret(1), other);
            prop_assert_eq!(sessions.open(token.as_bytes(), &secret(1), NOW), Some(tag));
            let was = token.clone();
            token.replace_range(at..=at, &with);
            let opened = sessions.open(token.as_bytes(), &secret(1), NOW);
            prop_assert!(opened.is_none() || token == was);
        }

        #[test]
        fn nonsense_is_no_token(text in "\\PC{0,60}") {
            prop_assert_eq!(by_cookie(named("sid"), None).open(text.as_bytes(), &secret(1), NOW), None);
        }
    }

    #[test]
    fn names() {
        let unnamed = by_cookie(Cookie::default(), None);
        let Carrier::Cookie { name, .. } = &unnamed.carrier else { panic!() };
        assert!(name.starts_with("tidegate-") && name.len() == 21, "{name}");
        let compile = |cookie| {
            let session = SessionPersistence { key: SessionKey::Cookie(cookie), absolute_timeout: None };
            Sessions::compile(&session, "").unwrap_err()
        };
        assert_eq!(compile(named("a b")), SessionError::CookieName("a b".into()));
        assert_eq!(compile(named("")), SessionError::CookieName(String::new()));
        let path = Cookie { path: Some("/; Domain=x".into()), ..named("a") };
        assert_eq!(compile(path), SessionError::CookiePath("/; Domain=x".into()));
    }
}
