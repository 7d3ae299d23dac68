//! From endpoints to clients. Answers of many flows are gathered and leave together, each from the address that its
//! client had sent to.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::sys::datagram::{self, BATCH, Batch, Names, Outbox};
use crate::udp::Inlet;
use crate::udp::context::Context;
use crate::udp::flows::Flows;
use crate::udp::inward::LARGEST;
use crate::udp::record::Traffic;

/// Answers of one flow that one call reads.
const AT_ONCE: usize = 16;
/// Answers after which a flow whose answers come in bursts is worth a call that lets them come as one.
const MANY: u64 = 64;
/// How long a listener whose way takes no runs is spared them.
const NO_RUNS: Duration = Duration::from_secs(60);

pub(super) struct Outward {
    batch: Batch,
    /// What is in the places of the batch, from the first.
    waiting: Vec<Waiting>,
    turn: u64,
}

#[derive(Clone, Copy)]
struct Waiting {
    place: u8,
    inlet: u32,
    client: SocketAddr,
    local: IpAddr,
}

impl Outward {
    pub(super) fn new() -> Self {
        Self { batch: Batch::new(BATCH, LARGEST), waiting: Vec::with_capacity(BATCH), turn: 2 }
    }

    /// Gathers answers that wait at the socket of a flow. If more of them wait than it takes, epoll says so again.
    pub(super) fn read(
        &mut self,
        slot: u32,
        flows: &mut Flows,
        inlets: &mut [Option<Inlet>],
        ctx: &Context<'_>,
    ) {
        if self.waiting.len() + AT_ONCE > BATCH {
            self.flush(inlets, flows, ctx);
        }
        let Some(key) = flows.table.key(slot).copied() else { return };
        let Some(flow) = flows.table.get_mut(slot) else { return };
        let first = self.waiting.len();
        let socket = flow.socket.as_fd();
        let received = if flow.bursts || flow.runs.down {
            self.batch.receive(socket, first, AT_ONCE, Names::Known)
        } else {
            self.batch.receive_one(socket, first)
        };
        let count = match received {
            Ok(0) => return,
            Ok(count) => count,
            Err(_) => return flows.failed(slot, ctx.now),
        };
        // No answer to a new question comes as soon as the next turn: where one is read then, several had waited.
        flow.bursts = count > 1 || flow.read_in + 1 == self.turn;
        flow.read_in = self.turn;
        for place in first..first + count {
            let datagram = self.batch.datagram(place);
            flow.down += Traffic { datagrams: datagram.count(), bytes: datagram.len as u64 };
            let (client, local) = (key.client, key.local.ip());
            self.waiting.push(Waiting { place: place as u8, inlet: flow.inlet, client, local });
        }
        if !flow.runs.down && flow.down.datagrams > MANY && flow.bursts {
            flow.runs.down = true;
            // Where the kernel cannot, single datagrams do.
            let _ = datagram::receive_runs(flow.socket.as_fd());
        }
        if !flow.answered {
            flow.answered = true;
            flow.endpoint.connected();
        }
        flows.table.answered(slot, ctx.now);
    }

    /// Sends everything gathered. A turn of the worker ends with it.
    pub(super) fn end_turn(&mut self, inlets: &mut [Option<Inlet>], flows: &Flows, ctx: &Context<'_>) {
        self.flush(inlets, flows, ctx);
        self.turn += 1;
    }

    fn flush(&mut self, inlets: &mut [Option<Inlet>], flows: &Flows, ctx: &Context<'_>) {
        // Answers of one flow keep their order.
        self.waiting.sort_unstable_by_key(|answer| (answer.inlet, answer.place));
        let mut outbox = Outbox::new(true);
        for answers in self.waiting.chunk_by(|one, next| one.inlet == next.inlet) {
            let Some(inlet) = inlets.get_mut(answers[0].inlet as usize).and_then(Option::as_mut) else {
                flows.mishaps.unsent.add(answers.len() as u64);
                continue;
            };
            outbox.runs = inlet.no_runs_until.is_none_or(|until| ctx.now >= until);
            for answer in answers {
                let datagram = self.batch.datagram(usize::from(answer.place));
                if datagram.cut {
                    flows.mishaps.cut.add(1);
                    continue;
                }
                let bytes = self.batch.bytes(usize::from(answer.place));
                let from = inlet.local.ip().is_unspecified().then_some(answer.local);
                outbox.push(Some(answer.client), from, datagram.segment, bytes);
            }
            let sent = outbox.send(inlet.socket.as_fd());
            if sent.runs_refused {
                inlet.no_runs_until = Some(ctx.now + NO_RUNS);
            }
            ctx.counters.datagrams_down(sent.datagrams, sent.bytes);
            flows.mishaps.unsent.add(sent.failed);
        }
        self.waiting.clear();
    }
}
