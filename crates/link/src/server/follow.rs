//! One data plane that follows: what it has, what it is sent, what it says.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tidegate_plan::Report;
use tokio::sync::{mpsc, watch};
use tonic::{Status, Streaming};

use crate::server::changes::{Changes, Held};
use crate::server::publish::Newest;
use crate::server::registry::Place;
use crate::server::reports::{Event, Sender};
use crate::wire::proto::{self, FromProxy, ToProxy, from_proxy, to_proxy};
use crate::wire::{CHUNK, Digest, PROTOCOL, SOFTWARE, negotiate};
use crate::{Limits, ProxyIdentity};

pub(crate) struct Follower {
    pub(crate) identity: ProxyIdentity,
    pub(crate) place: Place,
    pub(crate) newest: Newest,
    pub(crate) reports: Sender,
    pub(crate) limits: Arc<Limits>,
    pub(crate) stopped: watch::Receiver<bool>,
}

pub(crate) type Outgoing = mpsc::Sender<Result<ToProxy, Status>>;

impl Follower {
    /// Lives for as long as the stream.
    pub(crate) async fn run(self, mut incoming: Streaming<FromProxy>, outgoing: Outgoing) {
        let Err(why) = self.converse(&mut incoming, &outgoing).await;
        let _ = tokio::time::timeout(self.limits.hello_time, outgoing.send(Err(why))).await;
        // A newer stream of the same data plane speaks for it.
        if self.place.leave() {
            self.reports.send(&self.identity, Event::Gone(self.identity.clone()));
        }
    }

    async fn converse(
        &self,
        incoming: &mut Streaming<FromProxy>,
        outgoing: &Outgoing,
    ) -> Result<std::convert::Infallible, Status> {
        let late = || Status::deadline_exceeded("what a data plane says first did not come in time");
        let hello = tokio::time::timeout(self.limits.hello_time, hello(incoming, self.limits.held_items));
        let held = hello.await.map_err(|_| late())??;
        let welcome = proto::Welcome { protocol: PROTOCOL, software: SOFTWARE.to_owned() };
        send(outgoing, to_proxy::Message::Welcome(welcome)).await?;
        self.report(Answered::default());
        let answered = watch::Sender::new(Outcome::default());
        let result = tokio::select! {
            error = self.listen(incoming, &answered) => error,
            error = self.tell(held, outgoing, answered.subscribe()) => error,
            error = self.end() => error,
        };
        Err(result)
    }

    /// Sends each newest plan, one after the other: what is published in between is skipped.
    async fn tell(
        &self,
        mut held: Held,
        outgoing: &Outgoing,
        mut answered: watch::Receiver<Outcome>,
    ) -> Status {
        let mut newest = self.newest.clone();
        let gone = |_| Status::unavailable("the controller is ending");
        for sequence in 1.. {
            let wanted = loop {
                if let Err(error) = newest.changed().await.map_err(gone) {
                    return error;
                }
                if let Some(plan) = newest.borrow_and_update().clone() {
                    break plan;
                }
            };
            for batch in Changes::new(&held, &wanted, sequence, CHUNK) {
                if let Err(error) = send(outgoing, to_proxy::Message::Batch(batch)).await {
                    return error;
                }
            }
            let outcome = self.answer(&mut answered, sequence, wanted.version).await;
            if outcome.applied {
                held = Held::Sent(wanted);
            }
        }
        Status::resource_exhausted("no more batches can be counted")
    }

    async fn answer(&self, answered: &mut watch::Receiver<Outcome>, sequence: u64, version: u64) -> Outcome {
        let is_answer = |outcome: &Outcome| outcome.received >= sequence;
        let time = self.limits.answer_time;
        let mut waited = Duration::ZERO;
        loop {
            let answer = tokio::time::timeout(time, answered.wait_for(is_answer)).await;
            if let Ok(Ok(outcome)) = answer {
                return *outcome;
            }
            drop(answer);
            waited += time;
            let event = Event::Silent { proxy: self.identity.clone(), version, time: waited };
            self.reports.send(&self.identity, event);
        }
    }

