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
        let Some(wanted) = now.demand.targets.get(target) else { continue };
        let issuer = &wanted.issuer;
        let note = match state {
            State::SetAside { message, .. } => format!("no certificate for {name}: {message}"),
            State::IssuerHeld { message, .. } => format!("the issuer cannot be asked: {message}"),
            State::NoIssuer => format!("issuer {issuer} of Secret {target} is not set up in this controller"),
            State::NotPermitted => format!("issuer {issuer} of Secret {target} is not for this namespace"),
            State::OverBudget(pool) => {
                format!("no certificate for {name} yet: {pool} has had its orders of this week")
            }
            _ => continue,
        };
        let claim = wanted.names.get(name);
        let is_known = before.missing.get(&(target.clone(), name.clone())) == Some(state);
        if let Some(claim) = claim.filter(|_| !is_known) {
            words.insert(Word { gateway: claim.gateway.clone(), failed: true, note });
        }
    }
    words.extend(renewals(before, now));
    words.extend(contested(before, now));
    words
}

/// Renewals that failed, or have not been done for too long, while there is time to do something about it.
fn renewals<'a>(before: &'a Picture, now: &'a Picture) -> impl Iterator<Item = Word> + 'a {
    now.late.iter().filter(|(key, late)| before.late.get(*key) != Some(*late)).filter_map(
        |((target, name), late)| {
            let claim = now.demand.targets.get(target)?.names.get(name)?;
            let note = match &late.state {
                State::SetAside { message, .. } => {
                    format!("the certificate of {name} is not renewed: {message}")
                }
                State::IssuerHeld { message, .. } => {
                    format!("certificates in Secret {target} are not renewed: {message}")
                }
                _ => format!("certificates in Secret {target} should have been renewed and are not yet"),
            };
            Some(Word { gateway: claim.gateway.clone(), failed: true, note })
        },
    )
}

/// Gateways whose issuer is not the one that makes the Secret they name.
fn contested<'a>(before: &'a Picture, now: &'a Picture) -> impl Iterator<Item = Word> + 'a {
    let new = now.demand.conflicts.iter().filter(|conflict| !before.demand.conflicts.contains(conflict));
    new.map(|conflict| Word {
        gateway: conflict.gateway.clone(),
        failed: true,
        note: format!(
            "Secret {} is made by the issuer of another Gateway; name another Secret",
            conflict.secret
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use tidegate_certs::{Demand, Issuer, Late, Pool, Want, WantedName};

    const NAMES: [&str; 2] = ["a.example.com", "b.example.com"];

    fn name(text: &str) -> Hostname {
        Hostname::parse(text).unwrap()
    }

    fn want(gateway: &str, issuer: Issuer) -> Want {
        Want {
            secret: ObjectName::new("shop", "tls"),
            gateway: ObjectName::new("shop", gateway),
            issuer,
            names: NAMES.map(|text| WantedName { name: name(text), namespace: "shop".into() }).to_vec(),
        }
    }

    #[test]
    fn renewals_budgets_and_contested_secrets_are_told_once() {
        let demand = Arc::new(Demand::new([want("web", Issuer::acme())], BTreeSet::new()));
        let nothing = Picture { demand: Arc::clone(&demand), ..Picture::default() };
        let key = |text| (ObjectName::new("shop", "tls"), name(text));
        let late = |state: &State| Picture {
            late: NAMES.iter().map(|text| (key(text), Late { ends: 9, state: state.clone() })).collect(),
            ..nothing.clone()
        };
        let held = late(&State::IssuerHeld { until: 1, message: "away".to_owned() });
        let failed = late(&State::SetAside { until: 1, message: "no answer".to_owned() });
        for (picture, count, ending) in [
            (&held, 1, "not renewed: away"),
            (&failed, 2, "not renewed: no answer"),
            (&late(&State::Queued), 1, "not yet"),
        ] {
            let words: Vec<Word> = news(&nothing, picture).into_iter().collect();
            assert!(words.iter().all(|word| word.failed && word.note.ends_with(ending)), "{words:?}");
            assert_eq!(words.len(), count, "{words:?}");
            assert!(news(picture, picture).is_empty() && news(picture, &nothing).is_empty());
        }
        let pool = State::OverBudget(Pool::Namespace("shop".into()));
        let over = Picture { missing: BTreeMap::from([(key(NAMES[0]), pool)]), ..nothing.clone() };
        assert_eq!(news(&nothing, &over).len(), 1);
        let both = [want("web", Issuer::acme()), want("other", Issuer::Embedded)];
        let contested =
            Picture { demand: Arc::new(Demand::new(both, BTreeSet::new())), ..Picture::default() };
        let words: Vec<Word> = news(&nothing, &contested).into_iter().collect();
        assert!(matches!(&words[..], [word] if *word.gateway.name == *"other"), "{words:?}");
        assert!(news(&contested, &contested).is_empty());
    }

    #[test]
    fn a_failure_is_told_once_and_once_for_all_names_of_an_issuer() {
        let names = NAMES;
        let demand = Arc::new(Demand::new([want("web", Issuer::acme())], BTreeSet::new()));
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
        for state in [State::NoIssuer, State::NotPermitted] {
            let words: Vec<Word> = news(&waits, &picture(&state)).into_iter().collect();
            assert_eq!(words.len(), 1, "{words:?}");
            assert!(words[0].note.starts_with("issuer acme of Secret shop/tls is not"), "{words:?}");
        }
    }
}
