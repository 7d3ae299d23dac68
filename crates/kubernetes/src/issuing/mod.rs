//! Certificates that the controller itself makes, while it leads: by the embedded CA, and by ACME.
//!
//! What to ask for is decided in `certs`; this is where it is kept (Secrets), who answers CAs (data planes, over the
//! link), and when it begins and ends.

mod challenges;
mod documents;
mod known;
mod news;
mod store;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use kube::Client;
use tidegate_certs::{
    Acme, AcmeSettings, Authority, AuthorityError, Challenges, Demand, EmbeddedSettings, Issuance, Issuer,
    Issuers, Picture, Policies, Seconds, Store, StoreError,
};
use tidegate_plan::ObjectName;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) use self::challenges::{Doors, LinkChallenges, Shown};
use self::documents::Form;
pub(crate) use self::documents::{CONTROLLER, DOCUMENT, Mark, certificate, selector};
pub(crate) use self::news::news;
pub(crate) use self::store::Owners;
use self::store::SecretStore;
use crate::log::Log;
use crate::settings::Settings;

/// The first and the longest wait before the store is opened again.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Who can be asked, and how.
#[derive(Clone, Debug)]
pub struct IssuingSettings {
    pub embedded: Option<EmbeddedSettings>,
    /// Accounts, each with a name of its own.
    pub acme: Vec<AcmeSettings>,
    pub policies: Policies,
    /// Who makes certificates for Gateways that do not say.
    pub default: Option<tidegate_translate::Issuer>,
    /// Whether a certificate that vouches for itself is shown until there is a real one, where a Gateway does not say.
    pub stand_in: bool,
}

/// The issuing of one time of leading.
pub(crate) struct Issuing {
    demand: watch::Sender<Arc<Demand>>,
    pictures: watch::Receiver<Arc<Picture>>,
    store: Arc<SecretStore>,
    pub(crate) challenges: Arc<LinkChallenges>,
    task: JoinHandle<()>,
}

impl Issuing {
    /// Goes on where the leader before was, with what is wanted now.
    pub(crate) fn start(
        client: Client,
        settings: &Settings,
        issuing: &IssuingSettings,
        seal: hmac::Key,
        demand: Arc<Demand>,
        owners: Arc<Owners>,
        log: Log,
    ) -> Self {
        let form = Form {
            controller: Arc::clone(&settings.controller_name),
            namespace: settings.namespace.clone(),
            seal,
        };
        let store = Arc::new(SecretStore::new(client, form, owners));
        let challenges = Arc::new(LinkChallenges::default());
        let (demand, wanted) = watch::channel(demand);
        let (show, pictures) = watch::channel(Arc::default());
        let keeping = keep(
            Arc::clone(&store) as Arc<dyn Store>,
            Arc::clone(&challenges) as Arc<dyn Challenges>,
            issuing.clone(),
            wanted,
            show,
            log,
        );
        Self { demand, pictures, store, challenges, task: tokio::spawn(keeping) }
    }

    /// Says what is wanted now, and whom it is for.
    pub(crate) fn want(&self, demand: Demand, owners: Owners) {
        self.store.own(Arc::new(owners));
        self.demand.send_if_modified(|known| {
            let is_new = **known != demand;
            if is_new {
                *known = Arc::new(demand);
            }
            is_new
        });
    }

    /// The watch tells of a Secret, any Secret; `None`: that it is gone.
    pub(crate) fn sighted(&self, name: &ObjectName, version: Option<&str>) {
        self.store.sighted(name, version);
    }

    /// Waits for the next picture; for ever, where there is none any more.
    pub(crate) async fn changed(&mut self) -> Arc<Picture> {
        if self.pictures.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        Arc::clone(&self.pictures.borrow_and_update())
    }

    /// Nothing goes on after this: the next leader may have begun.
    pub(crate) async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

async fn keep(
    store: Arc<dyn Store>,
    challenges: Arc<dyn Challenges>,
    settings: IssuingSettings,
    wanted: watch::Receiver<Arc<Demand>>,
    show: watch::Sender<Arc<Picture>>,
    log: Log,
) {
    let mut wait = FIRST;
    let issuance = loop {
        match open(&store, &challenges, &settings, &log).await {
            Ok(issuance) => break issuance,
            Err(error) => log.error("issuing-failed", format_args!("no certificates can be made: {error}")),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST);
    };
    issuance.keep(wanted, &show).await;
}

async fn open(
    store: &Arc<dyn Store>,
    challenges: &Arc<dyn Challenges>,
    settings: &IssuingSettings,
    log: &Log,
) -> Result<Issuance, StoreError> {
    let (mut issuers, mut policies) = (Issuers::default(), settings.policies.clone());
    if let Some(embedded) = &settings.embedded {
        match Authority::open(&**store, embedded, now()).await {
            Ok(authority) => issuers.embedded = Some(authority),
            Err(AuthorityError::Store(error)) => return Err(error),
            // The other issuer can do without.
            Err(error) => {
                log.error("issuing-failed", format_args!("the embedded CA cannot be used: {error}"));
            }
        }
    }
    for account in &settings.acme {
        match Acme::new(account.clone()) {
            Ok(acme) => _ = issuers.acme.insert(Arc::clone(&account.name), acme),
            Err(error) => {
                log.error("issuing-failed", format_args!("ACME account {}: {error}", account.name));
            }
        }
    }
    policies.retain(|issuer, _| match issuer {
        Issuer::Embedded => issuers.embedded.is_some(),
        Issuer::Acme(account) => issuers.acme.contains_key(account),
    });
    let mut complain = |error: &StoreError| log.warning("issuing", error);
    let (store, challenges) = (Arc::clone(store), Arc::clone(challenges));
    Issuance::open(store, issuers, challenges, policies, now, &mut complain).await
}

pub(crate) fn now() -> Seconds {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Seconds::try_from(since.as_secs()).unwrap_or(Seconds::MAX)
}
