//! One listener with the routes it accepted, compiled.

use crate::tables::certificates::Certificates;
use crate::tables::entry::{self, Entry, by_age};
use crate::tables::few::Few;
use crate::tables::host::Host;
use crate::tables::names::{Change, Names};
use crate::{Handling, Hostname, Listener, ListenerHandle, Reason, RouteHandle, RouteKind, RuleHandle};

/// With all that a decision reads of the listener: the listener itself is elsewhere in memory, and a decision that
/// does not go there is over sooner.
#[derive(Clone)]
pub(crate) struct ListenerTable {
    pub(crate) listener: ListenerHandle,
    pub(crate) refuse: Option<Reason>,
    /// Where it terminates TLS.
    pub(crate) certificates: Option<Certificates>,
    pub(crate) routes: Routes,
}

#[derive(Clone)]
pub(crate) enum Routes {
    /// By hostname as written; HTTP and HTTPS.
    Http(Names<Host>),
    /// By hostname as written, the older route first; passthrough and terminated TLS.
    Tls(Names<Few<RuleHandle>>),
    /// The older first; TCP and UDP.
    Stream(Option<Few<RuleHandle>>),
}

/// A route as the tables keep it, compiled once for all its listeners.
pub(crate) struct CompiledRoute {
    pub(crate) route: RouteHandle,
    entries: Vec<Entry>,
}

impl CompiledRoute {
    pub(crate) fn new(route: RouteHandle) -> Self {
        Self { entries: entry::compile(&route), route }
    }
}

impl ListenerTable {
    /// Without routes.
    pub(crate) fn new(listener: ListenerHandle) -> Self {
        let routes = match listener.handling {
            Handling::Http | Handling::Https(_) => Routes::Http(Names::new()),
            Handling::Passthrough | Handling::Terminate(_) => Routes::Tls(Names::new()),
            Handling::Tcp | Handling::Udp => Routes::Stream(None),
        };
        Self { refuse: listener.refuse, certificates: certificates(&listener), routes, listener }
    }

    /// The listener as it is now written, with the routes it has; `None` if the change is one that routes must be
    /// sorted in anew for.
    pub(crate) fn rewritten(&self, listener: &ListenerHandle) -> Option<Self> {
        let same_routes = self.listener.hostname == listener.hostname
            && std::mem::discriminant(&self.listener.handling) == std::mem::discriminant(&listener.handling);
        same_routes.then(|| Self {
            refuse: listener.refuse,
            certificates: certificates(listener),
            listener: listener.clone(),
            routes: self.routes.clone(),
        })
    }

    pub(crate) fn attach(&mut self, compiled: &CompiledRoute) {
        let route = &compiled.route;
        if !carries(&self.listener.handling, route.id.kind) {
            return;
        }
        let names = names_within(route, &self.listener);
        let rule = RuleHandle::new(route.clone(), 0);
        let older = |a: &RuleHandle, b: &RuleHandle| by_age(a.route(), b.route()).is_lt();
        match (&mut self.routes, rule) {
            (_, None) => {}
            (Routes::Http(hosts), _) => {
                for name in names {
                    hosts.change(name, |host| {
                        let mut new = None;
                        let host = host.unwrap_or_else(|| new.insert(Host::default()));
                        compiled.entries.iter().for_each(|entry| host.add(entry));
                        new.map_or(Change::Keep, Change::Set)
                    });
                }
            }
            (Routes::Tls(rules), Some(rule)) => {
                for name in names {
                    rules.change(name, |few| match few {
                        None => Change::Set(Few::new(rule.clone())),
                        Some(few) => {
                            few.insert(rule.clone(), older);
                            Change::Keep
                        }
                    });
                }
            }
            (Routes::Stream(None), Some(rule)) => self.routes = Routes::Stream(Some(Few::new(rule))),
            (Routes::Stream(Some(few)), Some(rule)) => few.insert(rule, older),
        }
    }

    pub(crate) fn detach(&mut self, compiled: &CompiledRoute) {
        let route = &compiled.route;
        if !carries(&self.listener.handling, route.id.kind) {
            return;
        }
        let names = names_within(route, &self.listener);
        let is_gone = |rule: &RuleHandle| rule.route().id == route.id;
        match &mut self.routes {
            Routes::Http(hosts) => {
                for name in names {
                    hosts.change(name, |host| {
                        let Some(host) = host else { return Change::Keep };
                        compiled.entries.iter().for_each(|entry| host.remove(entry));
                        if host.is_empty() { Change::Remove } else { Change::Keep }
                    });
                }
            }
            Routes::Tls(rules) => {
                for name in names {
                    rules.change(name, |few| match few.map(|few| few.remove(is_gone)) {
                        Some(false) => Change::Remove,
                        Some(true) | None => Change::Keep,
                    });
                }
            }
            Routes::Stream(rules) => {
                if let Some(few) = rules
                    && !few.remove(is_gone)
                {
                    *rules = None;
                }
            }
        }
    }
}

fn certificates(listener: &Listener) -> Option<Certificates> {
    listener.handling.server_tls().map(Certificates::new)
}

const fn carries(handling: &Handling, kind: RouteKind) -> bool {
    match handling {
        Handling::Http | Handling::Https(_) => matches!(kind, RouteKind::Http | RouteKind::Grpc),
        Handling::Passthrough | Handling::Terminate(_) => matches!(kind, RouteKind::Tls),
        Handling::Tcp => matches!(kind, RouteKind::Tcp),
        Handling::Udp => matches!(kind, RouteKind::Udp),
    }
}

/// The hostnames under which the listener keeps the route: as the route has them, those the listener has no part
/// in left out, none twice.
fn names_within<'r>(route: &'r RouteHandle, listener: &Listener) -> Vec<Option<&'r Hostname>> {
    if route.hostnames.is_empty() {
        return vec![None];
    }
    let shared = |name: &&Hostname| listener.hostname.as_ref().is_none_or(|own| own.intersects(name));
    let mut names: Vec<_> = route.hostnames.iter().filter(shared).map(Some).collect();
    names.sort();
    names.dedup();
    names
}
