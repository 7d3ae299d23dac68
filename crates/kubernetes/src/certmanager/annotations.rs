//! What the annotations of a Gateway or ListenerSet ask of its Certificates: those that cert-manager's gateway-shim
//! reads, in the same way, and two of ours.
//!
//! One that cannot be read is left out and told; the others hold.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Map, Value as Json, json};
use tidegate_api::Meta;
use tidegate_certs::Grouping;
use tidegate_plan::Hostname;

use super::text::{csv, duration};

/// Which listeners are ours: `open`, those without a hostname, or `all`.
pub(super) const LISTENERS: &str = "gateway.tidegate.io/cert-manager";
/// Which names share a Certificate.
pub(super) const TOGETHER: &str = "gateway.tidegate.io/certificate-per";

const PREFIX: &str = "cert-manager.io/";
const HOUR: i64 = 3600;
/// Where nothing is said about it.
const DURATION: i64 = 90 * 24 * HOUR;
const SHORTEST: i64 = HOUR;
const SHORTEST_RENEWAL: i64 = 300;
const LONGEST_COMMON_NAME: usize = 64;

const USAGES: &[&str] = &[
    "signing",
    "digital signature",
    "content commitment",
    "key encipherment",
    "key agreement",
    "data encipherment",
    "cert sign",
    "crl sign",
    "encipher only",
    "decipher only",
    "any",
    "server auth",
    "client auth",
    "code signing",
    "email protection",
    "s/mime",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "timestamping",
    "ocsp signing",
    "microsoft sgc",
    "netscape sgc",
];

const SUBJECT: &[(&str, &str)] = &[
    ("subject-organizations", "organizations"),
    ("subject-organizationalunits", "organizationalUnits"),
    ("subject-countries", "countries"),
    ("subject-provinces", "provinces"),
    ("subject-localities", "localities"),
    ("subject-postalcodes", "postalCodes"),
    ("subject-streetaddresses", "streetAddresses"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerRef {
    pub name: String,
    pub kind: String,
    pub group: String,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) issuer: IssuerRef,
    pub(super) together: Grouping,
    /// Whether listeners with a hostname are ours as well.
    pub(super) all_listeners: bool,
    /// Fields of every Certificate's `spec`.
    pub(super) spec: Map<String, Json>,
    /// Fields of the first one's: further subjects that are not names of routes.
    pub(super) first: Map<String, Json>,
    pub(super) common_name: Option<String>,
    pub(super) alt_names: Vec<Hostname>,
    pub(super) secret_annotations: BTreeMap<String, String>,
    pub(super) secret_labels: BTreeMap<String, String>,
    /// Of every Certificate.
    pub(super) annotations: BTreeMap<String, String>,
}

/// Whether the gateway-shim acts on the object at all.
pub(super) fn has_issuer(meta: &Meta) -> bool {
    ["issuer", "cluster-issuer"].iter().any(|key| get(meta, key).is_some())
}

/// Whether the gateway-shim is told to leave a listener alone.
pub(super) fn is_ignored(meta: &Meta, listener: &str) -> bool {
    let ignored = get(meta, "ignore-tls-listeners").into_iter().flat_map(|names| names.split(','));
    ignored.into_iter().any(|name| name.trim() == listener)
}

fn get<'a>(meta: &'a Meta, key: &str) -> Option<&'a str> {
    meta.annotation(&format!("{PREFIX}{key}"))
}

