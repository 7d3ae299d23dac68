//! What is shown to a CA that asks whether a name is ours.

use serde::{Deserialize, Serialize};

use crate::{BlobId, Hostname};

/// For as long as it is in the plan, it is answered on every listener that the CA may come to, before routes are looked
/// at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Challenge {
    pub name: Hostname,
    pub proof: Proof,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Proof {
    /// RFC 8555, 8.3: a file of this name with this content.
    File { token: String, content: String },
    /// RFC 8737: a certificate for the protocol `acme-tls/1`.
    Certificate(BlobId),
}
