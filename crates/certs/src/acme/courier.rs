//! The way to the CA: HTTPS with a time limit, and an eye on how long it asks to be left alone.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;

use super::AcmeError;
use crate::Seconds;

/// For one question and its answer.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(super) struct Courier {
    client: Client<HttpsConnector<HttpConnector>, BodyWrapper<Bytes>>,
    /// Of the last answer that refused for now.
    wait: Arc<Mutex<Option<Seconds>>>,
}

impl Courier {
    pub(super) fn new(roots: Option<Vec<CertificateDer<'static>>>) -> Result<Self, AcmeError> {
        let mut trusted = RootCertStore::empty();
        match roots {
            Some(roots) => trusted.add_parsable_certificates(roots),
            None => trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
        };
        // An image without a system has no roots of one.
        if trusted.is_empty() {
            trusted.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .enable_http1()
            .enable_http2()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, wait: Arc::default() })
    }

    /// How long the CA asked to be left alone when it last refused.
    pub(super) fn take_wait(&self) -> Option<Seconds> {
        self.wait.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl HttpClient for Courier {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let asked = self.client.request(request);
        let wait = Arc::clone(&self.wait);
        Box::pin(async move {
            let answer = tokio::time::timeout(PATIENCE, asked).await;
            let answer = answer.map_err(|_| Error::Str("no answer within 30 seconds"))?;
            let answer = answer.map_err(|error| Error::Other(described(&error).into()))?;
            if matches!(answer.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
                let seconds =
                    answer.headers().get(RETRY_AFTER).and_then(|value| seconds(value.to_str().ok()?));
                *wait.lock().unwrap_or_else(PoisonError::into_inner) = seconds;
            }
            Ok(BytesResponse::from(answer))
        })
    }
}

/// The causes tell what went wrong; the error itself says `client error`.
fn described(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Dates are rare enough here to be taken as an hour.
fn seconds(value: &str) -> Option<Seconds> {
    let value = value.trim();
    match value.parse::<Seconds>() {
        Ok(seconds) => Some(seconds.clamp(0, 30 * crate::DAY)),
        Err(_) if value.is_empty() => None,
        Err(_) => Some(crate::HOUR),
    }
}
