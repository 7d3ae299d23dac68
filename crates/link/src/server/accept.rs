//! TLS for whoever connects: those with a certificate of ours are data planes, the others may enrol and no more.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::authority::{Leaf, Trust, from_epoch};
use crate::server::ServerError;
use crate::{Limits, ProxyIdentity};

/// What connections are made under. Another one takes its place when certificates change; connections stay.
pub(crate) struct Secured {
    pub(crate) trust: Arc<Trust>,
    pub(crate) tls: Arc<ServerConfig>,
    /// Of the certificate that is shown.
    pub(crate) not_after: SystemTime,
}

impl Secured {
    pub(crate) fn new(trust: Arc<Trust>, limits: &Limits) -> Result<Self, ServerError> {
        let Leaf { chain, key, not_after } = trust.signing().server(limits.server_certificate)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(trust.roots()?.into(), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()?;
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        // Nothing is resumed: a certificate is looked at each time.
        tls.session_storage = Arc::new(NoServerSessionStorage {});
        tls.send_tls13_tickets = 0;
        Ok(Self { trust, tls: Arc::new(tls), not_after })
    }
}

/// Hands over connections until it is told to stop.
pub(crate) async fn accept(
    socket: TcpListener,
    secured: Arc<ArcSwap<Secured>>,
    limits: Arc<Limits>,
    ready: mpsc::Sender<io::Result<Peer>>,
    mut stopped: watch::Receiver<bool>,
) {
    let places = Places {
        proxies: Arc::new(Semaphore::new(limits.connections)),
        strangers: Arc::new(Semaphore::new(limits.strangers)),
        handshakes: Arc::new(Semaphore::new(limits.strangers)),
    };
    loop {
        // Those that shake hands are bounded too; more wait in the kernel.
        let Ok(handshake) = Arc::clone(&places.handshakes).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors: accepting again at once would only spin.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        let (acceptor, ready) = (TlsAcceptor::from(Arc::clone(&secured.load().tls)), ready.clone());
        let (limits, places) = (Arc::clone(&limits), places.clone());
        tokio::spawn(async move {
            // Whoever does not get through this is told by TLS, and is no concern of anybody else.
            let shaken = tokio::time::timeout(limits.hello_time, shake_hands(acceptor, stream)).await;
            if let Ok(Ok((stream, info))) = shaken
                && let Some(peer) = places.admit(stream, info, &limits)
            {
                let _ = ready.send(Ok(peer)).await;
            }
            drop(handshake);
        });
    }
}

async fn shake_hands(
    acceptor: TlsAcceptor,
    stream: TcpStream,
) -> io::Result<(TlsStream<TcpStream>, PeerInfo)> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let chain = stream.get_ref().1.peer_certificates();
    let info = match chain.and_then(<[_]>::first) {
        Some(leaf) => PeerInfo { proxy: Some(Known::read(leaf)?) },
        None => PeerInfo { proxy: None },
    };
    Ok((stream, info))
}

#[derive(Clone)]
struct Places {
    proxies: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
    handshakes: Arc<Semaphore>,
}

impl Places {
    fn admit(&self, stream: TlsStream<TcpStream>, info: PeerInfo, limits: &Limits) -> Option<Peer> {
        let (places, deadline) = if info.proxy.is_some() {
            (&self.proxies, None)
        } else {
            (&self.strangers, Some(Box::pin(tokio::time::sleep(limits.stranger_time))))
        };
        let place = Arc::clone(places).try_acquire_owned().ok()?;
        Some(Peer { stream, info, deadline, _place: place })
    }
}

/// A connection whose TLS is up.
pub(crate) struct Peer {
    stream: TlsStream<TcpStream>,
    info: PeerInfo,
    /// When a stranger has to be done.
    deadline: Option<Pin<Box<Sleep>>>,
    _place: OwnedSemaphorePermit,
}

/// Who is at the other end.
#[derive(Clone, Debug)]
pub(crate) struct PeerInfo {
    /// `None`: somebody without a certificate.
    pub(crate) proxy: Option<Known>,
}

/// A data plane by its certificate.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) identity: ProxyIdentity,
    pub(crate) not_after: SystemTime,
}

impl Known {
    /// Its signature was checked in the handshake.
    fn read(certificate: &CertificateDer<'_>) -> io::Result<Self> {
        let unknown = || io::Error::new(io::ErrorKind::InvalidData, "a certificate that names no data plane");
        let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|_| unknown())?;
        let mut names = parsed.valid_uri_names();
        let (Some(name), None) = (names.next(), names.next()) else { return Err(unknown()) };
        let identity = name.parse().map_err(|_| unknown())?;
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).map_err(|_| unknown())?;
        Ok(Self { identity, not_after: from_epoch(parsed.validity().not_after.timestamp()) })
    }
}

impl Connected for Peer {
    type ConnectInfo = PeerInfo;

    fn connect_info(&self) -> PeerInfo {
        self.info.clone()
    }
}

impl AsyncRead for Peer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Peer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
