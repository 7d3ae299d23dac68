//! Certificates of every kind, configurations made of plans, and a wire between two codecs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType, SignatureAlgorithm,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ServerConfig};
use tidegate_plan::{
    AlternativeName, ApplicationProtocol, BackendTls, Blob, BlobId, Certificate, CertifiedKey,
    ClientCertificates, Handling, Hostname, Listener, ListenerId, ObjectName, Reason, ServerTls, TlsVersion,
    Trust,
};

use crate::tls::{Client, Codec, Identity, Keys, TicketSecret, TlsError, server};

/// 2026, when certificates of 2000 are expired and those of 2100 are not valid yet.
const NOW: u64 = 1_790_000_000;

#[derive(Debug)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn forward(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(self.0.load(Ordering::Relaxed))))
    }
}

/// The blobs of a plan, and what a data plane has made of them.
pub(crate) struct World {
    pub(crate) blobs: BTreeMap<BlobId, Arc<Blob>>,
    pub(crate) keys: Keys,
    pub(crate) clock: Arc<Clock>,
    pub(crate) secret: TicketSecret,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            blobs: BTreeMap::new(),
            keys: Keys::default(),
            clock: Arc::new(Clock(AtomicU64::new(NOW))),
            secret: TicketSecret::new(&[7; 32]),
        }
    }

    pub(crate) fn add(&mut self, blob: Blob) -> BlobId {
        let id = blob.id();
        self.blobs.insert(id.clone(), Arc::new(blob));
        id
    }

    /// As translation would put it into a plan.
    pub(crate) fn certificate(&mut self, issued: &Issued) -> Certificate {
        Certificate {
            id: self.add(issued.blob()),
            secret: ObjectName::new("default", "web"),
            names: issued.names.iter().map(|name| Hostname::parse(name).unwrap()).collect(),
            not_after: 0,
        }
    }

    pub(crate) fn server(&mut self, listener: &Listener) -> Result<Arc<ServerConfig>, Reason> {
        let clock = Arc::clone(&self.clock);
        server::at(listener, &mut self.keys, &self.blobs, &self.secret, clock)
    }

    pub(crate) fn client(&mut self, tls: &BackendTls) -> Result<Client, Reason> {
        Client::at(tls, &mut self.keys, &self.blobs, Arc::clone(&self.clock) as _)
    }

    pub(crate) fn identity(&mut self, issued: &Issued) -> Identity {
        let certificate = self.certificate(issued);
        Identity::new(&certificate, &mut self.keys, &self.blobs).unwrap()
    }

    pub(crate) fn trusting(&mut self, authority: &Authority) -> ClientCertificates {
        ClientCertificates { trust: vec![self.add(authority.bundle())], allow_insecure: false }
    }

    /// A policy for `sni` that trusts one authority.
    pub(crate) fn policy(&mut self, sni: &str, authority: &Authority) -> BackendTls {
        BackendTls {
            sni: Hostname::parse(sni).unwrap(),
            trust: Trust::Bundles(vec![self.add(authority.bundle())]),
            names: Vec::new(),
            minimum_version: None,
            alpn: Vec::new(),
            client_certificate: None,
        }
    }

    /// A listener with one certificate for `a.example.com` and a client that trusts it.
    pub(crate) fn pair(&mut self, version: TlsVersion) -> (Arc<ServerConfig>, Client) {
        let authority = Authority::new("CA");
        let certificate = self.certificate(&authority.issue(&["a.example.com"]));
        let server = self.server(&listener("tls", vec![certificate])).unwrap();
        let policy = self.policy("a.example.com", &authority);
        (only(&server, version), self.client(&policy).unwrap())
    }
}

/// The same configuration for one version of TLS.
pub(crate) fn only(config: &Arc<ServerConfig>, version: TlsVersion) -> Arc<ServerConfig> {
    let provider = Arc::clone(config.crypto_provider());
    let version = match version {
        TlsVersion::V1_2 => &rustls::version::TLS12,
        TlsVersion::V1_3 => &rustls::version::TLS13,
    };
    let builder = ServerConfig::builder_with_details(provider, Arc::clone(&config.time_provider));
    let mut narrow = builder
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(&config.cert_resolver));
    narrow.ticketer = Arc::clone(&config.ticketer);
    narrow.session_storage = Arc::clone(&config.session_storage);
    narrow.alpn_protocols.clone_from(&config.alpn_protocols);
    Arc::new(narrow)
}

pub(crate) fn listener(name: &str, certificates: Vec<Certificate>) -> Listener {
    Listener {
        id: ListenerId {
            gateway: ObjectName::new("default", "gateway"),
            listener_set: None,
            name: name.into(),
        },
        addresses: Vec::new(),
        port: 443,
        hostname: None,
        handling: Handling::Terminate(ServerTls { certificates, ..ServerTls::default() }),
        external_auth: Vec::new(),
        refuse: None,
    }
}

