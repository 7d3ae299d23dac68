//! What every object has.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_plan::ObjectName as Name;

use crate::form::{is_label, is_label_value, is_qualified_name, is_subdomain};
use crate::read::{At, Place, Read, step, text};
use crate::scalar::quote;
use crate::tree::{Node, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Empty for kinds that have no namespace.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// What conditions say they were made from.
    pub generation: i64,
    /// Seconds since the epoch; 0 where nothing is said, so that such objects are of one age.
    pub created: i64,
    pub uid: String,
    /// Set while the object is on its way out.
    pub deleting: bool,
}

impl Meta {
    #[must_use]
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            generation: 1,
            created: 0,
            uid: String::new(),
            deleting: false,
        }
    }

    #[must_use]
    pub fn object_name(&self) -> Name {
        Name { namespace: Arc::clone(&self.namespace), name: Arc::clone(&self.name) }
    }

    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Older objects first, then by namespace and name: who goes first where two want the same.
    #[must_use]
    pub fn precedence(&self) -> (i64, &str, &str) {
        (self.created, &self.namespace, &self.name)
    }
}

/// The fields that every object may have, whether they are asked for here or not.
const FIELDS: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "uid",
    "resourceVersion",
    "selfLink",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Which names an object of a kind may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameForm {
    Subdomain,
    /// Names that become a label of a DNS name.
    Label,
    /// ClusterTrustBundles have the signer's name before their own: `example.com:signer:roots`.
    AfterSigner,
}

/// Declares the rules of metadata in the order in which they are asked.
macro_rules! rules {
    ($($rule:ident($($looks_at:literal),+)),* $(,)?) => {
        impl Meta {
            /// The rules that hold for the metadata of every object.
            pub const RULES: &'static [&'static str] = &[$(stringify!($rule)),*];
        }

        fn check(meta: &Written, node: &Node, at: &mut At) {
            $( Place::new(at, node).rule(stringify!($rule), &[$($looks_at),+], |place| $rule(meta, place)); )*
        }
    };
}

rules![
    name_has_the_form_of_its_kind("name"),
    namespace_is_a_label("namespace"),
    cluster_scoped_object_has_no_namespace("namespace"),
    label_keys_are_qualified_names("labels?"),
    label_values_are_short_words("labels"),
    annotation_keys_are_qualified_names("annotations?"),
    annotations_fit_in_256_kib("annotations"),
];

/// Metadata as it was read, with what its rules have to know about the kind.
struct Written {
    meta: Meta,
    namespaced: bool,
    form: NameForm,
}

/// Reads `metadata` of an object that has a namespace or not. Fields that only the API server writes are
/// passed over.
pub(crate) fn read_meta(object: &Node, namespaced: bool, form: NameForm, at: &mut At) -> Option<Meta> {
    let Some(node) = object.get("metadata").filter(|node| node.value != Value::Null) else {
        at.wrong(
            "required",
            object,
            "the field `metadata` is missing",
            "write `metadata:` with a `name:` below it",
        );
        return None;
    };
    at.within("metadata", |at| {
        let fields = at.fields(node)?;
        at.unknown(fields, &[FIELDS]);
        if !node.get("name").is_some_and(|name| name.value != Value::Null)
            && node.get("generateName").is_some()
        {
            let message = "`generateName` alone is no name: nobody generates one here";
            at.wrong("required", node.nearest("generateName"), message, "write `name:`");
            return None;
        }
        let name: String = at.field(node, "name", None);
        let namespace: String = at.field(node, "namespace", Some("default".to_owned()));
        let labels = at.field(node, "labels", None);
        let annotations = at.field(node, "annotations", None);
        let generation = at.field(node, "generation", Some(1));
        let Timestamp(created) = at.field(node, "creationTimestamp", Some(Timestamp(0)));
        let written = Written {
            meta: Meta {
                namespace: namespace.into(),
                name: name.into(),
                labels,
                annotations,
                generation,
                created,
                uid: node.get("uid").and_then(Node::as_str).unwrap_or_default().to_owned(),
                deleting: node.get("deletionTimestamp").is_some_and(|node| node.value != Value::Null),
            },
            namespaced,
            form,
        };
        check(&written, node, at);
        let namespace = if namespaced { written.meta.namespace } else { "".into() };
        Some(Meta { namespace, ..written.meta })
    })
}

fn name_has_the_form_of_its_kind(written: &Written, place: &mut Place<'_>) {
    let name = &*written.meta.name;
    let (fits, help) = match written.form {
        NameForm::Subdomain => (
            name.len() <= 253 && is_subdomain(name),
            "write at most 253 lower-case letters, digits, `-` and `.`, beginning and ending with a letter or digit",
        ),
        NameForm::Label => (
            name.len() <= 63 && is_label(name),
            "write at most 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit",
        ),
        NameForm::AfterSigner => (
            name.len() <= 253 && name.split(':').all(is_subdomain),
            "write lower-case letters, digits, `-` and `.`, after the name of the signer and a `:` if there is one",
        ),
    };
    if !fits {
        place.wrong("name", format!("{} is not a name for an object of this kind", quote(name)), help);
    }
}

fn namespace_is_a_label(written: &Written, place: &mut Place<'_>) {
    let namespace = &*written.meta.namespace;
    if namespace.len() > 63 || !is_label(namespace) {
        place.wrong(
            "namespace",
            format!("{} is not a namespace", quote(namespace)),
            "write at most 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit",
        );
    }
}

