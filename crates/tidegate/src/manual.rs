//! What the command says about itself: version, completions, manual pages.

use clap::CommandFactory;
use clap_mangen::Man as Page;

use crate::arguments::{Arguments, Completions, Man, TextFormat, Version};
use crate::output::{Error, Outcome, Terminal};

pub(crate) const GATEWAY_API: &str = "v1.7.0";

pub(crate) fn version(options: &Version, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let version = env!("CARGO_PKG_VERSION");
    match options.output {
        TextFormat::Text => terminal.print(&format!("tidegate {version}\nGateway API {GATEWAY_API}\n"))?,
        TextFormat::Json => {
            terminal.print_json(&serde_json::json!({ "version": version, "gatewayApi": GATEWAY_API }))?;
        }
    }
    Ok(Outcome::Good)
}

pub(crate) fn completions(options: &Completions, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), "tidegate", &mut script);
    terminal.print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Good)
}

pub(crate) fn man(options: &Man, terminal: &mut Terminal) -> Result<Outcome, Error> {
    if let Some(folder) = &options.out {
        std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(Arguments::command(), folder))
            .map_err(|error| Error::Write { path: folder.clone(), error })?;
    } else {
        let mut page = Vec::new();
        Page::new(Arguments::command()).render(&mut page).map_err(Error::Output)?;
        terminal.print(&String::from_utf8_lossy(&page))?;
    }
    Ok(Outcome::Good)
}
