//! The flows of one worker: found by who speaks with whom, kept in the order in which they fell silent. It knows no
//! socket and reads no clock.
//!
//! A flow whose client has sent once is a newcomer; one whose client came back is a regular. When room must be made,
//! newcomers go first, so that a flood of senders who never come back does not push out those who do.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// What tells flows apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) client: SocketAddr,
    /// The address the client sent to.
    pub(crate) local: SocketAddr,
}

/// The order of silence is kept to this grain: a flow in full swing need not be moved with each datagram.
const GRAIN: Duration = Duration::from_millis(50);
/// A regular that was heard of within this time does not make room for another flow.
const BUSY: Duration = Duration::from_secs(1);

pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    by_key: HashMap<Key, u32, foldhash::quality::RandomState>,
    newcomers: Queue,
    regulars: Queue,
    /// The first unused slot; they are chained by `next`.
    free: u32,
}

struct Slot<T> {
    flow: Option<Flow<T>>,
    /// Neighbours in the queue, `NONE` at its ends.
    before: u32,
    next: u32,
}

struct Flow<T> {
    key: Key,
    heard: Instant,
    regular: bool,
    value: T,
}

/// Flows from the longest to the shortest silence.
#[derive(Clone, Copy)]
struct Queue {
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        let empty = Queue { first: NONE, last: NONE };
        let by_key = HashMap::default();
        Self { slots: Vec::new(), by_key, newcomers: empty, regulars: empty, free: NONE }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn key(&self, slot: u32) -> Option<&Key> {
        self.flow(slot).map(|flow| &flow.key)
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.flow(slot).map(|flow| &flow.value)
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.flow_mut(slot).map(|flow| &mut flow.value)
    }

    /// Slots in use or not: whoever goes through all flows counts up to here.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Takes in a flow that is not there yet, as a newcomer.
    pub(crate) fn begin(&mut self, key: Key, value: T, now: Instant) -> u32 {
        let flow = Some(Flow { key, heard: now, regular: false, value });
        let slot = match self.slots.get_mut(self.free as usize) {
            Some(unused) => {
                let slot = self.free;
                self.free = unused.next;
                unused.flow = flow;
                slot
            }
            None => {
                self.slots.push(Slot { flow, before: NONE, next: NONE });
                self.slots.len() as u32 - 1
            }
        };
        let other = self.by_key.insert(key, slot);
        debug_assert!(other.is_none(), "a flow begins once");
        self.append(slot, false);
        slot
    }

    /// The slot is the next to be used again.
    pub(crate) fn end(&mut self, slot: u32) -> Option<(Key, T)> {
        let regular = self.flow(slot)?.regular;
        self.unlink(slot, regular);
        let place = &mut self.slots[slot as usize];
        let flow = place.flow.take()?;
        place.next = self.free;
        self.free = slot;
        self.by_key.remove(&flow.key);
        Some((flow.key, flow.value))
    }

    /// The client has sent again.
    pub(crate) fn spoke(&mut self, slot: u32, now: Instant) {
        self.heard(slot, now, true);
    }

    /// The backend has answered.
    pub(crate) fn answered(&mut self, slot: u32, now: Instant) {
        self.heard(slot, now, false);
    }

    fn heard(&mut self, slot: u32, now: Instant, by_client: bool) {
        let Some(flow) = self.flow_mut(slot) else { return };
        let before = flow.regular;
        let regular = before || by_client;
        if before == regular && now.saturating_duration_since(flow.heard) < GRAIN {
            return;
        }
        flow.regular = regular;
        flow.heard = flow.heard.max(now);
        self.unlink(slot, before);
        self.append(slot, regular);
    }

    /// A flow of which nothing was heard for so long, the longest silent of its kind.
    pub(crate) fn idle(&self, now: Instant, limit: Duration) -> Option<u32> {
        [self.newcomers, self.regulars].into_iter().map(|queue| queue.first).find(|slot| {
            self.flow(*slot).is_some_and(|flow| now.saturating_duration_since(flow.heard) >= limit)
        })
    }

    /// The flow that has to make room for another, if one can be asked to.
    pub(crate) fn expendable(&self, now: Instant) -> Option<u32> {
        match self.newcomers.first {
            NONE => {
                let heard = self.flow(self.regulars.first)?.heard;
                (now.saturating_duration_since(heard) >= BUSY).then_some(self.regulars.first)
            }
            first => Some(first),
        }
    }

    fn flow(&self, slot: u32) -> Option<&Flow<T>> {
        self.slots.get(slot as usize)?.flow.as_ref()
    }

    fn flow_mut(&mut self, slot: u32) -> Option<&mut Flow<T>> {
        self.slots.get_mut(slot as usize)?.flow.as_mut()
    }

    fn queue(&mut self, regular: bool) -> &mut Queue {
        if regular { &mut self.regulars } else { &mut self.newcomers }
    }

    fn append(&mut self, slot: u32, regular: bool) {
        let queue = self.queue(regular);
        let last = std::mem::replace(&mut queue.last, slot);
        match last {
            NONE => queue.first = slot,
            last => self.slots[last as usize].next = slot,
        }
        let place = &mut self.slots[slot as usize];
        place.before = last;
        place.next = NONE;
    }

