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
    /// The prefix `/`, which matches every HTTP request and is all that most routes have: kept in place.
    root: Option<Few<Entry>>,
    more: Option<Arc<More>>,
}

#[derive(Clone, Default)]
struct More {
    paths: Paths,
    methods: Methods,
}

impl Host {
    #[inline]
    pub(crate) fn find<'t>(&'t self, request: &Request<'_>, trace: &mut impl Trace) -> Option<&'t Entry> {
        match &self.more {
            None => self.find_root(request, trace),
            Some(more) if more.methods.is_empty() => self.find_http(&more.paths, request, trace),
            Some(more) if is_grpc(request) => {
                more.methods.find(request, trace).or_else(|| self.find_http(&more.paths, request, trace))
            }
            Some(more) => {
                self.find_http(&more.paths, request, trace).or_else(|| more.methods.find(request, trace))
            }
        }
    }

    fn find_http<'t>(
        &'t self,
        paths: &'t Paths,
        request: &Request<'_>,
        trace: &mut impl Trace,
    ) -> Option<&'t Entry> {
        paths.find(request, trace).or_else(|| self.find_root(request, trace))
    }

    #[inline]
    fn find_root<'t>(&'t self, request: &Request<'_>, trace: &mut impl Trace) -> Option<&'t Entry> {
        first_match(self.root.iter().flat_map(Few::iter), request, trace)
    }

    pub(crate) fn add(&mut self, entry: &Entry) {
        match (place(entry), &mut self.root) {
            (Place::Root, None) => self.root = Some(Few::new(entry.clone())),
            (Place::Root, Some(few)) => few.insert(entry.clone(), Entry::before),
            (place, _) => Arc::make_mut(self.more.get_or_insert_default()).add(&place, entry),
        }
    }

    /// Takes out the route whose entry this is from where the entry is.
    pub(crate) fn remove(&mut self, entry: &Entry) {
        let route = &entry.rule.route().id;
        match (place(entry), &mut self.root, &mut self.more) {
            (Place::Root, Some(few), _) => {
                if !few.remove(|other| other.is_of(route)) {
                    self.root = None;
                }
            }
            (Place::Root, None, _) | (_, _, None) => {}
            (place, _, Some(more)) => {
                let more = Arc::make_mut(more);
                more.remove(&place, route);
                if more.is_empty() {
                    self.more = None;
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none() && self.more.is_none()
    }

    /// In no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.root.iter().flat_map(Few::iter).chain(self.more.iter().flat_map(|more| more.entries()))
    }
}

impl More {
    fn add(&mut self, place: &Place<'_>, entry: &Entry) {
        match place {
            Place::Root => {}
            Place::Exact(path) => {
                entry::add(&mut self.paths.exact, path, entry);
            }
            Place::Pattern => add_sorted(&mut self.paths.patterns, entry),
            Place::Prefix(prefix) => {
                if entry::add(&mut self.paths.prefixes, prefix, entry) {
                    self.paths.depths.add(depth(prefix));
                }
            }
            Place::Rpc(path) => {
                entry::add(&mut self.methods.exact, path, entry);
            }
            Place::Service(service) => {
                entry::add(&mut self.methods.services, service, entry);
            }
            Place::OtherRpc => add_sorted(&mut self.methods.others, entry),
        }
    }

    fn remove(&mut self, place: &Place<'_>, route: &RouteId) {
        match place {
            Place::Root => {}
            Place::Exact(path) => {
                entry::remove(&mut self.paths.exact, path, route);
            }
            Place::Pattern => self.paths.patterns.retain(|other| !other.is_of(route)),
            Place::Prefix(prefix) => {
                if entry::remove(&mut self.paths.prefixes, prefix, route) {
                    self.paths.depths.remove(depth(prefix));
                }
            }
            Place::Rpc(path) => {
                entry::remove(&mut self.methods.exact, path, route);
            }
            Place::Service(service) => {
                entry::remove(&mut self.methods.services, service, route);
            }
            Place::OtherRpc => self.methods.others.retain(|other| !other.is_of(route)),
        }
    }

    fn is_empty(&self) -> bool {
        let Paths { exact, patterns, prefixes, depths: _ } = &self.paths;
        exact.is_empty() && patterns.is_empty() && prefixes.is_empty() && self.methods.is_empty()
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let (paths, methods) = (&self.paths, &self.methods);
        let maps = [&paths.exact, &paths.prefixes, &methods.exact, &methods.services];
        let by_text = maps.into_iter().flat_map(ByText::values).flat_map(Few::iter);
        by_text.chain(&paths.patterns).chain(&methods.others)
    }
}

/// Where an entry is kept.
enum Place<'e> {
    Root,
    Exact(&'e str),
    Pattern,
    /// Without the slash at the end.
    Prefix(&'e str),
    Rpc(String),
    Service(&'e str),
    OtherRpc,
}

fn place(entry: &Entry) -> Place<'_> {
    if let Some(matched) = entry.grpc() {
        return match (&matched.service, &matched.method) {
            (Some(TextMatch::Exact(service)), Some(TextMatch::Exact(method))) => {
                Place::Rpc(format!("/{service}/{method}"))
            }
            (Some(TextMatch::Exact(service)), _) => Place::Service(service),
            _ => Place::OtherRpc,
        };
    }
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

fn is_grpc(request: &Request<'_>) -> bool {
    request.headers.value("content-type", 0).is_some_and(|value| value.starts_with(b"application/grpc"))
}

/// HTTP matches by path: exact, then patterns, then prefixes from the longest down.
#[derive(Clone, Default)]
struct Paths {
    exact: ByText,
    patterns: Vec<Entry>,
    prefixes: ByText,
    /// How many elements the prefixes have.
    depths: Depths,
}

impl Paths {
    fn find<'t>(&'t self, request: &Request<'_>, trace: &mut impl Trace) -> Option<&'t Entry> {
        if !self.exact.is_empty()
            && let Some(entries) = entry::get(&self.exact, request.path.as_bytes())
            && let Some(entry) = first_match(entries.iter(), request, trace)
        {
            return Some(entry);
        }
        if let Some(entry) = first_match(self.patterns.iter(), request, trace) {
            return Some(entry);
        }
        if self.depths.is_empty() { None } else { self.find_prefix(request, trace) }
    }

    fn find_prefix<'t>(&'t self, request: &Request<'_>, trace: &mut impl Trace) -> Option<&'t Entry> {
        let mut prefix = request.path.as_bytes();
        let mut depth = prefix.iter().filter(|byte| **byte == b'/').count();
        while depth > 0 {
            if self.depths.has(depth)
                && let Some(entries) = entry::get(&self.prefixes, prefix)
                && let Some(entry) = first_match(entries.iter(), request, trace)
            {
                return Some(entry);
            }
            let end = prefix.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            prefix = &prefix[..end];
            depth -= 1;
        }
        None
    }
}

/// gRPC matches by the names they give: service and method, the service alone, then what has no exact service.
#[derive(Clone, Default)]
struct Methods {
    /// By the path that the two names make.
    exact: ByText,
    services: ByText,
    others: Vec<Entry>,
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

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.services.is_empty() && self.others.is_empty()
    }
}
