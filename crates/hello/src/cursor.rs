//! Takes TLS's length-prefixed fields off the front of a slice. It can only run out of bytes; which error that
//! is depends on the field, so the caller says.

pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (&[byte], rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        let (&bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(bytes))
    }

    /// A field after a length of one byte.
    pub(crate) fn short(&mut self) -> Option<&'a [u8]> {
        let len = self.u8()?;
        self.take(len.into())
    }

    /// A field after a length of two bytes.
    pub(crate) fn long(&mut self) -> Option<&'a [u8]> {
        let len = self.u16()?;
        self.take(len.into())
    }
}
