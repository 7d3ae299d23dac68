//! The options of listeners and BackendTLSPolicies: domain-prefixed keys of ours.

use tidegate_api::read::Map;
use tidegate_api::scalar::AnnotationValue;
use tidegate_plan::TlsVersion;

const PREFIX: &str = "gateway.tidegate.io/";
const MINIMUM_TLS_VERSION: &str = "gateway.tidegate.io/minimum-tls-version";

/// What the options say, and what is worth saying about those that have no effect. Keys of others are theirs.
pub(crate) fn read(options: &Map<AnnotationValue>, whose: &str) -> (Option<TlsVersion>, Vec<String>) {
    let mut minimum = None;
    let mut notes = Vec::new();
    for (key, value) in options {
        if key == MINIMUM_TLS_VERSION {
            match value.as_str() {
                "1.2" => minimum = Some(TlsVersion::V1_2),
                "1.3" => minimum = Some(TlsVersion::V1_3),
                other => notes.push(format!("{whose}: option {key} is `{other}`; write \"1.2\" or \"1.3\"")),
            }
        } else if key.starts_with(PREFIX) {
            notes.push(format!("{whose}: there is no option {key}; the one there is: {MINIMUM_TLS_VERSION}"));
        }
    }
    (minimum, notes)
}
