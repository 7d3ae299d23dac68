//! Answers challenges on two ports, as the data plane would.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tidegate_certs::{Answer, Boxed, ChallengeKind, Challenges};
use tidegate_plan::Hostname;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[derive(Debug)]
pub(crate) struct Answers {
    kinds: Vec<ChallengeKind>,
    /// Names that are answered wrongly.
    pub(crate) broken: Mutex<Vec<Hostname>>,
    known: Mutex<BTreeMap<Hostname, Answer>>,
}

impl Answers {
    pub(crate) fn start(http_port: u16, tls_port: u16, kinds: &[ChallengeKind]) -> Arc<Self> {
        let answers =
            Arc::new(Self { kinds: kinds.to_vec(), broken: Mutex::default(), known: Mutex::default() });
        let bind = |port| {
            let socket = TcpListener::bind(("127.0.0.1", port)).unwrap();
            socket.set_nonblocking(true).unwrap();
            tokio::net::TcpListener::from_std(socket).unwrap()
        };
        tokio::spawn(http(bind(http_port), Arc::clone(&answers)));
        tokio::spawn(tls(bind(tls_port), Arc::clone(&answers)));
        answers
    }

    fn of(&self, name: &str) -> Option<Answer> {
        self.known.lock().unwrap().get(&Hostname::parse(name).ok()?).cloned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.lock().unwrap().is_empty()
    }
}

impl Challenges for Answers {
    fn kinds(&self, _: &Hostname) -> Vec<ChallengeKind> {
        self.kinds.clone()
    }

    fn answer<'a>(&'a self, name: &'a Hostname, answer: Answer) -> Boxed<'a, Result<(), String>> {
        Box::pin(async move {
            if !self.broken.lock().unwrap().contains(name) {
                self.known.lock().unwrap().insert(name.clone(), answer);
            }
            Ok(())
        })
    }

    fn withdraw(&self, name: &Hostname) {
        self.known.lock().unwrap().remove(name);
    }
}

async fn http(socket: tokio::net::TcpListener, answers: Arc<Answers>) {
    while let Ok((mut stream, _)) = socket.accept().await {
        let answers = Arc::clone(&answers);
        tokio::spawn(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.unwrap_or(0) > 0 {}
            let head = String::from_utf8_lossy(&head).into_owned();
            let host = head.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap_or_default();
            let found = answers.of(host.split(':').next().unwrap_or_default());
            let body = match found {
                Some(Answer::Http01 { token, key_authorization })
                    if head.starts_with(&format!("GET /.well-known/acme-challenge/{token} ")) =>
                {
                    key_authorization
                }
                _ => "nothing here".to_owned(),
            };
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        });
    }
}

async fn tls(socket: tokio::net::TcpListener, answers: Arc<Answers>) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(answers);
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    while let Ok((stream, _)) = socket.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.shutdown().await;
            }
        });
    }
}

impl ResolvesServerCert for Answers {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let Some(Answer::TlsAlpn01 { certificate, key }) = self.of(hello.server_name()?) else { return None };
        let key =
            rustls::crypto::aws_lc_rs::sign::any_ecdsa_type(&PrivatePkcs8KeyDer::from(key).into()).ok()?;
        Some(Arc::new(CertifiedKey::new(vec![CertificateDer::from(certificate)], key)))
    }
}
