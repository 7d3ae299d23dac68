//! How parts of a plan are named and hashed on the link. Both sides use this, so that each can tell by thirty-two bytes
//! whether the other has a part already.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use sha2::{Digest as _, Sha256};
use tidegate_plan::{Blob, BlobId, CertifiedKey, EndpointsId, FragmentId};

#[allow(clippy::all, missing_debug_implementations, unreachable_pub, unused_qualifications)]
#[allow(clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned, reason = "generated")]
pub(crate) mod proto {
    tonic::include_proto!("tidegate.link.v1");
}

/// Tokens and keys are not shown.
macro_rules! hidden {
    ($($message:ident { $($shown:ident),* })+) => {$(
        impl fmt::Debug for proto::$message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($message))$(.field(stringify!($shown), &self.$shown))*.finish_non_exhaustive()
            }
        }
    )+};
}
hidden! { EnrollRequest { name } Blob {} Item { id, needs } }

/// What this program speaks. Peers may be one apart, and both then speak the lower.
pub(crate) const PROTOCOL: u32 = 1;

/// The version of this program, for the other side's log.
pub(crate) const SOFTWARE: &str = concat!("tidegate ", env!("CARGO_PKG_VERSION"));

/// So large are the parts of a batch.
pub(crate) const CHUNK: usize = 256 * 1024;
/// No message is ever larger.
pub(crate) const MESSAGE: usize = 1024 * 1024;

/// The protocol that both sides speak, or why they do not understand each other.
pub(crate) fn negotiate(other: u32) -> Result<u32, String> {
    if other > 0 && other.abs_diff(PROTOCOL) <= 1 {
        return Ok(other.min(PROTOCOL));
    }
    Err(format!(
        "the other side speaks protocol {other} and this one {PROTOCOL}: only versions one apart understand each other"
    ))
}

/// Sixteen bytes of SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest(pub(crate) [u8; 16]);

impl Digest {
    pub(crate) const LENGTH: usize = 16;

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::first(&Sha256::digest(bytes))
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// As [`Fragment::hash`](tidegate_plan::Fragment) writes it.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; Self::LENGTH];
        if text.len() != 2 * Self::LENGTH || !text.is_ascii() {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    pub(crate) fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn first(hash: &[u8]) -> Self {
        let mut bytes = [0; Self::LENGTH];
        bytes.copy_from_slice(&hash[..Self::LENGTH]);
        Self(bytes)
    }
}

/// The name of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemId {
    Settings,
    Endpoints(EndpointsId),
    Blob(BlobId),
    Fragment(FragmentId),
}

impl ItemId {
    pub(crate) fn kind(&self) -> proto::Kind {
        match self {
            Self::Settings => proto::Kind::Settings,
            Self::Endpoints(_) => proto::Kind::Endpoints,
            Self::Blob(_) => proto::Kind::Blob,
            Self::Fragment(_) => proto::Kind::Fragment,
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Settings => String::new(),
            Self::Endpoints(id) => json(id),
            Self::Blob(id) => id.to_string(),
            Self::Fragment(id) => json(id),
        }
    }

    pub(crate) fn key(&self) -> Digest {
        key(self.kind(), &self.text())
    }
}

/// By this a part is known where its name would be too long.
pub(crate) fn key(kind: proto::Kind, id: &str) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update([kind as u8]);
    hasher.update(id);
    Digest::first(&hasher.finalize())
}

pub(crate) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plan types serialise to JSON")
}

pub(crate) fn json_bytes(value: &impl serde::Serialize) -> Bytes {
    serde_json::to_vec(value).expect("plan types serialise to JSON").into()
}

pub(crate) fn write_blob(blob: &Blob) -> Bytes {
    let blob = match blob {
        Blob::Key(key) => proto::Blob { certificates: key.chain.clone(), key: key.key.clone() },
        Blob::Bundle(certificates) => proto::Blob { certificates: certificates.clone(), key: Vec::new() },
    };
    blob.encode_to_vec().into()
}

/// A blob is what its name says, or nothing.
pub(crate) fn read_blob(id: &str, content: &[u8]) -> Result<(BlobId, Arc<Blob>), String> {
    let blob = proto::Blob::decode(content).map_err(|_| format!("blob {id} cannot be read"))?;
    let blob = if blob.key.is_empty() {
        Blob::Bundle(blob.certificates)
    } else {
        Blob::Key(CertifiedKey { chain: blob.certificates, key: blob.key })
    };
    let found = blob.id();
    if *found.0 != *id {
        return Err(format!("blob {id} is another one"));
    }
    Ok((found, Arc::new(blob)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_one_apart_understand_each_other() {
        assert_eq!(negotiate(PROTOCOL), Ok(PROTOCOL));
        assert_eq!(negotiate(PROTOCOL + 1), Ok(PROTOCOL));
        assert!(negotiate(PROTOCOL + 2).is_err());
        assert!(negotiate(0).is_err());
    }

    #[test]
    fn a_digest_is_read_as_it_is_written() {
        let digest = Digest::of(b"x");
        assert_eq!(Digest::from_hex(&digest.hex()), Some(digest));
        assert_eq!(Digest::from_hex("é"), None);
        assert_eq!(Digest::from_hex(&"g".repeat(32)), None);
        assert_eq!(Digest::read(&digest.0), Some(digest));
        assert_eq!(Digest::read(&[0; 15]), None);
    }

    #[test]
    fn blobs_come_over_whole_or_not_at_all() {
        let key = Blob::Key(CertifiedKey { chain: vec![vec![1, 2], vec![3]], key: vec![4] });
        let bundle = Blob::Bundle(vec![vec![5], vec![6]]);
        for blob in [key, bundle] {
            let content = write_blob(&blob);
            let (id, read) = read_blob(&blob.id().0, &content).unwrap();
            assert_eq!((id, &*read), (blob.id(), &blob));
            assert!(read_blob("0123", &content).is_err());
        }
        assert!(read_blob("0123", b"\xff").is_err());
    }
}
