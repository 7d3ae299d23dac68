//! Headers as tests write and read them.

use http::header::{HeaderMap, HeaderName, HeaderValue};

pub(crate) fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&str, &str)| {
        (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    let mut map = HeaderMap::new();
    for (name, value) in lines.iter().map(line) {
        map.append(name, value);
    }
    map
}

/// Sorted by name; lines of one name in their order.
pub(crate) fn lines(headers: &HeaderMap) -> Vec<(&str, &str)> {
    let mut lines: Vec<_> =
        headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    lines.sort_by_key(|(name, _)| *name);
    lines
}
