//! Session persistence, the same on rules, on XBackend and in XBackendTrafficPolicy.

use crate::read::{record, words};
use crate::scalar::{CookieName, Duration, HeaderName};

record! {
    pub struct SessionPersistence {
        pub absolute_timeout: Option<Duration> = "absoluteTimeout",
        pub kind: SessionType = "type" or SessionType::Cookie,
        pub cookie: Option<CookieConfig> = "cookie",
        pub header: Option<HeaderConfig> = "header",
    }
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
        pub path: String = "path" or "/".to_owned(),
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
