//! The sockets of a worker's flows, and those at rest between two flows.
//!
//! An answer may be on its way to a flow that had to end. If its port went to the next flow at once, that flow's
//! client would hear it; so a socket keeps its port for a while, and what comes to it meanwhile is thrown away. Where
//! no answer is owed, a short while will do: sockets are what a machine has few of.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use crate::udp::{Token, uplink};

/// How long a socket rests whose flow was owed an answer.
pub(super) const REST: Duration = Duration::from_secs(1);
/// The same where every datagram was answered.
pub(super) const SHORT_REST: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Uplinks {
    /// By the number that epoll knows each by.
    all: Vec<Option<Uplink>>,
    free: Vec<u32>,
    /// Sockets at rest with the time when it is over, in the order of that.
    resting: VecDeque<(u32, Instant)>,
    /// The same for those with a short rest.
    settling: VecDeque<(u32, Instant)>,
    /// Sockets that need no rest, since when, in the order of that.
    spare: VecDeque<(u32, Instant)>,
}

struct Uplink {
    socket: Arc<OwnedFd>,
    is_ipv4: bool,
    /// The slot of its flow; at rest it has none.
    flow: Option<u32>,
}

impl Uplinks {
    /// A socket connected to an endpoint, with its number: one that has rested, or else a new one.
    pub(super) fn open(
        &mut self,
        endpoint: SocketAddr,
        epoll: BorrowedFd<'_>,
        now: Instant,
    ) -> io::Result<(u32, Arc<OwnedFd>)> {
        while let Some(number) = self.rested(now) {
            let rested = self.get(number).filter(|rested| rested.is_ipv4 == endpoint.is_ipv4());
            if let Some(socket) = rested.map(|rested| Arc::clone(&rested.socket))
                && uplink::renew(socket.as_fd(), endpoint).is_ok()
            {
                return Ok((number, socket));
            }
            self.close(number);
        }
        let socket = Arc::new(uplink::open(endpoint)?);
        let number = self.free.pop().unwrap_or(self.all.len() as u32);
        if let Err(error) = epoll::add(epoll, &socket, Token::Uplink(number).data(), epoll::EventFlags::IN) {
            if (number as usize) < self.all.len() {
                self.free.push(number);
            }
            return Err(error.into());
        }
        let new = Some(Uplink { socket: Arc::clone(&socket), is_ipv4: endpoint.is_ipv4(), flow: None });
        match self.all.get_mut(number as usize) {
            Some(place) => *place = new,
            None => self.all.push(new),
        }
        Ok((number, socket))
    }

    pub(super) fn serve(&mut self, number: u32, flow: u32) {
        if let Some(uplink) = self.get_mut(number) {
            uplink.flow = Some(flow);
        }
    }

    /// The flow that something came for. What comes for none is thrown away.
    pub(super) fn flow(&self, number: u32) -> Option<u32> {
        let uplink = self.get(number)?;
        if uplink.flow.is_none() {
            let _ = uplink::empty(uplink.socket.as_fd());
        }
        uplink.flow
    }

    /// Its flow has ended, or left it.
    pub(super) fn rest(&mut self, number: u32, now: Instant) {
        if let Some(uplink) = self.get_mut(number) {
            uplink.flow = None;
            self.resting.push_back((number, now + REST));
        }
    }

    /// Its flow has ended, with all that it asked answered.
    pub(super) fn settle(&mut self, number: u32, now: Instant) {
        if let Some(uplink) = self.get_mut(number) {
            uplink.flow = None;
            self.settling.push_back((number, now + SHORT_REST));
        }
    }

    /// Its flow has ended after it was silent for long: that was rest enough.
    pub(super) fn release(&mut self, number: u32, now: Instant) {
        if let Some(uplink) = self.get_mut(number) {
            uplink.flow = None;
            self.spare.push_back((number, now));
        }
    }

    /// Sockets without a flow.
    pub(super) fn unused(&self) -> usize {
        self.resting.len() + self.settling.len() + self.spare.len()
    }

    /// Whether one can be had without asking the machine.
    pub(super) fn has_rested(&self, now: Instant) -> bool {
        let is_over = |(_, until): &(u32, Instant)| *until <= now;
        !self.spare.is_empty()
            || self.settling.front().is_some_and(is_over)
            || self.resting.front().is_some_and(is_over)
    }

