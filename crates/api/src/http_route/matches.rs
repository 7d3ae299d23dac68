//! What a request must look like for a rule of an HTTPRoute.
//!
//! Whether a regular expression compiles is not asked here: the API server takes it, so its route is read and the
//! translation says what is wrong.

use crate::bounded::Text;
use crate::read::{List, Place, record, words};
use crate::rules::{each_once, warn_of_equivalent_headers};
use crate::scalar::{HeaderName, shorten};

record! {
    pub struct HttpMatch {
        pub path: HttpPathMatch = "path" or HttpPathMatch::default(),
        pub headers: List<HttpValueMatch, 0, 16> = "headers",
        pub query_params: List<HttpValueMatch, 0, 16> = "queryParams",
        pub method: Option<HttpMethod> = "method",
    }
    rules: [
        http_matched_headers_are_unique("headers[].name"),
        http_matched_headers_differ_in_more_than_case("headers[].name"),
        matched_query_params_are_unique("queryParams[].name"),
        query_param_value_is_at_most_1024_long("queryParams[*].value"),
    ]
}

record! {
    pub struct HttpPathMatch {
        pub kind: PathMatchType = "type" or PathMatchType::PathPrefix,
        pub value: Text<0, 1024> = "value" or slash(),
    }
    rules: [
        path_begins_with_slash,
        path_has_no_empty_or_dot_segment,
        path_has_no_encoded_slash,
        path_has_no_fragment,
        path_has_characters_of_a_path,
    ]
}

/// Every path.
impl Default for HttpPathMatch {
    fn default() -> Self {
        Self { kind: PathMatchType::PathPrefix, value: slash() }
    }
}

fn slash() -> Text<0, 1024> {
    Text::new("/").expect("short enough")
}

words! {
    pub enum PathMatchType {
        Exact = "Exact",
        PathPrefix = "PathPrefix",
        RegularExpression = "RegularExpression",
    }
}

record! {
    /// A header or a query parameter. The experimental channel asks for visible ASCII in the value of an HTTP
    /// header, the standard one does not.
    pub struct HttpValueMatch {
        pub kind: ValueMatchType = "type" or ValueMatchType::Exact,
        pub name: HeaderName = "name",
        pub value: Text<1, 4096> = "value",
    }
}

words! {
    pub enum ValueMatchType {
        Exact = "Exact",
        RegularExpression = "RegularExpression",
    }
}

words! {
    pub enum HttpMethod {
        Get = "GET",
        Head = "HEAD",
        Post = "POST",
        Put = "PUT",
        Delete = "DELETE",
        Connect = "CONNECT",
        Options = "OPTIONS",
        Trace = "TRACE",
        Patch = "PATCH",
    }
}

fn http_matched_headers_are_unique(rule: &HttpMatch, place: &mut Place<'_>) {
    each_once(place, "headers", ".name", rule.headers.iter().map(|header| &header.name));
}

fn http_matched_headers_differ_in_more_than_case(rule: &HttpMatch, place: &mut Place<'_>) {
    warn_of_equivalent_headers(place, "headers", rule.headers.iter().map(|header| &header.name));
}

fn matched_query_params_are_unique(rule: &HttpMatch, place: &mut Place<'_>) {
    each_once(place, "queryParams", ".name", rule.query_params.iter().map(|param| &param.name));
}

fn query_param_value_is_at_most_1024_long(rule: &HttpMatch, place: &mut Place<'_>) {
    for (index, param) in rule.query_params.iter().enumerate() {
        let count = param.value.chars().count();
        if count > 1024 {
            place.wrong(
                &format!("queryParams[{index}].value"),
                format!("{count} characters where at most 1024 may be"),
                "shorten it to 1024 characters",
            );
        }
    }
}

/// The path, where it is one; a regular expression follows no rule here. Each rule below looks at one thing, and
/// what does not begin with `/` is not looked at further.
fn plain(path: &HttpPathMatch) -> Option<&str> {
    (path.kind != PathMatchType::RegularExpression && path.value.starts_with('/')).then_some(&*path.value)
}

fn path_begins_with_slash(path: &HttpPathMatch, place: &mut Place<'_>) {
    if path.kind != PathMatchType::RegularExpression && !path.value.starts_with('/') {
        place.wrong(
            "value",
            format!("`{}` does not begin with `/`, as every {} path does", shorten(&path.value), path.kind),
            format!("write /{}", shorten(&path.value)),
        );
    }
}

fn path_has_no_empty_or_dot_segment(path: &HttpPathMatch, place: &mut Place<'_>) {
    let Some(value) = plain(path) else { return };
    let segments: Vec<&str> = value.split('/').skip(1).collect();
    // An empty last segment is a slash at the end, which is fine.
    let bad = segments.iter().enumerate().find_map(|(index, segment)| match *segment {
        "" => (index + 1 < segments.len()).then_some("//"),
        "." => Some("/."),
        ".." => Some("/.."),
        _ => None,
    });
    if let Some(bad) = bad {
        place.wrong(
            "value",
            format!(
                "`{}` has `{bad}`, which clients and proxies resolve before a path is matched",
                shorten(value)
            ),
            "write the path as it is after that",
        );
    }
}

fn path_has_no_encoded_slash(path: &HttpPathMatch, place: &mut Place<'_>) {
    let Some(value) = plain(path) else { return };
    if value.contains("%2f") || value.contains("%2F") {
        place.wrong(
            "value",
            format!("`{}` has an encoded slash, which is not matched", shorten(value)),
            "write `/` where a segment ends",
        );
    }
}

fn path_has_no_fragment(path: &HttpPathMatch, place: &mut Place<'_>) {
    let Some(value) = plain(path) else { return };
    if let Some((before, _)) = value.split_once('#') {
        place.wrong(
            "value",
            format!("`{}` has a fragment, which clients never send", shorten(value)),
            format!("write {}, or %23 where the path itself has a `#`", shorten(before)),
        );
    }
}

fn path_has_characters_of_a_path(path: &HttpPathMatch, place: &mut Place<'_>) {
    let Some(value) = plain(path) else { return };
    // A `#` has a rule of its own.
    if has_url_path_characters(&value.replace('#', "")) {
        return;
    }
    let help = if value.contains('?') {
        "match what follows a `?` in `queryParams`"
    } else {
        "write letters, digits and -._~!$&'()*+,;=:@/, and others percent-encoded (a space is %20)"
    };
    place.wrong("value", format!("`{}` has characters that no path has", shorten(value)), help);
}

/// `(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})*`
pub(crate) fn has_url_path_characters(text: &str) -> bool {
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return true,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest,
            [byte, rest @ ..] if byte.is_ascii_alphanumeric() || b"-/._~!$&'()*+,;=:@".contains(byte) => rest,
            _ => return false,
        };
    }
}
