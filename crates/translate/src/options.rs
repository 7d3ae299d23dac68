//! The options of listeners and BackendTLSPolicies: domain-prefixed keys of ours.

use tidegate_api::read::Map;
use tidegate_api::scalar::AnnotationValue;
use tidegate_plan::{ApplicationProtocol, TlsVersion};

const PREFIX: &str = "gateway.tidegate.io/";
const MINIMUM_TLS_VERSION: &str = "gateway.tidegate.io/minimum-tls-version";
pub(crate) const ALPN: &str = "gateway.tidegate.io/alpn";

/// A data plane looks at so many of the protocols that a client offers.
const PROTOCOLS: usize = 16;

/// What the options say.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TlsOptions {
    pub(crate) minimum_version: Option<TlsVersion>,
    pub(crate) alpn: Vec<ApplicationProtocol>,
}

/// With it, what is worth saying about those that have no effect. Keys of others are theirs.
pub(crate) fn read(options: &Map<AnnotationValue>, whose: &str) -> (TlsOptions, Vec<String>) {
    let mut read = TlsOptions::default();
    let mut notes = Vec::new();
    for (key, value) in options {
        match key.as_str() {
            MINIMUM_TLS_VERSION => match value.as_str() {
                "1.2" => read.minimum_version = Some(TlsVersion::V1_2),
                "1.3" => read.minimum_version = Some(TlsVersion::V1_3),
                other => notes.push(format!("{whose}: option {key} is `{other}`; write \"1.2\" or \"1.3\"")),
            },
            ALPN => match protocols(value.as_str()) {
                Some(protocols) => read.alpn = protocols,
                None => notes.push(format!(
                    "{whose}: option {key} is no list of 1 to {PROTOCOLS} protocols; write their names, the preferred \
                     first, separated by commas, as in \"postgresql\" or \"h2, http/1.1\""
                )),
            },
            other if other.starts_with(PREFIX) => notes.push(format!(
                "{whose}: there is no option {key}; those there are: {ALPN}, {MINIMUM_TLS_VERSION}"
            )),
            _ => {}
        }
    }
    (read, notes)
}

/// That options of ours are written where TLS is not ended.
pub(crate) fn without_effect(options: &Map<AnnotationValue>, whose: &str) -> Vec<String> {
    let ours = options.keys().filter(|key| key.starts_with(PREFIX));
    ours.map(|key| format!("{whose}: option {key} has no effect: what passes through is not looked into"))
        .collect()
}

fn protocols(list: &str) -> Option<Vec<ApplicationProtocol>> {
    let names = list.split(',').map(|name| ApplicationProtocol::parse(name.trim()));
    let names: Vec<ApplicationProtocol> = names.collect::<Result<_, _>>().ok()?;
    (names.len() <= PROTOCOLS).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(options: &[(&str, &str)]) -> Map<AnnotationValue> {
        let value = |text: &str| AnnotationValue::new(text).expect("short");
        options.iter().map(|(key, text)| ((*key).to_owned(), value(text))).collect()
    }

    fn of(options: &[(&str, &str)]) -> (TlsOptions, Vec<String>) {
        read(&map(options), "spec.options")
    }

    #[test]
    fn the_minimum_is_read() {
        for (text, version) in [("1.2", TlsVersion::V1_2), ("1.3", TlsVersion::V1_3)] {
            let (read, notes) = of(&[(MINIMUM_TLS_VERSION, text)]);
            assert_eq!((read.minimum_version, notes), (Some(version), Vec::new()));
        }
    }

    #[test]
    fn protocols_are_read_in_their_order() {
        let names = |list| {
            let (read, notes) = of(&[(ALPN, list)]);
            let names: Vec<String> = read.alpn.into_iter().map(String::from).collect();
            (names.join(" "), notes.len())
        };
        let most = vec!["x"; PROTOCOLS].join(",");
        assert_eq!(names("postgresql"), ("postgresql".to_owned(), 0));
        assert_eq!(names("h2, http/1.1"), ("h2 http/1.1".to_owned(), 0));
        assert_eq!(names(&most), (most.replace(',', " "), 0));
        for wrong in ["", " ", "h2,", "two words", &format!("{most},x"), &"x".repeat(256)] {
            assert_eq!(names(wrong), (String::new(), 1), "{wrong:?}");
        }
    }

    #[test]
    fn mistakes_of_ours_are_told_and_keys_of_others_are_theirs() {
        let mistakes = [
            (MINIMUM_TLS_VERSION, "TLS1.3"),
            (ALPN, ""),
            ("gateway.tidegate.io/cipher", "x"),
            ("example.net/x", "y"),
        ];
        let (read, notes) = of(&mistakes);
        assert_eq!(read, TlsOptions::default());
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes.iter().all(|note| note.starts_with("spec.options: ")), "{notes:?}");
        assert_eq!(without_effect(&map(&mistakes), "listener tls").len(), 3);
    }
}
