//! What every object has.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_plan::ObjectName as Name;

use crate::read::{At, Read, text};
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

/// Reads `metadata` of an object that has a namespace or not. Fields that only the API server writes are
/// passed over.
pub(crate) fn read_meta(object: &Node, namespaced: bool, at: &mut At) -> Option<Meta> {
    let Some(node) = object.get("metadata") else {
        at.wrong(
            "required",
            object,
            "the field `metadata` is missing",
            "write `metadata:` with a `name:` below it",
        );
        return None;
    };
    at.within("metadata", |at| {
        at.fields(node)?;
        let name: Option<String> = at.field(node, "name", None);
        let namespace: Option<String> = at.field(node, "namespace", Some("default".to_owned()));
        let labels = at.field(node, "labels", None);
        let annotations = at.field(node, "annotations", None);
        let generation = at.field(node, "generation", Some(1));
        let created = at.field(node, "creationTimestamp", Some(Timestamp(0)));
        let name = name?;
        if !crate::scalar::is_subdomain(&name) || name.len() > 253 {
            let at_name = node.nearest("name");
            at.within("name", |at| {
                at.wrong(
                    "metadata-name",
                    at_name,
                    format!("`{}` is not a name for an object", crate::scalar::shorten(&name)),
                    "write at most 253 lower-case letters, digits, `-` and `.`, beginning and ending with a letter or digit",
                );
            });
            return None;
        }
        Some(Meta {
            namespace: if namespaced { namespace?.into() } else { "".into() },
            name: name.into(),
            labels: labels?,
            annotations: annotations?,
            generation: generation?,
            created: created?.0,
            uid: node.get("uid").and_then(Node::as_str).unwrap_or_default().to_owned(),
            deleting: node.get("deletionTimestamp").is_some_and(|node| node.value != Value::Null),
        })
    })
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
                format!("`{}` is not a time", crate::scalar::shorten(text)),
                "write it as 2026-11-02T15:04:05Z",
            );
        }
        time.map(Self)
    }
}

fn parse_timestamp(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let mark = |at: usize, wanted: &[u8]| text.as_bytes().get(at).is_some_and(|byte| wanted.contains(byte));
    if !(mark(4, b"-") && mark(7, b"-") && mark(10, b"Tt") && mark(13, b":") && mark(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = text.get(19..)?;
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
    }
    let offset = match rest.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), ..] if rest.len() == 6 => {
            let (hours, minutes) = rest[1..].split_once(':')?;
            let seconds = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    Some(days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}
