//! Which of a listener's certificates is shown for a server name.

use std::fmt;

use crate::tables::few::Few;
use crate::tables::index::Index;
use crate::tables::print::Print;
use crate::tables::text::Text;
use crate::{Certificate, Name, ServerTls};

/// The names of the certificates with the indices of those that have each, in their order.
#[derive(Clone, Default)]
pub struct Certificates {
    count: usize,
    /// Whether only those that name the server may be shown.
    named_only: bool,
    exact: Index<Text, Few<usize>>,
    /// By what follows the `*.`, which here stands for one label: that is how clients read certificates.
    wildcard: Index<Text, Few<usize>>,
}

impl Certificates {
    #[must_use]
    pub fn new(tls: &ServerTls) -> Self {
        let ServerTls { certificates, named_only, .. } = tls;
        let mut all = Self { count: certificates.len(), named_only: *named_only, ..Self::default() };
        // With one certificate there is nothing to choose.
        if certificates.len() < 2 && !named_only {
            return all;
        }
        for (index, certificate) in certificates.iter().enumerate() {
            for name in &certificate.names {
                let map = if name.is_wildcard() { &mut all.wildcard } else { &mut all.exact };
                let text = Text::new(name.base());
                match map.get_mut(&text) {
                    Some(few) => few.insert(index, |a, b| a < b),
                    None => map.insert(text, Few::new(index)),
                }
            }
        }
        all
    }

    /// The indices of those that may be shown, the best first: those that name the server, then those with a
    /// wildcard for it; where there are neither, all, or none where only those may be. A client that names nobody may
    /// be shown any. One that cannot use the first, for want of its type of key, is shown the next.
    pub fn ranked(&self, name: Option<&Name<'_>>) -> impl Iterator<Item = usize> {
        let (exact, wildcard) = match name {
            Some(name) if self.count > 1 || self.named_only => self.named(name.as_bytes()),
            _ => (None, None),
        };
        let is_named = exact.is_some() || wildcard.is_some() || (self.named_only && name.is_some());
        let others = if is_named { 0 } else { self.count };
        let named = exact.into_iter().chain(wildcard).flat_map(Few::iter).copied();
        named.chain(0..others)
    }

    fn named(&self, name: &[u8]) -> (Option<&Few<usize>>, Option<&Few<usize>>) {
        let parent = name.iter().position(|byte| *byte == b'.').map(|dot| &name[dot + 1..]);
        (find(&self.exact, name), parent.and_then(|parent| find(&self.wildcard, parent)))
    }

    pub(crate) fn choose<'t>(
        &self,
        of: &'t [Certificate],
        name: Option<&Name<'_>>,
    ) -> Option<&'t Certificate> {
        of.get(self.ranked(name).next()?)
    }
}

fn find<'m>(map: &'m Index<Text, Few<usize>>, name: &[u8]) -> Option<&'m Few<usize>> {
    map.get(Print::of(name), |key| key.as_bytes() == name)
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("count", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlobId, Hostname, ObjectName};

    fn tls(certificates: &[&[&str]]) -> ServerTls {
        let certificates = certificates.iter().map(|names| certificate(names)).collect();
        ServerTls { certificates, ..ServerTls::default() }
    }

    fn certificate(names: &[&str]) -> Certificate {
        Certificate {
            id: BlobId(names.concat().into()),
            secret: ObjectName::new("default", "web"),
            names: names.iter().map(|name| Hostname::parse(name).unwrap()).collect(),
            not_after: 0,
        }
    }

    #[test]
    fn equals_keep_their_order_and_less_specific_ones_come_behind() {
        let certificates = Certificates::new(&tls(&[
            &["other.example.com"],
            &["*.example.com"],
            &["a.example.com", "*.example.com"],
            &["a.example.com"],
        ]));
        let ranked = |name: Option<&str>| -> Vec<usize> {
            certificates.ranked(name.and_then(Name::from_sni).as_ref()).collect()
        };
        assert_eq!(ranked(Some("a.example.com")), [2, 3, 1, 2]);
        assert_eq!(ranked(Some("b.example.com")), [1, 2]);
        assert_eq!(ranked(Some("a.b.example.com")), [0, 1, 2, 3]);
        assert_eq!(ranked(None), [0, 1, 2, 3]);
        assert_eq!(Certificates::new(&tls(&[&["a.example.com"]])).ranked(None).count(), 1);
        assert_eq!(Certificates::new(&tls(&[])).ranked(None).count(), 0);
    }

    #[test]
    fn where_names_count_alone_nobody_is_shown_the_certificate_of_another() {
        for all in
            [&[&["a.example.com", "*.b.example.com"][..]][..], &[&["a.example.com"], &["*.b.example.com"]]]
        {
            let certificates = Certificates::new(&ServerTls { named_only: true, ..tls(all) });
            let shown = |name: &str| certificates.ranked(Name::from_sni(name).as_ref()).count();
            assert_eq!((shown("a.example.com"), shown("x.b.example.com")), (1, 1));
            assert_eq!((shown("b.example.com"), shown("x.y.b.example.com")), (0, 0));
            assert_eq!(certificates.ranked(None).count(), all.len(), "a client that names nobody");
        }
    }
}
