//! The listeners of one port: which of them answer on which address, and for which names.

use std::net::IpAddr;
use std::sync::Arc;

use crate::tables::few::Few;
use crate::tables::listener::{ListenerTable, Routes};
use crate::tables::names::{Change, Names};
use crate::{Handling, Hostname, Listener, Name};

/// One port number of one transport.
#[derive(Clone, Default)]
pub(crate) struct Port {
    /// Listeners that answer on every address.
    any: Site,
    /// Those that asked for addresses, by these.
    addresses: Vec<(IpAddr, Site)>,
}

/// Listeners that answer at one place. By the rules of translation only one of the three is ever in use.
#[derive(Clone, Default)]
struct Site {
    tls: Names<Listeners>,
    http: Names<Listeners>,
    stream: Option<Listeners>,
}

/// Listeners with one hostname at one place, which translation prevents: the first by its id serves.
type Listeners = Few<Arc<ListenerTable>>;

/// What a data plane must do first with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expects {
    /// Read a ClientHello; its server name decides.
    Hello,
    /// Read requests; the host of each decides.
    Http,
    /// Nothing: the bytes or datagrams are not looked at.
    Bytes,
}

/// The listeners that answer on one address of a port.
#[derive(Clone, Copy)]
pub(crate) struct Answering<'t> {
    pub(crate) expects: Expects,
    site: &'t Site,
    /// Those for every address, where the address has listeners of its own.
    also: Option<&'t Site>,
}

impl Port {
    pub(crate) fn answering(&self, address: IpAddr) -> Option<Answering<'_>> {
        let any = self.any.expects().map(|expects| Answering { expects, site: &self.any, also: None });
        let own = self.addresses.iter().find(|(own, _)| *own == address);
        match own.and_then(|(_, site)| Some((site, site.expects()?))) {
            None => any,
            // Where the two do different things with a connection, those that asked for the address have it.
            Some((site, expects)) => {
                let also = any.filter(|any| any.expects == expects).map(|any| any.site);
                Some(Answering { expects, site, also })
            }
        }
    }

    /// Where sockets are needed; `None` is every address.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Option<IpAddr>> {
        let any = self.any.expects().map(|_| None);
        any.into_iter().chain(self.addresses.iter().map(|(address, _)| Some(*address)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.addresses().next().is_none()
    }

    /// Puts the listener in its places, or its newer self where it is.
    pub(crate) fn put(&mut self, table: &Arc<ListenerTable>) {
        self.each_site(&table.listener, |site| {
            site.change(&table.listener, |listeners| match listeners {
                None => Change::Set(Few::new(Arc::clone(table))),
                Some(few) => match few.find_mut(|other| other.listener.id == table.listener.id) {
                    Some(old) => {
                        *old = Arc::clone(table);
                        Change::Keep
                    }
                    None => {
                        few.insert(Arc::clone(table), |a, b| a.listener.id < b.listener.id);
                        Change::Keep
                    }
                },
            });
        });
    }

    pub(crate) fn take_out(&mut self, listener: &Listener) {
        self.each_site(listener, |site| {
            let is_gone = |table: &Arc<ListenerTable>| table.listener.id == listener.id;
            site.change(listener, |listeners| match listeners.map(|few| few.remove(is_gone)) {
                Some(false) => Change::Remove,
                Some(true) | None => Change::Keep,
            });
        });
        self.addresses.retain(|(_, site)| site.expects().is_some());
    }

    fn each_site(&mut self, listener: &Listener, mut change: impl FnMut(&mut Site)) {
        if listener.addresses.is_empty() {
            change(&mut self.any);
        }
        for address in &listener.addresses {
            let address = address.to_canonical();
            let at = self.addresses.iter().position(|(own, _)| *own == address).unwrap_or_else(|| {
                self.addresses.push((address, Site::default()));
                self.addresses.len() - 1
            });
            change(&mut self.addresses[at].1);
        }
    }
}

impl Site {
    fn expects(&self) -> Option<Expects> {
        if !self.tls.is_empty() {
            Some(Expects::Hello)
        } else if !self.http.is_empty() {
            Some(Expects::Http)
        } else {
            self.stream.as_ref().map(|_| Expects::Bytes)
        }
    }

    fn change(
        &mut self,
        listener: &Listener,
        change: impl FnOnce(Option<&mut Listeners>) -> Change<Listeners>,
    ) {
        let hostname: Option<&Hostname> = listener.hostname.as_ref();
        match listener.handling {
            Handling::Https(_) | Handling::Passthrough | Handling::Terminate(_) => {
                self.tls.change(hostname, change);
            }
            Handling::Http => self.http.change(hostname, change),
            Handling::Tcp | Handling::Udp => match change(self.stream.as_mut()) {
                Change::Keep => {}
                Change::Set(listeners) => self.stream = Some(listeners),
                Change::Remove => self.stream = None,
            },
        }
    }

    fn listeners(&self) -> impl Iterator<Item = &Arc<ListenerTable>> {
        self.tls.iter().chain(self.http.iter()).chain(&self.stream).flat_map(Few::iter)
    }
}

impl<'t> Answering<'t> {
    /// The listener for the server name of a ClientHello, whatever it does with the connection.
    pub(crate) fn by_server_name(&self, name: Option<&Name<'_>>) -> Option<&'t Arc<ListenerTable>> {
        self.most_specific(|site| &site.tls, name, |_| true)
    }

    /// The listener for the host of a request. A plain connection that is older than these tables never reaches an
    /// HTTPS listener that came to its port since, nor the reverse.
    pub(crate) fn by_host(&self, name: Option<&Name<'_>>, https: bool) -> Option<&'t Arc<ListenerTable>> {
        let is_https = |table: &ListenerTable| matches!(table.routes, Routes::Http(_));
        match self.expects {
            Expects::Hello if https => self.most_specific(|site| &site.tls, name, is_https),
            Expects::Http if !https => self.most_specific(|site| &site.http, name, |_| true),
            Expects::Hello | Expects::Http | Expects::Bytes => None,
        }
    }

    pub(crate) fn stream(&self) -> Option<&'t Arc<ListenerTable>> {
        self.site.stream.as_ref().map(Few::first)
    }

    /// In no order.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &'t Arc<ListenerTable>> + use<'t> {
        self.site.listeners().chain(self.also.into_iter().flat_map(Site::listeners))
    }

    /// The most specific hostname wins; of two equal ones that of the listener that asked for the address.
    #[inline]
    fn most_specific(
        &self,
        names: impl Fn(&'t Site) -> &'t Names<Listeners>,
        name: Option<&Name<'_>>,
        counts: impl Fn(&ListenerTable) -> bool,
    ) -> Option<&'t Arc<ListenerTable>> {
        let find = |site| {
            names(site).find(name, |specificity, listeners| {
                listeners.iter().find(|table| counts(table)).map(|table| (specificity, table))
            })
        };
        let own = find(self.site);
        let other = self.also.and_then(find);
        let chosen = match (own, other) {
            (Some(own), Some(other)) if other.0 > own.0 => Some(other),
            (None, other) => other,
            (own, _) => own,
        };
        chosen.map(|(_, table)| table)
    }
}
