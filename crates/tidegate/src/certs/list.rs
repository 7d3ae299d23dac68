//! `tidegate certs list`: what a state folder holds, or what a cluster has.

use std::sync::Arc;

use serde_json::json;
use tidegate_certs::{Certificate, Ledger, Timing};
use tidegate_kubernetes::certmanager::{Listed, There};
use tidegate_kubernetes::remote::{self, Objects};
use tidegate_plan::{Hostname, ObjectName};
use tidegate_translate::Wants;

use crate::arguments::{CertsList, GroupingOptions, TextFormat};
use crate::certs::ground;
use crate::certs::kept::{self, Kept};
use crate::cluster::asking;
use crate::layout::{Cell, Table};
use crate::output::{BAD, CARE, Error, Outcome, Terminal};
use crate::words;

pub(crate) fn run(options: &CertsList, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let found = match &options.state {
        Some(state) => Found::all(&kept::of_folder(state, terminal)?, &There::default()),
        None => of_cluster(options, terminal)?,
    };
    match options.output {
        TextFormat::Json => terminal.print_json(&found.json())?,
        TextFormat::Text => terminal.print(&found.text())?,
    }
    Ok(Outcome::good_if(found.is_good(words::now())))
}

fn of_cluster(options: &CertsList, terminal: &mut Terminal) -> Result<Found, Error> {
    asking(async {
        let (client, own) = remote::connect(options.context.as_deref()).await?;
        let Some(gateway) = &options.gateway else {
            let namespace = options.namespace.as_deref();
            let kept = kept::of_cluster(&client, namespace, None, terminal).await?;
            let there = Objects::certificates(&client).await.unwrap_or_else(|error| {
                terminal.warning(&error.to_string());
                There::default()
            });
            let mut found = Found::all(&kept, &there);
            found.rows.retain(|row| namespace.is_none_or(|only| *row.secret.namespace == *only));
            return Ok(found);
        };
        let namespace = options.namespace.as_deref().unwrap_or(&own);
        let name = ObjectName::new(namespace, gateway.as_str());
        let ground = ground::of_gateway(&client, name, None, &GroupingOptions::default(), terminal).await?;
        Ok(Found::of(&ground.kept, &ground.there, &ground.wants))
    })
}

/// A certificate, whoever made it.
struct Row {
    secret: ObjectName,
    issuer: String,
    names: Vec<Hostname>,
    not_before: Option<i64>,
    not_after: Option<i64>,
    renew_at: Option<i64>,
    /// `None` where it is cert-manager's to say.
    timing: Option<Timing>,
    usable: bool,
    wrong: Option<String>,
}

impl Row {
    fn of(Certificate { held, .. }: &Certificate) -> Self {
        let (renew_at, timing) = held.renewal();
        Self {
            secret: held.secret.clone(),
            issuer: held.issuer.to_string(),
            names: held.names.clone(),
            not_before: Some(held.not_before),
            not_after: Some(held.not_after),
            renew_at: Some(renew_at),
            timing: Some(timing),
            usable: held.usable,
            wrong: (!held.usable).then(|| "the key does not belong to the certificate".to_owned()),
        }
    }

    fn of_cert_manager(listed: Listed<'_>) -> Self {
        Self {
            secret: listed.secret.clone(),
            issuer: "cert-manager".to_owned(),
            names: listed.names.iter().cloned().collect(),
            not_before: listed.not_before,
            not_after: listed.not_after,
            renew_at: listed.renewal,
            timing: None,
            usable: listed.not_after.is_some(),
            wrong: listed.wrong,
        }
    }

    fn is_good(&self, now: i64) -> bool {
        // Clocks may differ by an hour.
        let has_begun = self.not_before.is_none_or(|from| from <= now + tidegate_certs::HOUR);
        self.wrong.is_none() && self.usable && has_begun && self.not_after.is_some_and(|end| now < end)
    }
}

struct Found {
    rows: Vec<Row>,
    troubles: Vec<Trouble>,
}

impl Found {
    fn all(kept: &Kept, there: &There) -> Self {
        Self::new(kept, there, None)
    }