fn cluster_scoped_object_has_no_namespace(written: &Written, place: &mut Place<'_>) {
    if !written.namespaced && place.has("namespace") {
        place.warn("namespace", "objects of this kind are in no namespace, it has no effect", "remove it");
    }
}

fn label_keys_are_qualified_names(written: &Written, place: &mut Place<'_>) {
    for key in written.meta.labels.keys().filter(|key| !is_qualified_name(key)) {
        place.wrong_key("labels", key, format!("{} is not a key for a label", quote(key)), KEY_HELP);
    }
}

pub(crate) const KEY_HELP: &str = "write a name of at most 63 letters, digits, `-`, `_` and `.`, \
     with a domain before it or not: example.com/name";

fn label_values_are_short_words(written: &Written, place: &mut Place<'_>) {
    for (key, value) in written.meta.labels.iter().filter(|(_, value)| !is_label_value(value)) {
        place.wrong(
            &format!("labels{}", keyed(key)),
            format!("{} is not a value for a label", quote(value)),
            "write at most 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit",
        );
    }
}

/// A key as the rest of a path.
pub(crate) fn keyed(key: &str) -> String {
    let step = step(key);
    if step.starts_with('[') { step } else { format!(".{step}") }
}

fn annotation_keys_are_qualified_names(written: &Written, place: &mut Place<'_>) {
    // The API server looks at annotation keys in lower case.
    for key in written.meta.annotations.keys().filter(|key| !is_qualified_name(&key.to_ascii_lowercase())) {
        let message = format!("{} is not a key for an annotation", quote(key));
        place.wrong_key("annotations", key, message, KEY_HELP);
    }
}

fn annotations_fit_in_256_kib(written: &Written, place: &mut Place<'_>) {
    let size: usize = written.meta.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > 256 * 1024 {
        let message = format!("annotations of {size} bytes, and the API server takes at most {}", 256 * 1024);
        place.wrong("annotations", message, "put large values into a ConfigMap");
    }
}

/// An RFC 3339 time in UTC or with an offset, as seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Timestamp(i64);

impl Read for Timestamp {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let text = text(node, at)?;
        let time = parse_timestamp(text);
        if time.is_none() {
            at.wrong(
                "form",
                node,
                format!("{} is not a time", quote(text)),
                "write it as 2026-11-02T15:04:05Z",
            );
        }
        time.map(Self)
    }

    fn placeholder() -> Self {
        Self(0)
    }
}

fn parse_timestamp(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T')?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let zone = time.find(['Z', '+', '-'])?;
    let (time, zone) = time.split_at(zone);
    let time = match time.split_once('.') {
        Some((time, fraction)) if is_number(fraction) => time,
        Some(_) => return None,
        None => time,
    };
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    if day < 1 || day > days_in_month(year, month)? || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let offset = match zone.split_at(1) {
        ("Z", "") => 0,
        (sign, offset) => {
            let [hours, minutes] = numbers(offset, ':', [2, 2])?;
            let seconds = hours * 3600 + minutes * 60;
            match sign {
                "+" if hours < 24 && minutes < 60 => seconds,
                "-" if hours < 24 && minutes < 60 => -seconds,
                _ => return None,
            }
        }
    };
    Some(days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

/// Numbers with so many digits each.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i64; N]> {
    let parts: Vec<&str> = text.split(separator).collect();
    let mut numbers = [0; N];
    for (index, number) in numbers.iter_mut().enumerate() {
        let part = parts.get(index).filter(|part| part.len() == digits[index] && is_number(part))?;
        *number = part.parse().ok()?;
    }
    (parts.len() == N).then_some(numbers)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn days_in_month(year: i64, month: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => Some(if is_leap { 29 } else { 28 }),
        4 | 6 | 9 | 11 => Some(30),
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        _ => None,
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_the_epoch() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59Z", -1),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2026-11-02T15:04:05Z", 1_793_631_845),
            ("2026-11-02T15:04:05.123456Z", 1_793_631_845),
            ("2026-11-02T16:04:05+01:00", 1_793_631_845),
            ("2026-11-02T10:34:05-04:30", 1_793_631_845),
        ] {
            assert_eq!(parse_timestamp(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_time() {
        for text in [
            "",
            "2026-11-02",
            "2026-11-02 15:04:05Z",
            "2026-11-02T15:04:05",
            "2026-11-02T15:04:05z",
            "2026-11-02T15:04Z",
            "2026-11-31T15:04:05Z",
            "2026-02-29T15:04:05Z",
            "2026-13-01T15:04:05Z",
            "2026-00-01T15:04:05Z",
            "2026-11-00T15:04:05Z",
            "2026-11-02T24:04:05Z",
            "2026-11-02T15:60:05Z",
            "2026-11-02T15:04:60Z",
            "2026-11-02T15:04:05.Z",
            "2026-11-02T15:04:05+-5:00",
            "2026-11-02T15:04:05+5",
            "2026-11-02T15:04:05+25:00",
            "2026-11-02T15:04:05ZZ",
            "+026-11-02T15:04:05Z",
            "2026-11-02T15:04:05+01:00é",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn older_objects_go_first_then_names() {
        let mut old = Meta::new("z", "z");
        old.created = -5;
        let (a, b) = (Meta::new("a", "b"), Meta::new("b", "a"));
        assert!(old.precedence() < a.precedence() && a.precedence() < b.precedence());
    }
}
