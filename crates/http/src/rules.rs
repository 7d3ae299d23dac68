//! What a worker has worked out of rules and backends: filters, timeouts, retries and sessions, when it first needs them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tidegate_plan::{BackendHandle, BackendId, RetryBudget, Rule, RuleHandle, Timeouts};
use tidegate_proxy::{Backend, RequestStats, Snapshot};

use crate::filters::Chain;
use crate::retry::{Budget, Retries};
use crate::session::Sessions;

/// What a request needs to know of the rule that takes it. All workers have the same: mirrors count their requests
/// together.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Keeps the address that it is known by from meaning anything else.
    _rule: RuleHandle,
    pub(crate) chain: Chain,
    /// One for each backend.
    pub(crate) backends: Vec<Chain>,
    /// Whether any of these does anything.
    pub(crate) has_filters: bool,
    pub(crate) request_time: Option<Duration>,
    pub(crate) backend_time: Option<Duration>,
    pub(crate) retries: Retries,
    /// Whether bodies are kept for another try.
    pub(crate) keeps_bodies: bool,
    pub(crate) sessions: Option<Sessions>,
    pub(crate) stats: Option<Arc<RequestStats>>,
}

/// By addresses of our own, which nobody chooses.
pub(crate) type PointerMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// A rule by the address of its route, and its number there.
type Key = (usize, usize);

/// The rules that a worker has needed since routes last changed.
#[derive(Debug)]
pub(crate) struct Rules {
    known: RefCell<PointerMap<Key, Arc<Prepared>>>,
    shared: Arc<SharedRules>,
}

/// The same of all workers, asked by each when it first needs one.
#[derive(Debug, Default)]
pub(crate) struct SharedRules(Mutex<HashMap<Key, Weak<Prepared>>>);

impl Rules {
    pub(crate) fn new(shared: Arc<SharedRules>) -> Self {
        Self { known: RefCell::default(), shared }
    }

    /// What cannot be carried out is told in words.
    pub(crate) fn of(&self, rule: &RuleHandle, snapshot: &Snapshot) -> Result<Arc<Prepared>, Box<str>> {
        let key = (Arc::as_ptr(rule.route().fragment()).addr(), rule.index());
        let known = self.known.borrow().get(&key).map(Arc::clone);
        known.map_or_else(|| self.prepare(key, rule, snapshot), Ok)
    }

    #[cold]
    fn prepare(&self, key: Key, rule: &RuleHandle, snapshot: &Snapshot) -> Result<Arc<Prepared>, Box<str>> {
        let mut shared = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        // As long as it is there, so is its route, and the address means nothing else.
        let prepared = match shared.get(&key).and_then(Weak::upgrade) {
            Some(prepared) => prepared,
            None => {
                let prepared = Arc::new(Prepared::new(rule, snapshot)?);
                shared.insert(key, Arc::downgrade(&prepared));
                prepared
            }
        };
        self.known.borrow_mut().insert(key, Arc::clone(&prepared));
        Ok(prepared)
    }

    pub(crate) fn forget(&self) {
        self.known.borrow_mut().clear();
        let mut shared = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|_, prepared| prepared.strong_count() > 0);
    }
}

impl Prepared {
    fn new(rule: &RuleHandle, snapshot: &Snapshot) -> Result<Self, Box<str>> {
        let (timeouts, retry, session) = match rule.rule() {
            Rule::Http(rule) => (rule.timeouts, rule.retry.as_ref(), rule.session.as_ref()),
            Rule::Grpc(rule) => (Timeouts::default(), None, rule.session.as_ref()),
            Rule::Stream(_) => (Timeouts::default(), None, None),
        };
        let chain = |filters| Chain::compile(filters).map_err(|error| Box::from(error.to_string()));
        let owner = || format!("{} rule {}", rule.route().id, rule.index());
        let sessions = session.map(|session| Sessions::compile(session, &owner())).transpose();
        let retries = Retries::new(retry);
        let of_rule = chain(rule.filters())?;
        let backends = rule.group().0.iter().map(|backend| chain(&backend.filters));
        let backends = backends.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            has_filters: !of_rule.is_empty() || backends.iter().any(|chain| !chain.is_empty()),
            chain: of_rule,
            backends,
            // Zero switches a timeout off.
            request_time: timeouts.request.filter(|time| !time.is_zero()),
            backend_time: timeouts.backend_request.filter(|time| !time.is_zero()),
            keeps_bodies: retry.is_some() && retries.is_on(),
            retries,
            sessions: sessions.map_err(|error| Box::from(error.to_string()))?,
            stats: snapshot.requests(&rule.route().id).map(Arc::clone),
            _rule: rule.clone(),
        })
    }
}

/// What a few backends ask for besides.
#[derive(Debug)]
pub(crate) struct Extras {
    _backend: BackendHandle,
    pub(crate) sessions: Option<Sessions>,
    pub(crate) budget: Option<Arc<Budget>>,
}

/// The same for backends, since the plan last changed.
#[derive(Debug)]
pub(crate) struct AllExtras {
    known: RefCell<PointerMap<usize, Rc<Extras>>>,
    budgets: Arc<Budgets>,
}

impl AllExtras {
    pub(crate) fn new(budgets: Arc<Budgets>) -> Self {
        Self { known: RefCell::default(), budgets }
    }

    /// `None` for most.
    pub(crate) fn of(&self, backend: &Backend) -> Option<Rc<Extras>> {
        let plan = &backend.plan;
        if plan.session.is_none() && plan.retry_budget.is_none() {
            return None;
        }
        let key = Arc::as_ptr(plan.fragment()).addr();
        let mut known = self.known.borrow_mut();
        let extras = known.entry(key).or_insert_with(|| {
            let session = plan.session.as_ref();
            // What translation let through can be carried out; a session that could not would only be forgotten.
            let sessions = session.and_then(|session| Sessions::compile(session, &plan.id.to_string()).ok());
            let budget = plan.retry_budget.as_ref().map(|budget| self.budgets.of(&plan.id, budget));
            Rc::new(Extras { _backend: plan.clone(), sessions, budget })
        });
        Some(Rc::clone(extras))
    }

    pub(crate) fn forget(&self) {
        self.known.borrow_mut().clear();
    }
}

/// Budgets for retries, which all workers share. Asked for once by each when the plan changes.
#[derive(Debug, Default)]
pub(crate) struct Budgets(Mutex<HashMap<BackendId, (RetryBudget, Arc<Budget>)>>);

impl Budgets {
    fn of(&self, backend: &BackendId, plan: &RetryBudget) -> Arc<Budget> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known, (_, budget)| known == backend || Arc::strong_count(budget) > 1);
        let known = all.get(backend).filter(|(known, _)| known == plan).map(|(_, budget)| Arc::clone(budget));
        known.unwrap_or_else(|| {
            let budget = Arc::new(Budget::new(plan));
            all.insert(backend.clone(), (*plan, Arc::clone(&budget)));
            budget
        })
    }
}
