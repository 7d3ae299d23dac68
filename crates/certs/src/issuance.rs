//! The loop that keeps certificates: asks the [`Book`] what to do, stores before it asks anybody, and shows what there
//! is.

mod left;
mod look;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tidegate_plan::{Hostname, ObjectName};
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

use crate::record::parse;
use crate::{
    Acme, Authority, Book, Certificate, Challenges, DAY, Decision, Demand, Failure, Intent, Issuer, Late,
    Ledger, Order, Policies, Seconds, Shelf, State, Store, StoreError, Suggestion, Why,
};

const LEDGER: &str = "ledger";

/// However far off the next thing is, the clock may be set meanwhile.
const LOOK: Duration = Duration::from_secs(30);

/// How often the ledger is stored so that whoever starts next knows until when somebody was here.
const NOTED: Seconds = DAY / 4;

/// An order that was left longer ago than this is not gone on with.
const STALE: Seconds = 6 * DAY;

/// Who can be asked.
#[derive(Debug, Default)]
pub struct Issuers {
    pub embedded: Option<Authority>,
    /// By the name of the account.
    pub acme: BTreeMap<Arc<str>, Acme>,
}

/// What there is at a moment.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// By Secret.
    pub certificates: BTreeMap<ObjectName, Arc<Certificate>>,
    /// Names without a certificate, by the listener's Secret.
    pub missing: BTreeMap<(ObjectName, Hostname), State>,
    /// Names whose certificate should have been renewed by now, by the listener's Secret.
    pub late: BTreeMap<(ObjectName, Hostname), Late>,
    /// Orders since the start, and those that came to nothing.
    pub orders: u64,
    pub failures: u64,
    pub in_flight: usize,
    /// What failed last.
    pub last_failure: Option<String>,
    /// Of which demand this is the picture.
    pub demand: Arc<Demand>,
}

pub struct Issuance {
    book: Book,
    store: Arc<dyn Store>,
    issuers: Arc<Issuers>,
    challenges: Arc<dyn Challenges>,
    policies: Policies,
    clock: fn() -> Seconds,
    intents: BTreeMap<ObjectName, Intent>,
    picture: Picture,
    tasks: JoinSet<Done>,
    /// What each of them is at, should it not come back.
    doing: HashMap<Id, Doing>,
    /// Certificates for which renewal information is being asked.
    looking: BTreeSet<ObjectName>,
    /// When the ledger was stored last.
    noted: Seconds,
}

impl std::fmt::Debug for Issuance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuance").field("book", &self.book).finish_non_exhaustive()
    }
}

enum Doing {
    Order(Order),
    Look(ObjectName),
}

enum Done {
    Order(Box<Intent>, Result<Certificate, Failure>),
    Look(ObjectName, Option<Suggestion>),
}

impl Issuance {
    /// What the store remembers; documents that cannot be read are told to `complain` and made anew.
    pub async fn open(
        store: Arc<dyn Store>,
        issuers: Issuers,
        challenges: Arc<dyn Challenges>,
        policies: Policies,
        clock: fn() -> Seconds,
        complain: &mut (dyn FnMut(&StoreError) + Send),
    ) -> Result<Self, StoreError> {
        let mut picture = Picture::default();
        for document in store.all(Shelf::Certificates).await? {
            match Certificate::parse(&document.name, &document.content) {
                Ok(certificate) => {
                    picture.certificates.insert(certificate.held.secret.clone(), Arc::new(certificate));
                }
                Err(error) => complain(&error),
            }
        }
        let mut ledger = Ledger::default();
        for document in store.all(Shelf::Ledger).await? {
            match parse(Shelf::Ledger, &document.name, &document.content) {
                Ok(read) => ledger = read,
                // Without it names that failed are tried once more, and budgets begin anew: the CA's own limits hold, and
                // are heeded. To count them as spent would leave all new names without a certificate for a week.
                Err(error) => complain(&error),
            }
        }
        let held = picture.certificates.values().map(|certificate| certificate.held.clone());
        let mut book = Book::new(held.collect::<Vec<_>>(), [], ledger);
        let mut intents = BTreeMap::new();
        for document in store.all(Shelf::Orders).await? {
            let intent: Intent = match parse(Shelf::Orders, &document.name, &document.content) {
                Ok(intent) => intent,
                Err(error) => {
                    complain(&error);
                    continue;
                }
            };
            let is_done = picture.certificates.values().any(|certificate| certificate.key == intent.key);
            if is_done || clock() - intent.begun > STALE {
                store.remove(Shelf::Orders, &document.name).await?;
                continue;
            }
            book.remember(&intent.order, intent.begun);
            intents.insert(intent.order.secret.clone(), intent);
        }
        Ok(Self {
            book,
            store,
            issuers: Arc::new(issuers),
            challenges,
            policies,
            clock,
            intents,
            picture,
            tasks: JoinSet::new(),
            doing: HashMap::new(),
            looking: BTreeSet::new(),
            noted: 0,
        })
    }

