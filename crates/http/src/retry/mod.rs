//! When a request is sent to a backend once more, after how long, and when not: rules only, without a clock.

mod budget;

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use tidegate_plan::Retry;

pub use self::budget::Budget;

/// The retries of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    codes: Box<[u16]>,
    attempts: u32,
    backoff: Duration,
    /// The rule says something about retries.
    asked: bool,
}

/// How a try at a backend failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection: refused, unreachable, too slow, or the TLS handshake failed.
    Connect,
    /// The backend did not look at the request: HTTP/2 said so, gRPC was `UNAVAILABLE` before it began, or the
    /// connection was gone before a byte of the request was written.
    Rejected,
    /// The connection ended after the request was sent and before a response came. `reused`: it had carried a request
    /// before, so most likely the backend was about to close it for idleness.
    Reset { reused: bool },
    /// No response within the time for a backend.
    Timeout,
    /// A response, of this status.
    Status(StatusCode),
}

/// The request whose try failed.
#[derive(Clone, Copy, Debug)]
pub struct Tried<'a> {
    pub method: &'a Method,
    /// Whether its body can be sent again from the beginning: there is none, it was kept, or nothing of it was sent.
    pub body_kept: bool,
    /// Retries so far.
    pub retries: u32,
    /// There is an endpoint that was not tried.
    pub others: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client gets what there is.
    GiveUp,
    /// Once more after this time; at another endpoint, where there is one.
    Again { after: Duration },
}

impl Retries {
    /// Where a rule has no retries, connections that cannot be made are still tried elsewhere so often.
    const ELSEWHERE: u32 = 3;
    /// Between tries, where the rule does not say.
    const BACKOFF: Duration = Duration::from_millis(25);
    /// Waiting grows to this many times the backoff and no further.
    const GROWTH: u32 = 10;

    /// `None`: the rule says nothing. One retry where it says nothing of their number; an explicit 0 switches all
    /// retries off, also those of connections.
    #[must_use]
    pub fn new(retry: Option<&Retry>) -> Self {
        match retry {
            None => Self {
                codes: Box::default(),
                attempts: Self::ELSEWHERE,
                backoff: Self::BACKOFF,
                asked: false,
            },
            Some(retry) => Self {
                codes: retry.codes.as_slice().into(),
                attempts: retry.attempts.unwrap_or(1),
                backoff: retry.backoff.unwrap_or(Self::BACKOFF),
                asked: true,
            },
        }
    }

