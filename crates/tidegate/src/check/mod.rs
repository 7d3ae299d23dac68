//! `tidegate check`: what is wrong with manifests, what is accepted, and why not.

pub(crate) mod findings;
pub(crate) mod list;
pub(crate) mod table;

use tidegate_translate::Settings;

use crate::arguments::{Check, CheckFormat};
use crate::meaning::Meaning;
use crate::output::{Error, Outcome, Terminal};

pub(crate) fn run(options: &Check, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let settings = if options.cluster { Settings::cluster() } else { Settings::folder() };
    let meaning = Meaning::under(&options.paths, settings)?;
    meaning.report(terminal);
    let findings = findings::find(&meaning);
    match options.output {
        CheckFormat::Table => terminal.print(&table::render(&meaning, &findings))?,
        CheckFormat::Json => terminal.print_json(&list::list(&meaning))?,
        CheckFormat::Yaml => terminal.print(&tidegate_api::to_yaml(&list::list(&meaning)))?,
    }
    if findings.is_empty() {
        return Ok(Outcome::Good);
    }
    let names: Vec<&str> = findings.iter().map(|finding| finding.what.as_str()).collect();
    terminal.error(&format!("not accepted: {}", names.join(", ")));
    Ok(Outcome::Refused)
}