/// Reads them; what is wrong is noted. `Err`: nothing can be asked of anybody. `together` is which names share a
/// Certificate where they do not say.
pub(super) fn read(meta: &Meta, together: Grouping, notes: &mut Vec<String>) -> Result<Asked, String> {
    let mut reader = Reader { meta, notes };
    let mut asked = Asked {
        issuer: reader.issuer()?,
        together: reader.together().unwrap_or(together),
        all_listeners: reader.all_listeners(),
        spec: Map::new(),
        first: Map::new(),
        common_name: reader.common_name(),
        alt_names: reader.alt_names(),
        secret_annotations: BTreeMap::new(),
        secret_labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    };
    reader.times(&mut asked.spec);
    reader.usages(&mut asked.spec);
    reader.private_key(&mut asked.spec);
    reader.subject(&mut asked.spec);
    if let Some(limit) = reader.number("revision-history-limit", 1, i32::MAX.into()) {
        asked.spec.insert("revisionHistoryLimit".to_owned(), json!(limit));
    }
    reader.other_subjects(&mut asked.first);
    reader.secret_template(&mut asked);
    for (from, to) in [
        ("http01-ingress-class", "http01-override-ingress-class"),
        ("http01-ingress-ingressclassname", "http01-override-ingress-ingressclassname"),
    ] {
        if let Some(class) =
            meta.annotation(&format!("acme.{PREFIX}{from}")).filter(|class| !class.is_empty())
        {
            asked.annotations.insert(format!("acme.{PREFIX}{to}"), class.to_owned());
        }
    }
    // The gateway-shim has an Ingress of the object's name answer, and a certificate that vouches for itself meanwhile.
    if meta.annotation(&format!("acme.{PREFIX}http01-edit-in-place")) == Some("true") {
        let ingress = (format!("acme.{PREFIX}http01-override-ingress-name"), meta.name.to_string());
        let meanwhile = (format!("{PREFIX}issue-temporary-certificate"), "true".to_owned());
        asked.annotations.extend([ingress, meanwhile]);
    }
    Ok(asked)
}

struct Reader<'a> {
    meta: &'a Meta,
    notes: &'a mut Vec<String>,
}

