//! Matches of HTTPRoute and GRPCRoute, with a look at their regular expressions: the API server takes any text
//! for one, and a rule with one that cannot be compiled is left out and reported.

use std::borrow::Cow;

use tidegate_api::grpc_route::{GrpcMatch, GrpcMethodMatch};
use tidegate_api::http_route::{HttpMatch, HttpValueMatch, PathMatchType, ValueMatchType};
use tidegate_plan::{PathMatch, Pattern, TextMatch, ValueMatch, normal_path};

pub(super) fn http(entry: &HttpMatch, field: &str) -> Result<tidegate_plan::HttpMatch, String> {
    let path = &entry.path;
    let value = path.value.to_string();
    let path = match path.kind {
        PathMatchType::Exact => PathMatch::Exact(as_requests_are(value)),
        PathMatchType::PathPrefix => PathMatch::Prefix(as_requests_are(value)),
        PathMatchType::RegularExpression => {
            PathMatch::Regex(expression(value, &format!("{field}.path.value"))?)
        }
    };
    Ok(tidegate_plan::HttpMatch {
        path,
        method: entry.method.map(|method| method.as_str().to_owned()),
        headers: headers(&entry.headers, &format!("{field}.headers"))?,
        query: values(&entry.query_params, &format!("{field}.queryParams"), str::to_owned)?,
    })
}

/// The spelling that paths of requests have when they are compared. One that no request can have stays as it is and
/// matches none.
fn as_requests_are(path: String) -> String {
    normal_path(&path).map(Cow::into_owned).unwrap_or(path)
}

pub(super) fn grpc(entry: &GrpcMatch, field: &str) -> Result<tidegate_plan::GrpcMatch, String> {
    let part = |pick: fn(&GrpcMethodMatch) -> Option<&str>, name: &str| {
        let Some((method, value)) = entry.method.as_ref().and_then(|method| Some((method, pick(method)?)))
        else {
            return Ok(None);
        };
        text(method.kind, value.to_string(), &format!("{field}.method.{name}")).map(Some)
    };
    Ok(tidegate_plan::GrpcMatch {
        service: part(|method| method.service.as_deref(), "service")?,
        method: part(|method| method.method.as_deref(), "method")?,
        headers: headers(&entry.headers, &format!("{field}.headers"))?,
    })
}

/// Of headers that are equal but for their case, the first counts.
fn headers(entries: &[HttpValueMatch], field: &str) -> Result<Vec<ValueMatch>, String> {
    values(entries, field, str::to_ascii_lowercase)
}

fn values(
    entries: &[HttpValueMatch],
    field: &str,
    name: fn(&str) -> String,
) -> Result<Vec<ValueMatch>, String> {
    let mut values: Vec<ValueMatch> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let name = name(entry.name.as_str());
        if values.iter().all(|known| known.name != name) {
            let value = text(entry.kind, entry.value.to_string(), &format!("{field}[{index}].value"))?;
            values.push(ValueMatch { name, value });
        }
    }
    Ok(values)
}

fn text(kind: ValueMatchType, value: String, field: &str) -> Result<TextMatch, String> {
    Ok(match kind {
        ValueMatchType::Exact => TextMatch::Exact(value),
        ValueMatchType::RegularExpression => TextMatch::Regex(expression(value, field)?),
    })
}

fn expression(value: String, field: &str) -> Result<String, String> {
    match Pattern::parse(&value) {
        Ok(_) => Ok(value),
        Err(error) => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Err(format!("{field}: `{value}` is not a regular expression: {last}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_spelled_as_requests_are() {
        for (written, expected) in
            [("/a", "/a"), ("/a/", "/a/"), ("/%7euser", "/~user"), ("/%c3%a4", "/%C3%A4"), ("/%00", "/%00")]
        {
            assert_eq!(as_requests_are(written.to_owned()), expected);
        }
    }
}
