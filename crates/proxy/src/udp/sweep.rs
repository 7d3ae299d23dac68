//! What a new plan means for the flows that are there: those whose way was removed have some time left, those whose
//! endpoint was removed get another. A few at a time, for there may be many.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::Ending;
use crate::udp::context::Context;
use crate::udp::flows::Flows;

pub(super) struct Sweep {
    pub(super) drain_time: Duration,
    /// The next slot to look at; `None`: all were looked at since the plan last changed.
    next: Option<u32>,
    /// Flows that have to end, and when; in this order.
    leaving: VecDeque<(u32, Instant)>,
}

impl Sweep {
    pub(super) fn new(drain_time: Duration) -> Self {
        Self { drain_time, next: None, leaving: VecDeque::new() }
    }

    /// The plan has changed: every flow is to be looked at.
    pub(super) fn start(&mut self) {
        self.next = Some(0);
    }

    /// Looks at so many slots.
    pub(super) fn step(&mut self, most: u32, flows: &mut Flows, ctx: &Context<'_>) {
        let Some(first) = self.next else { return };
        let end = flows.table.slots().min(first.saturating_add(most));
        for slot in first..end {
            self.look_at(slot, flows, ctx);
        }
        self.next = (end < flows.table.slots()).then_some(end);
    }

    fn look_at(&mut self, slot: u32, flows: &mut Flows, ctx: &Context<'_>) {
        let Some(flow) = flows.table.get_mut(slot) else { return };
        if flow.is_planned(ctx.snapshot) {
            flow.leaves_at = None;
            let backend = ctx.snapshot.backends.of(&flow.backend.plan.id);
            flow.moves |= backend.is_some_and(|backend| !backend.has(flow.endpoint.address));
        } else if flow.leaves_at.is_none() {
            let at = ctx.now + self.drain_time;
            flow.leaves_at = Some(at);
            self.leaving.push_back((slot, at));
        }
    }

    /// Ends flows whose time is over, at most so many.
    pub(super) fn end_due(&mut self, most: usize, flows: &mut Flows, ctx: &mut Context<'_>) {
        for _ in 0..most {
            let Some((slot, at)) = self.leaving.pop_front_if(|(_, at)| *at <= ctx.now) else { return };
            // The slot may be another flow's by now, or the plan have the flow's way again.
            if flows.table.get(slot).is_some_and(|flow| flow.leaves_at == Some(at)) {
                flows.end(slot, Ending::Drained, ctx);
            }
        }
    }
}
