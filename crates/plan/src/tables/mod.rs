//! A plan, compiled for lookups. Tables are never changed: newer ones are made of older ones and share with them
//! what stayed the same, so that one route more costs the same among ten and among a hundred thousand.

mod certificates;
mod condition;
mod entry;
mod few;
mod host;
mod index;
mod listener;
mod map;
mod names;
mod port;
mod print;
mod tags;
mod text;
mod update;
mod ways;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use self::certificates::Certificates;
pub(crate) use self::entry::Entry;
pub(crate) use self::few::Few;
pub(crate) use self::host::Host;
use self::listener::CompiledRoute;
pub(crate) use self::listener::{ListenerTable, Routes};
use self::map::hash_of;
pub use self::map::{Key, SharedMap};
pub(crate) use self::names::Specificity;
pub(crate) use self::port::Answering;
pub use self::port::Expects;
use self::port::Port;
pub use self::update::Change;
use crate::{
    BackendHandle, BackendId, GatewayHandle, ListenerHandle, ListenerId, ObjectName, Plan, RouteHandle,
    RouteId, Transport,
};

/// Everything that [`decide`](crate::decide) asks. A clone costs nothing.
#[derive(Clone, Default)]
pub struct Tables {
    gateways: SharedMap<ObjectName, GatewayHandle>,
    listeners: SharedMap<ListenerId, Arc<ListenerTable>>,
    routes: SharedMap<RouteId, Arc<CompiledRoute>>,
    backends: SharedMap<BackendId, BackendHandle>,
    ports: SharedMap<(u16, Transport), Arc<Port>>,
}

impl Tables {
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self::default().updated(plan.fragments.values().map(Arc::clone).map(Change::Upsert))
    }

    /// The tables after some fragments came, changed or went. The order of the changes does not matter, except
    /// that of two for one fragment the later counts.
    #[must_use]
    pub fn updated(&self, changes: impl IntoIterator<Item = Change>) -> Self {
        update::apply(self.clone(), changes)
    }

    #[must_use]
    pub fn gateway(&self, id: &ObjectName) -> Option<&GatewayHandle> {
        self.gateways.get(id.hashed(), |key| key == id)
    }

    #[must_use]
    pub fn listener(&self, id: &ListenerId) -> Option<&ListenerHandle> {
        self.listeners.get(id.hashed(), |key| key == id).map(|table| &table.listener)
    }

    #[must_use]
    pub fn route(&self, id: &RouteId) -> Option<&RouteHandle> {
        self.routes.get(id.hashed(), |key| key == id).map(|compiled| &compiled.route)
    }

    #[must_use]
    pub fn backend(&self, id: &BackendId) -> Option<&BackendHandle> {
        self.backends.get(id.hashed(), |key| key == id)
    }

    pub fn listeners(&self) -> impl Iterator<Item = &ListenerHandle> {
        self.listeners.iter().map(|(_, table)| &table.listener)
    }

    /// The sockets that serve these tables, in no order; an address of `None` is every address.
    pub fn sockets(&self) -> impl Iterator<Item = (Option<IpAddr>, u16, Transport)> {
        self.ports.iter().flat_map(|((port, transport), table)| {
            table.addresses().map(move |address| (address, *port, *transport))
        })
    }

    /// What to do first with a connection to this address; `None`: nobody answers there.
    #[must_use]
    pub fn expects(&self, local: SocketAddr, transport: Transport) -> Option<Expects> {
        self.answering(local, transport).map(|answering| answering.expects)
    }

    #[inline]
    pub(crate) fn answering(&self, local: SocketAddr, transport: Transport) -> Option<Answering<'_>> {
        let key = (local.port(), transport);
        let port = self.ports.get(key.hashed(), |other| *other == key)?;
        port.answering(local.ip().to_canonical())
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables")
            .field("gateways", &self.gateways.len())
            .field("listeners", &self.listeners.len())
            .field("routes", &self.routes.len())
            .field("backends", &self.backends.len())
            .finish_non_exhaustive()
    }
}

macro_rules! keys {
    ($($key:ty),+) => {$(
        impl Key for $key {
            fn hashed(&self) -> u64 {
                hash_of(self)
            }
        }
    )+};
}

keys!(ObjectName, ListenerId, RouteId, BackendId, (u16, Transport));