    /// What there is before anything is asked for.
    #[must_use]
    pub fn picture(&self) -> Picture {
        self.picture.clone()
    }

    /// Keeps what is wanted until nobody wants anything any more, or nobody looks.
    pub async fn keep(
        mut self,
        mut demand: watch::Receiver<Arc<Demand>>,
        show: &watch::Sender<Arc<Picture>>,
    ) {
        let store = Arc::clone(&self.store);
        loop {
            let wanted = Arc::clone(&demand.borrow_and_update());
            let wake = self.turn(&wanted).await;
            if show.send(Arc::new(self.picture.clone())).is_err() {
                return;
            }
            tokio::select! {
                changed = demand.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                Some(done) = self.tasks.join_next_with_id() => {
                    let wanted = Arc::clone(&demand.borrow());
                    match done {
                        Ok((id, done)) => {
                            self.doing.remove(&id);
                            self.finish(done, &wanted).await;
                        }
                        Err(error) => self.not_finished(error.id()).await,
                    }
                }
                names = store.changed() => self.look_again(names).await,
                () = tokio::time::sleep(wake) => {}
            }
        }
    }

    /// Others have changed certificates, or removed them: what there is now counts.
    async fn look_again(&mut self, names: BTreeSet<String>) {
        for name in names {
            // One that cannot be read now is as good as it was; what fails is told when it is renewed.
            let Ok(document) = self.store.one(Shelf::Certificates, &name).await else { continue };
            let certificate = document.and_then(|found| Certificate::parse(&found.name, &found.content).ok());
            let secret = match &certificate {
                Some(certificate) => certificate.held.secret.clone(),
                None => {
                    let Some((namespace, name)) = name.split_once('/') else { continue };
                    ObjectName::new(namespace, name)
                }
            };
            match certificate {
                Some(certificate) => {
                    self.book.found(certificate.held.clone());
                    self.picture.certificates.insert(secret, Arc::new(certificate));
                }
                None => {
                    self.book.dropped(&secret);
                    self.picture.certificates.remove(&secret);
                }
            }
        }
    }

    /// Does what is to be done now, and says when to look again.
    async fn turn(&mut self, demand: &Arc<Demand>) -> Duration {
        let now = (self.clock)();
        let decision = self.book.decide(now, demand, &self.policies);
        if self.book.ledger().counts() && (now - self.noted).abs() > NOTED {
            // A store that fails is told of by whoever needs it.
            let _ = self.store_ledger().await;
        }
        for secret in &decision.drop {
            self.forget(secret).await;
        }
        self.tidy_up(demand, now).await;
        for order in &decision.start {
            self.start(order.clone(), demand, now).await;
        }
        self.look(now);
        let Decision { wake, missing, late, .. } = decision;
        self.picture.missing = missing;
        self.picture.late = late;
        self.picture.in_flight = self.book.orders().len();
        self.picture.demand = Arc::clone(demand);
        let left =
            wake.map_or(LOOK, |wake| Duration::from_secs(u64::try_from(wake - now).unwrap_or(0).max(1)));
        left.min(LOOK)
    }

    /// The key and the intent are stored before anybody is asked.
    async fn start(&mut self, order: Order, demand: &Demand, now: Seconds) {
        let before = self.intents.remove(&order.secret);
        let same =
            before.filter(|intent| intent.order.names == order.names && intent.order.issuer == order.issuer);
        if same.as_ref().is_some_and(|intent| intent.url.is_some()) {
            self.book.resume(&order);
        } else {
            self.book.begin(&order, demand, &self.policies, now);
            self.picture.orders += 1;
        }
        let intent = match same {
            Some(intent) => Ok(Intent { order: order.clone(), ..intent }),
            None => Intent::new(order.clone(), now),
        };
        let stored = match &intent {
            Ok(intent) => self.store_intent(intent).await.map_err(|error| not_stored(&error)),
            Err(error) => {
                Err(Failure::Issuer { message: format!("no key can be made: {error}"), wait: None })
            }
        };
        match (intent, stored) {
            (Ok(intent), Ok(())) => self.ask(intent),
            (_, Err(failure)) => self.failed(&order, &failure, now).await,
            (Err(_), Ok(())) => {}
        }
    }

    async fn store_intent(&mut self, intent: &Intent) -> Result<(), StoreError> {
        if intent.order.why == Why::NewNames && intent.order.issuer.is_acme() {
            self.store_ledger().await?;
        }
        // What an authority of our own makes can be made again: nobody counts it.
        if intent.order.issuer.is_acme() {
            let content = serde_json::to_vec_pretty(intent).unwrap_or_default();
            self.store.put(Shelf::Orders, &intent.order.secret.to_string(), &content).await?;
        }
        Ok(())
    }

