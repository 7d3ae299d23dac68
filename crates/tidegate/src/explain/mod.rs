//! `tidegate explain`: where a flow would go and why, or why an object is attached where it is.

pub(crate) mod backends;
pub(crate) mod flow;
mod object;
pub(crate) mod request;
mod text;

use std::path::Path;
use std::slice;

use tidegate_plan::Plan;

use crate::arguments::{Explain, TextFormat};
use crate::cluster;
use crate::meaning::Meaning;
use crate::output::{Error, Outcome, Terminal};

pub(crate) fn run(options: &Explain, terminal: &mut Terminal) -> Result<Outcome, Error> {
    if let Some(gateway) = &options.cluster.gateway {
        let plan = cluster::plan(gateway, &options.cluster, terminal)?;
        return flow(&plan, None, options, terminal);
    }
    let path = options.path.clone().unwrap_or_else(|| Path::new("-").to_owned());
    let meaning = Meaning::of(slice::from_ref(&path))?;
    meaning.manifests.report(terminal);
    let Some(object) = &options.object else {
        return flow(&meaning.translation().plan, Some(&meaning), options, terminal);
    };
    let explanation = object::explain(&meaning, object)?;
    match options.output {
        TextFormat::Text => terminal.print(&explanation.to_text())?,
        TextFormat::Json => terminal.print_json(&explanation)?,
    }
    Ok(Outcome::good_if(explanation.accepted))
}

fn flow(
    plan: &Plan,
    meaning: Option<&Meaning>,
    options: &Explain,
    terminal: &mut Terminal,
) -> Result<Outcome, Error> {
    let mut explanation = flow::explain(plan, &options.flow)?;
    if let Some(meaning) = meaning {
        explanation.name_references(meaning);
    }
    match options.output {
        TextFormat::Text => terminal.print(&text::render(&explanation))?,
        TextFormat::Json => terminal.print_json(&explanation)?,
    }
    Ok(Outcome::good_if(explanation.routed))
}