    /// Takes what the data plane says, for as long as it says anything.
    async fn listen(&self, incoming: &mut Streaming<FromProxy>, answered: &watch::Sender<Outcome>) -> Status {
        let mut collected = Answered::default();
        loop {
            let answer = match incoming.message().await {
                Ok(Some(FromProxy { message: Some(from_proxy::Message::Answer(answer)) })) => answer,
                // A newer data plane may have more to say; only what it answers counts.
                Ok(Some(FromProxy { message: None })) => continue,
                Ok(Some(_)) => return Status::invalid_argument("this was to be said first"),
                Ok(None) => return Status::cancelled("the data plane has ended the stream"),
                Err(error) => return error,
            };
            let outcome = Outcome { received: answer.received, applied: answer.failed.is_empty() };
            let more = answer.more;
            if let Err(why) = collected.take(answer, self.limits.held_items) {
                return Status::invalid_argument(why);
            }
            if !more {
                self.report(std::mem::take(&mut collected));
                answered.send_replace(outcome);
            }
        }
    }

    /// Returns when the stream must not go on.
    async fn end(&self) -> Status {
        let (mut stopped, mut until) = (self.stopped.clone(), self.place.until.clone());
        loop {
            let Some(not_after) = *until.borrow_and_update() else {
                return Status::aborted("another stream of this data plane has begun");
            };
            let left = (not_after + self.limits.grace).duration_since(SystemTime::now());
            let Ok(left) = left.map(|left| left.min(Duration::from_secs(3600))) else {
                return Status::unauthenticated("the data plane's certificate has expired");
            };
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => {
                    return Status::unavailable("this controller leads no more");
                }
                changed = until.changed() => if changed.is_err() {
                    return Status::aborted("another stream of this data plane has begun");
                },
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    fn report(&self, answered: Answered) {
        let report = Report {
            gateway: self.identity.gateway.clone(),
            proxy: self.identity.pod.clone(),
            version: answered.version,
            listeners: answered.listeners,
            refused: answered.refused,
            failed: answered.failed,
        };
        self.reports.send(&self.identity, Event::Report(report));
    }
}

/// How the last batch fared.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    received: u64,
    applied: bool,
}

/// An answer, of which there may be several messages.
#[derive(Default)]
struct Answered {
    version: u64,
    listeners: BTreeMap<tidegate_plan::ListenerId, Result<(), String>>,
    refused: BTreeMap<tidegate_plan::FragmentId, String>,
    failed: Option<String>,
}

impl Answered {
    fn take(&mut self, answer: proto::Answer, most: usize) -> Result<(), String> {
        self.version = answer.version;
        self.failed = (!answer.failed.is_empty()).then_some(answer.failed);
        for proto::ListenerState { id, error } in answer.listeners {
            let id = serde_json::from_str(&id).map_err(|_| format!("{id:?} is no listener"))?;
            self.listeners.insert(id, if error.is_empty() { Ok(()) } else { Err(error) });
        }
        for proto::Refusal { id, reason } in answer.refused {
            let id = serde_json::from_str(&id).map_err(|_| format!("{id:?} is no fragment"))?;
            self.refused.insert(id, reason);
        }
        if self.listeners.len() + self.refused.len() > most {
            return Err("the answer is too long".to_owned());
        }
        Ok(())
    }
}

/// What comes first: who this is, and what it has.
async fn hello(incoming: &mut Streaming<FromProxy>, most: usize) -> Result<Held, Status> {
    let unexpected = || Status::invalid_argument("a data plane says hello first, and then what it has");
    let Some(FromProxy { message: Some(from_proxy::Message::Hello(hello)) }) = incoming.message().await?
    else {
        return Err(unexpected());
    };
    negotiate(hello.protocol).map_err(Status::failed_precondition)?;
    let mut told = HashMap::new();
    loop {
        let Some(FromProxy { message: Some(from_proxy::Message::Holds(holds)) }) = incoming.message().await?
        else {
            return Err(unexpected());
        };
        let (items, rest) = holds.items.as_chunks::<{ 2 * Digest::LENGTH }>();
        if !rest.is_empty() || told.len() + items.len() > most {
            return Err(Status::invalid_argument("a list of what the data plane has that cannot be read"));
        }
        told.extend(items.iter().filter_map(|item| {
            let (key, hash) = item.split_at(Digest::LENGTH);
            Digest::read(key).zip(Digest::read(hash))
        }));
        if holds.last {
            return Ok(Held::Told(told));
        }
    }
}

async fn send(outgoing: &Outgoing, message: to_proxy::Message) -> Result<(), Status> {
    let gone = |_| Status::cancelled("the data plane has gone");
    outgoing.send(Ok(ToProxy { message: Some(message) })).await.map_err(gone)
}
