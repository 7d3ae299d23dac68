//! Session persistence, the same on rules, on XBackend and in XBackendTrafficPolicy.

use crate::bounded::Text;
use crate::read::{Place, record, words};
use crate::rules::field_fits;
use crate::scalar::{CookieName, Duration, HeaderName};

record! {
    pub struct SessionPersistence {
        pub absolute_timeout: Option<Duration> = "absoluteTimeout",
        pub kind: SessionType = "type" or SessionType::Cookie,
        pub cookie: Option<CookieConfig> = "cookie",
        pub header: Option<HeaderConfig> = "header",
    }
    rules: [session_field_fits_type("type"), permanent_cookie_has_timeout("cookie.lifetimeType")]
}

words! {
    pub enum SessionType {
        Cookie = "Cookie",
        Header = "Header",
    }
}

record! {
    pub struct CookieConfig {
        pub name: Option<CookieName> = "name",
        pub path: Text<0, 1024> = "path" or Text::new("/").expect("short"),
        pub lifetime_type: CookieLifetime = "lifetimeType" or CookieLifetime::Session,
    }
}

words! {
    pub enum CookieLifetime {
        Permanent = "Permanent",
        Session = "Session",
    }
}

record! {
    pub struct HeaderConfig {
        pub name: HeaderName = "name",
    }
}

fn session_field_fits_type(session: &SessionPersistence, place: &mut Place<'_>) {
    field_fits(place, "type", session.kind.as_str(), &[("Cookie", "cookie"), ("Header", "header")]);
}

fn permanent_cookie_has_timeout(session: &SessionPersistence, place: &mut Place<'_>) {
    let lifetime = session.cookie.as_ref().map(|cookie| cookie.lifetime_type);
    if lifetime == Some(CookieLifetime::Permanent) && session.absolute_timeout.is_none() {
        place.wrong(
            "cookie.lifetimeType",
            "a Permanent cookie needs an end, and `absoluteTimeout` is missing",
            "write `absoluteTimeout: 24h` beside `cookie`, or `lifetimeType: Session`",
        );
    }
}
