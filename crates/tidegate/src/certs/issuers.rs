//! Issuers as the command line describes them, for `run` and for `controller`.

use std::fs;

use tidegate_certs::{AcmeSettings, EmbeddedSettings, ExternalAccount};

use crate::arguments::IssuerOptions;
use crate::output::Error;

pub(crate) fn embedded(options: &IssuerOptions) -> EmbeddedSettings {
    EmbeddedSettings {
        leaf_life: options.leaf_lifetime.map_or(EmbeddedSettings::default().leaf_life, |life| {
            i64::try_from(life.as_secs()).unwrap_or(i64::MAX).max(1)
        }),
        domains: options.root_domain.clone(),
    }
}

pub(crate) fn acme(options: &IssuerOptions) -> Result<AcmeSettings, Error> {
    let read =
        |path: &std::path::PathBuf| fs::read(path).map_err(|error| Error::Read { path: path.clone(), error });
    let external_account = match (&options.acme_external_account, &options.acme_external_key) {
        (Some(id), Some(path)) => Some(ExternalAccount { id: id.clone(), key: decoded(&read(path)?)? }),
        _ => None,
    };
    Ok(AcmeSettings {
        roots: options.acme_ca.as_ref().map(read).transpose()?,
        contacts: options.acme_contact.clone(),
        profile: options.acme_profile.clone(),
        external_account,
        ..AcmeSettings::new(&options.acme_directory)
    })
}

/// Base64 with either alphabet, as CAs give such keys.
fn decoded(text: &[u8]) -> Result<Vec<u8>, Error> {
    let wrong = || Error::Usage("--acme-external-key: the file is not in base64".to_owned());
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.iter().filter(|byte| !byte.is_ascii_whitespace() && **byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return Err(wrong()),
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap_or_default());
        }
    }
    if bytes.is_empty() { Err(wrong()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_either_alphabet() {
        assert_eq!(decoded(b"aGVsbG8=\n").unwrap(), b"hello");
        assert_eq!(decoded(b"-_8").unwrap(), decoded(b"+/8=").unwrap());
        assert!(decoded(b"").is_err() && decoded(b"a!b").is_err());
    }
}
