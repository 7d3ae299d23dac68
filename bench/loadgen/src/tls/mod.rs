//! TLS as the load side and the backends speak it, with the same library for all proxies. The client is made to be
//! cheap, not careful: it checks a certificate only by comparing it with the one it was told to expect.

mod expected;
mod tickets;

use std::sync::Arc;

use clap::{Args, ValueEnum};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CipherSuite, ClientConfig, ClientConnection, ServerConfig};

use self::expected::Expected;
use self::tickets::Tickets;
use crate::Result;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyExchange {
    X25519,
    /// X25519MLKEM768: a ClientHello of 1.4 KB
    Pq,
    P256,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cipher {
    Aes128,
    Aes256,
    /// Whatever both sides like best
    Any,
}

/// What a client offers. TLS 1.3 always.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientOptions {
    #[arg(long, value_enum, default_value_t = KeyExchange::X25519)]
    pub(crate) kx: KeyExchange,
    #[arg(long, value_enum, default_value_t = Cipher::Aes128)]
    pub(crate) cipher: Cipher,
    /// Keep tickets and use each once
    #[arg(long)]
    pub(crate) resume: bool,
    /// The one certificate that is right (PEM); whoever shows another one has failed
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<String>,
}

pub(crate) fn client(options: &ClientOptions) -> Result<Arc<ClientConfig>> {
    let provider = provider(options.kx, options.cipher);
    let expected =
        Expected::new(&provider, options.certificate.as_deref().map(first_certificate).transpose()?);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(expected))
        .with_no_client_auth();
    config.resumption = match options.resume {
        true => Resumption::store(Arc::new(Tickets::default())),
        false => Resumption::disabled(),
    };
    Ok(Arc::new(config))
}

/// The bytes with which such a client begins, for connections on which nobody answers them.
pub(crate) fn client_hello(config: &Arc<ClientConfig>, name: &ServerName<'static>) -> Result<Vec<u8>> {
    let mut connection = ClientConnection::new(Arc::clone(config), name.clone())?;
    let mut hello = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut hello)?;
    }
    Ok(hello)
}

/// A server with `NAME.crt` and `NAME.key` of the folder, which gives out tickets.
pub(crate) fn server(folder: &str, name: &str, kx: KeyExchange) -> Result<Arc<ServerConfig>> {
    let certificate = first_certificate(&format!("{folder}/{name}.crt"))?;
    let key = PrivateKeyDer::from_pem_file(format!("{folder}/{name}.key"))
        .map_err(|error| format!("{folder}/{name}.key: {error}"))?;
    let mut config = ServerConfig::builder_with_provider(provider(kx, Cipher::Any))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    Ok(Arc::new(config))
}

fn first_certificate(file: &str) -> Result<CertificateDer<'static>> {
    CertificateDer::from_pem_file(file).map_err(|error| format!("{file}: {error}").into())
}

fn provider(kx: KeyExchange, cipher: Cipher) -> Arc<CryptoProvider> {
    use aws_lc_rs::kx_group::{SECP256R1, X25519, X25519MLKEM768};
    let mut provider = aws_lc_rs::default_provider();
    let groups: &[&'static dyn SupportedKxGroup] = match kx {
        KeyExchange::X25519 => &[X25519],
        KeyExchange::Pq => &[X25519MLKEM768, X25519],
        KeyExchange::P256 => &[SECP256R1],
    };
    provider.kx_groups = groups.to_vec();
    let only = match cipher {
        Cipher::Aes128 => Some(CipherSuite::TLS13_AES_128_GCM_SHA256),
        Cipher::Aes256 => Some(CipherSuite::TLS13_AES_256_GCM_SHA384),
        Cipher::Any => None,
    };
    provider.cipher_suites.retain(|suite| only.is_none_or(|only| suite.suite() == only));
    Arc::new(provider)
}
