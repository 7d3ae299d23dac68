//! TLS on either side: HTTPS listeners with ALPN, backends by policy, client certificates.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tidegate_plan::{
    AlternativeName, BackendTls, Blob, Body, Certificate, CertifiedKey, ClientCertificates, Handling,
    Hostname, ObjectName, Reason, Rules, ServerTls, Trust, Upstream,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::backend;
use crate::client::{get, http2_over, request, run, whole};
use crate::gate::{Gate, rule};
use crate::raw;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, name: &str) -> CertifiedKey {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        CertifiedKey { chain: vec![certificate.der().to_vec()], key: key.serialize_der() }
    }

    fn der(&self) -> Vec<u8> {
        self.0.der().to_vec()
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.der().into()).unwrap();
        roots
    }

    /// A client that trusts it and offers these protocols.
    fn client(&self, protocols: &[&str], own: Option<&CertifiedKey>) -> TlsConnector {
        let builder = ClientConfig::builder().with_root_certificates(self.roots());
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = own.chain.iter().cloned().map(Into::into).collect();
                builder
                    .with_client_auth_cert(chain, PrivateKeyDer::try_from(own.key.clone()).unwrap())
                    .unwrap()
            }
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

fn listener(gate: &mut Gate, name: &str, host: &str, key: CertifiedKey) -> tidegate_plan::Listener {
    let id = gate.blob(Blob::Key(key));
    let hostname = Hostname::parse(host).unwrap();
    let certificate = Certificate {
        id,
        secret: ObjectName::new("default", name),
        names: vec![hostname],
        not_after: i64::MAX,
    };
    let tls = ServerTls { certificates: vec![certificate], ..ServerTls::default() };
    gate.listener(name, Handling::Https(tls), Some(host))
}

/// A gate whose only listeners are HTTPS ones, for these names.
fn https(authority: &Authority, names: &[&str]) -> Gate {
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    let mut gate = Gate::new();
    gate.plan.fragments.clear();
    for name in names {
        let listener = listener(&mut gate, name, name, authority.issue(name));
        gate.plan.insert(Body::Listener(listener));
    }
    gate
}

async fn tls(gate: &Gate, connector: &TlsConnector, name: &str) -> std::io::Result<impl Stream + use<>> {
    let stream = tokio::net::TcpStream::connect(gate.address()).await?;
    connector.connect(ServerName::try_from(name.to_owned()).unwrap(), stream).await
}

trait Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static {}
impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static> Stream for S {}

async fn text(mut stream: impl Stream, host: &str) -> String {
    let asked = format!("GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text).await;
    text
}

#[test]
fn gateway_https_listener_detect_misdirected_requests() {
    let (authority, served) = (Authority::new(), backend::echo("a"));
    let mut gate = https(&authority, &["one.test", "two.test"]);
    let id = gate.backend("a", &[served.port]);
    gate.route_for("web", &[], &["one.test", "two.test"], Rules::Http(vec![rule("/", &id)]));
    let gate = gate.serving();
    run(async {
        let old = tls(&gate, &authority.client(&["http/1.1"], None), "one.test").await.unwrap();
        let answer = text(old, "one.test").await;
        assert!(
            answer.contains("a GET /x HTTP/1.1\n") && answer.contains("x-forwarded-proto: https\n"),
            "{answer}"
        );
        let silent = tls(&gate, &authority.client(&[], None), "one.test").await.unwrap();
        assert!(text(silent, "two.test").await.starts_with("HTTP/1.1 421 "));

        let new = tls(&gate, &authority.client(&["h2", "http/1.1"], None), "one.test").await.unwrap();
        let mut client = http2_over(new).await;
        let mut ask = async |uri| whole(client.send_request(request("GET", uri, "")).await.unwrap()).await;
        assert!(ask("https://one.test/x").await.body.starts_with("a GET /x HTTP/1.1\n"));
        assert_eq!(ask("https://two.test/x").await.status, 421);
        assert_eq!(ask("https://other.test/x").await.status, 404);
    });
    gate.line(&["protocol=\"HTTPS\"", "sni=\"one.test\"", "version=\"HTTP/2\"", "status=421"]);
    assert_eq!(
        gate.metric("tidegate_handshakes_total{side=\"client\",version=\"1.3\",resumed=\"false\"}"),
        3.0
    );
}

/// A backend that speaks TLS and says once who came.
fn tls_backend(key: &CertifiedKey, clients: Option<&Authority>) -> u16 {
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    let chain = key.chain.iter().cloned().map(Into::into).collect();
    let builder = ServerConfig::builder();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(
            rustls::server::WebPkiClientVerifier::builder(Arc::new(clients.roots())).build().unwrap(),
        ),
    };
    let mut config =
        builder.with_single_cert(chain, PrivateKeyDer::try_from(key.key.clone()).unwrap()).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let session = stream.get_ref().1;
                    let sni = session.server_name().unwrap_or_default().to_owned();
                    let shown = session.peer_certificates().map_or(0, <[_]>::len);
                    let mut buffer = [0; 4096];
                    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                        let body = format!("{sni} {shown}");
                        let answer =
                            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                });
            }
        });
    });
    port
}

