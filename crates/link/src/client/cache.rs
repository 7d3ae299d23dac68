//! The last plan on disk, for a data plane that starts while no controller can be reached. Private keys are not in it:
//! listeners that terminate TLS wait for a controller.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use prost::Message;

use crate::wire::proto;

/// What the file begins with; another form of it has another number.
const MAGIC: &[u8; 16] = b"tidegate plan 1\n";
/// A file that is larger was not written here.
const MOST: u64 = 1 << 30;

#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("plan")
    }

    /// `None` where nothing was ever kept.
    pub(crate) fn read(&self) -> io::Result<Option<Vec<proto::Item>>> {
        let file = match File::open(self.file()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut content = Vec::new();
        file.take(MOST).read_to_end(&mut content)?;
        let mut rest =
            content.strip_prefix(MAGIC).ok_or_else(|| broken("this is no plan of this version"))?;
        let mut items = Vec::new();
        while !rest.is_empty() {
            let item = proto::Item::decode_length_delimited(&mut rest);
            items.push(item.map_err(|_| broken("it breaks off"))?);
        }
        Ok(Some(items))
    }

    /// Writes beside the old file and puts it in its place: there is always a whole one.
    pub(crate) fn write(&self, items: &[proto::Item]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let next = self.folder.join(".plan.next");
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        let mut writer = BufWriter::new(file);
        writer.write_all(MAGIC)?;
        for item in items {
            writer.write_all(&item.encode_length_delimited_to_vec())?;
        }
        writer.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&next, self.file())
    }
}
