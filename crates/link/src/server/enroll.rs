//! From a token to a certificate.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tonic::Status;

use crate::authority::{AuthorityError, Trust};
use crate::server::registry::Registry;
use crate::server::tokens::{Denied, Tokens};
use crate::wire::proto::{EnrollRequest, EnrollResponse};
use crate::{Limits, ProxyIdentity};

const TOKEN: usize = 16 * 1024;
const REQUEST: usize = 8 * 1024;
/// What whoever reviews a token has for it.
const REVIEW: Duration = Duration::from_secs(10);

pub(crate) async fn enroll(
    request: EnrollRequest,
    tokens: &impl Tokens,
    trust: &Trust,
    registry: &Registry,
    limits: &Limits,
) -> Result<EnrollResponse, Status> {
    if request.token.is_empty() || request.token.len() > TOKEN || request.request.len() > REQUEST {
        return Err(Status::invalid_argument("a token and a certificate request are asked for"));
    }
    let review = tokio::time::timeout(REVIEW, tokens.review(&request.token)).await;
    let identity = match review {
        Ok(Ok(identity)) => identity,
        Ok(Err(Denied::Refused(why))) => return Err(Status::permission_denied(why)),
        Ok(Err(Denied::Unavailable(why))) => return Err(Status::unavailable(why)),
        Err(_) => return Err(Status::unavailable("nobody has looked at the token in time")),
    };
    if !request.name.is_empty() && request.name != identity.pod {
        let ProxyIdentity { pod, .. } = &identity;
        return Err(Status::permission_denied(format!(
            "the token is that of {pod}, not of {}",
            request.name
        )));
    }
    let signed = trust.signing().proxy(&identity, &request.request, limits.proxy_certificate);
    let (certificate, not_after) = signed.map_err(|error| match error {
        AuthorityError::Request(_) | AuthorityError::Identity(_) => {
            Status::invalid_argument(error.to_string())
        }
        other => Status::internal(other.to_string()),
    })?;
    registry.extend(&identity, not_after);
    let lifetime = not_after.duration_since(SystemTime::now()).unwrap_or_default();
    Ok(EnrollResponse {
        chain: vec![certificate.to_vec()],
        authorities: trust.certificates().map(|authority| authority.to_vec()).collect(),
        lifetime: lifetime.as_secs(),
    })
}

/// So many in a second, and more at once after a quiet time.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: f64,
    most: f64,
    state: Mutex<(f64, Instant)>,
}

impl Rate {
    pub(crate) fn new(per_second: u32, most: u32) -> Self {
        let most = f64::from(most);
        Self { per_second: f64::from(per_second), most, state: Mutex::new((most, Instant::now())) }
    }

    pub(crate) fn take(&self) -> bool {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, since) = *state;
        let left =
            (left + now.saturating_duration_since(since).as_secs_f64() * self.per_second).min(self.most);
        let taken = left >= 1.0;
        *state = (if taken { left - 1.0 } else { left }, now);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_in_a_second() {
        let rate = Rate::new(10, 3);
        let start = Instant::now();
        let taken = |at: Duration| (0..10).filter(|_| rate.take_at(start + at)).count();
        assert_eq!(taken(Duration::ZERO), 3);
        assert_eq!(taken(Duration::from_millis(210)), 2);
        assert_eq!(taken(Duration::from_secs(60)), 3);
    }
}
