//! Mirrors: which requests have a copy sent elsewhere, and what the copy looks like. Sending it, and throwing away
//! what comes back, is the engine's.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::request::Parts;
use tidegate_plan::{Fraction, Target};

/// A place that gets copies of a share of all requests.
#[derive(Debug)]
pub struct Mirror {
    pub target: Target,
    share: Fraction,
    /// Requests so far, of all workers: an addition is nothing beside a request.
    seen: AtomicU64,
}

impl Mirror {
    #[must_use]
    pub const fn new(target: Target, share: Fraction) -> Self {
        Self { target, share, seen: AtomicU64::new(0) }
    }

    /// Whether this request is one of those that are copied. Ask once for each request: of any `denominator` requests
    /// in a row exactly `numerator` are, and they are spread as evenly as whole numbers allow.
    pub fn is_due(&self) -> bool {
        let (numerator, denominator) = (u64::from(self.share.numerator), u64::from(self.share.denominator));
        if numerator >= denominator {
            return true;
        }
        // Counting on from a multiple of the denominator is counting from zero.
        let nth = self.seen.fetch_add(1, Relaxed) % denominator;
        (nth + 1) * numerator / denominator > nth * numerator / denominator
    }

    /// The request that the mirror gets: as it is at the mirror's place among the filters, with the same method, path,
    /// query and Host. Nothing is added to the Host: backends route by it.
    ///
    /// It is marked by nothing either, and upgrades are not mirrored: `None` for those.
    #[must_use]
    pub fn copy(&self, parts: &Parts) -> Option<Parts> {
        let is_tunnel = parts.headers.contains_key(http::header::UPGRADE)
            || parts.extensions.get::<h2::ext::Protocol>().is_some();
        if is_tunnel {
            return None;
        }
        let (mut copy, ()) = http::Request::new(()).into_parts();
        copy.method = parts.method.clone();
        copy.uri = parts.uri.clone();
        copy.headers = parts.headers.clone();
        Some(copy)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_plan::Reason;

    use super::*;

    fn mirror(numerator: u32, denominator: u32) -> Mirror {
        Mirror::new(Target::Invalid(Reason::NoEndpoints), Fraction { numerator, denominator })
    }

    fn due(mirror: &Mirror, requests: u32) -> u32 {
        (0..requests).filter(|_| mirror.is_due()).count() as u32
    }

    /// The shares of the suite's HTTPRouteRequestPercentageMirror, which allows 3 standard deviations; here none.
    #[test]
    fn http_route_request_percentage_mirror() {
        for (numerator, denominator, of_500) in [
            (20, 100, 100),
            (25, 50, 250),
            (35, 100, 175),
            (0, 100, 0),
            (100, 100, 500),
            (1, 1, 500),
            (1, 1000, 0),
        ] {
            assert_eq!(due(&mirror(numerator, denominator), 500), of_500, "{numerator}/{denominator}");
        }
    }

    proptest! {
        #[test]
        fn every_stretch_has_its_share(denominator in 1_u32..200, numerator in 0_u32..200, start in 0_u32..300) {
            let numerator = numerator.min(denominator);
            let mirror = mirror(numerator, denominator);
            due(&mirror, start);
            prop_assert_eq!(due(&mirror, denominator), numerator);
        }

        #[test]
        fn it_is_spread_evenly(denominator in 1_u32..200, numerator in 0_u32..200, requests in 0_u32..400) {
            let numerator = numerator.min(denominator);
            let share = f64::from(numerator) / f64::from(denominator) * f64::from(requests);
            let due = f64::from(due(&mirror(numerator, denominator), requests));
            prop_assert!((due - share).abs() < 1.0, "{} of {}", due, share);
        }
    }

    #[test]
    fn workers_share_the_count() {
        let mirror = mirror(35, 100);
        let total: u32 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| due(&mirror, 250))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(total, 350);
    }

    /// What the suite's HTTPRouteRequestMirror looks for at the mirror: path and query as the request had them.
    #[test]
    fn http_route_request_mirror() {
        let request =
            http::Request::builder().method("POST").uri("/mirror?id=1").header("host", "a.test:8080");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let copy = mirror(1, 1).copy(&parts).unwrap();
        assert_eq!((copy.method.as_str(), copy.uri.to_string().as_str()), ("POST", "/mirror?id=1"));
        assert_eq!(copy.headers["host"], "a.test:8080");

        let upgrade = http::Request::builder().uri("/ws").header("upgrade", "websocket").body(()).unwrap();
        assert!(mirror(1, 1).copy(&upgrade.into_parts().0).is_none());
    }
}
