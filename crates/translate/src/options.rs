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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(options: &[(&str, &str)]) -> (Option<TlsVersion>, Vec<String>) {
        let value = |text: &str| AnnotationValue::new(text).expect("short");
        let options = options.iter().map(|(key, text)| ((*key).to_owned(), value(text))).collect();
        read(&options, "spec.options")
    }

    #[test]
    fn the_minimum_is_read() {
        assert_eq!(of(&[(MINIMUM_TLS_VERSION, "1.2")]), (Some(TlsVersion::V1_2), Vec::new()));
        assert_eq!(of(&[(MINIMUM_TLS_VERSION, "1.3")]), (Some(TlsVersion::V1_3), Vec::new()));
    }

    #[test]
    fn mistakes_of_ours_are_told_and_keys_of_others_are_theirs() {
        let (minimum, notes) = of(&[
            (MINIMUM_TLS_VERSION, "TLS1.3"),
            ("gateway.tidegate.io/cipher", "x"),
            ("example.net/x", "y"),
        ]);
        assert_eq!(minimum, None);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes.iter().all(|note| note.starts_with("spec.options: ")), "{notes:?}");
    }
}
