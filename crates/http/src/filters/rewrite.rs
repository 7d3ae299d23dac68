//! Rewrites of host and path, and redirects. What becomes of a path is the plan's to say, so that `explain` says the
//! same.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode, Uri};
use tidegate_plan::{PathChange, PathError, PathMatch, Redirect, Redirected, Rewrite, normal_path};

use super::{FilterError, Passage};
use crate::host::Host;
use crate::request::{host_text, with_query};

/// A rewrite of host and path.
#[derive(Clone, Debug)]
pub struct Rewriting {
    host: Option<HeaderValue>,
    path: Option<PathChange>,
}

impl Rewriting {
    pub fn compile(rewrite: &Rewrite) -> Result<Self, FilterError> {
        let host =
            |name: &str| HeaderValue::from_str(name).map_err(|_| FilterError::HeaderValue("host".into()));
        Ok(Self {
            host: rewrite.hostname.as_ref().map(|name| host(name.as_str())).transpose()?,
            path: rewrite.path.as_ref().map(checked_change).transpose()?,
        })
    }

    /// `target` is what the request asked for: of two rewrites, the rule's and then the backend's, the second is not
    /// of what the first made.
    pub fn apply(
        &self,
        parts: &mut Parts,
        target: &Uri,
        matched: Option<&PathMatch>,
    ) -> Result<(), PathError> {
        if let Some(host) = &self.host {
            parts.headers.insert(header::HOST, host.clone());
        }
        if let Some(change) = &self.path {
            let path = normal_path(&change.apply(target.path(), matched))?.into_owned();
            parts.uri = with_query(path, target.query())?.into();
        }
        Ok(())
    }
}

/// The answer that sends a client elsewhere.
pub fn redirect(
    redirect: &Redirect,
    parts: &Parts,
    passage: &Passage<'_>,
) -> Result<Response<Bytes>, http::Error> {
    let named = host_text(&parts.headers).and_then(Host::parse);
    let host = named.map_or_else(|| address(passage), |host| host.name.to_owned());
    let location = redirect.location(&Redirected {
        scheme: passage.scheme(),
        host: &host,
        path: parts.uri.path(),
        query: parts.uri.query(),
        port: passage.local.port(),
        matched: passage.matched,
    });
    Response::builder()
        .status(redirect.status)
        .header(header::LOCATION, location)
        .header(header::CONTENT_LENGTH, 0)
        .body(Bytes::new())
}

/// Where a client that named no host has found us.
fn address(passage: &Passage<'_>) -> String {
    match passage.local.ip() {
        std::net::IpAddr::V4(address) => address.to_string(),
        std::net::IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// A redirect that can be carried out.
pub(super) fn checked(redirect: &Redirect) -> Result<Redirect, FilterError> {
    let status = StatusCode::from_u16(redirect.status).ok().filter(StatusCode::is_redirection);
    status.ok_or(FilterError::Status(redirect.status))?;
    let path = redirect.path.as_ref().map(checked_change).transpose()?;
    Ok(Redirect { path, ..redirect.clone() })
}

/// The same change with its path in normal form. A prefix may be replaced by nothing.
fn checked_change(change: &PathChange) -> Result<PathChange, FilterError> {
    let normal = |path: &str| {
        let rooted = format!("/{}", path.trim_start_matches('/'));
        let normal = normal_path(&rooted).map_err(|_| FilterError::Path(path.to_owned()))?;
        Ok(normal.into_owned())
    };
    Ok(match change {
        PathChange::Full(path) => PathChange::Full(normal(path)?),
        PathChange::Prefix(path) => PathChange::Prefix(normal(path)?),
    })
}
