//! One object: what became of it, part by part, and what would have to change.

mod gateway;
mod named;
mod policy;
mod route;

use serde::Serialize;
use tidegate_api::Kind;
use tidegate_api::status::Condition;

use crate::conditions::{self, Health};
use crate::layout::paragraph;
use crate::meaning::Meaning;
use crate::output::{BAD, CARE, Error, FAINT, GOOD, STRONG, styled};

#[derive(Debug, Serialize)]
pub(crate) struct ObjectExplanation {
    pub(crate) object: String,
    pub(crate) accepted: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<String>,
    parts: Vec<Part>,
}

/// A parent of a route, a listener of a Gateway, a target of a policy.
#[derive(Debug, Serialize)]
struct Part {
    name: String,
    #[serde(skip)]
    health: Health,
    /// A reference that is not resolved is bad, and refuses nothing by itself.
    #[serde(skip)]
    refused: bool,
    state: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    entries: Vec<Entry>,
}

/// One thing that a part has to do with.
#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    good: bool,
    why: String,
    /// What would have to change for it to be good.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
}

pub(crate) fn explain(meaning: &Meaning, name: &str) -> Result<ObjectExplanation, Error> {
    let key = named::find(meaning.resources(), name)?;
    let (messages, parts) = match key.kind {
        Kind::Gateway => gateway::of_gateway(meaning, &key),
        Kind::ListenerSet => gateway::of_set(meaning, &key),
        Kind::BackendTlsPolicy | Kind::XBackendTrafficPolicy | Kind::XBackend => policy::parts(meaning, &key),
        _ => (Vec::new(), route::parts(meaning, &key)),
    };
    let accepted = !parts.iter().any(|part| part.refused);
    Ok(ObjectExplanation { object: key.to_string(), accepted, messages, parts })
}

impl Part {
    fn new(name: String, conditions: &[Condition], entries: Vec<Entry>) -> Self {
        Self {
            name,
            health: conditions::worst(conditions),
            refused: conditions::are_refusing(conditions) || conditions::are_unserved(conditions),
            state: conditions::state(conditions).text().to_owned(),
            messages: conditions::messages(conditions),
            entries,
        }
    }

    fn without_conditions(name: String, health: Health, state: &str) -> Self {
        Self {
            name,
            health,
            refused: health == Health::Bad,
            state: state.to_owned(),
            messages: Vec::new(),
            entries: Vec::new(),
        }
    }
}

impl ObjectExplanation {
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{}\n", styled(STRONG, &self.object));
        self.messages.iter().for_each(|message| text.push_str(&paragraph(2, message)));
        for part in &self.parts {
            let style = match part.health {
                Health::Good => GOOD,
                Health::Care => CARE,
                Health::Bad => BAD,
            };
            text.push_str(&format!("\n{}: {}\n", part.name, styled(style, &part.state)));
            part.messages.iter().for_each(|message| text.push_str(&paragraph(4, message)));
            for entry in &part.entries {
                let mark = if entry.good { styled(GOOD, "+") } else { styled(FAINT, "-") };
                text.push_str(&format!("  {mark} {}\n", entry.name));
                text.push_str(&paragraph(6, &entry.why));
                if let Some(change) = &entry.change {
                    text.push_str(&paragraph(6, &format!("To change that, {change}.")));
                }
            }
        }
        text
    }
}