    fn rested(&mut self, now: Instant) -> Option<u32> {
        let is_over = |(_, until): &mut (u32, Instant)| *until <= now;
        let rested = self.spare.pop_back();
        let rested = rested.or_else(|| self.settling.pop_front_if(is_over));
        rested.or_else(|| self.resting.pop_front_if(is_over)).map(|(number, _)| number)
    }

    /// Closes sockets that nobody had a use for, at most so many.
    pub(super) fn close_unused(&mut self, most: usize, now: Instant) {
        for _ in 0..most {
            let is_old = |(_, since): &mut (u32, Instant)| *since + REST <= now;
            let unused = self.spare.pop_front_if(is_old);
            let unused = unused.or_else(|| self.settling.pop_front_if(is_old));
            let unused = unused.or_else(|| self.resting.pop_front_if(is_old));
            let Some((number, _)) = unused else { return };
            self.close(number);
        }
    }

    fn close(&mut self, number: u32) {
        if self.all.get_mut(number as usize).and_then(Option::take).is_some() {
            self.free.push(number);
        }
    }

    fn get(&self, number: u32) -> Option<&Uplink> {
        self.all.get(number as usize)?.as_ref()
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Uplink> {
        self.all.get_mut(number as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::UdpSocket;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Open { ipv4: bool },
        Rest(usize),
        Settle(usize),
        Release(usize),
        Tick,
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => any::<bool>().prop_map(|ipv4| Step::Open { ipv4 }),
            3 => any::<usize>().prop_map(Step::Rest),
            3 => any::<usize>().prop_map(Step::Settle),
            1 => any::<usize>().prop_map(Step::Release),
            1 => Just(Step::Tick),
            3 => (0..1200_u64).prop_map(Step::Wait),
        ]
    }

    fn port(socket: &Arc<OwnedFd>) -> u16 {
        UdpSocket::from(socket.try_clone().unwrap()).local_addr().unwrap().port()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn no_port_is_used_again_before_it_has_rested(steps in vec(step(), 1..60)) {
            let servers = ["[::1]:0", "127.0.0.1:0"].map(|address| UdpSocket::bind(address).unwrap());
            let endpoints = servers.each_ref().map(|server| server.local_addr().unwrap());
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
            let mut now = Instant::now();
            let mut uplinks = Uplinks::default();
            let mut used: Vec<(u32, u16)> = Vec::new();
            let mut rests_until = HashMap::new();
            for step in steps {
                match step {
                    Step::Open { ipv4 } => {
                        let endpoint = endpoints[usize::from(ipv4)];
                        let (number, socket) = uplinks.open(endpoint, epoll.as_fd(), now).unwrap();
                        prop_assert!(used.iter().all(|other| other.0 != number), "two flows have one socket");
                        let port = port(&socket);
                        let until = rests_until.get(&port).copied();
                        prop_assert!(until.is_none_or(|until| until <= now), "{port} is at rest");
                        uplinks.serve(number, 7);
                        prop_assert_eq!(uplinks.flow(number), Some(7));
                        used.push((number, port));
                    }
                    Step::Rest(any) if !used.is_empty() => {
                        let (number, port) = used.swap_remove(any % used.len());
                        uplinks.rest(number, now);
                        rests_until.insert(port, now + REST);
                        prop_assert_eq!(uplinks.flow(number), None);
                    }
                    Step::Release(any) if !used.is_empty() => {
                        let (number, _) = used.swap_remove(any % used.len());
                        uplinks.release(number, now);
                        prop_assert!(uplinks.has_rested(now));
                    }
                    Step::Settle(any) if !used.is_empty() => {
                        let (number, port) = used.swap_remove(any % used.len());
                        uplinks.settle(number, now);
                        rests_until.insert(port, now + SHORT_REST);
                        prop_assert_eq!(uplinks.flow(number), None);
                    }
                    Step::Rest(_) | Step::Settle(_) | Step::Release(_) => {}
                    Step::Tick => {
                        uplinks.close_unused(100, now);
                        let open = uplinks.all.iter().flatten().count();
                        prop_assert_eq!(open, used.len() + uplinks.unused());
                        let unused = uplinks.resting.iter().chain(&uplinks.settling).chain(&uplinks.spare);
                        prop_assert!(unused.into_iter().all(|(_, until)| *until + REST > now));
                    }
                    Step::Wait(milliseconds) => now += Duration::from_millis(milliseconds),
                }
            }
        }
    }
}
