//! Cross-origin requests: preflights are answered here, and responses say which origins may read them.
//!
//! A rule with this filter has the say: what the backend itself answers about sharing is taken off, or an origin that
//! the filter does not allow could be let in by a backend's `*`.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};

use super::{FilterError, joined};
use crate::host::Host;

/// A policy for other origins.
#[derive(Clone, Debug)]
pub struct Cors {
    origins: Origins,
    credentials: bool,
    methods: List,
    headers: List,
    expose: List,
    max_age: HeaderValue,
}

#[derive(Clone, Debug)]
enum Origins {
    Any,
    These(Box<[Pattern]>),
}

/// `scheme://host[:port]`, where the host may be `*` or begin with `*.`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    https: bool,
    port: u16,
    /// Without the star; with its dot, if it has one.
    host: String,
    wildcard: bool,
}

#[derive(Clone, Debug)]
enum List {
    /// Nothing was said.
    Unset,
    Any,
    These(HeaderValue),
}

/// What a request says about cross-origin use.
#[derive(Debug)]
pub enum Preflight {
    /// It is none: go on, with what the response shall carry if the origin is allowed.
    None(Option<Grant>),
    Answered(Response<Bytes>),
}

/// An origin that may read the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant(HeaderValue);

impl Cors {
    pub fn compile(cors: &tidegate_plan::Cors) -> Result<Self, FilterError> {
        let origins = if cors.allow_origins.iter().any(|origin| origin == "*") {
            Origins::Any
        } else {
            Origins::These(
                cors.allow_origins.iter().map(|origin| Pattern::parse(origin)).collect::<Result<_, _>>()?,
            )
        };
        Ok(Self {
            origins,
            credentials: cors.allow_credentials,
            methods: List::new(&cors.allow_methods)?,
            headers: List::new(&cors.allow_headers)?,
            expose: List::new(&cors.expose_headers)?,
            max_age: HeaderValue::from(cors.max_age),
        })
    }

    pub fn on_request(&self, method: &Method, headers: &HeaderMap) -> Preflight {
        let grant = headers.get(header::ORIGIN).and_then(|origin| self.grant(origin));
        let asked = headers.get(header::ACCESS_CONTROL_REQUEST_METHOD);
        let (Some(asked), &Method::OPTIONS, true) = (asked, method, headers.contains_key(header::ORIGIN))
        else {
            return Preflight::None(grant);
        };
        let mut answer = Response::new(Bytes::new());
        match grant {
            Some(grant) => {
                *answer.status_mut() = StatusCode::NO_CONTENT;
                self.allow(answer.headers_mut(), asked, headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS));
                self.share(answer.headers_mut(), &grant);
            }
            None => {
                *answer.status_mut() = StatusCode::FORBIDDEN;
                answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(0));
            }
        }
        self.vary(answer.headers_mut());
        Preflight::Answered(answer)
    }

    /// Says on a response who may read it.
    pub fn on_response(&self, headers: &mut HeaderMap, grant: Option<&Grant>) {
        for name in OF_RESPONSES {
            headers.remove(name);
        }
        self.vary(headers);
        let Some(grant) = grant else { return };
        self.share(headers, grant);
        // With credentials a star is no star to browsers; the names that are there say the same.
        if matches!(self.expose, List::Any) && self.credentials {
            let names = headers.keys().map(HeaderName::as_str).filter(|name| is_to_be_exposed(name));
            if let Some(names) = joined(names) {
                headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, names);
            }
        }
    }

    fn grant(&self, origin: &HeaderValue) -> Option<Grant> {
        match &self.origins {
            Origins::Any if self.credentials => Some(Grant(origin.clone())),
            Origins::Any => Some(Grant(HeaderValue::from_static("*"))),
            Origins::These(patterns) => {
                let asking = Asking::parse(origin.to_str().ok()?)?;
                patterns.iter().any(|pattern| pattern.matches(&asking)).then(|| Grant(origin.clone()))
            }
        }
    }

    /// What a preflight asks for. A wildcard is answered with what was asked: a star would not stand for requests
    /// with credentials, nor ever for `Authorization`.
    fn allow(&self, answer: &mut HeaderMap, method: &HeaderValue, headers: Option<&HeaderValue>) {
        let methods = self.methods.value(Some(method));
        let headers = self.headers.value(headers);
        for (name, value) in [
            (header::ACCESS_CONTROL_ALLOW_METHODS, methods),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, headers),
            (header::ACCESS_CONTROL_MAX_AGE, Some(&self.max_age)),
        ] {
            if let Some(value) = value {
                answer.insert(name, value.clone());
            }
        }
    }

    fn share(&self, answer: &mut HeaderMap, grant: &Grant) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, grant.0.clone());
        if self.credentials {
            answer.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        let star = HeaderValue::from_static("*");
        let star = (!self.credentials).then_some(&star);
        if let Some(names) = self.expose.value(star) {
            answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, names.clone());
        }
    }

    /// Caches must not give one origin the answer to another.
    fn vary(&self, headers: &mut HeaderMap) {
        let same_for_all = matches!(self.origins, Origins::Any) && !self.credentials;
        let said = |value: &HeaderValue| {
            let mut names = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            names.any(|name| name == b"*" || name.eq_ignore_ascii_case(b"origin"))
        };
        if !same_for_all && !headers.get_all(header::VARY).iter().any(said) {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
    }
}

