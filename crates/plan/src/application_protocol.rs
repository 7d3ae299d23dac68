//! What is spoken inside TLS, by the name that both sides agree on in the handshake (ALPN, RFC 7301).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A name like `postgresql` or `h2`. On the wire any bytes may be one; here only those that can be written in a list,
/// and shown as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ApplicationProtocol(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of an application protocol has 1 to 255 visible characters of ASCII, and no comma")]
pub struct ApplicationProtocolError;

impl ApplicationProtocol {
    pub fn parse(text: &str) -> Result<Self, ApplicationProtocolError> {
        let is_taken = |byte: u8| byte.is_ascii_graphic() && byte != b',';
        if !(1..=255).contains(&text.len()) || !text.bytes().all(is_taken) {
            return Err(ApplicationProtocolError);
        }
        Ok(Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Display for ApplicationProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ApplicationProtocol {
    type Error = ApplicationProtocolError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<ApplicationProtocol> for String {
    fn from(protocol: ApplicationProtocol) -> Self {
        protocol.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_can_stand_in_a_list() {
        for name in ["postgresql", "h2", "http/1.1", "X", &"x".repeat(255)] {
            assert_eq!(ApplicationProtocol::parse(name).unwrap().as_bytes(), name.as_bytes());
        }
        for text in ["", "a b", "a,b", "a\n", "\u{7f}", "é", &"x".repeat(256)] {
            assert_eq!(ApplicationProtocol::parse(text), Err(ApplicationProtocolError), "{text:?}");
        }
    }

    #[test]
    fn a_plan_from_elsewhere_has_no_others() {
        let read = serde_json::from_str::<ApplicationProtocol>;
        assert_eq!(read("\"h2\"").unwrap().as_str(), "h2");
        assert!(read("\"\"").is_err());
    }
}
