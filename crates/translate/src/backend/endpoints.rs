//! The endpoints of a Service port, out of its EndpointSlices.

use tidegate_api::core::{EndpointEntry, EndpointSlice};
use tidegate_api::scalar::port_number;
use tidegate_plan::{Endpoint, EndpointState, Endpoints, EndpointsId};

use crate::lookup::Lookup;

pub(crate) fn collect(id: &EndpointsId, lookup: &Lookup<'_>) -> Endpoints {
    let slices = lookup.endpoint_slices_of(&id.service);
    let mut endpoints: Vec<Endpoint> = slices.iter().flat_map(|slice| of_slice(slice, &id.port)).collect();
    endpoints.sort();
    endpoints.dedup();
    Endpoints { id: id.clone(), endpoints }
}

fn of_slice(slice: &EndpointSlice, port_name: &str) -> Vec<Endpoint> {
    let port = slice.spec.ports.iter().find(|port| port.name.as_deref().unwrap_or_default() == port_name);
    let Some(port) = port.and_then(|port| port.port).map(port_number) else { return Vec::new() };
    let endpoint = |entry: &EndpointEntry| {
        // The addresses of one endpoint lead to the same place; as in kube-proxy, the first one counts.
        let address = entry.ip_addresses().next()?;
        Some(Endpoint { address, port, state: state(entry)?, zone: entry.zone.as_deref().map(Into::into) })
    };
    slice.spec.endpoints.iter().filter_map(endpoint).collect()
}

fn state(entry: &EndpointEntry) -> Option<EndpointState> {
    let Some(conditions) = &entry.conditions else { return Some(EndpointState::Ready) };
    if conditions.ready.unwrap_or(true) {
        Some(EndpointState::Ready)
    } else if conditions.serving.unwrap_or(false) && conditions.terminating.unwrap_or(false) {
        Some(EndpointState::Terminating)
    } else {
        None
    }
}
