//! What rewrites and redirects make of a path and a URL: one answer for the HTTP engine and for `explain`.

use crate::{PathChange, PathMatch, Redirect};

impl PathChange {
    /// The path after the change. `matched` is what the rule matched; only a prefix can be replaced, and translation
    /// lets no other rule ask for it.
    #[must_use]
    pub fn apply(&self, path: &str, matched: Option<&PathMatch>) -> String {
        match (self, matched) {
            (Self::Full(new), _) => new.clone(),
            (Self::Prefix(new), Some(PathMatch::Prefix(prefix))) => {
                let rest = path.strip_prefix(prefix.trim_end_matches('/')).unwrap_or(path);
                let path = format!("{}{rest}", new.trim_end_matches('/'));
                if path.starts_with('/') { path } else { format!("/{path}") }
            }
            (Self::Prefix(_), _) => path.to_owned(),
        }
    }
}

/// The request that is redirected.
#[derive(Clone, Copy, Debug)]
pub struct Redirected<'a> {
    pub scheme: &'a str,
    /// Without the port.
    pub host: &'a str,
    pub path: &'a str,
    pub query: Option<&'a str>,
    /// Of the listener.
    pub port: u16,
    pub matched: Option<&'a PathMatch>,
}

impl Redirect {
    /// The `Location` that the client is sent to. The port is the redirect's, else that of its scheme, else the
    /// listener's; it is written only where the scheme does not say it already.
    #[must_use]
    pub fn location(&self, request: &Redirected<'_>) -> String {
        let scheme = self.scheme.as_deref().unwrap_or(request.scheme);
        let host = self.hostname.as_ref().map_or(request.host, |hostname| hostname.as_str());
        let of_scheme = if scheme == "https" { 443 } else { 80 };
        let implied = if self.scheme.is_some() { of_scheme } else { request.port };
        let port = self.port.unwrap_or(implied);
        let path = match &self.path {
            Some(change) => change.apply(request.path, request.matched),
            None => request.path.to_owned(),
        };
        let port = if port == of_scheme { String::new() } else { format!(":{port}") };
        let query = request.query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{scheme}://{host}{port}{path}{query}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table in the comment on `replacePrefixMatch` of the API.
    #[test]
    fn prefixes_are_replaced_by_path_elements() {
        for (path, prefix, new, expected) in [
            ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
            ("/foo/bar", "/foo/", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo/", "/xyz/", "/xyz/bar"),
            ("/foo", "/foo", "/xyz", "/xyz"),
            ("/foo/", "/foo", "/xyz", "/xyz/"),
            ("/foo/bar", "/foo", "", "/bar"),
            ("/foo/", "/foo", "", "/"),
            ("/foo", "/foo", "", "/"),
            ("/foo/", "/foo", "/", "/"),
            ("/foo", "/foo", "/", "/"),
            ("/a", "/", "/xyz", "/xyz/a"),
        ] {
            let change = PathChange::Prefix(new.to_owned());
            let matched = PathMatch::Prefix(prefix.to_owned());
            assert_eq!(change.apply(path, Some(&matched)), expected, "{path} {prefix} {new}");
        }
        assert_eq!(PathChange::Full("/new".to_owned()).apply("/old", None), "/new");
    }

    #[test]
    fn the_port_of_a_redirect() {
        let none = Redirect { scheme: None, hostname: None, port: None, path: None, status: 302 };
        let https = Redirect { scheme: Some("https".to_owned()), ..none.clone() };
        let request = Redirected {
            scheme: "http",
            host: "a.test",
            path: "/p",
            query: Some("q=1"),
            port: 8080,
            matched: None,
        };
        assert_eq!(none.location(&request), "http://a.test:8080/p?q=1");
        assert_eq!(none.location(&Redirected { port: 80, ..request }), "http://a.test/p?q=1");
        assert_eq!(https.location(&request), "https://a.test/p?q=1");
        let other = Redirect { port: Some(8443), ..https };
        assert_eq!(other.location(&request), "https://a.test:8443/p?q=1");
    }
}
