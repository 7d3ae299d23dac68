//! Memory of the proxy as it is now.

use clap::Args;

use crate::Result;
use crate::processes::{Memory, Proxy};
use crate::record::{Label, Record};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    label: Label,
    #[command(flatten)]
    proxy: Proxy,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let Memory { resident, proportional, processes, .. } = options.proxy.memory();
    let record = Record::new(&options.label, "mem").set("rss_kb", resident).set("pss_kb", proportional);
    record.set("procs", processes).print();
    Ok(())
}
