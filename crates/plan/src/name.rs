//! The name a client asks for, read the same way wherever it came from.
//!
//! An SNI and a Host header that mean one name must never be two: the listener that checks client certificates
//! is found by the one, its routes by the other. So there is one reader, and every lookup takes its result.

use std::fmt;

/// A hostname in lower case, without port and trailing dot: borrowed where it was written so, else on the stack.
#[derive(Clone)]
pub struct Name<'a>(Read<'a>);

// A box would be an allocation for every name in capitals.
#[allow(clippy::large_enum_variant)]
#[derive(Clone)]
enum Read<'a> {
    AsWritten(&'a [u8]),
    Lowered([u8; LONGEST], u8),
}

const LONGEST: usize = 253;

impl<'a> Name<'a> {
    /// Reads the server name of a ClientHello. `None`: it is no hostname, so that only what asks for no hostname
    /// takes it.
    #[must_use]
    #[inline]
    pub fn from_sni(text: &'a str) -> Option<Self> {
        let given = text.strip_suffix('.').unwrap_or(text).as_bytes();
        if given.is_empty() || given.len() > LONGEST {
            return None;
        }
        match spelling(given) {
            Spelling::Lower => Some(Self(Read::AsWritten(given))),
            Spelling::Mixed => Some(lowered(given)),
            Spelling::Bad => None,
        }
    }

    /// Reads a Host header or the authority of a request: as an SNI, after its port is dropped.
    #[must_use]
    #[inline]
    pub fn from_host(text: &'a str) -> Option<Self> {
        match text.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => Self::from_sni(host),
            _ => Self::from_sni(text),
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Read::AsWritten(bytes) => bytes,
            Read::Lowered(bytes, length) => &bytes[..usize::from(*length)],
        }
    }
}

#[cold]
fn lowered(given: &[u8]) -> Name<'_> {
    let mut bytes = [0; LONGEST];
    bytes[..given.len()].copy_from_slice(given);
    bytes.make_ascii_lowercase();
    Name(Read::Lowered(bytes, given.len() as u8))
}

enum Spelling {
    Lower,
    Mixed,
    Bad,
}

/// Underscores are let in: no listener can be called so, but a wildcard may stand for such a name.
#[inline]
fn spelling(name: &[u8]) -> Spelling {
    const DOT: u8 = 1;
    const UPPER: u8 = 2;
    const BAD: u8 = 4;
    // One look at a table for each byte and no branches: this is on the way of every connection and request.
    static KINDS: [u8; 256] = {
        let mut kinds = [BAD; 256];
        let mut byte = 0;
        while byte < 256 {
            kinds[byte] = match byte as u8 {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => 0,
                b'A'..=b'Z' => UPPER,
                b'.' => DOT,
                _ => BAD,
            };
            byte += 1;
        }
        kinds
    };
    let (mut all, mut empty_labels, mut previous) = (0, 0, DOT);
    for byte in name {
        let kind = KINDS[usize::from(*byte)];
        all |= kind;
        empty_labels |= kind & previous & DOT;
        previous = kind;
    }
    if all & BAD != 0 || empty_labels != 0 || previous == DOT {
        Spelling::Bad
    } else if all & UPPER != 0 {
        Spelling::Mixed
    } else {
        Spelling::Lower
    }
}

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Name<'_> {}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sni(text: &str) -> Option<String> {
        Name::from_sni(text).map(|name| name.to_string())
    }

    fn host(text: &str) -> Option<String> {
        Name::from_host(text).map(|name| name.to_string())
    }

    #[test]
    fn case_and_trailing_dot_make_no_difference() {
        for text in ["a.example.com", "A.Example.COM", "a.example.com.", "A.EXAMPLE.COM."] {
            assert_eq!(sni(text).as_deref(), Some("a.example.com"), "{text}");
            assert_eq!(host(text).as_deref(), Some("a.example.com"), "{text}");
        }
    }

    #[test]
    fn the_port_of_a_host_is_dropped_and_an_sni_has_none() {
        assert_eq!(host("a.example.com:8443").as_deref(), Some("a.example.com"));
        assert_eq!(host("a.example.com.:8443").as_deref(), Some("a.example.com"));
        assert_eq!(host("a.example.com:").as_deref(), Some("a.example.com"));
        assert_eq!(host("a.example.com:http"), None);
        assert_eq!(sni("a.example.com:8443"), None);
    }

    #[test]
    fn what_is_no_hostname_is_none() {
        let long = "a.".repeat(127) + "aa";
        for text in
            ["", ".", "..", "a..b", ".a", "a.b..", "[::1]", "::1", "a b", "a/b", "u@a", "ä.de", "*.a", &long]
        {
            assert_eq!(sni(text), None, "{text}");
            assert_eq!(host(text), None, "{text}");
        }
        assert_eq!(host("[::1]:443"), None);
    }

    #[test]
    fn names_that_only_a_wildcard_can_stand_for_are_names() {
        assert_eq!(sni("_acme.example.com").as_deref(), Some("_acme.example.com"));
        assert_eq!(sni("xn--bcher-kva.example").as_deref(), Some("xn--bcher-kva.example"));
    }
}