    async fn store_ledger(&mut self) -> Result<(), StoreError> {
        self.noted = (self.clock)();
        let content = self.book.ledger().within(self.store.largest());
        self.store.put(Shelf::Ledger, LEDGER, &content).await
    }

    fn ask(&mut self, mut intent: Intent) {
        let (issuers, store) = (Arc::clone(&self.issuers), Arc::clone(&self.store));
        let challenges = Arc::clone(&self.challenges);
        let now = (self.clock)();
        let is_renewal = intent.order.why != Why::NewNames;
        let replaced = self.picture.certificates.get(&intent.order.secret);
        let replaced = replaced.filter(|old| is_renewal && old.held.issuer == intent.order.issuer).cloned();
        let order = intent.order.clone();
        let task = self.tasks.spawn(async move {
            let outcome = match &intent.order.issuer {
                Issuer::Embedded => match &issuers.embedded {
                    Some(authority) => authority.issue(&intent, now),
                    None => Err(not_there(&intent.order.issuer)),
                },
                Issuer::Acme(account) => match issuers.acme.get(account) {
                    Some(acme) => acme.issue(&mut intent, replaced.as_deref(), &*store, &*challenges).await,
                    None => Err(not_there(&intent.order.issuer)),
                },
            };
            Done::Order(Box::new(intent), outcome)
        });
        self.doing.insert(task.id(), Doing::Order(order));
    }

    async fn finish(&mut self, done: Done, demand: &Demand) {
        let now = (self.clock)();
        match done {
            Done::Look(secret, suggestion) => self.looked(&secret, suggestion, now).await,
            Done::Order(intent, Ok(mut certificate)) => {
                certificate.held.secret = self.book.place(&intent.order, demand, now);
                match self.store_certificate(&intent.order.secret, &certificate).await {
                    Ok(()) => {
                        let held = certificate.held.clone();
                        self.picture.certificates.insert(held.secret.clone(), Arc::new(certificate));
                        self.noting(|book| book.issued(&intent.order.secret, held, now)).await;
                    }
                    Err(error) => self.came_to_nothing(*intent, &not_stored(&error), now).await,
                }
            }
            Done::Order(intent, Err(failure)) => self.came_to_nothing(*intent, &failure, now).await,
        }
    }

    /// Where it was not the order's fault, it is as it is: the certificate can be fetched once more.
    async fn came_to_nothing(&mut self, intent: Intent, failure: &Failure, now: Seconds) {
        self.failed(&intent.order, failure, now).await;
        if matches!(failure, Failure::Issuer { .. }) {
            self.intents.insert(intent.order.secret.clone(), intent);
        } else {
            let _ = self.store.remove(Shelf::Orders, &intent.order.secret.to_string()).await;
        }
    }

    async fn store_certificate(
        &self,
        ordered_for: &ObjectName,
        certificate: &Certificate,
    ) -> Result<(), StoreError> {
        let content = serde_json::to_vec_pretty(certificate).unwrap_or_default();
        self.store.put(Shelf::Certificates, &certificate.held.secret.to_string(), &content).await?;
        self.store.remove(Shelf::Orders, &ordered_for.to_string()).await
    }

    async fn failed(&mut self, order: &Order, failure: &Failure, now: Seconds) {
        self.book.failed(order, failure, now);
        self.picture.failures += 1;
        self.picture.last_failure = Some(failure.to_string());
        // A store that fails has been told of already, by whoever needed it.
        let _ = self.store_ledger().await;
    }

    /// What changes the ledger is stored with it.
    async fn noting(&mut self, change: impl FnOnce(&mut Book)) {
        let before = self.book.ledger().clone();
        change(&mut self.book);
        if *self.book.ledger() != before {
            // A store that fails is told of by whoever needs it.
            let _ = self.store_ledger().await;
        }
    }

    async fn forget(&mut self, secret: &ObjectName) {
        if self.store.remove(Shelf::Certificates, &secret.to_string()).await.is_ok() {
            self.book.dropped(secret);
            self.picture.certificates.remove(secret);
        }
    }
}

/// Where one document alone cannot be stored, nobody else suffers for it.
pub(crate) fn not_stored(error: &StoreError) -> Failure {
    match error {
        StoreError::Refused(_) => Failure::Here(error.to_string()),
        _ => Failure::Issuer { message: error.to_string(), wait: None },
    }
}

fn not_there(issuer: &Issuer) -> Failure {
    Failure::Issuer { message: format!("issuer {issuer} is not set up here"), wait: None }
}
