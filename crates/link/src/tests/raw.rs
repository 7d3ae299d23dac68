//! A data plane that says exactly what a test wants, and a controller of the next version.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rcgen::KeyPair;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use super::stage::ByName;
use crate::client::connect::connect;
use crate::server::accept::{Secured, accept};
use crate::server::enroll::enroll;
use crate::server::registry::Registry;
use crate::wire::proto::link_client::LinkClient;
use crate::wire::proto::link_server::{Link, LinkServer};
use crate::wire::proto::{self, EnrollRequest, EnrollResponse, FromProxy, ToProxy, from_proxy, to_proxy};
use crate::*;

pub(crate) struct Raw(LinkClient<Channel>);

#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) incoming: Streaming<ToProxy>,
    outgoing: mpsc::Sender<FromProxy>,
}

impl Raw {
    pub(crate) async fn connect(
        controller: SocketAddr,
        bundle: &str,
        certificate: Option<(CertificateDer<'static>, &KeyPair)>,
    ) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(bundle.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match certificate {
            Some((certificate, key)) => {
                let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        connect(controller, Arc::new(config)).await.map(Self).map_err(|error| error.to_string())
    }

    /// Says hello and that it has nothing, and waits for the welcome.
    pub(crate) async fn follow(mut self, protocol: u32) -> Result<Following, Status> {
        let (outgoing, messages) = mpsc::channel(8);
        let hello = proto::Hello {
            protocol,
            software: "a test".to_owned(),
            capabilities: vec!["tcp".to_owned(), "one-of-tomorrow".to_owned()],
        };
        let holds = proto::Holds { items: vec![], last: true };
        for message in [from_proxy::Message::Hello(hello), from_proxy::Message::Holds(holds)] {
            outgoing.send(FromProxy { message: Some(message) }).await.unwrap();
        }
        let mut incoming = self.0.follow(ReceiverStream::new(messages)).await?.into_inner();
        let message = incoming.message().await?;
        assert!(matches!(message, Some(ToProxy { message: Some(to_proxy::Message::Welcome(_)) })));
        Ok(Following { incoming, outgoing })
    }
}

impl Following {
    pub(crate) async fn batch(&mut self) -> proto::Batch {
        match self.incoming.message().await.unwrap() {
            Some(ToProxy { message: Some(to_proxy::Message::Batch(batch)) }) => batch,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn answer(&self, batch: &proto::Batch) {
        let answer =
            proto::Answer { version: batch.version, received: batch.sequence, ..proto::Answer::default() };
        let message = FromProxy { message: Some(from_proxy::Message::Answer(answer)) };
        self.outgoing.send(message).await.unwrap();
    }
}

/// A controller that welcomes with another protocol and sends what it is told to.
pub(crate) struct Another {
    trust: Arc<Trust>,
    protocol: u32,
    batch: proto::Batch,
    answers: mpsc::Sender<proto::Answer>,
}

impl Another {
    /// Its address, and what data planes answer.
    pub(crate) async fn start(
        authority: Authority,
        protocol: u32,
        batch: proto::Batch,
    ) -> (SocketAddr, mpsc::Receiver<proto::Answer>, watch::Sender<bool>) {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (trust, limits) = (Arc::new(Trust::new(authority)), Arc::new(Limits::default()));
        let secured = Secured::new(Arc::clone(&trust), &limits).unwrap();
        let secured = Arc::new(ArcSwap::from_pointee(secured));
        let (stop, stopped) = watch::channel(false);
        let (ready, peers) = mpsc::channel(1);
        tokio::spawn(accept(socket, secured, limits, ready, stopped));
        let (answers, receiver) = mpsc::channel(64);
        let service = LinkServer::new(Self { trust, protocol, batch, answers });
        let server = tonic::transport::Server::builder();
        tokio::spawn(async move {
            let _ = server
                .max_concurrent_streams(8)
                .serve_with_incoming(service, ReceiverStream::new(peers))
                .await;
        });
        (address, receiver, stop)
    }
}

#[tonic::async_trait]
impl Link for Another {
    type FollowStream = ReceiverStream<Result<ToProxy, Status>>;

    async fn enroll(&self, request: Request<EnrollRequest>) -> Result<Response<EnrollResponse>, Status> {
        let limits = Limits::default();
        let enrolled =
            enroll(request.into_inner(), &ByName, &self.trust, &Registry::default(), &limits).await?;
        Ok(Response::new(enrolled))
    }

    async fn follow(
        &self,
        request: Request<Streaming<FromProxy>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let (sender, messages) = mpsc::channel(8);
        let welcome = proto::Welcome { protocol: self.protocol, software: "another".to_owned() };
        for message in [to_proxy::Message::Welcome(welcome), to_proxy::Message::Batch(self.batch.clone())] {
            sender.send(Ok(ToProxy { message: Some(message) })).await.unwrap();
        }
        let (answers, mut incoming) = (self.answers.clone(), request.into_inner());
        tokio::spawn(async move {
            while let Ok(Some(message)) = incoming.message().await {
                if let Some(from_proxy::Message::Answer(answer)) = message.message {
                    let _ = answers.send(answer).await;
                }
            }
            drop(sender);
        });
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}

pub(crate) fn capabilities(names: &[tidegate_plan::Capability]) -> BTreeSet<tidegate_plan::Capability> {
    names.iter().copied().collect()
}
