//! The newest plan of each Gateway. What is between two looks of a data plane it never sees.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_plan::{GatewayPlan, ObjectName};
use tokio::sync::watch;

/// Hands plans to the data planes that follow. It never waits: a slow one gets the newest when it has time.
#[derive(Clone, Default)]
pub struct Publisher {
    gateways: Arc<Mutex<BTreeMap<ObjectName, Plans>>>,
}

type Plans = watch::Sender<Option<Arc<GatewayPlan>>>;
pub(crate) type Newest = watch::Receiver<Option<Arc<GatewayPlan>>>;

impl Publisher {
    /// From here on this is what the Gateway's data planes shall serve.
    pub fn publish(&self, plan: GatewayPlan) {
        let gateway = plan.gateway.clone();
        self.of(&gateway, |sender| _ = sender.send_replace(Some(Arc::new(plan))));
    }

    /// The Gateway is gone, or not ours any more. Its data planes go on with what they have until somebody ends them.
    pub fn forget(&self, gateway: &ObjectName) {
        let mut gateways = self.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = gateways.get(gateway) {
            sender.send_replace(None);
            if sender.is_closed() {
                gateways.remove(gateway);
            }
        }
    }

    pub(crate) fn subscribe(&self, gateway: &ObjectName) -> Newest {
        self.of(gateway, |sender| {
            let mut newest = sender.subscribe();
            // What is there already is news to whoever comes.
            newest.mark_changed();
            newest
        })
    }

    /// Gateways that nobody follows and that have no plan leave nothing behind.
    pub(crate) fn unsubscribed(&self, gateway: &ObjectName) {
        let mut gateways = self.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        if gateways.get(gateway).is_some_and(|sender| sender.is_closed() && sender.borrow().is_none()) {
            gateways.remove(gateway);
        }
    }

    fn of<T>(&self, gateway: &ObjectName, act: impl FnOnce(&Plans) -> T) -> T {
        let mut gateways = self.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        act(gateways.entry(gateway.clone()).or_insert_with(|| watch::Sender::new(None)))
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gateways = self.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Publisher").field("gateways", &gateways.keys()).finish()
    }
}