    fn unlink(&mut self, slot: u32, regular: bool) {
        let Slot { before, next, .. } = self.slots[slot as usize];
        match before {
            NONE => self.queue(regular).first = next,
            before => self.slots[before as usize].next = next,
        }
        match next {
            NONE => self.queue(regular).last = before,
            next => self.slots[next as usize].before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Client(u16),
        Answer(u16),
        End(u16),
        MakeRoom,
        EndIdle,
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let client = 0..12_u16;
        prop_oneof![
            6 => client.clone().prop_map(Step::Client),
            3 => client.clone().prop_map(Step::Answer),
            1 => client.prop_map(Step::End),
            2 => Just(Step::MakeRoom),
            1 => Just(Step::EndIdle),
            4 => (0..1500_u64).prop_map(Step::Wait),
        ]
    }

    fn key(client: u16) -> Key {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Key { client: address(client), local: address(53) }
    }

    const LIMIT: Duration = Duration::from_secs(3);

    /// The same in the plainest way: a list of flows with the time they were last heard of.
    #[derive(Default)]
    struct Plain(Vec<(u16, Instant, bool)>);

    impl Plain {
        fn find(&mut self, client: u16) -> Option<&mut (u16, Instant, bool)> {
            self.0.iter_mut().find(|flow| flow.0 == client)
        }
        fn remove(&mut self, client: u16) {
            self.0.retain(|flow| flow.0 != client);
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_list(steps in vec(step(), 1..200)) {
            let mut now = Instant::now();
            let mut table = Table::new();
            let mut plain = Plain::default();
            for step in steps {
                match step {
                    Step::Client(client) => match table.find(&key(client)) {
                        Some(slot) => {
                            prop_assert_eq!(table.get(slot), Some(&client));
                            table.spoke(slot, now);
                            let flow = plain.find(client).unwrap();
                            (flow.1, flow.2) = (now, true);
                        }
                        None => {
                            prop_assert!(plain.find(client).is_none());
                            let slot = table.begin(key(client), client, now);
                            prop_assert_eq!(table.key(slot), Some(&key(client)));
                            plain.0.push((client, now, false));
                        }
                    },
                    Step::Answer(client) => if let Some(slot) = table.find(&key(client)) {
                        table.answered(slot, now);
                        plain.find(client).unwrap().1 = now;
                    },
                    Step::End(client) => {
                        if let Some(slot) = table.find(&key(client)) {
                            prop_assert_eq!(table.end(slot), Some((key(client), client)));
                            prop_assert_eq!(table.end(slot), None);
                        }
                        plain.remove(client);
                    }
                    Step::MakeRoom => match table.expendable(now) {
                        Some(slot) => {
                            let client = *table.get(slot).unwrap();
                            let (_, heard, regular) = *plain.find(client).unwrap();
                            let newcomers = plain.0.iter().any(|flow| !flow.2);
                            prop_assert_eq!(regular, !newcomers, "newcomers go first");
                            prop_assert!(!regular || now - heard + GRAIN >= BUSY);
                            let silent = plain.0.iter().filter(|flow| flow.2 == regular).map(|flow| flow.1).min();
                            prop_assert!(heard <= silent.unwrap() + GRAIN, "the longest silent, to the grain");
                            table.end(slot);
                            plain.remove(client);
                        }
                        None => prop_assert!(plain.0.iter().all(|flow| flow.2 && now - flow.1 < BUSY)),
                    },
                    Step::EndIdle => {
                        while let Some(slot) = table.idle(now, LIMIT) {
                            let client = *table.get(slot).unwrap();
                            prop_assert!(now - plain.find(client).unwrap().1 + GRAIN >= LIMIT);
                            table.end(slot);
                            plain.remove(client);
                        }
                        prop_assert!(plain.0.iter().all(|flow| now - flow.1 < LIMIT));
                    }
                    Step::Wait(milliseconds) => now += Duration::from_millis(milliseconds),
                }
                prop_assert_eq!(table.len(), plain.0.len());
                prop_assert!(table.slots() <= 12, "slots are used again");
                for flow in &plain.0 {
                    prop_assert!(table.find(&key(flow.0)).is_some());
                }
            }
        }
    }

    #[test]
    fn one_address_of_the_machine_is_another_flow_than_the_next() {
        let mut table = Table::new();
        let now = Instant::now();
        let other = Key { local: SocketAddr::from(([127, 0, 0, 2], 53)), ..key(1) };
        let first = table.begin(key(1), "one", now);
        let second = table.begin(other, "two", now);
        assert_ne!(first, second);
        assert_eq!(table.find(&other), Some(second));
    }

    #[test]
    fn a_flood_of_newcomers_leaves_a_regular_alone() {
        let mut table = Table::new();
        let mut now = Instant::now();
        let regular = table.begin(key(0), 0, now);
        table.spoke(regular, now);
        for client in 1..100 {
            table.begin(key(client), client, now);
            now += Duration::from_millis(100);
            if client > 10 {
                let room = table.expendable(now).unwrap();
                assert_ne!(room, regular, "though it is the longest silent");
                table.end(room);
            }
        }
        assert_eq!(table.find(&key(0)), Some(regular));
    }
}
