//! To a backend and back: the request as that backend is to see it, once more where the rule or a lost connection
//! asks for it, and the answer as the client is to see it.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use tidegate_proxy::{Ending, Lease};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Exchange;
use super::failure::Failure;
use crate::body::{Body, Download, Incoming, Source, Upload};
use crate::filters::{Chain, Passage};
use crate::hop;
use crate::retry::{self, Budget, Tried, Verdict};
use crate::rules::Prepared;
use crate::upstream::{Destination, Hold, Reached, Speaks, Unsent, reach};

/// Where a request goes, and what the rule says about how.
pub(super) struct Aim<'a> {
    pub(super) to: Destination,
    /// Where the client's session is.
    pub(super) session: Option<Lease>,
    pub(super) prepared: &'a Prepared,
    pub(super) budget: Option<&'a Budget>,
    /// What answers pass on their way back: the backend's, then the rule's.
    pub(super) chains: [Option<&'a Chain>; 2],
    pub(super) passage: &'a Passage<'a>,
}

/// An answer, and what is held while it is read.
struct Answered {
    response: Response<Incoming>,
    hold: Hold,
    lease: Lease,
}

/// How a try went wrong.
enum Lost {
    Unsent(Unsent),
    Timeout,
    /// An answer that the rule would rather have from another try.
    Unwanted(Box<Answered>, retry::Failure),
}

/// A connection that was kept may have ended while the request was on its way to it: so often it is taken to another
/// without a word.
const CROSSINGS: u32 = 3;

pub(super) async fn forward(
    exchange: &Rc<Exchange>,
    mut aim: Aim<'_>,
    parts: Parts,
    source: Option<&Rc<Source>>,
) -> Result<Response<Body>, Failure> {
    let Answered { response, hold, lease } = ask(exchange, &mut aim, parts, source).await?;
    exchange.answered();
    let (mut head, incoming) = response.into_parts();
    head.version = Version::HTTP_11;
    head.extensions.clear();
    hop::strip_response(&mut head.headers);
    let Prepared { request_time, backend_time, .. } = aim.prepared;
    let of_request = request_time.map(|time| Instant::from_std(exchange.began + time));
    let of_backend = backend_time.map(|time| Instant::now() + time);
    let end = of_request.into_iter().chain(of_backend).min();
    let end = end.map(|end| Box::pin(sleep_until(end)));
    let download = Download::new(incoming, hold, lease, exchange, end);
    Ok(Response::from_parts(head, Body::Download(Box::new(download))))
}

async fn ask(
    exchange: &Rc<Exchange>,
    aim: &mut Aim<'_>,
    parts: Parts,
    source: Option<&Rc<Source>>,
) -> Result<Answered, Failure> {
    let retries = &aim.prepared.retries;
    let method = parts.method.clone();
    let mut parts = Some(parts);
    let mut tried = Vec::new();
    let mut crossings = 0;
    aim.budget.inspect(|budget| budget.request(exchange.home.age()));
    loop {
        let lost = match once(exchange, aim, &mut parts, source, &mut tried).await? {
            Ok(answered) => return Ok(answered),
            Err(lost) => lost,
        };
        if parts.is_none() {
            return lost.give_up();
        }
        if let Lost::Unsent(Unsent { request: Some(_), was_used: true, .. }) = &lost
            && crossings < CROSSINGS
        {
            crossings += 1;
            continue;
        }
        let request = Tried {
            method: &method,
            body_kept: source.is_none_or(|source| source.upload().is_some()),
            retries: exchange.retries.get(),
            others: aim.to.backend.has_untried(&tried),
        };
        let verdict = retries.verdict(lost.failure(), &request, exchange.home.kit.random());
        let Verdict::Again { after } = verdict else { return lost.give_up() };
        if exchange.ending().is_some() {
            return lost.give_up();
        }
        if aim.budget.is_some_and(|budget| !budget.spend(exchange.home.age())) {
            exchange.home.kit.reached(Ending::TooManyRetries);
            return lost.give_up();
        }
        if !request.others {
            tried.clear();
        }
        exchange.retries.set(exchange.retries.get() + 1);
        drop(lost);
        if !after.is_zero() {
            sleep(after).await;
        }
    }
}

