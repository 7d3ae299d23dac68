//! What an auth server may change about a request that it allows, and about the response to it.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;

use super::AuthFailure;
use crate::filters::is_framing;
use crate::request::with_query;

/// Changes of a request, and of the response to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub(super) request: Vec<(HeaderName, HeaderValue, HeaderAction)>,
    pub(super) remove: Vec<HeaderName>,
    pub(super) set_query: Vec<(String, String)>,
    pub(super) remove_query: Vec<String>,
    pub(super) response: Vec<(HeaderName, HeaderValue, HeaderAction)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderAction {
    Set,
    Append,
    AddIfAbsent,
    SetIfPresent,
}

impl Changes {
    pub fn on_request(&self, parts: &mut Parts) -> Result<(), AuthFailure> {
        for name in &self.remove {
            parts.headers.remove(name);
        }
        self.request.iter().for_each(|change| apply(&mut parts.headers, change));
        if !self.set_query.is_empty() || !self.remove_query.is_empty() {
            let query = self.query(parts.uri.query().unwrap_or_default());
            let query = (!query.is_empty()).then_some(query.as_str());
            let target = with_query(parts.uri.path().to_owned(), query).map_err(|_| AuthFailure::Message)?;
            parts.uri = target.into();
        }
        Ok(())
    }

    pub fn on_response(&self, headers: &mut HeaderMap) {
        self.response.iter().for_each(|change| apply(headers, change));
    }

    /// Parameters that are set take the place of all of their name.
    fn query(&self, query: &str) -> String {
        let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
        let goes = |pair: &&str| {
            let name = name(pair);
            !self
                .remove_query
                .iter()
                .chain(self.set_query.iter().map(|(set, _)| set))
                .any(|gone| *gone == name)
        };
        let kept = query.split('&').filter(|pair| !pair.is_empty()).filter(goes).map(str::to_owned);
        let set = self.set_query.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value)));
        kept.chain(set).collect::<Vec<_>>().join("&")
    }
}

/// A header that a server asks for: `None` where it is not its business, an error where it is no header.
pub(super) fn header(name: &str, value: &[u8]) -> Result<Option<(HeaderName, HeaderValue)>, AuthFailure> {
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| AuthFailure::Header)?;
    let value = HeaderValue::from_bytes(value).map_err(|_| AuthFailure::Header)?;
    Ok((!is_ours(&parsed)).then_some((parsed, value)))
}

/// Where a request goes and how it is framed is not for an auth server to say.
pub(super) fn is_ours(name: &HeaderName) -> bool {
    is_framing(name) || *name == header::HOST
}

fn apply(headers: &mut HeaderMap, (name, value, action): &(HeaderName, HeaderValue, HeaderAction)) {
    match action {
        HeaderAction::Append => {
            headers.append(name, value.clone());
        }
        HeaderAction::AddIfAbsent if headers.contains_key(name) => {}
        HeaderAction::SetIfPresent if !headers.contains_key(name) => {}
        _ => {
            headers.insert(name, value.clone());
        }
    }
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let escape = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect()
}
