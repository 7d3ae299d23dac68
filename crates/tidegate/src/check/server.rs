//! `tidegate check --server`: what the API server of a cluster says to the manifests, and what they would change there.

use std::fmt::Write;

use serde_json::{Value, json};
use tidegate_api::ObjectKey;
use tidegate_kubernetes::remote::{self, Around, Difference, Verdict};

use crate::cluster::asking;
use crate::meaning::Meaning;
use crate::output::{BAD, CARE, Error, FAINT, GOOD, STRONG, Terminal, styled};

/// A longer value tells nobody anything.
const LONGEST: usize = 60;

pub(super) struct Compared {
    verdicts: Vec<(ObjectKey, Verdict)>,
    /// Objects of kinds that are not Tidegate's.
    others: usize,
}

/// Asks about each object that is written, and has references lead to what the cluster has besides.
pub(super) fn compare(
    meaning: &mut Meaning,
    context: Option<&str>,
    terminal: &mut Terminal,
) -> Result<Compared, Error> {
    let (mut objects, mut others) = (Vec::new(), 0);
    for (key, mut object) in meaning.manifests.as_written() {
        let Some(key) = key else {
            others += 1;
            continue;
        };
        if key.kind.is_namespaced() && object["metadata"].is_object() {
            object["metadata"]["namespace"] = json!(*key.name.namespace);
        }
        objects.push((key.clone(), object));
    }
    let verdicts = asking(async {
        let (client, _) = remote::connect(context).await?;
        let mut around = Around::list(&client).await;
        meaning.put_around(around.objects);
        let data = Around::fetch(&client, &meaning.data_missing()).await;
        meaning.put_around(data.objects);
        around.unseen.extend(data.unseen);
        for why in around.unseen {
            terminal.warning(&format!("references to it are taken for wrong: {why}"));
        }
        Ok(remote::compare(&client, objects).await)
    })?;
    Ok(Compared { verdicts, others })
}

impl Compared {
    pub(super) fn refused(&self) -> impl Iterator<Item = String> {
        let refused = self.verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Refused(_)));
        refused.map(|(key, _)| key.to_string())
    }

    pub(super) fn to_json(&self) -> Value {
        let objects = self.verdicts.iter().map(|(key, verdict)| {
            let mut object =
                json!({"kind": key.kind.as_str(), "namespace": *key.name.namespace, "name": *key.name.name});
            if let (Some(object), Ok(Value::Object(verdict))) =
                (object.as_object_mut(), serde_json::to_value(verdict))
            {
                object.extend(verdict);
            }
            object
        });
        json!({ "objects": objects.collect::<Vec<_>>(), "others": self.others })
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = format!("\n{}\n", styled(STRONG, "On the server"));
        let mut same = 0;
        for (key, verdict) in &self.verdicts {
            let (style, word, why) = match verdict {
                Verdict::Same => {
                    same += 1;
                    continue;
                }
                Verdict::New => (GOOD, "new", None),
                Verdict::Changed(_) => (CARE, "changed", None),
                Verdict::Refused(why) => (BAD, "refused", Some(why)),
                Verdict::Unknown(why) => (FAINT, "unknown", Some(why)),
            };
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            let _ = writeln!(text, "  {} {key}{why}", styled(style, format_args!("{word:<8}")));
            if let Verdict::Changed(differences) = verdict {
                text.extend(differences.iter().map(line));
            }
        }
        let _ = writeln!(text, "  {same} of {} are there as they are written", self.verdicts.len());
        if self.others > 0 {
            let _ = writeln!(text, "  {} of other kinds were not compared", self.others);
        }
        text
    }
}

fn line(difference: &Difference) -> String {
    let value = |value: &Option<Value>| match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let text = value.to_string();
            let cut: String = text.chars().take(LONGEST).collect();
            if cut.len() < text.len() { format!("{cut}...") } else { text }
        }
    };
    format!(
        "             {}: {} -> {}\n",
        difference.field,
        value(&difference.before),
        value(&difference.after)
    )
}

#[cfg(test)]
mod tests {
    use tidegate_api::Kind;
    use tidegate_plan::ObjectName;

    use super::*;

    #[test]
    fn what_would_happen_is_told_object_by_object() {
        let key = |name: &str| ObjectKey { kind: Kind::Gateway, name: ObjectName::new("shop", name) };
        let difference = Difference {
            field: "spec.x".to_owned(),
            before: Some(json!(1)),
            after: Some(json!("é".repeat(80))),
        };
        let compared = Compared {
            verdicts: vec![
                (key("a"), Verdict::New),
                (key("b"), Verdict::Same),
                (key("c"), Verdict::Changed(vec![difference])),
                (key("d"), Verdict::Refused("no".to_owned())),
                (key("e"), Verdict::Unknown("forbidden".to_owned())),
            ],
            others: 2,
        };
        let text = anstream::adapter::strip_str(&compared.to_text()).to_string();
        for line in [
            "new      Gateway shop/a",
            "spec.x: 1 -> \"é",
            "refused  Gateway shop/d: no",
            "1 of 5 are there",
            "2 of other kinds",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert_eq!(compared.refused().collect::<Vec<_>>(), ["Gateway shop/d"]);
        let json = compared.to_json();
        assert_eq!(
            json["objects"][0],
            json!({"kind": "Gateway", "namespace": "shop", "name": "a", "verdict": "new"})
        );
        assert_eq!(json["objects"][2]["detail"][0]["field"], "spec.x");
    }
}