const OF_RESPONSES: [HeaderName; 6] = [
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::ACCESS_CONTROL_MAX_AGE,
];

/// Pages never see cookies, and the rest of these is not for them.
fn is_to_be_exposed(name: &str) -> bool {
    !name.starts_with("access-control-") && name != "set-cookie"
}

impl List {
    fn new(names: &[String]) -> Result<Self, FilterError> {
        if names.iter().any(|name| name == "*") {
            return Ok(Self::Any);
        }
        if names.is_empty() {
            return Ok(Self::Unset);
        }
        let value = joined(names.iter().map(String::as_str));
        value.map(Self::These).ok_or_else(|| FilterError::HeaderName(names.join(", ")))
    }

    fn value<'v>(&'v self, any: Option<&'v HeaderValue>) -> Option<&'v HeaderValue> {
        match self {
            Self::Unset => None,
            Self::Any => any,
            Self::These(names) => Some(names),
        }
    }
}

/// The origin that a browser sends.
struct Asking<'a> {
    https: bool,
    port: u16,
    host: &'a str,
}

impl<'a> Asking<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (https, rest) = scheme(text)?;
        let host = Host::parse(rest)?;
        Some(Self { https, port: host.port.unwrap_or(default_port(https)), host: host.name })
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, FilterError> {
        let wrong = || FilterError::Origin(text.to_owned());
        let (https, rest) = scheme(text).ok_or_else(wrong)?;
        let (wildcard, rest) = match rest.strip_prefix('*') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| wrong())?),
            _ => (rest, default_port(https)),
        };
        let named =
            if wildcard { host.strip_prefix('.').filter(|host| !host.is_empty()) } else { Some(host) };
        let fits = named.is_some_and(|host| Host::parse(host).is_some()) || wildcard && host.is_empty();
        if !fits || port == 0 {
            return Err(wrong());
        }
        Ok(Self { https, port, host: host.to_ascii_lowercase(), wildcard })
    }

    fn matches(&self, origin: &Asking<'_>) -> bool {
        if (self.https, self.port) != (origin.https, origin.port) {
            return false;
        }
        if !self.wildcard {
            return origin.host.eq_ignore_ascii_case(&self.host);
        }
        // At least one character stands for the star.
        let Some(at) = origin.host.len().checked_sub(self.host.len()).filter(|at| *at > 0) else {
            return false;
        };
        origin.host.as_bytes()[at..].eq_ignore_ascii_case(self.host.as_bytes())
    }
}

fn scheme(text: &str) -> Option<(bool, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    match scheme {
        _ if scheme.eq_ignore_ascii_case("https") => Some((true, rest)),
        _ if scheme.eq_ignore_ascii_case("http") => Some((false, rest)),
        _ => None,
    }
}

const fn default_port(https: bool) -> u16 {
    if https { 443 } else { 80 }
}

#[cfg(test)]
#[path = "cors_tests.rs"]
mod tests;
