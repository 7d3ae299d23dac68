//! Issuers as the command line describes them, for `run` and for `controller`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_certs::{AcmeSettings, EmbeddedSettings, ExternalAccount};

use crate::arguments::{Account, IssuerOptions};
use crate::output::Error;

pub(crate) fn embedded(options: &IssuerOptions) -> EmbeddedSettings {
    EmbeddedSettings {
        leaf_life: options.leaf_lifetime.map_or(EmbeddedSettings::default().leaf_life, |life| {
            i64::try_from(life.as_secs()).unwrap_or(i64::MAX).max(1)
        }),
        domains: options.root_domain.clone(),
    }
}

/// The ACME accounts: those with a name, and before them the one for Gateways that name none, where that is asked for.
pub(crate) fn accounts(options: &IssuerOptions, with_default: bool) -> Result<Vec<AcmeSettings>, Error> {
    let default = with_default.then(|| options.default_account());
    let named = &options.grouping.acme_account;
    let mut names = BTreeSet::new();
    if let Some(twice) = named.iter().find(|account| !names.insert(&account.name)) {
        return Err(Error::Usage(format!("--acme-account: there are two with the name {}", twice.name)));
    }
    default.iter().chain(named).map(settings).collect()
}

fn settings(account: &Account) -> Result<AcmeSettings, Error> {
    let read = |path: &PathBuf| fs::read(path).map_err(|error| Error::Read { path: path.clone(), error });
    let external_account = match &account.external {
        Some((id, path)) => {
            let key = decoded(&read(path)?)
                .ok_or_else(|| Error::Usage(format!("{}: the key is not in base64", path.display())))?;
            Some(ExternalAccount { id: id.clone(), key })
        }
        None => None,
    };
    Ok(AcmeSettings {
        name: Arc::clone(&account.name),
        directory: account.directory.clone(),
        roots: account.ca.as_ref().map(read).transpose()?,
        contacts: account.contacts.clone(),
        profile: account.profile.clone(),
        external_account,
    })
}

/// Base64 with either alphabet, as CAs give such keys.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.iter().filter(|byte| !byte.is_ascii_whitespace() && **byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap_or_default());
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_either_alphabet() {
        assert_eq!(decoded(b"aGVsbG8=\n").unwrap(), b"hello");
        assert_eq!(decoded(b"-_8").unwrap(), decoded(b"+/8=").unwrap());
        assert!(decoded(b"").is_none() && decoded(b"a!b").is_none());
    }
}
