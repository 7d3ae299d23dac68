//! What is to be seen of traffic: counters, the access log, and the journal of refused connections.

/// What one listener has carried, a cell for each worker.
#[derive(Debug, Default)]
pub struct ListenerStats {}
