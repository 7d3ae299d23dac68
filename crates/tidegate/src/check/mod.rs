//! `tidegate check`: what is wrong with manifests, what is accepted, and why not.

pub(crate) mod findings;
pub(crate) mod list;
mod server;
pub(crate) mod table;

use tidegate_translate::Settings;

use crate::arguments::{Check, CheckFormat};
use crate::check::findings::Fault;
use crate::meaning::Meaning;
use crate::output::{Error, Outcome, Terminal};

pub(crate) fn run(options: &Check, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let settings = if options.cluster || options.server { Settings::cluster() } else { Settings::folder() };
    let mut meaning = Meaning::under(&options.paths, settings)?;
    let compared = if options.server {
        Some(server::compare(&mut meaning, options.context.as_deref(), terminal)?)
    } else {
        None
    };
    meaning.report(terminal);
    let findings = findings::find(&meaning);
    match (options.output, &compared) {
        (CheckFormat::Table, Some(compared)) => {
            terminal.print(&(table::render(&meaning, &findings) + &compared.to_text()))?;
        }
        (CheckFormat::Json, Some(compared)) => terminal.print_json(&compared.to_json())?,
        (CheckFormat::Yaml, Some(compared)) => terminal.print(&tidegate_api::to_yaml(&compared.to_json()))?,
        (CheckFormat::Table, None) => terminal.print(&table::render(&meaning, &findings))?,
        (CheckFormat::Json, None) => terminal.print_json(&list::list(&meaning))?,
        (CheckFormat::Yaml, None) => terminal.print(&tidegate_api::to_yaml(&list::list(&meaning)))?,
    }
    let mut outcome = Outcome::Good;
    for fault in Fault::ALL {
        let found = findings.iter().filter(|finding| finding.fault == fault);
        let names: Vec<&str> = found.map(|finding| finding.what.as_str()).collect();
        if !names.is_empty() {
            terminal.error(&format!("{}: {}", fault.words(), names.join(", ")));
            outcome = Outcome::Refused;
        }
    }
    let refused: Vec<String> = compared.iter().flat_map(server::Compared::refused).collect();
    if !refused.is_empty() {
        terminal.error(&format!("refused by the server: {}", refused.join(", ")));
        outcome = Outcome::Refused;
    }
    Ok(outcome)
}
