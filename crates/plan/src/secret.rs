//! What the data planes of one Gateway share and nobody else knows: sessions that one of them began, another goes on
//! with. It is never shown.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, PartialEq, Eq)]
pub struct SharedSecret([u8; 32]);

impl SharedSecret {
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret")
    }
}

/// Written in hexadecimal digits, for the link alone.
impl Serialize for SharedSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for SharedSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // What it says instead must not be in a message: it may be most of a secret.
        let wrong = || D::Error::custom("a secret has 64 hexadecimal digits");
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_from_the_wire_and_is_never_shown() {
        let secret = SharedSecret::new(std::array::from_fn(|at| 8 * at as u8));
        let text = serde_json::to_string(&secret).expect("JSON");
        assert_eq!(serde_json::from_str::<SharedSecret>(&text).expect("a secret"), secret);
        assert_eq!(format!("{secret:?}"), "SharedSecret");
        for wrong in ["\"00\"", "7", "\"é\"", &text.replace("00", "0g"), &text.replace("00", "+1")] {
            let error = serde_json::from_str::<SharedSecret>(wrong).expect_err(wrong).to_string();
            assert!(!error.contains("f8"), "{error}");
        }
    }
}
