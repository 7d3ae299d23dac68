//! The controller's side: it serves each Gateway's data planes that Gateway's plan, and hears what they make of it.

pub(crate) mod accept;
pub(crate) mod changes;
pub(crate) mod enroll;
mod follow;
mod publish;
pub(crate) mod registry;
mod reports;
mod tokens;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

pub use publish::Publisher;
pub use reports::{Event, Reports};
pub use tokens::{Denied, Tokens};

use crate::authority::{AuthorityError, Trust};
use crate::limits::Limits;
use crate::server::accept::{PeerInfo, Secured, accept};
use crate::server::enroll::{Rate, enroll};
use crate::server::follow::Follower;
use crate::server::registry::Registry;
use crate::server::reports::Sender;
use crate::wire::MESSAGE;
use crate::wire::proto::link_server::{Link, LinkServer};
use crate::wire::proto::{EnrollRequest, EnrollResponse, FromProxy, ToProxy};

/// A running server. Dropped or stopped, it ends all streams; data planes go on with what they have.
pub struct Server {
    secured: Arc<ArcSwap<Secured>>,
    limits: Arc<Limits>,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error("client certificates cannot be verified: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// What connections have to end by themselves once the server stops.
const FAREWELL: Duration = Duration::from_secs(2);
/// Parts of a batch that wait for a data plane to read them.
const WAITING: usize = 2;
/// Connection windows; a chunk fits.
const WINDOW: u32 = 1024 * 1024;

impl Server {
    /// Serves on a socket, within a tokio runtime, until it is stopped.
    pub fn start<T: Tokens>(
        socket: TcpListener,
        trust: Trust,
        tokens: T,
        limits: Limits,
    ) -> Result<(Self, Publisher, Reports), ServerError> {
        let limits = Arc::new(limits);
        let secured = Secured::new(Arc::new(trust), &limits)?;
        let secured = Arc::new(ArcSwap::from_pointee(secured));
        let (stop, stopped) = watch::channel(false);
        let (publisher, (reports, sender)) = (Publisher::default(), Reports::new());
        let service = Service {
            tokens: Arc::new(tokens),
            secured: Arc::clone(&secured),
            limits: Arc::clone(&limits),
            enrolments: Arc::new(Rate::new(limits.enrolments_per_second, limits.enrolments_at_once)),
            registry: Registry::default(),
            publisher: publisher.clone(),
            reports: sender,
            stopped: stopped.clone(),
        };
        tokio::spawn(renew(Arc::clone(&secured), Arc::clone(&limits), stopped.clone()));
        let (ready, peers) = mpsc::channel(1);
        tokio::spawn(accept(socket, Arc::clone(&secured), Arc::clone(&limits), ready, stopped.clone()));
        let serving = tokio::spawn(serve(service, ReceiverStream::new(peers), stopped));
        Ok((Self { secured, limits, stop, serving }, publisher, reports))
    }

    /// From here on another authority signs, or others are trusted. Streams go on: this is about new connections.
    pub fn trust(&self, trust: Trust) -> Result<(), ServerError> {
        self.secured.store(Arc::new(Secured::new(Arc::new(trust), &self.limits)?));
        Ok(())
    }

    /// Accepts nothing more, ends all streams, and frees the port: for a controller that leads no more.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let _ = tokio::time::timeout(FAREWELL, &mut self.serving).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.serving.abort();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// The controller's own certificate is made again well before it runs out.
async fn renew(secured: Arc<ArcSwap<Secured>>, limits: Arc<Limits>, mut stopped: watch::Receiver<bool>) {
    let mut next = limits.server_certificate * 2 / 3;
    loop {
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return,
            () = tokio::time::sleep(next) => {}
        }
        let now = secured.load_full();
        // One that cannot be made now, because its authority has run out, is tried again: the caller may bring another.
        let renewed = Secured::new(Arc::clone(&now.trust), &limits);
        let made = renewed.is_ok_and(|renewed| {
            let previous = secured.compare_and_swap(&now, Arc::new(renewed));
            Arc::ptr_eq(&previous, &now)
        });
        let left = secured.load().not_after.duration_since(SystemTime::now()).unwrap_or_default();
        next = if made { left * 2 / 3 } else { left / 3 }.max(Duration::from_secs(1));
    }
}

async fn serve<T: Tokens>(
    service: Service<T>,
    peers: ReceiverStream<std::io::Result<accept::Peer>>,
    mut stopped: watch::Receiver<bool>,
) {
    let limits = Arc::clone(&service.limits);
    let service =
        LinkServer::new(service).max_decoding_message_size(MESSAGE).max_encoding_message_size(MESSAGE);
    let server = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(limits.ping_interval))
        .http2_keepalive_timeout(Some(limits.ping_time))
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(8)
        .http2_max_header_list_size(16 * 1024);
    let stop = async move {
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    // It ends when it is told to, and has no other error than that nobody connects any more.
    let _ = server.serve_with_incoming_shutdown(service, peers, stop).await;
}

struct Service<T> {
    tokens: Arc<T>,
    secured: Arc<ArcSwap<Secured>>,
    limits: Arc<Limits>,
    enrolments: Arc<Rate>,
    registry: Registry,
    publisher: Publisher,
    reports: Sender,
    stopped: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl<T: Tokens> Link for Service<T> {
    type FollowStream = ReceiverStream<Result<ToProxy, Status>>;

    async fn enroll(&self, request: Request<EnrollRequest>) -> Result<Response<EnrollResponse>, Status> {
        if !self.enrolments.take() {
            return Err(Status::resource_exhausted("too many data planes enrol at once"));
        }
        let trust = Arc::clone(&self.secured.load().trust);
        let enrolled =
            enroll(request.into_inner(), &*self.tokens, &trust, &self.registry, &self.limits).await?;
        Ok(Response::new(enrolled))
    }

    async fn follow(
        &self,
        request: Request<Streaming<FromProxy>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let known = request.extensions().get::<PeerInfo>().and_then(|info| info.proxy.clone());
        let known = known.ok_or_else(|| Status::unauthenticated("a client certificate is asked for"))?;
        let identity = known.identity;
        let place = self.registry.enter(&identity, known.not_after, self.limits.streams_per_gateway);
        let full =
            || Status::resource_exhausted(format!("too many data planes of Gateway {}", identity.gateway));
        let place = place.ok_or_else(full)?;
        let (outgoing, messages) = mpsc::channel(WAITING);
        let follower = Follower {
            newest: self.publisher.subscribe(&identity.gateway),
            place,
            reports: self.reports.clone(),
            limits: Arc::clone(&self.limits),
            stopped: self.stopped.clone(),
            identity: identity.clone(),
        };
        let publisher = self.publisher.clone();
        tokio::spawn(async move {
            follower.run(request.into_inner(), outgoing).await;
            publisher.unsubscribed(&identity.gateway);
        });
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}