pub(crate) fn tls_of(listener: &mut Listener) -> &mut ServerTls {
    match &mut listener.handling {
        Handling::Terminate(tls) | Handling::Https(tls) => tls,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn protocols(names: &[&str]) -> Vec<ApplicationProtocol> {
    names.iter().map(|name| ApplicationProtocol::parse(name).unwrap()).collect()
}

pub(crate) fn uri(text: &str) -> AlternativeName {
    AlternativeName::Uri(text.to_owned())
}

pub(crate) fn dns(text: &str) -> AlternativeName {
    AlternativeName::Dns(Hostname::parse(text).unwrap())
}

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Vec<u8>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().to_vec();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    pub(crate) fn bundle(&self) -> Blob {
        Blob::Bundle(vec![self.certificate.clone()])
    }

    pub(crate) fn issue(&self, names: &[&str]) -> Issued {
        self.issue_as(names, &rcgen::PKCS_ECDSA_P256_SHA256, |_| {})
    }

    pub(crate) fn issue_as(
        &self,
        names: &[&str],
        algorithm: &'static SignatureAlgorithm,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        let mut params = params(names);
        change(&mut params);
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Issued::new(names, certificate.der().to_vec(), &key)
    }
}

/// A leaf that nobody but itself vouches for, made as `openssl req -x509` makes them: a CA.
pub(crate) fn self_signed(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Issued {
    let mut params = params(names);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Issued::new(names, certificate.der().to_vec(), &key)
}

/// A certificate of X.509 version 1, as `openssl x509 -req` of version 3.0 makes them; webpki reads none.
pub(crate) fn version_1() -> Issued {
    let pem = include_bytes!("version-1.pem");
    let certificate = CertificateDer::from_pem_slice(pem).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pem).unwrap();
    Issued { names: Vec::new(), certificate: certificate.to_vec(), key: key.secret_der().to_vec() }
}

/// Names with `://` in them are URIs.
fn params(names: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = names
        .iter()
        .map(|name| {
            let text = (*name).try_into().unwrap();
            if name.contains("://") { SanType::URI(text) } else { SanType::DnsName(text) }
        })
        .collect();
    params
}

pub(crate) fn expired(params: &mut CertificateParams) {
    params.not_before = rcgen::date_time_ymd(1999, 1, 1);
    params.not_after = rcgen::date_time_ymd(2000, 1, 1);
}

pub(crate) fn of_the_future(params: &mut CertificateParams) {
    params.not_before = rcgen::date_time_ymd(2099, 1, 1);
    params.not_after = rcgen::date_time_ymd(2100, 1, 1);
}

pub(crate) struct Issued {
    names: Vec<String>,
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Issued {
    fn new(names: &[&str], certificate: Vec<u8>, key: &KeyPair) -> Self {
        let names = names.iter().filter(|name| !name.contains("://")).map(|name| (*name).to_owned());
        Self { names: names.collect(), certificate, key: key.serialize_der() }
    }

    pub(crate) fn blob(&self) -> Blob {
        Blob::Key(CertifiedKey { chain: vec![self.certificate.clone()], key: self.key.clone() })
    }
}

/// One end, fed the way a socket would.
pub(crate) struct End {
    pub(crate) codec: Codec,
    pub(crate) plain: Vec<u8>,
    pub(crate) wire: Vec<u8>,
}

impl End {
    pub(crate) fn server(config: &Arc<ServerConfig>) -> Self {
        Self::new(Codec::server(Arc::clone(config)).unwrap())
    }

    pub(crate) fn client(config: Arc<ClientConfig>, name: &str) -> Self {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let offers = config.alpn_protocols.clone();
        Self::new(Codec::client(config, name, offers).unwrap())
    }

    pub(crate) fn of(client: &Client, gateway: Option<&Identity>) -> Self {
        Self::new(Codec::client(client.config(gateway), client.name(), client.offers(None)).unwrap())
    }

    fn new(codec: Codec) -> Self {
        Self { codec, plain: Vec::new(), wire: Vec::new() }
    }

    /// Takes bytes as they come out of one read.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        let mut buffer = vec![0xaa; Codec::MOST_CARRIED + bytes.len()];
        let carried = self.codec.carried(&mut buffer);
        buffer[carried..carried + bytes.len()].copy_from_slice(bytes);
        self.codec.receive(&mut buffer[..carried + bytes.len()], &mut self.plain, &mut self.wire)
    }

    pub(crate) fn send(&mut self, plain: &[u8]) {
        let mut records = Vec::new();
        let length = self.codec.send(plain, &mut records).unwrap();
        self.wire.extend_from_slice(&records[..length]);
    }
}

/// Which end failed, and how.
#[derive(Debug, PartialEq)]
pub(crate) enum Failed {
    Client(TlsError),
    Server(TlsError),
}

/// Carries bytes until neither has more to say. After the failure of one end the other still hears its last words.
pub(crate) fn exchange(client: &mut End, server: &mut End) -> Result<(), Failed> {
    client.read(&[]).map_err(Failed::Client)?;
    while !(client.wire.is_empty() && server.wire.is_empty()) {
        let hello = std::mem::take(&mut client.wire);
        if let Err(error) = server.read(&hello) {
            let _ = client.read(&std::mem::take(&mut server.wire));
            return Err(Failed::Server(error));
        }
        let answer = std::mem::take(&mut server.wire);
        if let Err(error) = client.read(&answer) {
            let _ = server.read(&std::mem::take(&mut client.wire));
            return Err(Failed::Client(error));
        }
    }
    Ok(())
}

/// Shakes hands and sends a word each way.
pub(crate) fn converse(client: &mut End, server: &mut End) -> Result<(), Failed> {
    exchange(client, server)?;
    client.send(b"ping");
    server.send(b"pong");
    exchange(client, server)?;
    assert_eq!((&server.plain[..], &client.plain[..]), (&b"ping"[..], &b"pong"[..]));
    Ok(())
}
