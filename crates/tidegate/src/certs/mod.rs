//! `tidegate certs`, and what `run` needs of wants: names for certificates, from routes to what is asked for.

mod cert_manager;
mod ground;
pub(crate) mod issuers;
mod kept;
mod list;
mod plan;
mod root;
mod synth;

use crate::arguments::{Certs, CertsCommand, IssuerChoice};
use crate::output::{Error, Outcome, Terminal};

pub(crate) fn run(options: &Certs, terminal: &mut Terminal) -> Result<Outcome, Error> {
    match &options.command {
        CertsCommand::Plan(options) => plan::run(options, terminal),
        CertsCommand::Synth(options) => synth::run(options, terminal),
        CertsCommand::List(options) => list::run(options, terminal),
        CertsCommand::Root(options) => root::run(options, terminal),
    }
}

/// For Gateways that do not say who makes theirs.
pub(crate) fn default_issuer(choice: Option<IssuerChoice>) -> Option<tidegate_translate::Issuer> {
    choice.map(|choice| match choice {
        IssuerChoice::Embedded => tidegate_translate::Issuer::Embedded,
        IssuerChoice::Acme => tidegate_translate::Issuer::Acme { account: None },
    })
}
