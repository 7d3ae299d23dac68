//! One of several ACME accounts, as it is written on the command line.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use tidegate_api::scalar::{AccountName, Namespace};
use tidegate_certs::{DEFAULT_ACCOUNT, LETS_ENCRYPT};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: Arc<str>,
    pub(crate) directory: String,
    pub(crate) contacts: Vec<String>,
    pub(crate) profile: Option<String>,
    pub(crate) ca: Option<PathBuf>,
    /// The external account, and the file with its key.
    pub(crate) external: Option<(String, PathBuf)>,
    /// Gateways of these alone may have it; empty: all.
    pub(crate) namespaces: BTreeSet<Arc<str>>,
}

/// `corp,directory=https://ca.example.com/directory,contact=network@example.com`.
impl FromStr for Account {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(',').unwrap_or((text, ""));
        let name = AccountName::new(name).ok_or("begin with its name: lower-case letters, digits and `-`")?;
        if name == DEFAULT_ACCOUNT {
            return Err(format!(
                "{DEFAULT_ACCOUNT} is the account of --acme-directory and the flags beside it"
            ));
        }
        let mut account = Self {
            name: name.shared(),
            directory: LETS_ENCRYPT.to_owned(),
            contacts: Vec::new(),
            profile: None,
            ca: None,
            external: None,
            namespaces: BTreeSet::new(),
        };
        let (mut id, mut key) = (None, None);
        for entry in rest.split(',').filter(|entry| !entry.is_empty()) {
            let (field, value) = entry
                .split_once('=')
                .filter(|(_, value)| !value.is_empty())
                .ok_or_else(|| format!("`{entry}`: write FIELD=VALUE, and no comma in a value"))?;
            match field {
                "directory" => account.directory = value.to_owned(),
                "contact" => account.contacts.push(value.to_owned()),
                "profile" => account.profile = Some(value.to_owned()),
                "ca" => account.ca = Some(value.into()),
                "external-account" => id = Some(value.to_owned()),
                "external-key" => key = Some(PathBuf::from(value)),
                "namespace" => {
                    let namespace = Namespace::new(value).ok_or(format!("`{value}` is no namespace"))?;
                    account.namespaces.insert(namespace.shared());
                }
                other => {
                    return Err(format!(
                        "`{other}`: there are directory, contact, profile, ca, external-account, external-key and namespace"
                    ));
                }
            }
        }
        account.external = match (id, key) {
            (Some(id), Some(key)) => Some((id, key)),
            (None, None) => None,
            _ => return Err("external-account and external-key go together".to_owned()),
        };
        Ok(account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_read_with_all_that_is_said_of_it() {
        let text = "corp,directory=https://ca.example.com/d?a=b,contact=a@example.com,contact=b@example.com,profile=classic,ca=ca.crt,external-account=17,external-key=key,namespace=shop,namespace=bank";
        let account: Account = text.parse().expect("an account");
        let expected = Account {
            name: "corp".into(),
            directory: "https://ca.example.com/d?a=b".to_owned(),
            contacts: vec!["a@example.com".to_owned(), "b@example.com".to_owned()],
            profile: Some("classic".to_owned()),
            ca: Some("ca.crt".into()),
            external: Some(("17".to_owned(), "key".into())),
            namespaces: ["bank", "shop"].map(Arc::from).into(),
        };
        assert_eq!(account, expected);
        let bare: Account = "staging".parse().expect("an account");
        assert_eq!((bare.directory.as_str(), bare.namespaces.len()), (LETS_ENCRYPT, 0));
    }

    #[test]
    fn what_is_none_is_told() {
        for (text, why) in [
            ("", "begin with its name"),
            ("Corp", "begin with its name"),
            ("default", "--acme-directory"),
            ("corp,profile", "FIELD=VALUE"),
            ("corp,namespace=", "FIELD=VALUE"),
            ("corp,namespace=A", "no namespace"),
            ("corp,email=a@example.com", "there are directory"),
            ("corp,external-account=17", "go together"),
        ] {
            let told = text.parse::<Account>().expect_err(text);
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}
