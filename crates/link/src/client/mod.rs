//! The data plane's side: it follows its controller, tells what it makes of each plan, and goes on with what it has
//! when no controller is there.

mod backoff;
mod cache;
pub(crate) mod connect;
mod credentials;
mod read;
mod session;
pub(crate) mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidegate_plan::{Capability, DataPlaneSettings, ListenerId, Plan};

pub use store::Changed;

use crate::client::backoff::Backoff;
use crate::client::cache::Cache;
use crate::client::credentials::{Certificate, Files};
use crate::client::store::Store;

#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub controller: SocketAddr,
    /// CAs that controllers are verified with, PEM. Read for each connection.
    pub ca: PathBuf,
    /// Read for each enrolment.
    pub token: PathBuf,
    /// The data plane's own name, which must be the token's.
    pub name: String,
    /// What this data plane can do.
    pub capabilities: BTreeSet<Capability>,
    /// Where the last plan is kept, without keys.
    pub cache: Option<PathBuf>,
}

/// What carries the plan out.
pub trait DataPlane: Send {
    /// Takes in what changed. It is served, and sockets were tried, when this returns.
    fn apply(&mut self, plan: &Plan, settings: &DataPlaneSettings, changed: &Changed);

    /// Of each listener of the plan: it is open, or why not.
    fn listeners(&mut self, plan: &Plan) -> BTreeMap<ListenerId, Result<(), String>>;

    /// Returns when listeners may have something else to say. It is called again and again, and may be dropped.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// For the log.
    fn note(&mut self, note: &Note);
}

/// What happened on the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A controller has said welcome.
    Connected {
        software: String,
    },
    /// A plan that was kept on disk is served.
    Restored,
    /// There is one, and it cannot be used.
    NotRestored(String),
    Applied {
        version: u64,
        changed: Changed,
        /// Fragments that are not served.
        refused: usize,
    },
    /// Nothing of this version was taken.
    Failed {
        version: u64,
        why: String,
    },
    Renewed,
    NotRenewed(String),
    /// The next try is after this time.
    Lost {
        why: String,
        next: Duration,
    },
    NotKept(String),
}

/// A stream that lived so long was a good one.
const GOOD: Duration = Duration::from_secs(10);
/// The plan is kept on disk this often at most.
const KEEP: Duration = Duration::from_secs(5);

/// Follows a controller for ever.
#[derive(Debug)]
pub struct Client {
    options: ClientOptions,
    files: Files,
    store: Store,
    certificate: Option<Certificate>,
    cache: Option<Cache>,
    kept: Option<Instant>,
    /// The plan has changed since it was kept.
    unkept: bool,
}

impl Client {
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        let cache = options.cache.clone().map(Cache::new);
        Self {
            files: Files { ca: options.ca.clone(), token: options.token.clone() },
            store: Store::new(options.capabilities.clone(), cache.is_some()),
            certificate: None,
            cache,
            kept: None,
            unkept: false,
            options,
        }
    }

    /// Begins with the plan that was kept, if there is one, and follows whichever controller answers.
    pub async fn run(mut self, plane: &mut impl DataPlane) -> Infallible {
        self.restore(plane);
        let mut backoff = Backoff::default();
        loop {
            let begun = Instant::now();
            let why = self.session(plane).await.to_string();
            if begun.elapsed() >= GOOD {
                backoff.reset();
            }
            let next = backoff.next();
            plane.note(&Note::Lost { why, next });
            self.keep_now(plane);
            self.rest(next, plane).await;
        }
    }

    /// Sockets open and fail without a controller, too; the data plane takes note of it by being asked.
    async fn rest(&self, time: Duration, plane: &mut impl DataPlane) {
        let end = tokio::time::Instant::now() + time;
        loop {
            plane.listeners(self.store.plan());
            tokio::select! {
                () = tokio::time::sleep_until(end) => return,
                () = plane.changed() => {}
            }
        }
    }

    fn restore(&mut self, plane: &mut impl DataPlane) {
        let Some(cache) = &self.cache else { return };
        let restored = match cache.read() {
            Ok(None) => return,
            Ok(Some(items)) => self.store.restore(items),
            Err(error) => Err(error.to_string()),
        };
        match restored {
            Ok(changed) => {
                plane.apply(self.store.plan(), self.store.settings(), &changed);
                plane.note(&Note::Restored);
                plane.listeners(self.store.plan());
            }
            Err(why) => {
                self.store = Store::new(self.options.capabilities.clone(), true);
                plane.note(&Note::NotRestored(why));
            }
        }
    }

    /// Changes may come many times in a second; the disk need not see each.
    fn keep_at(&self) -> Instant {
        self.kept.map_or_else(Instant::now, |kept| kept + KEEP)
    }

    fn keep_now(&mut self, plane: &mut impl DataPlane) {
        let (true, Some(cache), Some(items)) = (self.unkept, &self.cache, self.store.kept()) else { return };
        self.kept = Some(Instant::now());
        self.unkept = false;
        if let Err(error) = cache.write(&items) {
            plane.note(&Note::NotKept(error.to_string()));
        }
    }
}
