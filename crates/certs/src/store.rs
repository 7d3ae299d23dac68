//! Where keys, certificates, orders and accounts outlive the process.

mod folder;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::Pin;

pub use self::folder::FolderStore;

pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Kinds of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shelf {
    /// Keys of ACME accounts.
    Accounts,
    /// The embedded authority, its key with it.
    Authority,
    /// [`crate::Certificate`], one for each Secret.
    Certificates,
    /// [`crate::Intent`]: what was, or is about to be, asked for, with the key.
    Orders,
    /// [`crate::Ledger`], one document.
    Ledger,
}

impl Shelf {
    pub const ALL: [Self; 5] =
        [Self::Accounts, Self::Authority, Self::Certificates, Self::Orders, Self::Ledger];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accounts => "accounts",
            Self::Authority => "authority",
            Self::Certificates => "certificates",
            Self::Orders => "orders",
            Self::Ledger => "ledger",
        }
    }
}

/// Documents by name. A document is there as a whole or not at all, and what was put is there after a crash.
pub trait Store: Send + Sync {
    fn all(&self, shelf: Shelf) -> Boxed<'_, Result<Vec<Document>, StoreError>>;
    fn put<'a>(&'a self, shelf: Shelf, name: &'a str, content: &'a [u8])
    -> Boxed<'a, Result<(), StoreError>>;
    /// The document of this name, as it is now.
    fn one<'a>(&'a self, shelf: Shelf, name: &'a str) -> Boxed<'a, Result<Option<Document>, StoreError>> {
        Box::pin(async move { Ok(self.all(shelf).await?.into_iter().find(|document| document.name == name)) })
    }
    /// Waits until others have changed certificates, and names them. A store that is its owner's alone waits for ever.
    fn changed(&self) -> Boxed<'_, BTreeSet<String>> {
        Box::pin(std::future::pending())
    }
    /// Documents may have so many bytes.
    fn largest(&self) -> usize {
        usize::MAX
    }
    /// That it is not there is no error.
    fn remove<'a>(&'a self, shelf: Shelf, name: &'a str) -> Boxed<'a, Result<(), StoreError>>;
}

/// It may hold a key, so it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    pub name: String,
    pub content: Vec<u8>,
}

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Document").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot {action} {}: {error}", path.display())]
    File { action: &'static str, path: PathBuf, error: std::io::Error },
    #[error("{} is in use by another process{}; each needs a folder of its own", path.display(), owner(.process))]
    Locked { path: PathBuf, process: Option<u32> },
    #[error("{shelf}/{name} cannot be read: {error}", shelf = shelf.as_str())]
    Content { shelf: Shelf, name: String, error: serde_json::Error },
    /// This document cannot be put there: somebody else's is, or there is no room. It says nothing about others.
    #[error("{0}")]
    Refused(String),
    /// Of a store that is not a folder.
    #[error("{0}")]
    Other(String),
}

fn owner(process: &Option<u32>) -> String {
    process.map(|id| format!(" ({id})")).unwrap_or_default()
}
