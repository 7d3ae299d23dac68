//! `tidegate explain`: where a flow would go and why, or why an object is attached where it is.

pub(crate) mod backends;
mod flow;
mod object;
mod request;
mod text;

use std::slice;

use crate::arguments::{Explain, TextFormat};
use crate::meaning::Meaning;
use crate::output::{Error, Outcome, Terminal};

pub(crate) fn run(options: &Explain, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let meaning = Meaning::of(slice::from_ref(&options.path))?;
    meaning.manifests.report(terminal);
    if let Some(object) = &options.object {
        let explanation = object::explain(&meaning, object)?;
        match options.output {
            TextFormat::Text => terminal.print(&explanation.to_text())?,
            TextFormat::Json => terminal.print_json(&explanation)?,
        }
        return Ok(Outcome::good_if(explanation.good));
    }
    let explanation = flow::explain(&meaning.translation().plan, &options.flow)?;
    match options.output {
        TextFormat::Text => terminal.print(&text::render(&explanation))?,
        TextFormat::Json => terminal.print_json(&explanation)?,
    }
    Ok(Outcome::good_if(explanation.routed))
}
