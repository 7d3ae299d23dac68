//! From tables to newer tables: what a changed fragment touches is done anew, the rest is shared.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::tables::Tables;
use crate::tables::listener::{CompiledRoute, ListenerTable};
use crate::tables::map::Key;
use crate::tables::port::Port;
use crate::{
    BackendHandle, Fragment, FragmentId, GatewayHandle, Listener, ListenerHandle, ListenerId, RouteHandle,
    RouteId,
};

/// What happened to one fragment.
#[derive(Clone, Debug)]
pub enum Change {
    Upsert(Arc<Fragment>),
    Remove(FragmentId),
}

pub(crate) fn apply(tables: Tables, changes: impl IntoIterator<Item = Change>) -> Tables {
    // Sorted by id, listeners come before routes, as they must: a route is then sorted into the new listener.
    let changes: BTreeMap<FragmentId, Option<Arc<Fragment>>> = changes
        .into_iter()
        .map(|change| match change {
            Change::Upsert(fragment) => (fragment.id(), Some(fragment)),
            Change::Remove(id) => (id, None),
        })
        .collect();
    let mut update = Update { tables, open: HashMap::new(), fresh: HashSet::new() };
    for (id, fragment) in changes {
        let fragment = fragment.as_ref();
        match id {
            FragmentId::Gateway(id) => {
                let map = &mut update.tables.gateways;
                match fragment.and_then(GatewayHandle::new) {
                    Some(gateway) => map.insert(id, gateway),
                    None => map.remove(id.hashed(), |key| *key == id),
                }
            }
            FragmentId::Backend(id) => {
                let map = &mut update.tables.backends;
                match fragment.and_then(BackendHandle::new) {
                    Some(backend) => map.insert(id, backend),
                    None => map.remove(id.hashed(), |key| *key == id),
                }
            }
            FragmentId::Listener(id) => update.listener(id, fragment.and_then(ListenerHandle::new)),
            FragmentId::Route(id) => update.route(id, fragment.and_then(RouteHandle::new)),
            // Answered before anything is decided.
            FragmentId::Challenge(_) => {}
        }
    }
    update.finish()
}

struct Update {
    tables: Tables,
    /// Listeners that are being changed. They are the update's own until it ends, so that a hundred thousand
    /// routes on one of them do not make as many copies of it.
    open: HashMap<ListenerId, ListenerTable>,
    /// Those of them that must be given their routes from the beginning.
    fresh: HashSet<ListenerId>,
}

impl Update {
    fn listener(&mut self, id: ListenerId, listener: Option<ListenerHandle>) {
        let old = self.tables.listeners.get(id.hashed(), |key| *key == id).cloned();
        if let (Some(old), Some(new)) = (&old, &listener)
            && old.listener.fragment().hash == new.fragment().hash
        {
            return;
        }
        if let Some(old) = &old {
            self.take_out(&old.listener);
        }
        match listener {
            None => self.tables.listeners.remove(id.hashed(), |key| *key == id),
            Some(listener) => {
                let table = old.and_then(|old| old.rewritten(&listener)).unwrap_or_else(|| {
                    self.fresh.insert(id.clone());
                    ListenerTable::new(listener)
                });
                self.open.insert(id, table);
            }
        }
    }

    fn route(&mut self, id: RouteId, route: Option<RouteHandle>) {
        let hash = id.hashed();
        let old = self.tables.routes.get(hash, |key| *key == id).cloned();
        if let (Some(old), Some(new)) = (&old, &route)
            && old.route.fragment().hash == new.fragment().hash
        {
            return;
        }
        if let Some(old) = old {
            self.on_listeners(&old, ListenerTable::detach);
        }
        match route {
            None => self.tables.routes.remove(hash, |key| *key == id),
            Some(route) => {
                let compiled = Arc::new(CompiledRoute::new(route));
                self.on_listeners(&compiled, ListenerTable::attach);
                self.tables.routes.insert(id, compiled);
            }
        }
    }

    fn on_listeners(&mut self, compiled: &CompiledRoute, change: fn(&mut ListenerTable, &CompiledRoute)) {
        for id in &compiled.route.listeners {
            // It is given all its routes in the end.
            if self.fresh.contains(id) {
                continue;
            }
            if !self.open.contains_key(id) {
                let Some(table) = self.tables.listeners.get(id.hashed(), |key| key == id) else { continue };
                self.open.insert(id.clone(), ListenerTable::clone(table));
            }
            if let Some(table) = self.open.get_mut(id) {
                change(table, compiled);
            }
        }
    }

    fn finish(mut self) -> Tables {
        if !self.fresh.is_empty() {
            for (_, compiled) in self.tables.routes.iter() {
                for id in compiled.route.listeners.iter().filter(|id| self.fresh.contains(*id)) {
                    if let Some(table) = self.open.get_mut(id) {
                        table.attach(compiled);
                    }
                }
            }
        }
        for (id, table) in std::mem::take(&mut self.open) {
            let table = Arc::new(table);
            self.put(&table);
            self.tables.listeners.insert(id, table);
        }
        self.tables
    }

    fn put(&mut self, table: &Arc<ListenerTable>) {
        let key = (table.listener.port, table.listener.handling.transport());
        let hash = key.hashed();
        match self.tables.ports.get_mut(hash, |other| *other == key) {
            Some(port) => Arc::make_mut(port).put(table),
            None => {
                let mut port = Port::default();
                port.put(table);
                self.tables.ports.insert(key, Arc::new(port));
            }
        }
    }

    fn take_out(&mut self, listener: &Listener) {
        let key = (listener.port, listener.handling.transport());
        let hash = key.hashed();
        if let Some(port) = self.tables.ports.get_mut(hash, |other| *other == key) {
            let port = Arc::make_mut(port);
            port.take_out(listener);
            if port.is_empty() {
                self.tables.ports.remove(hash, |other| *other == key);
            }
        }
    }
}