    /// What concerns these listeners, wherever their Secrets are.
    fn of(kept: &Kept, there: &There, wants: &[Arc<Wants>]) -> Self {
        Self::new(kept, there, Some(wants))
    }

    fn new(kept: &Kept, there: &There, wants: Option<&[Arc<Wants>]>) -> Self {
        let is_meant = |target: &ObjectName| {
            wants.is_none_or(|wants| wants.iter().any(|wants| wants.secret.as_ref() == Some(target)))
        };
        let own = kept.certificates.iter().filter(|certificate| is_meant(&certificate.held.target));
        let others = there.listed().filter(|listed| is_meant(listed.of));
        let mut rows: Vec<Row> = own.map(Row::of).chain(others.map(Row::of_cert_manager)).collect();
        rows.sort_by(|a, b| a.secret.cmp(&b.secret));
        let troubles = kept.ledgers.iter().flat_map(|ledger| troubles(ledger, wants)).collect();
        Self { rows, troubles }
    }

    fn is_good(&self, now: i64) -> bool {
        self.troubles.is_empty() && self.rows.iter().all(|row| row.is_good(now))
    }

    fn text(&self) -> String {
        if self.rows.is_empty() && self.troubles.is_empty() {
            return "No certificate yet.\n".to_owned();
        }
        let now = words::now();
        let mut table = Table::new(0, &["SECRET", "ISSUER", "UNTIL", "RENEWED", "NAMES"]);
        for row in &self.rows {
            let time = |time: Option<i64>| time.map_or_else(|| "-".to_owned(), words::time);
            let until = time(row.not_after);
            let until = match (row.is_good(now), row.renew_at.is_some_and(|at| at < now)) {
                (false, _) => Cell::new(BAD, until),
                (true, true) => Cell::new(CARE, until),
                (true, false) => until.into(),
            };
            let cells = vec![
                row.secret.to_string().into(),
                row.issuer.clone().into(),
                until,
                match row.timing {
                    Some(timing) => format!("{} ({})", time(row.renew_at), words::timing(timing)).into(),
                    None => time(row.renew_at).into(),
                },
                words::some_of(&row.names, 5).into(),
            ];
            table.row(cells, row.wrong.iter().cloned().collect());
        }
        let text = table.render();
        if self.troubles.is_empty() {
            return text;
        }
        let mut table = Table::new(0, &["FAILED", "TRIES", "AGAIN"]);
        for trouble in &self.troubles {
            let cells = vec![
                Cell::new(BAD, trouble.whose.as_str()),
                trouble.tries.to_string().into(),
                words::time(trouble.again).into(),
            ];
            table.row(cells, vec![trouble.message.clone()]);
        }
        format!("{text}\n{}", table.render())
    }

    fn json(&self) -> serde_json::Value {
        let certificates = self.rows.iter().map(|row| {
            json!({
                "secret": row.secret,
                "issuer": row.issuer,
                "names": row.names,
                "notBefore": row.not_before.map(words::time),
                "notAfter": row.not_after.map(words::time),
                "renewAt": row.renew_at.map(words::time),
                "renewBy": row.timing,
                "usable": row.usable,
                "message": row.wrong,
            })
        });
        let failures = self.troubles.iter().map(|trouble| {
            json!({
                "of": trouble.whose,
                "message": trouble.message,
                "tries": trouble.tries,
                "again": words::time(trouble.again),
            })
        });
        json!({
            "certificates": certificates.collect::<Vec<_>>(),
            "failures": failures.collect::<Vec<_>>(),
        })
    }
}

/// What failed last: whose, why, and when it is tried again.
struct Trouble {
    whose: String,
    message: String,
    tries: u32,
    again: i64,
}