#[test]
fn backend_tls_policy() {
    let (authority, other) = (Authority::new(), Authority::new());
    let port = tls_backend(&authority.issue("abc.example.com"), None);
    let mut gate = Gate::new();
    let trusted = gate.blob(Blob::Bundle(vec![authority.der()]));
    let mistaken = gate.blob(Blob::Bundle(vec![other.der()]));
    let policy = |name: &str, trust| {
        Upstream::Tls(BackendTls {
            sni: Hostname::parse(name).unwrap(),
            trust: Trust::Bundles(vec![trust]),
            names: vec![],
            minimum_version: None,
            alpn: Vec::new(),
            client_certificate: None,
        })
    };
    let mut rules = Vec::new();
    for (path, upstream) in [
        ("/good", policy("abc.example.com", trusted.clone())),
        ("/name", policy("other.example.com", trusted)),
        ("/ca", policy("abc.example.com", mistaken.clone())),
        ("/refused", Upstream::Refuse(Reason::PolicyInvalid)),
    ] {
        let id = gate.backend_with(&path[1..], &[port], |backend| backend.upstream = upstream);
        rules.push(rule(path, &id));
    }
    gate.route("web", rules);
    gate.apply();
    assert_eq!(get(gate.address(), "/good").body, "abc.example.com 0");
    for (path, status, reason) in [
        ("/name", 502, "backend_handshake_failed"),
        ("/ca", 502, "backend_handshake_failed"),
        ("/refused", 500, "policy_invalid"),
    ] {
        let answer = get(gate.address(), path);
        assert_eq!((answer.status, answer.header("x-tidegate-reason")), (status, Some(reason)), "{path}");
    }
    // What was pooled under the old trust is not used under the new.
    gate.backend_with("good", &[port], |backend| backend.upstream = policy("abc.example.com", mistaken));
    gate.apply();
    assert_eq!(get(gate.address(), "/good").status, 502);
}

/// Where names are given, one of them must be in the certificate, and the name that is asked for need not.
#[test]
fn backend_tls_policy_san_validation() {
    let authority = Authority::new();
    let port = tls_backend(&authority.issue("abc.example.com"), None);
    let mut gate = Gate::new();
    let trust = gate.blob(Blob::Bundle(vec![authority.der()]));
    let dns = |name: &str| AlternativeName::Dns(Hostname::parse(name).unwrap());
    let uri = || AlternativeName::Uri("spiffe://abc.example.com/test".to_owned());
    let cases = [
        ("/right", "other.example.com", vec![dns("abc.example.com")], 200),
        ("/one-of-them", "other.example.com", vec![uri(), dns("x.example.com"), dns("abc.example.com")], 200),
        ("/wrong", "abc.example.com", vec![dns("x.example.com")], 502),
        ("/wrong-uri", "abc.example.com", vec![uri()], 502),
    ];
    let mut rules = Vec::new();
    for (path, sni, names, _) in &cases {
        let tls = BackendTls {
            sni: Hostname::parse(sni).unwrap(),
            trust: Trust::Bundles(vec![trust.clone()]),
            names: names.clone(),
            minimum_version: None,
            alpn: Vec::new(),
            client_certificate: None,
        };
        let id = gate.backend_with(&path[1..], &[port], |backend| backend.upstream = Upstream::Tls(tls));
        rules.push(rule(path, &id));
    }
    gate.route("web", rules);
    let gate = gate.serving();
    for (path, sni, _, status) in cases {
        let answer = get(gate.address(), path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(status != 200 || answer.body == format!("{sni} 0"), "{path}: {}", answer.body);
    }
}

#[test]
fn gateway_backend_client_certificate() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let port = tls_backend(&authority.issue("abc.example.com"), Some(&clients));
    let mut gate = Gate::new();
    let trust = gate.blob(Blob::Bundle(vec![authority.der()]));
    let own = gate.blob(Blob::Key(clients.issue("gate.example.com")));
    let id = gate.backend_with("a", &[port], |backend| {
        backend.upstream = Upstream::Tls(BackendTls {
            sni: Hostname::parse("abc.example.com").unwrap(),
            trust: Trust::Bundles(vec![trust]),
            names: vec![],
            minimum_version: None,
            alpn: Vec::new(),
            client_certificate: None,
        });
    });
    gate.route("web", vec![rule("/", &id)]);
    gate.apply();
    assert_eq!(get(gate.address(), "/").status, 502);
    let certificate = Certificate {
        id: own,
        secret: ObjectName::new("default", "own"),
        names: vec![],
        not_after: i64::MAX,
    };
    gate.plan.insert(Body::Gateway(tidegate_plan::Gateway {
        id: ObjectName::new("default", "gate"),
        client_certificate: Some(certificate),
    }));
    gate.apply();
    assert_eq!(get(gate.address(), "/").body, "abc.example.com 1");
}

