//! Header modifiers of requests and responses.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use tidegate_plan::{Header, HeaderChange};

use super::FilterError;

/// What is removed, then set, then added.
#[derive(Clone, Debug, Default)]
pub struct HeaderEdit {
    remove: Box<[HeaderName]>,
    set: Box<[(HeaderName, HeaderValue)]>,
    add: Box<[(HeaderName, HeaderValue)]>,
}

impl HeaderEdit {
    /// How a message is framed is not for routes to say: entries for such headers do nothing.
    pub fn compile(change: &HeaderChange) -> Result<Self, FilterError> {
        let entries = |headers: &[Header]| {
            let entries = headers.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
            Ok::<_, FilterError>(
                entries.into_iter().filter(|(name, _)| !is_framing(name)).collect::<Vec<_>>(),
            )
        };
        let (mut set, mut add) = (entries(&change.set)?, entries(&change.add)?);
        // A second Host would make the request ambiguous, so adding one is setting it.
        set.extend(add.extract_if(.., |(name, _)| *name == header::HOST));
        let removed = change.remove.iter().map(|removed| name(removed)).collect::<Result<Vec<_>, _>>()?;
        let may_go = |name: &HeaderName| !is_framing(name) && *name != header::HOST;
        let remove = removed.into_iter().filter(may_go).collect();
        Ok(Self { remove, set: set.into(), add: add.into() })
    }

    pub fn apply(&self, headers: &mut HeaderMap) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in &self.set {
            headers.insert(name, value.clone());
        }
        for (name, value) in &self.add {
            headers.append(name, value.clone());
        }
    }
}

fn entry(header: &Header) -> Result<(HeaderName, HeaderValue), FilterError> {
    let value =
        HeaderValue::from_str(&header.value).map_err(|_| FilterError::HeaderValue(header.name.clone()))?;
    Ok((name(&header.name)?, value))
}

pub(super) fn name(name: &str) -> Result<HeaderName, FilterError> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| FilterError::HeaderName(name.to_owned()))
}

/// Headers that say where a message ends or what becomes of the connection.
pub(crate) fn is_framing(name: &HeaderName) -> bool {
    *name == header::CONTENT_LENGTH
        || *name == header::TRANSFER_ENCODING
        || *name == header::CONNECTION
        || *name == header::UPGRADE
        || *name == header::TE
        || *name == header::TRAILER
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{headers, lines};

    fn edit(set: &[(&str, &str)], add: &[(&str, &str)], remove: &[&str]) -> Result<HeaderEdit, FilterError> {
        let entries = |entries: &[(&str, &str)]| {
            let entry =
                |(name, value): &(&str, &str)| Header { name: (*name).into(), value: (*value).into() };
            entries.iter().map(entry).collect()
        };
        let remove = remove.iter().map(|name| (*name).to_owned()).collect();
        HeaderEdit::compile(&HeaderChange { set: entries(set), add: entries(add), remove })
    }

    /// The cases of the suite's HTTPRouteRequestHeaderModification and HTTPRouteResponseHeaderModification.
    #[test]
    fn http_route_request_header_modification() {
        let set = edit(&[("x-header-set", "set-overwrites-values")], &[], &[]).unwrap();
        let add = edit(&[], &[("x-header-add", "add-appends-values")], &[]).unwrap();
        let remove = edit(&[], &[], &["x-header-remove"]).unwrap();
        let multiple = edit(
            &[("x-header-set-1", "header-set-1"), ("x-header-set-2", "header-set-2")],
            &[("x-header-add-1", "header-add-1"), ("x-header-add-2", "header-add-2")],
            &["x-header-remove-1", "x-header-remove-2"],
        )
        .unwrap();
        for (edit, given, expected) in [
            (&set, &[][..], &[("x-header-set", "set-overwrites-values")][..]),
            (
                &set,
                &[("X-Header-Set", "some-other-value"), ("x-header-set", "another")],
                &[("x-header-set", "set-overwrites-values")],
            ),
            (&add, &[], &[("x-header-add", "add-appends-values")]),
            (
                &add,
                &[("x-header-add", "some-other-value")],
                &[("x-header-add", "some-other-value"), ("x-header-add", "add-appends-values")],
            ),
            (&remove, &[("X-HEADER-Remove", "val"), ("x-header-remove", "val")], &[]),
            (
                &multiple,
                &[("x-header-set-2", "2"), ("x-header-add-2", "2"), ("x-header-remove-2", "2"), ("z", "z")],
                &[
                    ("x-header-add-1", "header-add-1"),
                    ("x-header-add-2", "2"),
                    ("x-header-add-2", "header-add-2"),
                    ("x-header-set-1", "header-set-1"),
                    ("x-header-set-2", "header-set-2"),
                    ("z", "z"),
                ],
            ),
        ] {
            let mut headers = headers(given);
            edit.apply(&mut headers);
            assert_eq!(lines(&headers), expected, "{given:?}");
        }
    }

    #[test]
    fn a_request_keeps_one_host_and_its_framing() {
        let edit = edit(
            &[("content-length", "0"), ("x-a", "1")],
            &[("host", "b.test"), ("transfer-encoding", "chunked")],
            &["host", "content-length"],
        );
        let mut request = headers(&[("host", "a.test"), ("content-length", "5")]);
        edit.unwrap().apply(&mut request);
        assert_eq!(lines(&request), [("content-length", "5"), ("host", "b.test"), ("x-a", "1")]);
    }

    #[test]
    fn what_is_no_header() {
        assert_eq!(edit(&[("x a", "1")], &[], &[]).unwrap_err(), FilterError::HeaderName("x a".into()));
        assert_eq!(
            edit(&[], &[("x-a", "1\r\nx-b: 2")], &[]).unwrap_err(),
            FilterError::HeaderValue("x-a".into())
        );
        assert_eq!(edit(&[], &[], &[":path"]).unwrap_err(), FilterError::HeaderName(":path".into()));
    }
}
