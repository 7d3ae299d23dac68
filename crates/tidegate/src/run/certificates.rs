//! Certificates kept beside the control loop, on a thread of their own: what is wanted goes there, what there is comes
//! back as Secrets, the same way as those that users write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use tidegate_api::{Object, ObjectKey};
use tidegate_certs::{
    Acme, Authority, Challenges, Demand, FolderStore, Issuance, Issuer, Issuers, Picture, State,
};
use tidegate_issuing::StandIns;
use tidegate_translate::Translation;
use tokio::sync::watch;

use crate::arguments::{CertificateOptions, IssuerChoice, Until};
use crate::certs::issuers;
use crate::output::Error;
use crate::run::log::Log;
use crate::words;

pub(crate) struct Certificates {
    demand: watch::Sender<Arc<Demand>>,
    pictures: watch::Receiver<Arc<Picture>>,
    until: Until,
    stand_ins: StandIns,
}

impl Certificates {
    /// `None` where there is no state to keep them in.
    pub(crate) async fn start(
        options: &CertificateOptions,
        challenges: Arc<dyn Challenges>,
        log: Log,
    ) -> Result<Option<Self>, Error> {
        let Some(state) = &options.state else { return Ok(None) };
        let failed = |error: &dyn std::fmt::Display| Error::Start(format!("--state: {error}"));
        let store = Arc::new(FolderStore::open(state).map_err(|error| failed(&error))?);
        let settings = issuers::embedded(&options.issuers);
        let mut policies = options.issuers.grouping.policies();
        let mut issuers = Issuers::default();
        let authority = Authority::open(&*store, &settings, words::now()).await;
        issuers.embedded = Some(authority.map_err(|error| failed(&error))?);
        // A public CA is asked only where somebody said so.
        let with_default = options.certs == Some(IssuerChoice::Acme);
        if !with_default {
            policies.remove(&Issuer::acme());
        }
        for account in issuers::accounts(&options.issuers, with_default)? {
            let name = Arc::clone(&account.name);
            let acme = Acme::new(account).map_err(|error| Error::Start(error.to_string()))?;
            issuers.acme.insert(name, acme);
        }
        let mut complain = |error: &tidegate_certs::StoreError| log.error("state", error);
        let issuance = Issuance::open(store, issuers, challenges, policies, words::now, &mut complain).await;
        let issuance = issuance.map_err(|error| failed(&error))?;
        let (demand, wanted) = watch::channel(Arc::default());
        let (show, pictures) = watch::channel(Arc::new(issuance.picture()));
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(issuance.keep(wanted, &show)),
                Err(error) => log.error("certificates", format_args!("none can be made: {error}")),
            }
        };
        let started = thread::Builder::new().name("certificates".to_owned()).spawn(run);
        started.map_err(|error| failed(&error))?;
        Ok(Some(Self {
            demand,
            pictures,
            until: options.issuers.until_issued,
            stand_ins: StandIns::default(),
        }))
    }

    /// Says what is wanted now.
    pub(crate) fn want(&self, demand: Demand) {
        self.demand.send_if_modified(|known| {
            let is_new = **known != demand;
            if is_new {
                *known = Arc::new(demand);
            }
            is_new
        });
    }

    /// Waits for something new; for ever, where nobody makes anything any more.
    pub(crate) async fn changed(&mut self) {
        if self.pictures.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn picture(&mut self) -> Arc<Picture> {
        Arc::clone(&self.pictures.borrow_and_update())
    }

    /// Whether what an authority of our own makes is there, so far as it can be.
    pub(crate) fn is_settled(&self) -> bool {
        let picture = self.pictures.borrow();
        let is_coming =
            |state: &State| matches!(state, State::Ordered | State::Queued | State::Gathering { .. });
        let waits = picture.missing.iter().any(|((secret, _), state)| {
            let target = picture.demand.targets.get(secret);
            target.is_some_and(|target| target.issuer == Issuer::Embedded) && is_coming(state)
        });
        *picture.demand == **self.demand.borrow() && !waits
    }

    /// What there is, as Secrets.
    pub(crate) fn secrets(
        &mut self,
        picture: &Picture,
        translation: &Translation,
    ) -> BTreeMap<ObjectKey, Object> {
        let mut secrets: BTreeMap<ObjectKey, Object> = picture
            .certificates
            .values()
            .map(|certificate| tidegate_issuing::secret(certificate))
            .map(|object| (object.key(), object))
            .collect();
        let default = self.until == Until::StandIn;
        let stand_ins = self.stand_ins.renew(picture, &translation.wants, default, words::now());
        secrets.extend(stand_ins.map(|object| (object.key(), object.clone())));
        secrets
    }
}
