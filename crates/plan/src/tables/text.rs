//! Text as a key of a map, with the usual lengths kept in place: to compare it reads no other memory than the slot
//! that it was found in.

use std::sync::Arc;

use crate::tables::map::{Key, hash_bytes};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// With zeros behind it.
    Short(u8, [u8; Self::SHORT]),
    Long(Arc<[u8]>),
}

impl Text {
    const SHORT: usize = 38;

    pub(crate) fn new(text: &str) -> Self {
        let text = text.as_bytes();
        let mut bytes = [0; Self::SHORT];
        match bytes.get_mut(..text.len()) {
            Some(space) => {
                space.copy_from_slice(text);
                Self::Short(text.len() as u8, bytes)
            }
            None => Self::Long(text.into()),
        }
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short(length, bytes) => &bytes[..usize::from(*length)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl Key for Text {
    fn hashed(&self) -> u64 {
        hash_bytes(self.as_bytes())
    }
}
