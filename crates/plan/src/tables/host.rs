//! The HTTP and gRPC routes that are written for one hostname of one listener, compiled so that a request looks
//! only at matches that its path can meet.

use std::sync::Arc;

use crate::tables::entry::{self, ByText, Entry, add_sorted, first_match, grpc_names};
use crate::tables::few::Few;
use crate::tables::names::Depths;
use crate::trace::Trace;
use crate::{PathMatch, Request, RouteId, TextMatch};

/// HTTP and gRPC rules are never ranked against each other: a gRPC request is offered to the gRPC routes first,
/// any other to the HTTP routes first.
#[derive(Clone, Default)]
pub(crate) struct Host {
    http: Paths,
    grpc: Option<Box<Methods>>,
}

impl Host {
    #[inline]
    pub(crate) fn find<'t>(&'t self, request: &Request<'_>, trace: &mut impl Trace) -> Option<&'t Entry> {
        let Some(grpc) = &self.grpc else { return self.http.find(request, trace) };
        if is_grpc(request) {
            grpc.find(request, trace).or_else(|| self.http.find(request, trace))
        } else {
            self.http.find(request, trace).or_else(|| grpc.find(request, trace))
        }
    }

    pub(crate) fn add(&mut self, entry: &Arc<Entry>) {
        if entry.http().is_some() {
            self.http.add(entry);
        } else {
            self.grpc.get_or_insert_default().add(entry);
        }
    }

    /// Takes out the route, whose entry this is.
    pub(crate) fn remove(&mut self, entry: &Entry) {
        if entry.http().is_some() {
            self.http.remove(entry);
        } else if let Some(grpc) = &mut self.grpc {
            grpc.remove(entry);
            if grpc.is_empty() {
                self.grpc = None;
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.http.is_empty() && self.grpc.is_none()
    }

    /// In no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.http.entries().chain(self.grpc.iter().flat_map(|grpc| grpc.entries()))
    }
}

fn is_grpc(request: &Request<'_>) -> bool {
    request.headers.value("content-type", 0).is_some_and(|value| value.starts_with(b"application/grpc"))
}

/// HTTP matches by path: exact, then patterns, then prefixes from the longest down.
#[derive(Clone, Default)]
struct Paths {
    exact: ByText,
    patterns: Vec<Arc<Entry>>,
    /// Without the slash at the end.
    prefixes: ByText,
    /// How many elements the prefixes have.
    depths: Depths,
    /// The prefix `/`, which matches every request and is the one most routes have.
    root: Option<Few<Arc<Entry>>>,
}

impl Paths {
    #[inline]
    fn find<'t>(&'t self, request: &Request<'_>, trace: &mut impl Trace) -> Option<&'t Entry> {
        let path = request.path.as_bytes();
        if !self.exact.is_empty()
            && let Some(entries) = entry::get(&self.exact, path)
            && let Some(entry) = first_match(entries.iter(), request, trace)
        {
            return Some(entry);
        }
        if let Some(entry) = first_match(self.patterns.iter(), request, trace) {
            return Some(entry);
        }
        if !self.depths.is_empty()
            && let Some(entry) = self.find_prefix(path, request, trace)
        {
            return Some(entry);
        }
        first_match(self.root.iter().flat_map(Few::iter), request, trace)
    }

