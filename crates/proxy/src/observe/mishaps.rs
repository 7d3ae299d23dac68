//! What goes wrong with single datagrams, where no flow ends by it.

use super::count::Count;

/// What went wrong with datagrams on one worker, beyond flows that were refused.
#[derive(Debug, Default)]
pub(crate) struct Mishaps {
    /// Datagrams of flows that another worker has, passed on to it.
    pub(crate) strayed: Count,
    /// Larger than any buffer: their rest was lost, so they were dropped.
    pub(crate) cut: Count,
    /// Without a sender to answer or an address they were sent to.
    pub(crate) unaddressed: Count,
    /// The kernel did not take them.
    pub(crate) unsent: Count,
    /// Errors that came instead of datagrams, most of them ICMP from an endpoint.
    pub(crate) errors: Count,
    /// Times a socket, a port or memory was not to be had.
    pub(crate) shortages: Count,
}

impl Mishaps {
    /// Each by its name for machines.
    pub(super) fn all(&self) -> [(&'static str, u64); 6] {
        [
            ("strayed", self.strayed.get()),
            ("cut", self.cut.get()),
            ("unaddressed", self.unaddressed.get()),
            ("unsent", self.unsent.get()),
            ("error", self.errors.get()),
            ("shortage", self.shortages.get()),
        ]
    }
}