    /// Whether any failure of this rule can be followed by a retry; if not, no body need be kept.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.attempts > 0
    }

    /// Whether a response of this kind may be retried: if so it is not begun to be passed on before this is decided.
    #[must_use]
    pub fn failure(&self, status: StatusCode, headers: &HeaderMap) -> Option<Failure> {
        if self.codes.contains(&status.as_u16()) {
            return Some(Failure::Status(status));
        }
        let unavailable = self.asked && headers.get("grpc-status").is_some_and(|status| status == "14");
        unavailable.then_some(Failure::Rejected)
    }

    /// `random` is any number, for the jitter. A budget is asked after this, not before.
    #[must_use]
    pub fn verdict(&self, failure: Failure, tried: &Tried<'_>, random: u64) -> Verdict {
        if tried.retries >= self.attempts || !tried.body_kept || !self.covers(failure, tried) {
            return Verdict::GiveUp;
        }
        let at_once = match failure {
            // Another endpoint need not be waited for.
            Failure::Connect | Failure::Rejected => tried.others,
            Failure::Reset { reused } => reused,
            Failure::Timeout | Failure::Status(_) => false,
        };
        let after = if at_once { Duration::ZERO } else { self.waiting(tried.retries, random) };
        Verdict::Again { after }
    }

    fn covers(&self, failure: Failure, tried: &Tried<'_>) -> bool {
        let again = tried.method.is_idempotent();
        match failure {
            Failure::Connect => self.asked || tried.others,
            Failure::Rejected => true,
            // What may have been done once is done again only where twice is the same as once, and for a
            // connection that was not stale only if the rule lists what the client would get.
            Failure::Reset { reused } => again && (reused || self.codes.contains(&502)),
            Failure::Timeout => self.asked && (again || self.codes.contains(&504)),
            Failure::Status(status) => self.codes.contains(&status.as_u16()),
        }
    }

    /// The backoff, doubled with each retry up to a bound; between half of that and all of it, by chance.
    fn waiting(&self, retries: u32, random: u64) -> Duration {
        let factor = 1_u32.checked_shl(retries).unwrap_or(u32::MAX).min(Self::GROWTH);
        let most = self.backoff.saturating_mul(factor);
        let share = (random >> 32) as f64 / f64::from(u32::MAX);
        most.mul_f64(0.5 + share / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(codes: &[u16], attempts: Option<u32>) -> Retries {
        Retries::new(Some(&Retry { codes: codes.into(), attempts, backoff: None }))
    }

    fn tried(method: &Method, retries: u32) -> Tried<'_> {
        Tried { method, body_kept: true, retries, others: false }
    }

    fn is_again(retries: &Retries, failure: Failure, tried: &Tried<'_>) -> bool {
        retries.verdict(failure, tried, 0) != Verdict::GiveUp
    }

    fn status(code: u16) -> Failure {
        Failure::Status(StatusCode::from_u16(code).unwrap())
    }

    /// How many tries a backend sees that always answers so.
    fn tries(retries: &Retries, failure: Failure) -> u32 {
        let mut tries = 0;
        while is_again(retries, failure, &tried(&Method::GET, tries)) {
            tries += 1;
        }
        tries + 1
    }

    /// The rules of the suite's HTTPRouteRetry.
    #[test]
    fn http_route_retry() {
        let all = [500, 502, 503, 504];
        assert_eq!(tries(&rule(&[500], Some(3)), status(500)), 4);
        assert_eq!(tries(&rule(&[500], Some(3)), status(503)), 1);
        for code in all {
            assert_eq!(tries(&rule(&all, Some(2)), status(code)), 3);
            assert_eq!(tries(&rule(&all, Some(0)), status(code)), 1);
            assert_eq!(tries(&rule(&all, None), status(code)), 2);
            assert_eq!(tries(&Retries::new(None), status(code)), 1);
        }
    }

    /// The rule of the suite's HTTPRouteRetryConnectionError: no codes, many attempts.
    #[test]
    fn http_route_retry_connection_error() {
        let many = rule(&[], Some(100));
        assert_eq!(tries(&many, Failure::Connect), 101);
        assert_eq!(tries(&rule(&[], Some(0)), Failure::Connect), 1);
        let other = Tried { others: true, ..tried(&Method::POST, 0) };
        assert_eq!(many.verdict(Failure::Connect, &other, 0), Verdict::Again { after: Duration::ZERO });
        // Without a rule another endpoint is tried, and the same one not again.
        let silent = Retries::new(None);
        assert!(is_again(&silent, Failure::Connect, &other));
        assert!(!is_again(&silent, Failure::Connect, &Tried { others: false, ..other }));
        assert!(!is_again(&silent, Failure::Connect, &Tried { retries: 3, ..other }));
    }

    #[test]
    fn what_may_have_been_done_is_not_done_twice() {
        let (get, post) = (tried(&Method::GET, 0), tried(&Method::POST, 0));
        let (fresh, stale) = (Failure::Reset { reused: false }, Failure::Reset { reused: true });
        let silent = Retries::new(None);
        let plain = rule(&[500], Some(1));
        let all = rule(&[502, 504], Some(1));
        for (retries, failure, request, again) in [
            (&silent, stale, &get, true),
            (&silent, stale, &post, false),
            (&silent, fresh, &get, false),
            (&silent, Failure::Timeout, &get, false),
            (&silent, Failure::Rejected, &post, true),
            (&plain, fresh, &get, false),
            (&plain, Failure::Timeout, &get, true),
            (&plain, Failure::Timeout, &post, false),
            (&plain, status(500), &post, true),
            (&all, fresh, &get, true),
            (&all, fresh, &post, false),
            (&all, Failure::Timeout, &post, true),
        ] {
            assert_eq!(is_again(retries, failure, request), again, "{retries:?} {failure:?} {request:?}");
        }
        let lost = Tried { body_kept: false, ..get };
        assert!(!is_again(&plain, status(500), &lost));
    }

    #[test]
    fn responses_that_are_failures() {
        let mut unavailable = HeaderMap::new();
        unavailable.insert("grpc-status", "14".parse().unwrap());
        let (ok, none) = (StatusCode::OK, HeaderMap::new());
        assert_eq!(rule(&[503], None).failure(StatusCode::SERVICE_UNAVAILABLE, &none), Some(status(503)));
        assert_eq!(rule(&[503], None).failure(ok, &none), None);
        assert_eq!(rule(&[], None).failure(ok, &unavailable), Some(Failure::Rejected));
        assert_eq!(Retries::new(None).failure(ok, &unavailable), None);
    }

    #[test]
    fn waiting_grows_with_jitter_to_a_bound() {
        let backoff = Some(Duration::from_millis(100));
        let retries = Retries::new(Some(&Retry { codes: vec![500], attempts: Some(100), backoff }));
        for (before, most) in [(0, 100), (1, 200), (2, 400), (3, 800), (4, 1000), (40, 1000), (99, 1000)] {
            let waiting = |random| retries.waiting(before, random).as_millis();
            assert_eq!((waiting(0), waiting(u64::MAX)), (most / 2, most), "{before}");
        }
    }
}