    fn find_prefix<'t>(
        &'t self,
        path: &[u8],
        request: &Request<'_>,
        trace: &mut impl Trace,
    ) -> Option<&'t Entry> {
        let mut end = path.len();
        let mut depth = path.iter().filter(|byte| **byte == b'/').count();
        while depth > 0 {
            let prefix = &path[..end];
            if self.depths.has(depth)
                && let Some(entries) = entry::get(&self.prefixes, prefix)
                && let Some(entry) = first_match(entries.iter(), request, trace)
            {
                return Some(entry);
            }
            end = prefix.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            depth -= 1;
        }
        None
    }

    fn add(&mut self, entry: &Arc<Entry>) {
        match place(entry) {
            Place::Exact(path) => {
                entry::add(&mut self.exact, path, entry);
            }
            Place::Pattern => add_sorted(&mut self.patterns, entry),
            Place::Root => match &mut self.root {
                Some(few) => few.insert(Arc::clone(entry), |a, b| a.before(b)),
                None => self.root = Some(Few::new(Arc::clone(entry))),
            },
            Place::Prefix(prefix) => {
                if entry::add(&mut self.prefixes, prefix, entry) {
                    self.depths.add(depth(prefix));
                }
            }
        }
    }

    fn remove(&mut self, entry: &Entry) {
        let route = &entry.rule.route().id;
        match place(entry) {
            Place::Exact(path) => {
                entry::remove(&mut self.exact, path, route);
            }
            Place::Pattern => self.patterns.retain(|other| !other.is_of(route)),
            Place::Root => {
                if let Some(few) = &mut self.root
                    && !few.remove(|other| other.is_of(route))
                {
                    self.root = None;
                }
            }
            Place::Prefix(prefix) => {
                if entry::remove(&mut self.prefixes, prefix, route) {
                    self.depths.remove(depth(prefix));
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.root.is_none() && self.exact.is_empty() && self.prefixes.is_empty() && self.patterns.is_empty()
    }

    fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let kept = self.exact.iter().chain(self.prefixes.iter()).flat_map(|(_, few)| few.iter());
        kept.chain(&self.patterns).chain(self.root.iter().flat_map(Few::iter))
    }
}

enum Place<'e> {
    Exact(&'e str),
    Pattern,
    Prefix(&'e str),
    Root,
}

fn place(entry: &Entry) -> Place<'_> {
    match entry.http().map(|matched| &matched.path) {
        Some(PathMatch::Exact(path)) => Place::Exact(path),
        Some(PathMatch::Prefix(prefix)) => match prefix.strip_suffix('/').unwrap_or(prefix) {
            "" => Place::Root,
            prefix => Place::Prefix(prefix),
        },
        Some(PathMatch::Regex(_)) | None => Place::Pattern,
    }
}

fn depth(prefix: &str) -> usize {
    prefix.bytes().filter(|byte| *byte == b'/').count()
}

/// gRPC matches by the names they give: service and method, the service alone, then what has no exact service.
#[derive(Clone, Default)]
struct Methods {
    exact: ByText,
    services: ByText,
    others: Vec<Arc<Entry>>,
}

impl Methods {
    fn find<'t>(&'t self, request: &Request<'_>, trace: &mut impl Trace) -> Option<&'t Entry> {
        if let Some((service, _)) = grpc_names(request.path) {
            let exact = entry::get(&self.exact, request.path.as_bytes());
            let of_service = entry::get(&self.services, service.as_bytes());
            let entries = exact.into_iter().chain(of_service).flat_map(Few::iter);
            if let Some(entry) = first_match(entries, request, trace) {
                return Some(entry);
            }
        }
        first_match(self.others.iter(), request, trace)
    }

    fn add(&mut self, entry: &Arc<Entry>) {
        match exact_names(entry) {
            (Some(service), Some(method)) => {
                entry::add(&mut self.exact, &format!("/{service}/{method}"), entry);
            }
            (Some(service), None) => {
                entry::add(&mut self.services, service, entry);
            }
            (None, _) => add_sorted(&mut self.others, entry),
        }
    }

    fn remove(&mut self, entry: &Entry) {
        let route: &RouteId = &entry.rule.route().id;
        match exact_names(entry) {
            (Some(service), Some(method)) => {
                entry::remove(&mut self.exact, &format!("/{service}/{method}"), route);
            }
            (Some(service), None) => {
                entry::remove(&mut self.services, service, route);
            }
            (None, _) => self.others.retain(|other| !other.is_of(route)),
        }
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.services.is_empty() && self.others.is_empty()
    }

    fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let kept = self.exact.iter().chain(self.services.iter()).flat_map(|(_, few)| few.iter());
        kept.chain(&self.others)
    }
}

fn exact_names(entry: &Entry) -> (Option<&str>, Option<&str>) {
    fn exact(name: Option<&TextMatch>) -> Option<&str> {
        match name {
            Some(TextMatch::Exact(text)) => Some(text),
            Some(TextMatch::Regex(_)) | None => None,
        }
    }
    let matched = entry.grpc();
    (exact(matched.and_then(|m| m.service.as_ref())), exact(matched.and_then(|m| m.method.as_ref())))
}
