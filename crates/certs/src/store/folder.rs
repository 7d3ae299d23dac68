//! Documents in a folder of which one process is the owner: files that only its user can read, written beside their
//! place and moved there, so that whoever looks sees the old one or the new one.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{Boxed, Document, Shelf, Store, StoreError};

const ENDING: &str = "json";
/// Begins the name of a file that is being written.
const UNFINISHED: &str = ".unfinished-";

#[derive(Debug)]
pub struct FolderStore {
    root: PathBuf,
    /// Held for as long as the store lives; `None` for one that only reads.
    _lock: Option<File>,
}

impl FolderStore {
    /// Makes the folder if it is not there, and is its only owner from here on.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        make_folder(root)?;
        let lock = lock(&root.join("lock"))?;
        for shelf in Shelf::ALL {
            let folder = root.join(shelf.as_str());
            make_folder(&folder)?;
            remove_unfinished(&folder)?;
        }
        Ok(Self { root: root.to_owned(), _lock: Some(lock) })
    }

    /// To look at what there is, beside its owner.
    pub fn look(root: &Path) -> Result<Self, StoreError> {
        fs::read_dir(root).map_err(|error| failed("read", root, error))?;
        Ok(Self { root: root.to_owned(), _lock: None })
    }

    /// What there is, in the order of names.
    pub fn documents(&self, shelf: Shelf) -> Result<Vec<Document>, StoreError> {
        let folder = self.root.join(shelf.as_str());
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| failed("read", &folder, error))?,
        };
        let mut documents = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| failed("read", &folder, error))?.path();
            let Some(name) = name_of(&path) else { continue };
            let mut content = Vec::new();
            let read = File::open(&path).and_then(|mut file| file.read_to_end(&mut content));
            match read {
                Ok(_) => documents.push(Document { name, content }),
                // Its owner has removed it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("read", &path, error)),
            }
        }
        documents.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(documents)
    }

    fn path(&self, shelf: Shelf, name: &str) -> PathBuf {
        self.root.join(shelf.as_str()).join(format!("{}.{ENDING}", name.replace('/', "_")))
    }

    fn write(&self, shelf: Shelf, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let folder = self.root.join(shelf.as_str());
        let path = self.path(shelf, name);
        let beside = folder.join(format!("{UNFINISHED}{}", name.replace('/', "_")));
        let written = (|| {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
            // One that was there may have had other permissions.
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&beside, &path)?;
            File::open(&folder)?.sync_all()
        })();
        written.map_err(|error| failed("write", &path, error))
    }

    fn delete(&self, shelf: Shelf, name: &str) -> Result<(), StoreError> {
        let path = self.path(shelf, name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("remove", &path, error)),
            Ok(()) => File::open(self.root.join(shelf.as_str()))
                .and_then(|folder| folder.sync_all())
                .map_err(|error| failed("write", &path, error)),
        }
    }
}

/// Files are small and local: they are read and written where the caller stands, which is never a thread that carries
/// traffic.
impl Store for FolderStore {
    fn all(&self, shelf: Shelf) -> Boxed<'_, Result<Vec<Document>, StoreError>> {
        Box::pin(async move { self.documents(shelf) })
    }

    fn put<'a>(
        &'a self,
        shelf: Shelf,
        name: &'a str,
        content: &'a [u8],
    ) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(async move { self.write(shelf, name, content) })
    }

    fn remove<'a>(&'a self, shelf: Shelf, name: &'a str) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(async move { self.delete(shelf, name) })
    }
}

/// No name of Kubernetes has an underscore, so `namespace/name` can be told again.
fn name_of(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let stem = file.strip_suffix(&format!(".{ENDING}"))?;
    (!stem.starts_with('.')).then(|| stem.replace('_', "/"))
}

fn make_folder(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| failed("make the folder", path, error))
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let opened =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let mut file = opened.map_err(|error| failed("open", path, error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let _ = (&mut file).take(20).read_to_string(&mut text);
            let folder = path.parent().unwrap_or(path).to_owned();
            return Err(StoreError::Locked { path: folder, process: text.trim().parse().ok() });
        }
        Err(TryLockError::Error(error)) => return Err(failed("lock", path, error)),
    }
    // For whoever finds it locked; the lock is what counts.
    let noted = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    noted.map_err(|error| failed("write", path, error))?;
    Ok(file)
}

/// What a process left behind that was killed while it wrote.
fn remove_unfinished(folder: &Path) -> Result<(), StoreError> {
    let entries = fs::read_dir(folder).map_err(|error| failed("read", folder, error))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(UNFINISHED) {
            fs::remove_file(&path).map_err(|error| failed("remove", &path, error))?;
        }
    }
    Ok(())
}

fn failed(action: &'static str, path: &Path, error: io::Error) -> StoreError {
    StoreError::File { action, path: path.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_was_put_is_there_and_only_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("state");
        let store = FolderStore::open(&root).unwrap();
        store.write(Shelf::Certificates, "infra/tls", b"one").unwrap();
        store.write(Shelf::Certificates, "infra/tls", b"two").unwrap();
        store.write(Shelf::Certificates, "infra/a.b", b"three").unwrap();
        let documents = store.documents(Shelf::Certificates).unwrap();
        let texts: Vec<(&str, &[u8])> =
            documents.iter().map(|document| (&*document.name, &*document.content)).collect();
        assert_eq!(texts, [("infra/a.b", &b"three"[..]), ("infra/tls", b"two")]);
        assert_eq!(mode(&root), 0o700);
        assert_eq!(mode(&root.join("certificates/infra_tls.json")), 0o600);
        store.delete(Shelf::Certificates, "infra/tls").unwrap();
        store.delete(Shelf::Certificates, "infra/tls").unwrap();
        assert_eq!(store.documents(Shelf::Certificates).unwrap().len(), 1);
    }

    #[test]
    fn a_second_owner_is_refused_and_one_that_looks_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderStore::open(folder.path()).unwrap();
        first.write(Shelf::Ledger, "ledger", b"{}").unwrap();
        let error = FolderStore::open(folder.path()).unwrap_err().to_string();
        let own = std::process::id();
        assert!(error.contains(&format!("in use by another process ({own})")), "{error}");
        let looking = FolderStore::look(folder.path()).unwrap();
        assert_eq!(looking.documents(Shelf::Ledger).unwrap().len(), 1);
        drop(first);
        FolderStore::open(folder.path()).unwrap();
    }

    #[test]
    fn what_is_half_written_is_neither_read_nor_kept() {
        let folder = tempfile::tempdir().unwrap();
        drop(FolderStore::open(folder.path()).unwrap());
        let half = folder.path().join("orders/.unfinished-infra_tls");
        fs::write(&half, "{").unwrap();
        let looking = FolderStore::look(folder.path()).unwrap();
        assert!(looking.documents(Shelf::Orders).unwrap().is_empty());
        let store = FolderStore::open(folder.path()).unwrap();
        assert!(store.documents(Shelf::Orders).unwrap().is_empty());
        assert!(!half.exists());
    }

    #[test]
    fn a_folder_that_cannot_be_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = FolderStore::open(&file.join("state")).unwrap_err().to_string();
        assert!(error.starts_with("cannot make the folder"), "{error}");
        let error = FolderStore::look(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read"), "{error}");
    }
}
