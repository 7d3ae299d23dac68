//! The parts of a match that are not found by hash but compared: method, headers, query, and for gRPC the names
//! that are patterns. Nothing here allocates unless a pattern must see a value that has to be put together first.

use std::borrow::Cow;
use std::sync::Arc;

use crate::trace::Miss;
use crate::{GrpcMatch, HttpMatch, Pattern, Request, TextMatch, ValueMatch};

#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    method: Option<Box<str>>,
    headers: Box<[Value]>,
    query: Box<[Value]>,
}

#[derive(Clone, Debug)]
struct Value {
    name: Box<str>,
    text: Expected,
}

#[derive(Clone, Debug)]
pub(crate) enum Expected {
    Exact(Box<str>),
    Pattern(Arc<Pattern>),
    /// A pattern that does not compile. Translation refuses those; one that comes all the same matches nothing.
    Never,
}

impl Conditions {
    pub(crate) fn of_http(matched: &HttpMatch) -> Self {
        Self {
            method: matched.method.as_deref().map(Box::from),
            headers: values(&matched.headers, str::eq_ignore_ascii_case),
            query: values(&matched.query, str::eq),
        }
    }

    pub(crate) fn of_grpc(matched: &GrpcMatch) -> Self {
        Self {
            method: None,
            headers: values(&matched.headers, str::eq_ignore_ascii_case),
            query: Box::default(),
        }
    }

    pub(crate) fn has_method(&self) -> bool {
        self.method.is_some()
    }

    pub(crate) fn headers(&self) -> usize {
        self.headers.len()
    }

    pub(crate) fn query(&self) -> usize {
        self.query.len()
    }

    /// The first condition that the request does not meet.
    #[inline]
    pub(crate) fn unmet(&self, request: &Request<'_>) -> Option<Unmet<'_>> {
        if let Some(method) = &self.method
            && **method != *request.method
        {
            return Some(Unmet::Method(method));
        }
        let header = self.headers.iter().find(|header| !header_matches(header, request));
        if let Some(header) = header {
            return Some(Unmet::Header(&header.name));
        }
        let parameter = self.query.iter().find(|parameter| !query_matches(parameter, request));
        parameter.map(|parameter| Unmet::Query(&parameter.name))
    }
}

/// Why a match does not apply, borrowed, so that the common case builds nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unmet<'t> {
    Path,
    Method(&'t str),
    Header(&'t str),
    Query(&'t str),
    GrpcService,
    GrpcMethod,
}

impl Unmet<'_> {
    pub(crate) fn to_miss(self) -> Miss {
        match self {
            Self::Path => Miss::Path,
            Self::Method(wants) => Miss::Method { wants: wants.to_owned() },
            Self::Header(name) => Miss::Header { name: name.to_owned() },
            Self::Query(name) => Miss::Query { name: name.to_owned() },
            Self::GrpcService => Miss::GrpcService,
            Self::GrpcMethod => Miss::GrpcMethod,
        }
    }
}

impl Expected {
    pub(crate) fn new(matched: &TextMatch) -> Self {
        match matched {
            TextMatch::Exact(text) => Self::Exact(text.as_str().into()),
            TextMatch::Regex(pattern) => Self::pattern(pattern),
        }
    }

    pub(crate) fn pattern(pattern: &str) -> Self {
        Pattern::parse(pattern).map_or(Self::Never, |pattern| Self::Pattern(Arc::new(pattern)))
    }

    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Exact(expected) => expected.as_bytes() == text,
            Self::Pattern(pattern) => pattern.is_match(text),
            Self::Never => false,
        }
    }
}

/// Of several entries for one name only the first counts.
fn values(matches: &[ValueMatch], same: fn(&str, &str) -> bool) -> Box<[Value]> {
    let first =
        |index: usize, name: &str| !matches[..index].iter().any(|earlier| same(earlier.name.as_str(), name));
    let counted = matches.iter().enumerate().filter(|(index, matched)| first(*index, &matched.name));
    counted
        .map(|(_, matched)| Value { name: matched.name.as_str().into(), text: Expected::new(&matched.value) })
        .collect()
}

/// Several lines of one header are one value, joined by commas.
fn header_matches(header: &Value, request: &Request<'_>) -> bool {
    let lines = |nth| request.headers.value(&header.name, nth);
    let Some(first) = lines(0) else { return false };
    if lines(1).is_none() {
        return header.text.matches(first);
    }
    let all = (0..).map_while(lines);
    match &header.text {
        Expected::Exact(expected) => joined_is(expected.as_bytes(), all),
        Expected::Pattern(pattern) => pattern.is_match(&all.collect::<Vec<_>>().join(&b',')),
        Expected::Never => false,
    }
}

fn joined_is<'v>(expected: &[u8], values: impl Iterator<Item = &'v [u8]>) -> bool {
    let mut rest = expected;
    for (index, value) in values.enumerate() {
        let comma: &[u8] = if index == 0 { b"" } else { b"," };
        match rest.strip_prefix(comma).and_then(|rest| rest.strip_prefix(value)) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

/// The first parameter of the name counts, as it reads once escapes are undone.
fn query_matches(parameter: &Value, request: &Request<'_>) -> bool {
    let pairs =
        request.query.unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut values =
        pairs.filter(|(name, _)| unescaped(name).eq(parameter.name.bytes())).map(|(_, value)| value);
    let Some(value) = values.next() else { return false };
    match &parameter.text {
        Expected::Exact(expected) => unescaped(value).eq(expected.bytes()),
        text => text.matches(&unescape(value)),
    }
}

fn unescape(text: &str) -> Cow<'_, [u8]> {
    if text.contains(['%', '+']) {
        unescaped(text).collect::<Vec<_>>().into()
    } else {
        text.as_bytes().into()
    }
}

/// Undoes `%xx` and `+`; what is no escape stays as it is.
fn unescaped(text: &str) -> impl Iterator<Item = u8> {
    let hex = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let (byte, after) = match rest {
            [] => return None,
            [b'%', high, low, after @ ..] => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, after),
                _ => (b'%', &rest[1..]),
            },
            [b'+', after @ ..] => (b' ', after),
            [byte, after @ ..] => (*byte, after),
        };
        rest = after;
        Some(byte)
    })
}
