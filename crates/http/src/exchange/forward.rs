//! To a backend and back: the request as that backend is to see it, once more where the rule or a lost connection
//! asks for it, and the answer as the client is to see it.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;

use http::header;
use http::{HeaderMap, Response, StatusCode, Version};
use tidegate_proxy::{Ending, Lease};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::Exchange;
use super::failure::Failure;
use crate::body::{Body, Download, Incoming, Source, Upload};
use crate::filters::{Chain, Passage};
use crate::hop;
use crate::request::Outgoing;
use crate::retry::{self, Budget, Tried, Verdict};
use crate::rules::Prepared;
use crate::upstream::{Destination, Hold, Reached, Unsent, reach};

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
    hold: Option<Hold>,
    lease: Lease,
    /// When the time that the rule gives the backend is over.
    end: Option<Instant>,
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
    request: Outgoing<'_>,
    source: Option<&Rc<Source>>,
) -> Result<Response<Body>, Failure> {
    let Answered { response, hold, lease, end } = ask(exchange, &mut aim, request, source).await?;
    exchange.answered();
    let (mut head, incoming) = response.into_parts();
    head.version = Version::HTTP_11;
    head.extensions.clear();
    hop::strip_response(&mut head.headers);
    let of_request = aim.prepared.request_time.map(|time| Instant::from_std(exchange.began + time));
    let end = of_request.into_iter().chain(end).min();
    let end = end.map(|end| Box::pin(sleep_until(end)));
    let download = Download::new(incoming, hold, lease, exchange, end);
    Ok(Response::from_parts(head, Body::Download(Box::new(download))))
}

async fn ask(
    exchange: &Rc<Exchange>,
    aim: &mut Aim<'_>,
    request: Outgoing<'_>,
    source: Option<&Rc<Source>>,
) -> Result<Answered, Failure> {
    let retries = &aim.prepared.retries;
    let mut tried = Vec::new();
    let mut crossings = 0;
    aim.budget.inspect(|budget| budget.request(exchange.home.age()));
    loop {
        let lost = match once(exchange, aim, request, source, &mut tried).await? {
            Ok(answered) => return Ok(answered),
            Err(lost) => lost,
        };
        if let Lost::Unsent(Unsent { is_whole: true, was_used: true, .. }) = &lost
            && crossings < CROSSINGS
        {
            crossings += 1;
            continue;
        }
        let failed = Tried {
            method: &request.head.method,
            body_kept: source.is_none_or(|source| source.upload().is_some()),
            retries: exchange.retries.get(),
            others: aim.to.backend.has_untried(&tried),
        };
        let verdict = retries.verdict(lost.failure(), &failed, exchange.home.kit.random());
        let Verdict::Again { after } = verdict else { return lost.give_up() };
        if exchange.ending().is_some() {
            return lost.give_up();
        }
        if aim.budget.is_some_and(|budget| !budget.spend(exchange.home.age())) {
            exchange.home.kit.reached(Ending::TooManyRetries);
            return lost.give_up();
        }
        if !failed.others {
            tried.clear();
        }
        exchange.retries.set(exchange.retries.get() + 1);
        drop(lost);
        if !after.is_zero() {
            sleep(after).await;
        }
    }
}

/// One try at one endpoint.
async fn once(
    exchange: &Rc<Exchange>,
    aim: &mut Aim<'_>,
    request: Outgoing<'_>,
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
    let early = |status, headers| hint(exchange, aim, status, headers);
    let sent = line.send(request, &aim.to, lease.address, upload, early);
    let end = aim.prepared.backend_time.map(|time| Instant::now() + time);
    let Some(sent) = within(end, pin!(sent)).await else {
        tried.push(lease.address);
        return Ok(Err(Lost::Timeout));
    };
    Ok(match sent {
        Ok((response, hold)) => {
            let failure = aim.prepared.retries.failure(response.status(), response.headers());
            let answered = Answered { response, hold, lease, end };
            match failure {
                None => Ok(answered),
                Some(failure) => {
                    tried.push(answered.lease.address);
                    Err(Lost::Unwanted(Box::new(answered), failure))
                }
            }
        }
        Err(unsent) => {
            if !unsent.was_used {
                tried.push(lease.address);
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
                Ending::BackendReset if unsent.rejected || unsent.is_whole => retry::Failure::Rejected,
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
async fn within<T>(end: Option<Instant>, future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    match end {
        None => Some(future.await),
        Some(end) => timeout_at(end, future).await.ok(),
    }
}