/// A tunnel is a connection that was let in, and ends when it would not be let in any more.
#[test]
fn a_tunnel_ends_with_the_rules_for_client_certificates() {
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    let (authority, clients) = (Authority::new(), Authority::new());
    let drain_time = std::time::Duration::from_millis(50);
    let mut gate = Gate::with(tidegate_proxy::Bounds { drain_time, ..Default::default() }, 1);
    gate.plan.fragments.clear();
    let mut open = listener(&mut gate, "one", "one.test", authority.issue("one.test"));
    gate.plan.insert(Body::Listener(open.clone()));
    let id = gate.backend("a", &[raw::tunnel()]);
    gate.route_for("web", &[], &["one"], Rules::Http(vec![rule("/", &id)]));
    gate.apply();
    run(async {
        let mut tunnel = tls(&gate, &authority.client(&["http/1.1"], None), "one.test").await.unwrap();
        tunnel.write_all(raw::UPGRADE.replace("a.test", "one.test").as_bytes()).await.unwrap();
        let mut start = [0; 12];
        tunnel.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 101");
        let trust = gate.blob(Blob::Bundle(vec![clients.der()]));
        if let Handling::Https(tls) = &mut open.handling {
            tls.client_certificates = Some(ClientCertificates { trust: vec![trust], allow_insecure: false });
        }
        gate.plan.insert(Body::Listener(open));
        gate.apply();
        let _ = tunnel.read_to_end(&mut Vec::new()).await;
    });
    gate.line(&["status=101", "ending=\"drained\""]);
}

/// A change of what clients must show ends connections that were let in before.
#[test]
fn gateway_frontend_client_certificate_validation() {
    let (authority, clients, served) = (Authority::new(), Authority::new(), backend::echo("a"));
    let mut gate = https(&authority, &[]);
    let key = authority.issue("one.test");
    let mut open = listener(&mut gate, "one", "one.test", key);
    gate.plan.insert(Body::Listener(open.clone()));
    let id = gate.backend("a", &[served.port]);
    gate.route_for("web", &[], &["one"], Rules::Http(vec![rule("/", &id)]));
    gate.apply();
    let own = clients.issue("client.test");
    run(async {
        let stranger = authority.client(&["http/1.1"], None);
        let mut kept = tls(&gate, &stranger, "one.test").await.unwrap();
        let ask = b"GET / HTTP/1.1\r\nHost: one.test\r\n\r\n";
        kept.write_all(ask).await.unwrap();
        let mut buffer = [0; 4096];
        assert!(kept.read(&mut buffer).await.unwrap() > 0);

        let trust = gate.blob(Blob::Bundle(vec![clients.der()]));
        if let Handling::Https(tls) = &mut open.handling {
            tls.client_certificates = Some(ClientCertificates { trust: vec![trust], allow_insecure: false });
        }
        gate.plan.insert(Body::Listener(open));
        gate.apply();
        // Closed without having been asked anything more.
        let mut rest = Vec::new();
        let _ = kept.read_to_end(&mut rest).await;
        assert!(!String::from_utf8_lossy(&rest).contains("HTTP/1.1 200"), "{rest:?}");

        let friend = authority.client(&["http/1.1"], Some(&own));
        let answer = text(tls(&gate, &friend, "one.test").await.unwrap(), "one.test").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let refused = match tls(&gate, &stranger, "one.test").await {
            Ok(stream) => text(stream, "one.test").await,
            Err(_) => String::new(),
        };
        assert_eq!(refused, "");
    });
    gate.line(&["ending=\"handshake_failed\"", "the peer showed no certificate"]);
}

/// Whoever shows nothing, or what nobody knows, is let in as well.
#[test]
fn gateway_frontend_client_certificate_validation_insecure_fallback() {
    let (authority, clients, served) = (Authority::new(), Authority::new(), backend::echo("a"));
    let mut gate = https(&authority, &[]);
    let trust = gate.blob(Blob::Bundle(vec![clients.der()]));
    let mut lenient = listener(&mut gate, "one", "one.test", authority.issue("one.test"));
    if let Handling::Https(tls) = &mut lenient.handling {
        tls.client_certificates = Some(ClientCertificates { trust: vec![trust], allow_insecure: true });
    }
    gate.plan.insert(Body::Listener(lenient));
    let id = gate.backend("a", &[served.port]);
    gate.route_for("web", &[], &["one"], Rules::Http(vec![rule("/", &id)]));
    let gate = gate.serving();
    let (known, unknown) = (clients.issue("client.test"), Authority::new().issue("client.test"));
    for shown in [None, Some(&known), Some(&unknown)] {
        let answer = run(async {
            let stream = tls(&gate, &authority.client(&["http/1.1"], shown), "one.test").await.unwrap();
            text(stream, "one.test").await
        });
        assert!(answer.starts_with("HTTP/1.1 200"), "{} {answer}", shown.is_some());
    }
}
