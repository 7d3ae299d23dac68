//! The `tidegate` command.
//!
//! It reads manifests, hands them to `translate`, and shows what came out or has the data plane serve it; what they
//! mean is decided there and in `plan`, never here.

mod arguments;
mod ask;
mod certs;
mod check;
mod cluster;
mod conditions;
mod controller;
mod diff;
mod explain;
mod layout;
mod manual;
mod meaning;
mod output;
mod proxy;
mod run;
mod source;
mod words;

use std::process::ExitCode;

use crate::arguments::{Arguments, Command};
use crate::output::{Outcome, Terminal};

fn main() -> ExitCode {
    let arguments = Arguments::of_process();
    arguments.color.write_global();
    let mut terminal = Terminal::new();
    let outcome = match &arguments.command {
        Command::Run(options) => run::run(options, &mut terminal),
        Command::Controller(options) => controller::run(options),
        Command::Proxy(options) => proxy::run(options),
        Command::Status(options) => ask::status(options, &mut terminal),
        Command::Refused(options) => ask::refused(options, &mut terminal),
        Command::Check(options) => check::run(options, &mut terminal),
        Command::Explain(options) => explain::run(options, &mut terminal),
        Command::Certs(options) => certs::run(options, &mut terminal),
        Command::Diff(options) => diff::run(options, &mut terminal),
        Command::Version(options) => manual::version(options, &mut terminal),
        Command::Completions(options) => manual::completions(options, &mut terminal),
        Command::Man(options) => manual::man(options, &mut terminal),
    };
    match outcome {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            terminal.error(&error.to_string());
            Outcome::Failed.into()
        }
    }
}
