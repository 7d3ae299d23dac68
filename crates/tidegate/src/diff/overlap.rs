//! Whether one request can meet two matches. Where that cannot be told, as of two patterns, it can.

use tidegate_plan::{GrpcMatch, HttpMatch, PathMatch, Pattern, TextMatch, ValueMatch};

use crate::diff::written::Match;

impl Match<'_> {
    pub(crate) fn overlaps(self, other: Match<'_>) -> bool {
        match (self, other) {
            (Match::Http(one), Match::Http(other)) => http(one, other),
            (Match::Grpc(one), Match::Grpc(other)) => grpc(one, other),
            // Which of the two kinds goes first is up to the request.
            (Match::Http(_), Match::Grpc(_)) | (Match::Grpc(_), Match::Http(_)) => false,
        }
    }
}

fn http(one: &HttpMatch, other: &HttpMatch) -> bool {
    let methods = match (&one.method, &other.method) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    methods
        && paths(&one.path, &other.path)
        && values(&one.headers, &other.headers)
        && values(&one.query, &other.query)
}

fn grpc(one: &GrpcMatch, other: &GrpcMatch) -> bool {
    let names = |one: &Option<TextMatch>, other: &Option<TextMatch>| match (one, other) {
        (Some(one), Some(other)) => texts(one, other),
        _ => true,
    };
    names(&one.service, &other.service)
        && names(&one.method, &other.method)
        && values(&one.headers, &other.headers)
}

fn paths(one: &PathMatch, other: &PathMatch) -> bool {
    match (one, other) {
        (PathMatch::Exact(one), PathMatch::Exact(other)) => one == other,
        (PathMatch::Exact(path), PathMatch::Prefix(prefix))
        | (PathMatch::Prefix(prefix), PathMatch::Exact(path)) => is_below(path, prefix),
        (PathMatch::Prefix(one), PathMatch::Prefix(other)) => is_below(one, other) || is_below(other, one),
        (PathMatch::Exact(path), PathMatch::Regex(pattern))
        | (PathMatch::Regex(pattern), PathMatch::Exact(path)) => is_like(path, pattern),
        (PathMatch::Prefix(prefix), PathMatch::Regex(pattern))
        | (PathMatch::Regex(pattern), PathMatch::Prefix(prefix)) => begin_alike(prefix, beginning(pattern)),
        (PathMatch::Regex(one), PathMatch::Regex(other)) => begin_alike(beginning(one), beginning(other)),
    }
}

fn values(one: &[ValueMatch], other: &[ValueMatch]) -> bool {
    let met = |one: &ValueMatch| {
        let mut same = other.iter().filter(|other| other.name == one.name);
        same.all(|other| texts(&one.value, &other.value))
    };
    one.iter().all(met)
}

fn texts(one: &TextMatch, other: &TextMatch) -> bool {
    match (one, other) {
        (TextMatch::Exact(one), TextMatch::Exact(other)) => one == other,
        (TextMatch::Exact(text), TextMatch::Regex(pattern))
        | (TextMatch::Regex(pattern), TextMatch::Exact(text)) => is_like(text, pattern),
        (TextMatch::Regex(one), TextMatch::Regex(other)) => begin_alike(beginning(one), beginning(other)),
    }
}

/// By path elements.
fn is_below(path: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_like(text: &str, pattern: &str) -> bool {
    Pattern::parse(pattern).map_or(true, |pattern| pattern.is_match(text.as_bytes()))
}

fn begin_alike(one: &str, other: &str) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// What everything that meets the pattern begins with, as far as it is plain to see.
fn beginning(pattern: &str) -> &str {
    // One of several, or under a flag such as that for either case.
    if pattern.contains('|') || pattern.starts_with("(?") {
        return "";
    }
    let plain = |character: char| character.is_ascii_alphanumeric() || "/-_".contains(character);
    let end = pattern.find(|character| !plain(character)).unwrap_or(pattern.len());
    let may_be_absent = pattern[end..].starts_with(['?', '*', '{']);
    &pattern[..if may_be_absent { end.saturating_sub(1) } else { end }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_of_patterns() {
        for (pattern, begins) in [
            ("/a.*", "/a"),
            ("/.*a", "/"),
            ("/api/v[0-9]+", "/api/v"),
            ("/ab?c", "/a"),
            ("/ab*", "/a"),
            ("/ab{0,2}", "/a"),
            ("/ab+", "/ab"),
            ("/a|/b", ""),
            ("(?i)/a", ""),
            ("^/a", ""),
            ("*", ""),
            ("/exact", "/exact"),
        ] {
            assert_eq!(beginning(pattern), begins, "{pattern}");
        }
    }

    #[test]
    fn paths_that_a_request_can_have_both() {
        let exact = |path: &str| PathMatch::Exact(path.to_owned());
        let prefix = |path: &str| PathMatch::Prefix(path.to_owned());
        let like = |pattern: &str| PathMatch::Regex(pattern.to_owned());
        for (one, other, both) in [
            (exact("/a"), exact("/b"), false),
            (exact("/a/b"), prefix("/a"), true),
            (exact("/ab"), prefix("/a"), false),
            (prefix("/a"), prefix("/a/b"), true),
            (prefix("/"), prefix("/b"), true),
            (like("/a.*"), exact("/ab"), true),
            (like("/a.*"), exact("/b"), false),
            (like("/a.*"), like("/.*a"), true),
            (like("/a/.*"), like("/b/.*"), false),
            (like("/a/.*"), prefix("/b"), false),
            (like("/a/.*"), prefix("/a"), true),
        ] {
            assert_eq!(paths(&one, &other), both, "{one} and {other}");
            assert_eq!(paths(&other, &one), both, "{other} and {one}");
        }
    }
}
