//! Which of a listener's certificates is shown for a server name.

use crate::tables::map::{SharedMap, hash_bytes};
use crate::{Certificate, Hostname, Name};

/// The names of the certificates with the index of the first certificate that has each.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    exact: SharedMap<Hostname, usize>,
    /// By what follows the `*.`, which here stands for one label: that is how clients read certificates.
    wildcard: SharedMap<Hostname, usize>,
}

impl Certificates {
    pub(crate) fn new(certificates: &[Certificate]) -> Self {
        let mut all = Self::default();
        // With one certificate there is nothing to choose.
        if certificates.len() < 2 {
            return all;
        }
        for (index, certificate) in certificates.iter().enumerate() {
            for name in &certificate.names {
                let map = if name.is_wildcard() { &mut all.wildcard } else { &mut all.exact };
                let hash = hash_bytes(name.base().as_bytes());
                if map.get(hash, |key| key == name).is_none() {
                    map.insert(hash, name.clone(), index);
                }
            }
        }
        all
    }

    /// The one that names the server, else the one with a wildcard for it, else the first.
    pub(crate) fn choose<'t>(&self, of: &'t [Certificate], name: Option<&Name>) -> Option<&'t Certificate> {
        let get = |map: &SharedMap<Hostname, usize>, base: &[u8]| {
            map.get(hash_bytes(base), |key| key.base().as_bytes() == base).copied()
        };
        let index = name.filter(|_| of.len() > 1).and_then(|name| {
            let name = name.as_bytes();
            let parent = || name.iter().position(|byte| *byte == b'.').map(|dot| &name[dot + 1..]);
            get(&self.exact, name).or_else(|| get(&self.wildcard, parent()?))
        });
        of.get(index.unwrap_or(0))
    }
}
