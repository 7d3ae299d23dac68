//! A folder that nothing is read outside of, however a manifest puts it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Certificates and keys are small; whatever is larger is not one.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Boundary {
    /// With all links resolved.
    root: PathBuf,
}

impl Boundary {
    pub(crate) fn new(root: &Path) -> std::io::Result<Self> {
        Ok(Self { root: root.canonicalize()? })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The content of a file that is named relative to a manifest, or why it is not to be had.
    pub(crate) fn read_beside(&self, manifest: &Path, name: &str) -> Result<Vec<u8>, String> {
        let folder =
            manifest.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if Path::new(name).is_absolute() {
            return Err(format!("`{name}` is an absolute path; it must be relative to the manifest"));
        }
        let path =
            folder.join(name).canonicalize().map_err(|error| format!("cannot read `{name}`: {error}"))?;
        if !path.starts_with(&self.root) {
            return Err(format!("`{name}` leads outside the folder of the manifests"));
        }
        let file = File::open(&path).map_err(|error| format!("cannot read `{name}`: {error}"))?;
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(format!("`{name}` is not a file"));
        }
        let mut content = Vec::new();
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut content)
            .map_err(|error| format!("cannot read `{name}`: {error}"))?;
        if content.len() as u64 > MAX_BYTES {
            return Err(format!("`{name}` is larger than 1 MiB"));
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_outside_is_read() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("inside");
        fs::create_dir_all(folder.join("deeper")).unwrap();
        fs::write(outer.path().join("secret"), "no").unwrap();
        fs::write(folder.join("a.pem"), "yes").unwrap();
        symlink(outer.path().join("secret"), folder.join("link")).unwrap();
        symlink("a.pem", folder.join("inner-link")).unwrap();

        let boundary = Boundary::new(&folder).unwrap();
        let read = |name: &str| boundary.read_beside(&folder.join("deeper/manifest.yaml"), name);
        assert_eq!(read("../a.pem").unwrap(), b"yes");
        assert_eq!(read("../inner-link").unwrap(), b"yes");
        for outside in ["../../secret", "../link", "/etc/hostname"] {
            assert!(read(outside).unwrap_err().contains('`'), "{outside}");
        }
        assert!(read("..").unwrap_err().contains("not a file"));
        assert!(read("missing").unwrap_err().contains("cannot read"));
    }
}
