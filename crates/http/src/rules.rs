//! Rules made ready: filters, timeouts and retries of a rule, worked out when a worker first needs them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_plan::{Retry, Rule, RuleHandle};
use tidegate_proxy::{RequestStats, Snapshot};

use crate::filters::{Chain, FilterError};

/// What a request needs to know of the rule that takes it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) chain: Chain,
    /// One for each backend.
    pub(crate) backends: Vec<Chain>,
    pub(crate) request_time: Option<Duration>,
    pub(crate) backend_time: Option<Duration>,
    pub(crate) retry: Option<Retry>,
    pub(crate) stats: Option<Arc<RequestStats>>,
}

/// The rules that a worker has needed since routes last changed.
#[derive(Debug, Default)]
pub(crate) struct Rules(RefCell<HashMap<(usize, usize), Known>>);

#[derive(Debug)]
struct Known {
    /// Keeps the address that it is known by from meaning anything else.
    _rule: RuleHandle,
    prepared: Result<Rc<Prepared>, FilterError>,
}

impl Rules {
    pub(crate) fn of(&self, rule: &RuleHandle, snapshot: &Snapshot) -> Result<Rc<Prepared>, FilterError> {
        let key = (Arc::as_ptr(rule.route().fragment()).addr(), rule.index());
        let mut all = self.0.borrow_mut();
        let known = all.entry(key).or_insert_with(|| Known {
            _rule: rule.clone(),
            prepared: Prepared::new(rule, snapshot).map(Rc::new),
        });
        known.prepared.clone()
    }

    pub(crate) fn forget(&self) {
        self.0.borrow_mut().clear();
    }
}

impl Prepared {
    fn new(rule: &RuleHandle, snapshot: &Snapshot) -> Result<Self, FilterError> {
        let (timeouts, retry) = match rule.rule() {
            Rule::Http(rule) => (rule.timeouts, rule.retry.clone()),
            Rule::Grpc(_) | Rule::Stream(_) => (tidegate_plan::Timeouts::default(), None),
        };
        let backends = &rule.group().0;
        Ok(Self {
            chain: Chain::compile(rule.filters())?,
            backends: backends
                .iter()
                .map(|backend| Chain::compile(&backend.filters))
                .collect::<Result<_, _>>()?,
            // Zero switches a timeout off.
            request_time: timeouts.request.filter(|time| !time.is_zero()),
            backend_time: timeouts.backend_request.filter(|time| !time.is_zero()),
            retry,
            stats: snapshot.requests(&rule.route().id).map(Arc::clone),
        })
    }
}
