//! The way to the CA: HTTPS with a time limit, and an eye on how long it asks to be left alone.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, StatusCode};
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

tokio::task_local! {
    /// What the last answer asked for, if it refused for now. Questions are asked one after the other within an order or
    /// a look, and several of these at a time: each has to heed its own answers.
    static WAIT: Cell<Option<Seconds>>;
}

/// Does what asks a CA, with an eye on how long it asks to be left alone.
pub(super) async fn heeding<T>(work: impl Future<Output = T>) -> T {
    WAIT.scope(Cell::new(None), work).await
}

/// How long the CA asked to be left alone, if its last answer was such.
pub(super) fn asked_to_wait() -> Option<Seconds> {
    WAIT.try_with(Cell::get).ok().flatten()
}

fn heed(wait: Option<Seconds>) {
    let _ = WAIT.try_with(|own| own.set(wait));
}

/// One way for every account that is opened.
pub(super) struct Way(pub(super) Arc<dyn HttpClient>);

impl HttpClient for Way {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        self.0.request(request)
    }
}

pub(super) struct Courier {
    client: Client<HttpsConnector<HttpConnector>, BodyWrapper<Bytes>>,
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
        Ok(Self { client })
    }
}

impl HttpClient for Courier {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let asked = self.client.request(request);
        Box::pin(async move {
            heed(None);
            let answer = tokio::time::timeout(PATIENCE, asked).await;
            let answer = answer.map_err(|_| Error::Str("no answer within 30 seconds"))?;
            let answer = answer.map_err(|error| Error::Other(described(&error).into()))?;
            heed(patience(answer.status(), answer.headers(), SystemTime::now()));
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

/// How long an answer asks to be left alone.
fn patience(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Option<Seconds> {
    if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    seconds(headers.get(RETRY_AFTER)?.to_str().ok()?.trim(), now)
}

/// RFC 9110, 10.2.3: a number of seconds, or a date.
fn seconds(value: &str, now: SystemTime) -> Option<Seconds> {
    let seconds = match value.parse::<Seconds>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let left = httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default();
            Seconds::try_from(left.as_secs()).unwrap_or(Seconds::MAX)
        }
    };
    // A mistake is not obeyed for ever.
    Some(seconds.clamp(0, 30 * crate::DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_a_ca_wants_to_be_left_alone() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2026 07:28:00 GMT").unwrap();
        let told = |status: u16, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            patience(StatusCode::from_u16(status).unwrap(), &headers, now)
        };
        for (value, expected) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Wed, 21 Oct 2026 09:28:00 GMT", Some(2 * crate::HOUR)),
            ("Wed, 21 Oct 2026 07:00:00 GMT", Some(0)),
            ("Sat, 21 Oct 2028 07:28:00 GMT", Some(30 * crate::DAY)),
            ("99999999999", Some(30 * crate::DAY)),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(told(429, value), expected, "{value}");
            assert_eq!(told(503, value), expected, "{value}");
        }
        assert_eq!(told(500, "120"), None, "it did not ask for patience");
        assert_eq!(patience(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new(), now), None);
    }

    #[tokio::test]
    async fn nobody_waits_for_what_another_was_told() {
        let refused = heeding(async {
            heed(Some(600));
            tokio::task::yield_now().await;
            asked_to_wait()
        });
        let other = heeding(async {
            tokio::task::yield_now().await;
            asked_to_wait()
        });
        assert_eq!(tokio::join!(refused, other), (Some(600), None));
        assert_eq!(heeding(async { asked_to_wait() }).await, None, "and nobody later");
    }
}
