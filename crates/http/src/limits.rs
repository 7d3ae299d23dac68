//! How large the head of a request may be.

use http::StatusCode;
use http::request::Parts;

/// Bounds of a request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Header lines.
    pub headers: usize,
    /// Bytes of all names and values, with the four that HTTP/1.1 puts around each.
    pub header_bytes: usize,
    /// Bytes of path and query.
    pub target: usize,
}

impl Default for Limits {
    /// As much as servers behind a proxy take, mostly.
    fn default() -> Self {
        Self { headers: 100, header_bytes: 64 << 10, target: 8 << 10 }
    }
}

/// Which bound was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    #[error("the path and query are too long")]
    Target,
    #[error("there are too many headers")]
    HeaderCount,
    #[error("the headers are too long")]
    Headers,
}

impl TooLarge {
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Target => StatusCode::URI_TOO_LONG,
            Self::HeaderCount | Self::Headers => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        }
    }
}

/// Bytes of a request's first line besides its target, which are few.
const AROUND_TARGET: usize = 64;

impl Limits {
    /// Which bound a head over HTTP/1.1 has passed that has so many bytes and whole lines, before it is read.
    pub(crate) const fn passed_by(&self, bytes: usize, lines: usize) -> Option<TooLarge> {
        let of_line = self.target + AROUND_TARGET;
        if lines == 0 && bytes > of_line {
            Some(TooLarge::Target)
        } else if bytes > of_line + self.header_bytes {
            Some(TooLarge::Headers)
        } else {
            None
        }
    }

    pub fn check(&self, parts: &Parts) -> Result<(), TooLarge> {
        if parts.uri.path_and_query().map_or(0, |target| target.as_str().len()) > self.target {
            return Err(TooLarge::Target);
        }
        if parts.headers.len() > self.headers {
            return Err(TooLarge::HeaderCount);
        }
        let bytes = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
        if bytes.sum::<usize>() > self.header_bytes { Err(TooLarge::Headers) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn bounds() {
        let limits = Limits { headers: 3, header_bytes: 30, target: 5 };
        for (uri, headers, expected) in [
            ("/a?bc", &[("a", "1"), ("a", "2"), ("b", "3")][..], Ok(())),
            ("/a?bcd", &[], Err(TooLarge::Target)),
            ("/", &[("a", "1"), ("a", "2"), ("a", "3"), ("a", "4")], Err(TooLarge::HeaderCount)),
            ("/", &[("a", "0123456789012345678901234")], Ok(())),
            ("/", &[("a", "01234567890123456789012345")], Err(TooLarge::Headers)),
        ] {
            let builder = headers
                .iter()
                .fold(Request::builder().uri(uri), |request, (name, value)| request.header(*name, *value));
            assert_eq!(
                limits.check(&builder.body(()).unwrap().into_parts().0),
                expected,
                "{uri} {headers:?}"
            );
        }
    }
}
