//! A controller and data planes in one process, over loopback and with real TLS.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_plan::*;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::{Trust, *};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Tokens are `NAMESPACE/GATEWAY/POD`.
pub(crate) struct ByName;

impl Tokens for ByName {
    async fn review(&self, token: &str) -> Result<ProxyIdentity, Denied> {
        match token.split('/').collect::<Vec<_>>()[..] {
            [namespace, name, pod] => {
                Ok(ProxyIdentity { gateway: ObjectName::new(namespace, name), pod: pod.to_owned() })
            }
            _ => Err(Denied::Refused("this token is nobody's".to_owned())),
        }
    }
}

pub(crate) fn authority() -> Authority {
    Authority::generate(Duration::from_secs(3600)).unwrap()
}

pub(crate) fn again(authority: &Authority) -> Authority {
    Authority::from_pem(&authority.certificate_pem(), &authority.key_pem()).unwrap()
}

/// A controller that runs.
pub(crate) struct Controller {
    pub(crate) address: SocketAddr,
    pub(crate) server: Server,
    pub(crate) publisher: Publisher,
    pub(crate) reports: Reports,
}

impl Controller {
    pub(crate) async fn start(authority: Authority) -> Self {
        Self::start_with(authority, Limits::default()).await
    }

    pub(crate) async fn start_with(authority: Authority, limits: Limits) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), authority, limits).await
    }

    pub(crate) async fn start_at(address: SocketAddr, authority: Authority, limits: Limits) -> Self {
        let socket = TcpListener::bind(address).await.unwrap();
        let address = socket.local_addr().unwrap();
        let (server, publisher, reports) =
            Server::start(socket, Trust::new(authority), ByName, limits).unwrap();
        Self { address, server, publisher, reports }
    }

    /// The first event that is one of these.
    pub(crate) async fn event<T>(&mut self, what: &str, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        let mut seen = Vec::new();
        let found = async {
            loop {
                let event = self.reports.next().await.unwrap();
                if let Some(found) = wanted(&event) {
                    return found;
                }
                seen.push(event);
            }
        };
        tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no {what}"))
    }

    /// What a data plane says that serves this version, or a newer one.
    pub(crate) async fn served(&mut self, version: u64) -> Report {
        self.event(&format!("version {version}"), |event| match event {
            Event::Report(report) if report.version >= version => Some(report.clone()),
            _ => None,
        })
        .await
    }
}

/// What a data plane was told, as seen from outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) plan: Plan,
    pub(crate) settings: DataPlaneSettings,
    pub(crate) changes: Vec<Changed>,
    pub(crate) notes: Vec<Note>,
    pub(crate) states: BTreeMap<ListenerId, String>,
}

/// A data plane without sockets: it does what it is told, and remembers.
struct Recorder {
    seen: Arc<Mutex<Seen>>,
    states: watch::Receiver<u64>,
}

impl DataPlane for Recorder {
    fn apply(&mut self, plan: &Plan, settings: &DataPlaneSettings, changed: &Changed) {
        let mut seen = self.seen.lock().unwrap();
        // Only what is said to have changed is looked at, as a real one does.
        for id in &changed.fragments {
            match plan.fragments.get(id) {
                Some(fragment) => _ = seen.plan.fragments.insert(id.clone(), Arc::clone(fragment)),
                None => _ = seen.plan.fragments.remove(id),
            }
        }
        for id in &changed.endpoints {
            match plan.endpoints.get(id) {
                Some(endpoints) => _ = seen.plan.endpoints.insert(id.clone(), Arc::clone(endpoints)),
                None => _ = seen.plan.endpoints.remove(id),
            }
        }
        seen.plan.blobs = plan.blobs.clone();
        if changed.settings {
            seen.settings = settings.clone();
        }
        seen.changes.push(changed.clone());
    }

    fn listeners(&mut self, plan: &Plan) -> BTreeMap<ListenerId, Result<(), String>> {
        let states = self.seen.lock().unwrap().states.clone();
        plan.listeners()
            .map(|of| (of.id.clone(), states.get(&of.id).map_or(Ok(()), |why| Err(why.clone()))))
            .collect()
    }

    async fn changed(&mut self) {
        if self.states.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn note(&mut self, note: &Note) {
        self.seen.lock().unwrap().notes.push(note.clone());
    }
}

/// A data plane that runs.
pub(crate) struct DataPlaneOf {
    pub(crate) seen: Arc<Mutex<Seen>>,
    states: watch::Sender<u64>,
    running: JoinHandle<()>,
    folder: TempDir,
}

pub(crate) struct Start {
    folder: TempDir,
    options: ClientOptions,
}

impl Start {
    pub(crate) fn new(controller: SocketAddr, bundle: &str, token: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = ClientOptions {
            controller,
            ca: folder.path().join("ca.pem"),
            token: folder.path().join("token"),
            name: token.rsplit('/').next().unwrap().to_owned(),
            capabilities: Capability::ALL.iter().copied().collect(),
            cache: None,
        };
        std::fs::write(&options.ca, bundle).unwrap();
        std::fs::write(&options.token, format!("{token}\n")).unwrap();
        Self { folder, options }
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut ClientOptions)) -> Self {
        change(&mut self.options);
        self
    }

    pub(crate) fn run(self) -> DataPlaneOf {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (states, receiver) = watch::channel(0);
        let mut recorder = Recorder { seen: Arc::clone(&seen), states: receiver };
        let client = Client::new(self.options);
        let running = tokio::spawn(async move { match client.run(&mut recorder).await {} });
        DataPlaneOf { seen, states, running, folder: self.folder }
    }
}

impl DataPlaneOf {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.lock().unwrap())
    }

    /// Waits until something can be seen.
    pub(crate) async fn until<T>(&self, what: impl Debug, look: impl Fn(&Seen) -> Option<T>) -> T {
        let found = async {
            loop {
                if let Some(found) = self.look(&look) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, found)
            .await
            .unwrap_or_else(|_| panic!("no {what:?}: {:?}", self.look(|seen| seen.notes.clone())))
    }

    pub(crate) async fn lost(&self, words: &str) {
        self.until(words, |seen| {
            seen.notes
                .iter()
                .find(|note| matches!(note, Note::Lost { why, .. } if why.contains(words)))
                .map(|_| ())
        })
        .await;
    }

    pub(crate) fn was_lost(&self) -> bool {
        self.look(|seen| seen.notes.iter().any(|note| matches!(note, Note::Lost { .. })))
    }

    pub(crate) fn listener_becomes(&self, id: &ListenerId, why: Option<&str>) {
        {
            let states = &mut self.seen.lock().unwrap().states;
            match why {
                Some(why) => states.insert(id.clone(), why.to_owned()),
                None => states.remove(id),
            };
        }
        self.states.send_modify(|count| *count += 1);
    }
}

impl Drop for DataPlaneOf {
    fn drop(&mut self) {
        self.running.abort();
    }
}
