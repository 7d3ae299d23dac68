//! Who a data plane is: the Gateway it works for and its own name, as they stand in its client certificate.

use std::fmt;
use std::str::FromStr;

use tidegate_plan::ObjectName;

/// A data plane, as a token or a certificate says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxyIdentity {
    pub gateway: ObjectName,
    /// In the Gateway's namespace.
    pub pod: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("`{0}` is not a name that Kubernetes gives")]
    Name(NamePart),
    #[error("not the name of a data plane")]
    Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamePart {
    Namespace,
    Gateway,
    Pod,
}

impl fmt::Display for NamePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespace => "namespace",
            Self::Gateway => "gateway",
            Self::Pod => "pod",
        })
    }
}

const PREFIX: &str = "spiffe://link.tidegate.io/gateway/";

impl ProxyIdentity {
    /// As it stands in a certificate: `spiffe://link.tidegate.io/gateway/NAMESPACE/NAME/pod/POD`.
    pub(crate) fn uri(&self) -> Result<String, IdentityError> {
        let Self { gateway: ObjectName { namespace, name }, pod } = self;
        for (text, part) in
            [(&**namespace, NamePart::Namespace), (name, NamePart::Gateway), (pod, NamePart::Pod)]
        {
            if !is_name(text) {
                return Err(IdentityError::Name(part));
            }
        }
        Ok(format!("{PREFIX}{namespace}/{name}/pod/{pod}"))
    }
}

impl FromStr for ProxyIdentity {
    type Err = IdentityError;

    fn from_str(uri: &str) -> Result<Self, IdentityError> {
        let parts: Vec<&str> = uri.strip_prefix(PREFIX).ok_or(IdentityError::Form)?.split('/').collect();
        match parts[..] {
            [namespace, name, "pod", pod] if [namespace, name, pod].into_iter().all(is_name) => {
                Ok(Self { gateway: ObjectName::new(namespace, name), pod: pod.to_owned() })
            }
            _ => Err(IdentityError::Form),
        }
    }
}

impl fmt::Display for ProxyIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of Gateway {}", self.pod, self.gateway)
    }
}

/// Of the characters that names have in Kubernetes: none that means something in a URI.
fn is_name(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(namespace: &str, name: &str, pod: &str) -> ProxyIdentity {
        ProxyIdentity { gateway: ObjectName::new(namespace, name), pod: pod.to_owned() }
    }

    #[test]
    fn the_uri_is_read_as_it_is_written() {
        let own = identity("infra", "edge.example", "edge-7d4-x2");
        let uri = own.uri().unwrap();
        assert_eq!(uri, "spiffe://link.tidegate.io/gateway/infra/edge.example/pod/edge-7d4-x2");
        assert_eq!(uri.parse(), Ok(own));
    }

    #[test]
    fn nothing_can_be_smuggled_into_it() {
        for (namespace, name, pod) in
            [("a/b", "c", "d"), ("a", "", "d"), ("a", "b", "c/../d"), ("a", "B", "c"), ("a", "b", "c?d")]
        {
            assert!(identity(namespace, name, pod).uri().is_err(), "{namespace} {name} {pod}");
        }
        for uri in [
            "spiffe://link.tidegate.io/gateway/a/b/pod/c/d",
            "spiffe://link.tidegate.io/gateway/a/b/node/c",
            "spiffe://link.tidegate.io/gateway/a//pod/c",
            "spiffe://other/gateway/a/b/pod/c",
            "",
        ] {
            assert!(uri.parse::<ProxyIdentity>().is_err(), "{uri}");
        }
    }
}
