//! Whom a request is for: a Host header or an authority, read strictly.

/// A host and the port beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host<'a> {
    /// A name, an address, or an IPv6 address in brackets; never empty, in the case it was written in.
    pub name: &'a str,
    pub port: Option<u16>,
}

impl<'a> Host<'a> {
    /// `None` for what is no `host[:port]`: user information, escapes, spaces and all else that two readers may
    /// take for two hosts.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let end = match text.strip_prefix('[') {
            Some(inner) => inner.find(']')? + 2,
            None => text.find(':').unwrap_or(text.len()),
        };
        let (name, rest) = text.split_at(end);
        let digits = match rest.strip_prefix(':') {
            Some(digits) => digits,
            None if rest.is_empty() => "",
            None => return None,
        };
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let port = if digits.is_empty() { None } else { Some(digits.parse().ok()?) };
        is_host(name).then_some(Self { name, port })
    }

    /// Whether both lead to the same place over this scheme.
    #[must_use]
    pub fn is_same(&self, other: &Self, default_port: u16) -> bool {
        self.name.eq_ignore_ascii_case(other.name)
            && self.port.unwrap_or(default_port) == other.port.unwrap_or(default_port)
    }
}

fn is_host(name: &str) -> bool {
    match name.strip_prefix('[') {
        Some(inner) => {
            inner.strip_suffix(']').is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
        }
        None => {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
            !name.is_empty() && name.bytes().all(fits)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (text, name, port) in [
            ("a.test", "a.test", None),
            ("A.test.", "A.test.", None),
            ("a.test:8080", "a.test", Some(8080)),
            ("a.test:", "a.test", None),
            ("127.0.0.1:80", "127.0.0.1", Some(80)),
            ("[::1]", "[::1]", None),
            ("[::1]:443", "[::1]", Some(443)),
            ("a_b.test", "a_b.test", None),
        ] {
            assert_eq!(Host::parse(text), Some(Host { name, port }), "{text}");
        }
        for text in [
            "", ":80", "a:b", "a:80:90", "a:65536", "a:+1", "u@a", "a b", "a/b", "a?b", "::1", "[::1",
            "[::1]x", "[x]", "[]", "a%2eb", "ä.test", "a,b", "a\\b", "a#b",
        ] {
            assert_eq!(Host::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_default_port_may_be_left_out() {
        let same = |a, b| Host::parse(a).unwrap().is_same(&Host::parse(b).unwrap(), 443);
        assert!(same("a.test", "A.TEST:443"));
        assert!(!same("a.test", "a.test:80"));
        assert!(!same("a.test", "b.test"));
    }
}
