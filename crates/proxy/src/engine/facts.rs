//! What is known of a connection, for whoever decides about it or writes down what became of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tidegate_plan::{ListenerHandle, Step};

use crate::serving::Place;
use crate::snapshot::Snapshot;
use crate::stream_route::StreamRoute;
use crate::upstream::{Backend, Lease};

pub(crate) struct Facts {
    pub(crate) started: SystemTime,
    /// The same moment, to measure from.
    pub(crate) began: Instant,
    pub(crate) client: SocketAddr,
    pub(crate) local: SocketAddr,
    /// The listener's port: that of the local address but for the offset.
    pub(crate) port: u16,
    pub(crate) server_name: Option<Box<str>>,
    pub(crate) listener: Option<ListenerHandle>,
    /// Among the connections of the listener.
    pub(crate) place: Option<Place>,
    pub(crate) route: Option<Arc<StreamRoute>>,
    pub(crate) backend: Option<Arc<Backend>>,
    /// The endpoint that is connected to, or was tried last.
    pub(crate) endpoint: Option<Lease>,
    /// What there is to say beside the ending.
    pub(crate) detail: Option<Box<str>>,
    pub(crate) trace: Traced,
}

/// Whether the journal keeps a refusal, once it was asked, and how the plan came to it.
#[derive(Default)]
pub(crate) enum Traced {
    #[default]
    NotAsked,
    NotWanted,
    Steps(Vec<Step>),
}

impl Facts {
    pub(crate) fn new(
        client: SocketAddr,
        local: SocketAddr,
        port: u16,
        started: SystemTime,
        began: Instant,
    ) -> Self {
        Self {
            started,
            began,
            client,
            local,
            port,
            server_name: None,
            listener: None,
            place: None,
            route: None,
            backend: None,
            endpoint: None,
            detail: None,
            trace: Traced::NotAsked,
        }
    }

    /// Whether the listener, the route or the backend is gone that it was decided by.
    pub(crate) fn lost(&self, snapshot: &Snapshot) -> bool {
        match (&self.listener, &self.route, &self.backend) {
            (Some(listener), Some(route), Some(backend)) => {
                !snapshot.still_allows(&listener.id, &route.rule, &backend.plan.id)
            }
            _ => false,
        }
    }

    /// Where the client connected to, as the plan has it.
    pub(crate) fn planned_local(&self) -> SocketAddr {
        SocketAddr::new(self.local.ip(), self.port)
    }

    pub(crate) fn say(&mut self, detail: impl std::fmt::Display) {
        self.detail = Some(detail.to_string().into());
    }
}
