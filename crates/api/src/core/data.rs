//! Secrets and ConfigMaps: data by key.

use std::collections::BTreeSet;

use base64::Engine;

use crate::form::is_data_key;
use crate::kind::{Resource, Spec};
use crate::read::{At, Map, Place, Read, record, text};
use crate::scalar::quote;
use crate::tree::Node;

pub type Secret = Resource<SecretSpec>;
pub type ConfigMap = Resource<ConfigMapSpec>;

/// For files only: keys whose data is in files beside the manifest.
pub const FILES_ANNOTATION: &str = "gateway.tidegate.io/files";

/// What etcd, and so the API server, takes.
const MAX_SIZE: usize = 1024 * 1024;

impl Spec for SecretSpec {
    const KIND: &'static str = "Secret";
    const GROUP: &'static str = "";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const FIELD: Option<&'static str> = None;

    fn check(object: &Secret, place: &mut Place<'_>) {
        let looks_at = ["type", "data?", "stringData?", "metadata.annotations"];
        place.rule("tls_secret_has_certificate_and_key", &looks_at, |place| {
            tls_secret_has_certificate_and_key(object, place);
        });
    }
}

impl Spec for ConfigMapSpec {
    const KIND: &'static str = "ConfigMap";
    const GROUP: &'static str = "";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const FIELD: Option<&'static str> = None;
}

/// The content of a Secret. It is never shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretSpec {
    pub kind: String,
    pub data: Map<Vec<u8>>,
}

impl std::fmt::Debug for SecretSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretSpec").field("keys", &self.data.keys()).finish_non_exhaustive()
    }
}

impl SecretSpec {
    pub const RULES: &'static [&'static str] =
        &["secret_keys_are_file_names", "secret_fits_in_1_mib", "tls_secret_has_certificate_and_key"];
}

impl Read for SecretSpec {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let fields = at.fields(node)?;
        at.unknown(fields, &[&["apiVersion", "kind", "metadata", "type", "data", "stringData", "immutable"]]);
        let kind = at.field(node, "type", Some("Opaque".to_owned()));
        let data: Map<Base64> = at.field(node, "data", None);
        let plain: Map<String> = at.field(node, "stringData", None);
        let mut data: Map<Vec<u8>> = data.into_iter().map(|(key, value)| (key, value.0)).collect();
        data.extend(plain.into_iter().map(|(key, value)| (key, value.into_bytes())));
        let secret = Self { kind, data };
        let mut place = Place::new(at, node);
        place.rule("secret_keys_are_file_names", &["data?", "stringData?"], |place| {
            secret_keys_are_file_names(&secret, place);
        });
        place.rule("secret_fits_in_1_mib", &["data", "stringData"], |place| {
            secret_fits_in_1_mib(&secret, place);
        });
        Some(secret)
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// The keys alone; the rest of the annotation is looked at where the files are read.
fn keys_of_files(annotation: &str) -> BTreeSet<String> {
    annotation.split(',').filter_map(|entry| Some(entry.split_once('=')?.0.trim().to_owned())).collect()
}

fn tls_secret_has_certificate_and_key(object: &Secret, place: &mut Place<'_>) {
    let Resource { meta, spec } = object;
    let from_files = meta.annotation(FILES_ANNOTATION).map(keys_of_files).unwrap_or_default();
    for key in ["tls.crt", "tls.key"] {
        if spec.kind == "kubernetes.io/tls" && !spec.data.contains_key(key) && !from_files.contains(key) {
            place.wrong(
                "data",
                format!("a Secret of type kubernetes.io/tls needs the key `{key}`"),
                format!("write `{key}:` below `data` in base64, or below `stringData` as it is"),
            );
        }
    }
}

fn secret_keys_are_file_names(secret: &SecretSpec, place: &mut Place<'_>) {
    let field = if place.has("data") { "data" } else { "stringData" };
    keys_are_file_names(field, secret.data.keys(), place);
}

fn secret_fits_in_1_mib(secret: &SecretSpec, place: &mut Place<'_>) {
    fits_in_1_mib(secret.data.values().map(Vec::len).sum(), place);
}

record! {
    pub struct ConfigMapSpec {
        pub data: Map<String> = "data",
        pub binary_data: Map<Base64> = "binaryData",
    }
    rules: [
        config_map_keys_are_file_names("data?", "binaryData?"),
        config_map_keys_are_unique("data?", "binaryData?"),
        config_map_fits_in_1_mib,
    ]
    others: ["apiVersion", "kind", "metadata", "immutable"]
}

impl ConfigMapSpec {
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let text = self.data.get(key).map(String::as_bytes);
        text.or_else(|| self.binary_data.get(key).map(|value| value.0.as_slice()))
    }
}

fn config_map_keys_are_file_names(map: &ConfigMapSpec, place: &mut Place<'_>) {
    keys_are_file_names("data", map.data.keys(), place);
    keys_are_file_names("binaryData", map.binary_data.keys(), place);
}

fn config_map_keys_are_unique(map: &ConfigMapSpec, place: &mut Place<'_>) {
    for key in map.binary_data.keys().filter(|key| map.data.contains_key(*key)) {
        let message = format!("the key `{key}` is below `data` too");
        place.wrong_key("binaryData", key, message, "keep one of them");
    }
}

fn config_map_fits_in_1_mib(map: &ConfigMapSpec, place: &mut Place<'_>) {
    let data: usize = map.data.values().map(String::len).sum();
    fits_in_1_mib(data + map.binary_data.values().map(|value| value.0.len()).sum::<usize>(), place);
}

fn keys_are_file_names<'k>(field: &str, keys: impl Iterator<Item = &'k String>, place: &mut Place<'_>) {
    for key in keys.filter(|key| !is_data_key(key)) {
        place.wrong_key(
            field,
            key,
            format!("{} is not a key for data", quote(key)),
            "write at most 253 letters, digits, `-`, `_` and `.`, such as tls.crt",
        );
    }
}

fn fits_in_1_mib(size: usize, place: &mut Place<'_>) {
    if size > MAX_SIZE {
        let message = format!("{size} bytes of data, and the API server takes at most {MAX_SIZE}");
        place.wrong("", message, "split it over several objects");
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base64(pub Vec<u8>);

impl Read for Base64 {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let text = text(node, at)?;
        let compact: String = text.split_ascii_whitespace().collect();
        match base64::engine::general_purpose::STANDARD.decode(compact) {
            Ok(bytes) => Some(Self(bytes)),
            Err(_) => {
                // What was written may be a key in the clear, and messages end up in logs.
                at.wrong(
                    "base64",
                    node,
                    "this is not base64",
                    "encode it with `base64 -w0`, or write the text itself below `stringData`, in a ConfigMap below `data`",
                );
                None
            }
        }
    }

    fn placeholder() -> Self {
        Self(Vec::new())
    }
}
