//! What of certificates is worth an Event on a Gateway.

use std::collections::BTreeSet;

use tidegate_certs::{Picture, State};
use tidegate_plan::{Hostname, ObjectName};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Word {
    pub(crate) gateway: ObjectName,
    pub(crate) failed: bool,
    pub(crate) note: String,
}

/// Certificates that are new, and names that failed, since the picture before.
pub(crate) fn news(before: &Picture, now: &Picture) -> BTreeSet<Word> {
    let mut words = BTreeSet::new();
    for (secret, certificate) in &now.certificates {
        let known = before.certificates.get(secret);
        if known.is_some_and(|known| known.held.serial == certificate.held.serial) {
            continue;
        }
        let held = &certificate.held;
        let names: Vec<&str> = held.names.iter().take(5).map(Hostname::as_str).collect();
        let more = held.names.len().saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let note =
            format!("Secret {secret} has a certificate of {} for {}{more}", held.issuer, names.join(", "));
        let target = now.demand.targets.get(&held.target);
        let claims = target.into_iter().flat_map(|target| target.names.values());
        words.extend(claims.map(|claim| Word {
            gateway: claim.gateway.clone(),
            failed: false,
            note: note.clone(),
        }));
    }
    for ((target, name), state) in &now.missing {
        let note = match state {
            State::SetAside { message, .. } => format!("no certificate for {name}: {message}"),
            State::IssuerHeld { message, .. } => format!("the issuer cannot be asked: {message}"),
            _ => continue,
        };
        let claim = now.demand.targets.get(target).and_then(|target| target.names.get(name));
        let is_known = before.missing.get(&(target.clone(), name.clone())) == Some(state);
        if let Some(claim) = claim.filter(|_| !is_known) {
            words.insert(Word { gateway: claim.gateway.clone(), failed: true, note });
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use tidegate_certs::{Demand, Issuer, Want, WantedName};

    #[test]
    fn a_failure_is_told_once_and_once_for_all_names_of_an_issuer() {
        let name = |text: &str| Hostname::parse(text).unwrap();
        let names = ["a.example.com", "b.example.com"];
        let want = Want {
            secret: ObjectName::new("shop", "tls"),
            gateway: ObjectName::new("shop", "web"),
            issuer: Issuer::acme(),
            names: names.map(|text| WantedName { name: name(text), namespace: "shop".into() }).to_vec(),
        };
        let demand = Arc::new(Demand::new([want], BTreeSet::new()));
        let picture = |state: &State| Picture {
            missing: names
                .iter()
                .map(|text| ((ObjectName::new("shop", "tls"), name(text)), state.clone()))
                .collect(),
            demand: Arc::clone(&demand),
            ..Picture::default()
        };
        let (waits, held) =
            (picture(&State::Queued), picture(&State::IssuerHeld { until: 1, message: "away".to_owned() }));
        let words: Vec<Word> = news(&waits, &held).into_iter().collect();
        assert_eq!(words.len(), 1);
        assert!(words[0].failed && words[0].note.ends_with("away"), "{words:?}");
        assert!(news(&held, &held).is_empty() && news(&held, &waits).is_empty());
        let aside = picture(&State::SetAside { until: 1, message: "no".to_owned() });
        assert_eq!(news(&held, &aside).len(), 2);
    }
}
