//! The filters of a rule or of a backend, made ready once and applied to each request in the order they are written.
//!
//! A request goes through the rule's chain, then through that of the backend it is dealt to; the response goes
//! through the backend's, then the rule's. What needs a socket (mirrors, external auth) is given back for the engine
//! to do at its place in the order.

mod cors;
mod headers;
mod rewrite;

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Response, Uri};
use tidegate_plan::{ExternalAuth, Filter, PathMatch, Reason};

pub use self::cors::{Cors, Grant, Preflight};
pub use self::headers::HeaderEdit;
pub(crate) use self::headers::is_framing;
pub use self::rewrite::{Rewriting, redirect};
use crate::mirror::Mirror;

/// Why a filter cannot be carried out. The rule answers 500 then ([`Reason::FilterInvalid`]), rather than without it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("`{0}` is no name of a header")]
    HeaderName(String),
    #[error("the value for header {0} has characters that no header may have")]
    HeaderValue(String),
    #[error("`{0}` is no origin")]
    Origin(String),
    #[error("`{0}` is no path")]
    Path(String),
    #[error("{0} is no status of a redirect")]
    Status(u16),
}

/// Filters in the order they are written.
#[derive(Debug, Default)]
pub struct Chain(Box<[Step]>);

/// One filter, ready to be applied.
#[derive(Debug)]
pub enum Step {
    RequestHeaders(HeaderEdit),
    ResponseHeaders(HeaderEdit),
    Redirect(tidegate_plan::Redirect),
    Rewrite(Rewriting),
    Mirror(Mirror),
    Cors(Cors),
    Authorize(ExternalAuth),
}

/// What is to be done after a step.
#[derive(Debug)]
pub enum Next<'c> {
    /// Go on with the next one.
    On,
    /// The request goes no further.
    Answer(Response<Bytes>),
    /// The request is as this mirror should see it; whether it is its turn is for [`Mirror::is_due`] to say.
    Mirror(&'c Mirror),
    /// Go on only if this server allows it.
    Authorize(&'c ExternalAuth),
    /// A step that cannot be carried out for this request.
    Refuse(Reason),
}

/// One request on its way through the chains, and what the way back needs to know of it.
#[derive(Debug)]
pub struct Passage<'a> {
    pub https: bool,
    /// Where the client connected to, as the plan has it.
    pub local: SocketAddr,
    /// The match that the rule was found by.
    pub matched: Option<&'a PathMatch>,
    /// The client asks for another protocol: there is no copy of such a conversation for a mirror.
    pub upgrade: bool,
    /// The request's own target: a backend's rewrite takes the place of the rule's.
    target: Uri,
    cors: Option<Grant>,
}

impl<'a> Passage<'a> {
    /// Of a settled request that still has what was for its connection alone.
    #[must_use]
    pub fn new(parts: &Parts, https: bool, local: SocketAddr, matched: Option<&'a PathMatch>) -> Self {
        let upgrade = parts.headers.contains_key(header::UPGRADE)
            || parts.extensions.get::<h2::ext::Protocol>().is_some();
        Self { https, local, matched, upgrade, target: parts.uri.clone(), cors: None }
    }

    #[must_use]
    pub const fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }
}

impl Chain {
    pub fn compile(filters: &[Filter]) -> Result<Self, FilterError> {
        filters.iter().map(Step::compile).collect::<Result<_, _>>().map(Self)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For the way there: [`Step::on_request`] of each, until one says otherwise.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The way back. It is for all answers to a request that came to this chain, also our own: a browser shows a
    /// page the error only if CORS lets it.
    pub fn on_response(&self, headers: &mut HeaderMap, passage: &Passage<'_>) {
        for step in &self.0 {
            match step {
                Step::ResponseHeaders(edit) => edit.apply(headers),
                Step::Cors(cors) => cors.on_response(headers, passage.cors.as_ref()),
                _ => {}
            }
        }
    }
}

impl Step {
    fn compile(filter: &Filter) -> Result<Self, FilterError> {
        Ok(match filter {
            Filter::RequestHeaders(change) => Self::RequestHeaders(HeaderEdit::compile(change)?),
            Filter::ResponseHeaders(change) => Self::ResponseHeaders(HeaderEdit::compile(change)?),
            Filter::Redirect(redirect) => Self::Redirect(rewrite::checked(redirect)?),
            Filter::Rewrite(rewrite) => Self::Rewrite(Rewriting::compile(rewrite)?),
            Filter::Mirror { target, share } => Self::Mirror(Mirror::new(target.clone(), *share)),
            Filter::Cors(cors) => Self::Cors(Cors::compile(cors)?),
            Filter::ExternalAuth(auth) => Self::Authorize(auth.clone()),
        })
    }

    pub fn on_request(&self, parts: &mut Parts, passage: &mut Passage<'_>) -> Next<'_> {
        match self {
            Self::RequestHeaders(edit) => edit.apply(&mut parts.headers),
            Self::ResponseHeaders(_) => {}
            Self::Redirect(redirect) => {
                return rewrite::redirect(redirect, parts, passage)
                    .map_or(Next::Refuse(Reason::FilterInvalid), Next::Answer);
            }
            Self::Rewrite(rewriting) => {
                if rewriting.apply(parts, &passage.target, passage.matched).is_err() {
                    return Next::Refuse(Reason::FilterInvalid);
                }
            }
            Self::Mirror(_) if passage.upgrade => {}
            Self::Mirror(mirror) => return Next::Mirror(mirror),
            Self::Cors(cors) => match cors.on_request(&parts.method, &parts.headers) {
                Preflight::Answered(answer) => return Next::Answer(answer),
                Preflight::None(grant) => passage.cors = grant,
            },
            Self::Authorize(auth) => return Next::Authorize(auth),
        }
        Next::On
    }
}

/// Names as one value.
fn joined<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<HeaderValue> {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { None } else { HeaderValue::try_from(names.join(", ")).ok() }
}

#[cfg(test)]
mod tests;
