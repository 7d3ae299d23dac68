//! Text as a key of an index, with the usual lengths kept in place: most cost no block of memory of their own.

use std::sync::Arc;

use crate::tables::index::Printed;
use crate::tables::print::Print;

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

impl Printed for Text {
    fn print(&self) -> Print {
        Print::of(self.as_bytes())
    }
}
