//! One stream to a controller, from hello to its end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidegate_plan::ListenerId;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::client::connect::{CONNECT, connect};
use crate::client::credentials::{Certificate, CredentialsError, Enrolment, Files};
use crate::client::store::{Store, Whole};
use crate::client::{Client, DataPlane, Note};
use crate::wire::proto::link_client::LinkClient;
use crate::wire::proto::{self, FromProxy, ToProxy, from_proxy, to_proxy};
use crate::wire::{CHUNK, Digest, PROTOCOL, SOFTWARE, json, negotiate};

/// Why there is no stream, or no more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("cannot connect: {}", causes(.0))]
    Connect(#[from] tonic::transport::Error),
    #[error("{what} took too long")]
    Time { what: &'static str },
    #[error("{}", status(.0))]
    Status(#[from] Status),
    #[error("the controller has ended the stream")]
    Ended,
    #[error("{0}")]
    Protocol(String),
}

fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    let mut words: Vec<String> = causes.map(ToString::to_string).collect();
    words.dedup();
    if words.is_empty() { error.to_string() } else { words.join(": ") }
}

fn status(status: &Status) -> String {
    let cause = std::error::Error::source(status).map(|_| format!(": {}", causes(status)));
    format!("{}{}", status.message(), cause.unwrap_or_default())
}

/// Listeners and refusals in one message of an answer.
const STATES: usize = 500;
/// Messages that wait to be sent.
const WAITING: usize = 4;
/// A renewal that failed is tried again after this share of what is left.
const AGAIN: u32 = 4;

impl Client {
    /// Until the stream ends, which is always for a reason.
    pub(crate) async fn session(&mut self, plane: &mut impl DataPlane) -> SessionError {
        match self.converse(plane).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn converse(
        &mut self,
        plane: &mut impl DataPlane,
    ) -> Result<std::convert::Infallible, SessionError> {
        let now = Instant::now();
        if self.certificate.as_ref().is_none_or(|own| own.renew <= now) {
            let renewed =
                enroll(self.options.controller, self.files.clone(), self.options.name.clone()).await;
            match renewed {
                Ok(certificate) => self.certificate = Some(certificate),
                // What is still good for a while is used for a while.
                Err(_) if self.certificate.as_ref().is_some_and(|own| own.expires > now) => {}
                Err(error) => return Err(error),
            }
        }
        let link = connect(self.options.controller, self.files.tls(self.certificate.as_ref())?).await?;
        self.store.begin();
        let (mut incoming, outgoing, software) = match self.begin(link).await {
            Ok(streams) => streams,
            Err(error) => {
                // It may be the certificate that is not liked, after a change of authorities.
                self.certificate = None;
                return Err(error);
            }
        };
        plane.note(&Note::Connected { software });
        let mut stream = Stream { outgoing, version: 0, received: 0, failed: String::new(), told: None };
        stream.answer(self, plane).await?;
        let mut renewal: Option<JoinHandle<Result<Certificate, SessionError>>> = None;
        loop {
            let due = self.certificate.as_ref().map_or(now, |own| own.renew);
            tokio::select! {
                message = incoming.message() => {
                    let message = message?.ok_or(SessionError::Ended)?;
                    self.take(message, &mut stream, plane).await?;
                }
                () = plane.changed() => stream.answer_if_changed(self, plane).await?,
                () = tokio::time::sleep_until(due.into()), if renewal.is_none() => {
                    let (controller, files) = (self.options.controller, self.files.clone());
                    renewal = Some(tokio::spawn(enroll(controller, files, self.options.name.clone())));
                }
                renewed = finished(&mut renewal) => {
                    renewal = None;
                    self.renewed(renewed, plane);
                }
                () = tokio::time::sleep_until(self.keep_at().into()), if self.unkept => self.keep_now(plane),
            }
        }
    }

    fn renewed(&mut self, renewed: Result<Certificate, SessionError>, plane: &mut impl DataPlane) {
        match renewed {
            Ok(certificate) => {
                self.certificate = Some(certificate);
                plane.note(&Note::Renewed);
            }
            Err(error) => {
                if let Some(own) = &mut self.certificate {
                    let now = Instant::now();
                    let left = own.expires.saturating_duration_since(now);
                    own.renew = now + (left / AGAIN).max(Duration::from_secs(1));
                }
                plane.note(&Note::NotRenewed(error.to_string()));
            }
        }
    }

    async fn begin(
        &self,
        mut link: LinkClient<Channel>,
    ) -> Result<(Streaming<ToProxy>, mpsc::Sender<FromProxy>, String), SessionError> {
        let late = |_| SessionError::Time { what: "the controller's welcome" };
        let (outgoing, messages) = mpsc::channel(WAITING);
        let capabilities = self.options.capabilities.iter().map(|can| can.as_str().to_owned()).collect();
        let hello = proto::Hello { protocol: PROTOCOL, software: SOFTWARE.to_owned(), capabilities };
        let mut first = vec![from_proxy::Message::Hello(hello)];
        let items: Vec<u8> = self.store.holds().flat_map(|(key, hash)| [key.0, hash.0]).flatten().collect();
        let size = CHUNK - CHUNK % (2 * Digest::LENGTH);
        let chunks = items.chunks(size).map(|items| proto::Holds { items: items.to_vec(), last: false });
        first.extend(chunks.map(from_proxy::Message::Holds));
        first.push(from_proxy::Message::Holds(proto::Holds { items: Vec::new(), last: true }));
        let sender = outgoing.clone();
        let begin = async move {
            let sending = async {
                for message in first {
                    // Nobody takes it any more when the call has failed, which says why.
                    if sender.send(FromProxy { message: Some(message) }).await.is_err() {
                        break;
                    }
                }
            };
            let (incoming, ()) = tokio::join!(link.follow(ReceiverStream::new(messages)), sending);
            let mut incoming = incoming?.into_inner();
            let Some(ToProxy { message: Some(to_proxy::Message::Welcome(welcome)) }) =
                incoming.message().await?
            else {
                return Err(SessionError::Protocol("the controller says no welcome".to_owned()));
            };
            negotiate(welcome.protocol).map_err(SessionError::Protocol)?;
            Ok((incoming, welcome.software))
        };
        let (incoming, software) = tokio::time::timeout(CONNECT, begin).await.map_err(late)??;
        Ok((incoming, outgoing, software))
    }

    async fn take(
        &mut self,
        message: ToProxy,
        stream: &mut Stream,
        plane: &mut impl DataPlane,
    ) -> Result<(), SessionError> {
        // What a newer controller has to say besides is not for this program.
        let Some(to_proxy::Message::Batch(batch)) = message.message else { return Ok(()) };
        let Some(Whole { version, sequence, taken }) = self.store.take(batch) else { return Ok(()) };
        stream.received = sequence;
        match taken {
            Ok(changed) => {
                plane.apply(self.store.plan(), self.store.settings(), &changed);
                stream.version = version;
                stream.failed.clear();
                plane.note(&Note::Applied { version, changed, refused: self.store.refused().count() });
                self.unkept = self.cache.is_some();
            }
            Err(why) => {
                plane.note(&Note::Failed { version, why: why.clone() });
                stream.failed = why;
            }
        }
        stream.answer(self, plane).await
    }
}

/// What was said on a stream.
struct Stream {
    outgoing: mpsc::Sender<FromProxy>,
    version: u64,
    received: u64,
    failed: String,
    told: Option<Listeners>,
}

type Listeners = BTreeMap<ListenerId, Result<(), String>>;

impl Stream {
    async fn answer_if_changed(
        &mut self,
        client: &Client,
        plane: &mut impl DataPlane,
    ) -> Result<(), SessionError> {
        if self.told.as_ref() == Some(&listeners(client, plane)) {
            return Ok(());
        }
        self.answer(client, plane).await
    }

    async fn answer(&mut self, client: &Client, plane: &mut impl DataPlane) -> Result<(), SessionError> {
        let states = listeners(client, plane);
        for answer in self.answers(&states, &client.store) {
            let message = FromProxy { message: Some(from_proxy::Message::Answer(answer)) };
            self.outgoing.send(message).await.map_err(|_| SessionError::Ended)?;
        }
        self.told = Some(states);
        Ok(())
    }

    /// As many messages as it takes.
    fn answers(&self, states: &Listeners, store: &Store) -> Vec<proto::Answer> {
        let listeners = states.iter().map(|(id, state)| proto::ListenerState {
            id: json(id),
            error: state.as_ref().err().cloned().unwrap_or_default(),
        });
        let refused = store.refused();
        let refused = refused.map(|(id, why)| proto::Refusal { id: id.to_owned(), reason: why.to_owned() });
        let (mut listeners, mut refused) = (listeners.peekable(), refused.peekable());
        let mut answers = Vec::new();
        loop {
            let mut answer = proto::Answer {
                version: self.version,
                received: self.received,
                listeners: listeners.by_ref().take(STATES).collect(),
                refused: refused.by_ref().take(STATES).collect(),
                failed: self.failed.clone(),
                more: false,
            };
            answer.more = listeners.peek().is_some() || refused.peek().is_some();
            let more = answer.more;
            answers.push(answer);
            if !more {
                return answers;
            }
        }
    }
}

/// As the data plane says, but for those that it was not even given.
fn listeners(client: &Client, plane: &mut impl DataPlane) -> Listeners {
    let mut states = plane.listeners(client.store.plan());
    for (id, why) in client.store.refused_listeners() {
        states.insert(id.clone(), Err(why.to_owned()));
    }
    states
}

async fn enroll(
    controller: std::net::SocketAddr,
    files: Files,
    name: String,
) -> Result<Certificate, SessionError> {
    let mut link = connect(controller, files.tls(None)?).await?;
    let (enrolment, request) = Enrolment::new(&files, &name)?;
    let response = tokio::time::timeout(2 * CONNECT, link.enroll(request)).await;
    let response = response.map_err(|_| SessionError::Time { what: "the enrolment" })??;
    Ok(enrolment.finish(response.into_inner()))
}

async fn finished(
    renewal: &mut Option<JoinHandle<Result<Certificate, SessionError>>>,
) -> Result<Certificate, SessionError> {
    match renewal {
        Some(task) => {
            task.await.unwrap_or_else(|error| Err(Status::new(Code::Internal, error.to_string()).into()))
        }
        None => std::future::pending().await,
    }
}