impl<'a> Reader<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        get(self.meta, key)
    }

    fn note(&mut self, key: &str, what: impl std::fmt::Display) {
        self.notes.push(format!("annotation {PREFIX}{key} {what}"));
    }

    fn issuer(&self) -> Result<IssuerRef, String> {
        let (issuer, cluster) = (self.get("issuer"), self.get("cluster-issuer"));
        let (kind, group) = (self.get("issuer-kind"), self.get("issuer-group"));
        let name = match (issuer, cluster) {
            (Some(_), Some(_)) => {
                return Err(format!("{PREFIX}issuer and {PREFIX}cluster-issuer cannot both be set"));
            }
            (None, Some(_)) if kind.is_some() || group.is_some() => {
                return Err(format!(
                    "{PREFIX}issuer-kind and {PREFIX}issuer-group go with {PREFIX}issuer, not with {PREFIX}cluster-issuer"
                ));
            }
            (one, other) => one.or(other).unwrap_or_default().trim(),
        };
        if name.is_empty() {
            return Err(format!("{PREFIX}issuer and {PREFIX}cluster-issuer name nobody"));
        }
        Ok(IssuerRef {
            name: name.to_owned(),
            kind: kind.unwrap_or(if issuer.is_some() { "Issuer" } else { "ClusterIssuer" }).to_owned(),
            group: group.unwrap_or("cert-manager.io").to_owned(),
        })
    }

    fn together(&mut self) -> Option<Grouping> {
        match self.meta.annotation(TOGETHER)? {
            "namespace" => Some(Grouping::Namespace),
            "listener" => Some(Grouping::Listener),
            "name" => Some(Grouping::Name),
            other => {
                let note = format!("annotation {TOGETHER} is `{other}`; write namespace, listener or name");
                self.notes.push(note);
                None
            }
        }
    }

    fn all_listeners(&mut self) -> bool {
        match self.meta.annotation(LISTENERS) {
            None | Some("open") => false,
            Some("all") => true,
            Some(other) => {
                self.notes.push(format!("annotation {LISTENERS} is `{other}`; write open or all"));
                false
            }
        }
    }

    fn common_name(&mut self) -> Option<String> {
        let name = self.get("common-name")?;
        if name.chars().count() > LONGEST_COMMON_NAME {
            self.note("common-name", format_args!("is longer than {LONGEST_COMMON_NAME} characters"));
            return None;
        }
        Some(name.to_owned()).filter(|name| !name.is_empty())
    }

    fn alt_names(&mut self) -> Vec<Hostname> {
        let mut names = Vec::new();
        for text in self.list("alt-names") {
            match Hostname::parse(text) {
                Ok(name) => names.push(name),
                Err(error) => self.note("alt-names", format_args!("has `{text}`: {error}")),
            }
        }
        names
    }

    fn list(&self, key: &str) -> Vec<&'a str> {
        let texts = self.get(key).into_iter().flat_map(|list| list.split(','));
        texts.map(str::trim).filter(|text| !text.is_empty()).collect()
    }

    fn number(&mut self, key: &str, least: i64, most: i64) -> Option<i64> {
        let text = self.get(key)?;
        match text.parse::<i64>().ok().filter(|number| (least..=most).contains(number)) {
            Some(number) => Some(number),
            None => {
                self.note(key, format_args!("is `{text}`; write a whole number from {least} to {most}"));
                None
            }
        }
    }

    fn time(&mut self, key: &str, least: i64) -> Option<(i64, &'a str)> {
        let text = self.get(key)?;
        match duration(text) {
            None => {
                self.note(key, format_args!("is `{text}`; write a time such as 2160h or 1h30m"));
                None
            }
            Some(seconds) if seconds < least => {
                self.note(key, format_args!("is `{text}`, which is less than {} minutes", least / 60));
                None
            }
            Some(seconds) => Some((seconds, text)),
        }
    }

    fn times(&mut self, spec: &mut Map<String, Json>) {
        let life = self.time("duration", SHORTEST);
        if let Some((_, text)) = life {
            spec.insert("duration".to_owned(), json!(text));
        }
        let life = life.map_or(DURATION, |(seconds, _)| seconds);
        let before = self.time("renew-before", SHORTEST_RENEWAL);
        let percentage = self.number("renew-before-percentage", 1, 99);
        match (before, percentage) {
            (Some(_), Some(_)) => self.note(
                "renew-before-percentage",
                format_args!("is not taken: {PREFIX}renew-before is set as well"),
            ),
            (None, Some(percentage)) if life * (100 - percentage) / 100 < SHORTEST_RENEWAL => {
                self.note("renew-before-percentage", "leaves less than 5 minutes for renewal");
            }
            (None, Some(percentage)) => {
                spec.insert("renewBeforePercentage".to_owned(), json!(percentage));
            }
            _ => {}
        }
        match before {
            Some((seconds, _)) if seconds >= life => {
                self.note("renew-before", "is not shorter than the certificate's life");
            }
            Some((_, text)) => _ = spec.insert("renewBefore".to_owned(), json!(text)),
            None => {}
        }
    }

    fn usages(&mut self, spec: &mut Map<String, Json>) {
        let usages = self.list("usages");
        if let Some(unknown) = usages.iter().find(|usage| !USAGES.contains(usage)) {
            self.note("usages", format_args!("has `{unknown}`, which is no usage of keys"));
        } else if !usages.is_empty() {
            spec.insert("usages".to_owned(), json!(usages));
        }
    }

    fn one_of(&mut self, key: &str, known: &[&'static str]) -> Option<&'static str> {
        let text = self.get(key)?;
        let found = known.iter().copied().find(|known| *known == text);
        if found.is_none() {
            self.note(key, format_args!("is `{text}`; write {}", known.join(" or ")));
        }
        found
    }

    fn private_key(&mut self, spec: &mut Map<String, Json>) {
        let mut key = Map::new();
        let algorithm = self.one_of("private-key-algorithm", &["RSA", "ECDSA", "Ed25519"]);
        let encoding = self.one_of("private-key-encoding", &["PKCS1", "PKCS8"]);
        let rotation = self.one_of("private-key-rotation-policy", &["Never", "Always"]);
        for (field, value) in [("algorithm", algorithm), ("encoding", encoding), ("rotationPolicy", rotation)]
        {
            key.extend(value.map(|value| (field.to_owned(), json!(value))));
        }
        if let Some(size) = self.number("private-key-size", 1, i32::MAX.into()) {
            let (is_good, sizes) = match algorithm.unwrap_or("RSA") {
                "RSA" => ((2048..=8192).contains(&size), "2048 to 8192 for RSA"),
                "ECDSA" => ([256, 384, 521].contains(&size), "256, 384 or 521 for ECDSA"),
                _ => (true, ""),
            };
            if is_good {
                key.insert("size".to_owned(), json!(size));
            } else {
                self.note("private-key-size", format_args!("is {size}; write {sizes}"));
            }
        }
        if !key.is_empty() {
            spec.insert("privateKey".to_owned(), Json::Object(key));
        }
    }

    fn subject(&mut self, spec: &mut Map<String, Json>) {
        let mut subject = Map::new();
        for (key, field) in SUBJECT {
            match self.get(key).map(csv) {
                Some(Some(values)) => _ = subject.insert((*field).to_owned(), json!(values)),
                Some(None) => self.note(key, "is not one line of values separated by commas"),
                None => {}
            }
        }
        if let Some(number) = self.get("subject-serialnumber") {
            subject.insert("serialNumber".to_owned(), json!(number));
        }
        if !subject.is_empty() {
            spec.insert("subject".to_owned(), Json::Object(subject));
        }
    }

    fn other_subjects(&mut self, spec: &mut Map<String, Json>) {
        let mut addresses = Vec::new();
        for text in self.list("ip-sans") {
            match text.parse::<IpAddr>() {
                Ok(address) => addresses.push(address.to_string()),
                Err(_) => self.note("ip-sans", format_args!("has `{text}`, which is no IP address")),
            }
        }
        let mut uris = Vec::new();
        for text in self.list("uri-sans") {
            if text.split_once(':').is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty()) {
                uris.push(text.to_owned());
            } else {
                self.note("uri-sans", format_args!("has `{text}`, which is no URI"));
            }
        }
        let emails = self.list("email-sans").into_iter().map(str::to_owned).collect();
        for (field, values) in [("ipAddresses", addresses), ("uris", uris), ("emailAddresses", emails)] {
            if !values.is_empty() {
                spec.insert(field.to_owned(), json!(values));
            }
        }
    }

    fn secret_template(&mut self, asked: &mut Asked) {
        let Some(text) = self.get("secret-template") else { return };
        let template: Json = match serde_json::from_str(text) {
            Ok(template) => template,
            Err(error) => return self.note("secret-template", format_args!("is not JSON: {error}")),
        };
        let Some(fields) = template.as_object() else {
            return self.note("secret-template", "is not an object with `annotations` and `labels`");
        };
        if let Some(field) = fields.keys().find(|field| !["annotations", "labels"].contains(&field.as_str()))
        {
            return self.note("secret-template", format_args!("has a field `{field}` that there is not"));
        }
        let entries = |field: &str| -> Option<BTreeMap<String, String>> {
            match fields.get(field) {
                None | Some(Json::Null) => Some(BTreeMap::new()),
                Some(Json::Object(entries)) => entries
                    .iter()
                    .map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                    .collect(),
                Some(_) => None,
            }
        };
        let (Some(annotations), Some(labels)) = (entries("annotations"), entries("labels")) else {
            return self.note("secret-template", "has something else than texts");
        };
        if let Some(key) = annotations.keys().find(|key| key.starts_with(PREFIX)) {
            return self.note("secret-template", format_args!("has {key}, which is cert-manager's own"));
        }
        (asked.secret_annotations, asked.secret_labels) = (annotations, labels);
    }
}

#[cfg(test)]
#[path = "annotations_tests.rs"]
mod tests;
