//! Which of a listener's certificates is shown for a server name.

use crate::tables::map::{Key, SharedMap, hash_bytes};
use crate::tables::text::Text;
use crate::{Certificate, Name};

/// The names of the certificates with the index of the first certificate that has each.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    exact: SharedMap<Text, usize>,
    /// By what follows the `*.`, which here stands for one label: that is how clients read certificates.
    wildcard: SharedMap<Text, usize>,
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
                let text = Text::new(name.base());
                if map.get(text.hashed(), |key| *key == text).is_none() {
                    map.insert(text, index);
                }
            }
        }
        all
    }

    /// The one that names the server, else the one with a wildcard for it, else the first.
    pub(crate) fn choose<'t>(
        &self,
        of: &'t [Certificate],
        name: Option<&Name<'_>>,
    ) -> Option<&'t Certificate> {
        let get = |map: &SharedMap<Text, usize>, base: &[u8]| {
            map.get(hash_bytes(base), |key| key.as_bytes() == base).copied()
        };
        let index = name.filter(|_| of.len() > 1).and_then(|name| {
            let name = name.as_bytes();
            let parent = || name.iter().position(|byte| *byte == b'.').map(|dot| &name[dot + 1..]);
            get(&self.exact, name).or_else(|| get(&self.wildcard, parent()?))
        });
        of.get(index.unwrap_or(0))
    }
}
