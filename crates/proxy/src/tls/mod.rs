//! TLS as bytes to bytes: a codec for either side of a connection, and the configurations it works by, made of the
//! plan. Nothing here knows a socket, and nothing here decides where a connection goes.

mod challenges;
mod client;
mod client_certificates;
mod codec;
mod error;
mod kept;
mod keys;
mod resolver;
mod roots;
mod server;
mod tickets;
mod verify;

use std::sync::{Arc, LazyLock};

use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;
use rustls::version::{TLS12, TLS13};
use tidegate_plan::TlsVersion;

pub use self::challenges::Challenges;
pub(crate) use self::client::{Client, Identity};
pub(crate) use self::codec::Codec;
pub(crate) use self::error::TlsError;
pub(crate) use self::kept::Kept;
pub use self::kept::KeptCertificate;
pub(crate) use self::keys::Keys;
pub(crate) use self::server::server_config;
pub(crate) use self::tickets::TicketSecret;

/// What went wrong with TLS on a stream, in words for the log that hold nothing of the peer's.
#[must_use]
pub fn tls_words(error: &std::io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(error) => TlsError::from(error.clone()).to_string(),
        None => error.kind().to_string(),
    }
}

/// One for the process: configurations compare and share it.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    Arc::clone(&PROVIDER)
}

fn versions(minimum: Option<TlsVersion>) -> &'static [&'static SupportedProtocolVersion] {
    static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
    match minimum {
        None | Some(TlsVersion::V1_2) => &BOTH,
        Some(TlsVersion::V1_3) => &BOTH[..1],
    }
}

#[cfg(test)]
pub(crate) mod tests;