/// Those that concern somebody who wants these, or all.
fn troubles(ledger: &Ledger, wants: Option<&[Arc<Wants>]>) -> Vec<Trouble> {
    let asks = |issuer: &tidegate_certs::Issuer, name: Option<&Hostname>| {
        wants.is_none_or(|wants| {
            wants.iter().any(|wants| {
                let mut names = wants.names.iter();
                tidegate_issuing::issuer(wants).as_ref() == Some(issuer)
                    && name.is_none_or(|name| names.any(|wanted| wanted.name == *name))
            })
        })
    };
    let names = ledger
        .setbacks()
        .filter(|(issuer, name, _)| asks(issuer, Some(name)))
        .map(|(issuer, name, setback)| (format!("{name} ({issuer})"), setback));
    let issuers = ledger
        .holds()
        .filter(|(issuer, _)| asks(issuer, None))
        .map(|(issuer, setback)| (format!("issuer {issuer}"), setback));
    issuers
        .chain(names)
        .map(|(whose, setback)| Trouble {
            whose,
            message: setback.message.clone(),
            tries: setback.count,
            again: setback.since + setback.wait.max(setback.at_least),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use tidegate_plan::ListenerId;
    use tidegate_translate::{Issuer, Wanted};

    use super::*;

    #[test]
    fn what_renewals_go_by_is_told() {
        let held = |name: &str| tidegate_certs::Held {
            secret: ObjectName::new("shop", name),
            target: ObjectName::new("shop", name),
            issuer: tidegate_certs::Issuer::acme(),
            names: vec![Hostname::parse("a.example.com").unwrap()],
            not_before: 1_800_000_000,
            not_after: 1_807_776_000,
            serial: "01".to_owned(),
            suggestion: None,
            usable: true,
        };
        let certificate =
            |name: &str| Certificate { held: held(name), chain: String::new(), key: String::new() };
        let window = r#"{"serial": "01", "start": 1801000000, "end": 1801000000}"#;
        let ledger = format!(r#"{{"windows": [[{{"namespace": "shop", "name": "said"}}, {window}]]}}"#);
        let ledger: Ledger = serde_json::from_str(&ledger).unwrap();
        let kept = Kept::new(vec![certificate("said"), certificate("silent")], vec![ledger]);
        let found = Found::all(&kept, &There::default());
        let json = found.json();
        let of =
            |index: usize| (&json["certificates"][index]["renewAt"], &json["certificates"][index]["renewBy"]);
        assert_eq!(of(0), (&words::time(1_801_000_000).into(), &"ari".into()));
        assert_eq!(of(1).1, "age");
        let text = found.text();
        assert!(text.contains(&format!("{} (ARI)", words::time(1_801_000_000))), "{text}");
        assert!(text.contains("(2/3 of life)"), "{text}");
    }

    #[test]
    fn of_a_gateway_only_what_concerns_it_is_told() {
        let setback = r#"{"count": 1, "since": 1, "wait": 2, "message": "no"}"#;
        let ledger = format!(
            r#"{{"aside": [[["embedded", "a.example.com"], {setback}], [[{{"acme": "default"}}, "b.example.com"], {setback}]],
                "holds": [[{{"acme": "default"}}, {setback}]]}}"#
        );
        let ledger: Ledger = serde_json::from_str(&ledger).unwrap();
        let wants = |issuer: Issuer, name: &str| {
            Arc::new(Wants {
                listener: ListenerId {
                    gateway: ObjectName::new("shop", "web"),
                    listener_set: None,
                    name: "https".into(),
                },
                issuer,
                secret: Some(ObjectName::new("shop", "tls")),
                names: vec![Wanted { name: Hostname::parse(name).unwrap(), routes: Vec::new() }],
                stand_in: None,
                left_out: Vec::new(),
            })
        };
        let whose = |wants: Option<&[Arc<Wants>]>| {
            troubles(&ledger, wants).into_iter().map(|trouble| trouble.whose).collect::<Vec<_>>()
        };
        assert_eq!(whose(None).len(), 3);
        assert_eq!(whose(Some(&[wants(Issuer::Embedded, "a.example.com")])), ["a.example.com (embedded)"]);
        let acme = Issuer::Acme { account: None };
        assert_eq!(whose(Some(&[wants(acme, "c.example.com")])), ["issuer acme"]);
        assert!(whose(Some(&[wants(Issuer::Embedded, "b.example.com")])).is_empty());
    }
}