/// One try at one endpoint. `parts` are there afterwards if there may be another.
async fn once(
    exchange: &Rc<Exchange>,
    aim: &mut Aim<'_>,
    parts: &mut Option<Parts>,
    source: Option<&Rc<Source>>,
    tried: &mut Vec<SocketAddr>,
) -> Result<Result<Answered, Lost>, Failure> {
    let upload = match source {
        None => Upload::Empty,
        Some(source) => source.upload().ok_or(Ending::BackendReset)?,
    };
    let client = exchange.tie.client.ip();
    let reached = reach(&exchange.home, &aim.to, client, aim.session.take(), tried).await;
    let Reached { lease, line } = match reached {
        Ok(reached) => reached,
        Err(unsent) => return Ok(Err(Lost::Unsent(unsent))),
    };
    exchange.endpoint.set(Some(lease.address));
    let retries = &aim.prepared.retries;
    let repeats = |parts: &Parts| {
        // What goes out over HTTP/2 is not what came in, and cannot be made of it again.
        aim.to.speaks == Speaks::Http2 || retries.may_repeat(&parts.method, line.was_used())
    };
    let head = if parts.as_ref().is_some_and(repeats) { parts.clone() } else { parts.take() };
    let request = outgoing(head.ok_or(Ending::BackendReset)?, &aim.to, lease.address, upload);
    let sent = line.send_hearing(request, |status, headers| hint(exchange, aim, status, headers));
    let Some(sent) = within(aim.prepared.backend_time, sent).await else {
        tried.push(lease.address);
        return Ok(Err(Lost::Timeout));
    };
    Ok(match sent {
        Ok((response, hold)) => {
            let failure = aim.prepared.retries.failure(response.status(), response.headers());
            let answered = Answered { response, hold, lease };
            match failure {
                None => Ok(answered),
                Some(failure) => {
                    tried.push(answered.lease.address);
                    Err(Lost::Unwanted(Box::new(answered), failure))
                }
            }
        }
        Err(mut unsent) => {
            if !unsent.was_used {
                tried.push(lease.address);
            }
            if let (None, Some(request)) = (&parts, &mut unsent.request) {
                *parts = Some((*std::mem::take(request)).into_parts().0);
            }
            Err(Lost::Unsent(unsent))
        }
    })
}

/// What a backend says before its answer goes to the client in the same way as the answer does.
fn hint(exchange: &Exchange, aim: &Aim<'_>, status: StatusCode, mut headers: HeaderMap) {
    hop::strip_response(&mut headers);
    // There is nothing whose length it could be.
    headers.remove(header::CONTENT_LENGTH);
    aim.chains.iter().flatten().for_each(|chain| chain.on_response(&mut headers, aim.passage));
    exchange.answer_early(status, headers);
}

impl Lost {
    fn failure(&self) -> retry::Failure {
        match self {
            Self::Timeout => retry::Failure::Timeout,
            Self::Unwanted(_, failure) => *failure,
            Self::Unsent(unsent) => match unsent.ending {
                Ending::BackendInvalid => retry::Failure::Status(StatusCode::BAD_GATEWAY),
                Ending::BackendReset if unsent.rejected || unsent.request.is_some() => {
                    retry::Failure::Rejected
                }
                Ending::BackendReset => retry::Failure::Reset { reused: unsent.was_used },
                _ => retry::Failure::Connect,
            },
        }
    }

    /// The client gets what there is.
    fn give_up(self) -> Result<Answered, Failure> {
        match self {
            Self::Unwanted(answered, _) => Ok(*answered),
            Self::Timeout => Err(Ending::BackendTimeout.into()),
            Self::Unsent(unsent) => Err(unsent.into()),
        }
    }
}

/// The time that the rule gives a backend.
async fn within<T>(time: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
    match time {
        None => Some(future.await),
        Some(time) => timeout(time, future).await.ok(),
    }
}

/// The request in the words of the backend's protocol.
pub(super) fn outgoing(
    mut parts: Parts,
    to: &Destination,
    endpoint: SocketAddr,
    upload: Upload,
) -> Request<Upload> {
    parts.version = Version::HTTP_11;
    let mut request = Request::from_parts(parts, upload);
    match to.speaks {
        Speaks::Http1 => {
            let headers = request.headers();
            let no_host = !headers.contains_key(header::HOST);
            let unsized_body = !headers.contains_key(header::CONTENT_LENGTH)
                && !request.body().is_end_stream()
                && request.body().size_hint().exact().is_none();
            let headers = request.headers_mut();
            if no_host && let Ok(host) = HeaderValue::try_from(endpoint.to_string()) {
                headers.insert(header::HOST, host);
            }
            if unsized_body {
                // Said here because hyper does not think of a body for some methods.
                headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
        }
        Speaks::Http2 => {
            *request.version_mut() = Version::HTTP_2;
            hop::detach(request.headers_mut());
            let host = request.headers_mut().remove(header::HOST);
            let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
            let mut uri = http::uri::Parts::default();
            uri.scheme = Some(if to.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP });
            uri.authority = authority.or_else(|| Authority::try_from(endpoint.to_string()).ok());
            let path = request.uri().path_and_query().cloned();
            uri.path_and_query = Some(path.unwrap_or(PathAndQuery::from_static("/")));
            if let Ok(uri) = Uri::from_parts(uri) {
                *request.uri_mut() = uri;
            }
        }
    }
    request
}
