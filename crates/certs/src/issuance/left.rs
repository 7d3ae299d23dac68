//! What is left where something did not come to its end: tasks that are gone, and orders that nobody goes on with.

use tidegate_plan::ObjectName;
use tokio::task::Id;

use super::{Doing, Issuance, STALE};
use crate::{DAY, Demand, Failure, Intent, Order, Seconds, Shelf};

/// An order whose names nobody wants any more is kept so long, should they come back.
const UNWANTED: Seconds = DAY;

impl Issuance {
    /// A task has ended without a word, which is a mistake of ours: its place is free again.
    pub(super) async fn not_finished(&mut self, id: Id) {
        match self.doing.remove(&id) {
            Some(Doing::Order(order)) => {
                let failure =
                    Failure::Here("the order was given up because of a mistake in Tidegate".to_owned());
                self.failed(&order, &failure, (self.clock)()).await;
                let _ = self.store.remove(Shelf::Orders, &order.secret.to_string()).await;
            }
            Some(Doing::Look(secret)) => self.looked(&secret, None, (self.clock)()).await,
            None => {}
        }
    }

    /// Orders that were left, with their keys, and that nobody will go on with.
    pub(super) async fn tidy_up(&mut self, demand: &Demand, now: Seconds) {
        let is_wanted = |order: &Order| {
            let target = demand.targets.get(&order.target);
            let target = target.filter(|target| target.issuer == order.issuer);
            target.is_some_and(|target| order.names.iter().any(|name| target.names.contains_key(name)))
        };
        // Before anybody has said what is wanted, nothing is unwanted.
        let is_known = !demand.targets.is_empty();
        let is_over = |intent: &&Intent| {
            let age = now - intent.begun;
            age > STALE || (is_known && age > UNWANTED && !is_wanted(&intent.order))
        };
        let over: Vec<ObjectName> =
            self.intents.values().filter(is_over).map(|intent| intent.order.secret.clone()).collect();
        for secret in over {
            // Another order may be under way for the same Secret, whose document it is then.
            let is_free = !self.book.orders().contains_key(&secret);
            if !is_free || self.store.remove(Shelf::Orders, &secret.to_string()).await.is_ok() {
                self.intents.remove(&secret);
            }
        }
    }
}
