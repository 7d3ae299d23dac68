//! The addresses of backends that are known by name (`externalName`): asked for at once, and again at the end of
//! their time to live, on a runtime of the control side. It does not know what becomes of the answers.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RecordType;
use tidegate_plan::{BackendId, Hostname};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// An answer counts for this long at least and at most, whatever its time to live.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
/// The pause after failures doubles up to this.
const LONGEST_AFTER_FAILURE: Duration = Duration::from_secs(32);

/// The addresses that a backend's name has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) backend: BackendId,
    pub(crate) hostname: Hostname,
    /// In order, each once, never none.
    pub(crate) addresses: Vec<IpAddr>,
}

/// The backends with names. Dropping it stops all questions.
pub(crate) struct Names {
    runtime: Handle,
    resolver: Resolver,
    found: Arc<dyn Fn(Answer) + Send + Sync>,
    followed: HashMap<BackendId, Followed>,
}

struct Followed {
    hostname: Hostname,
    task: AbortHandle,
}

impl Names {
    /// `found` hears of an answer when it differs from the one before. An answer that was under way when its backend
    /// was forgotten may still come.
    pub(crate) fn new(
        runtime: Handle,
        resolver: Resolver,
        found: impl Fn(Answer) + Send + Sync + 'static,
    ) -> Self {
        Self { runtime, resolver, found: Arc::new(found), followed: HashMap::new() }
    }

    /// Asks for the name until the backend is forgotten or has another; nothing new if it has it already.
    pub(crate) fn follow(&mut self, backend: &BackendId, hostname: &Hostname) {
        if self.followed.get(backend).is_some_and(|followed| followed.hostname == *hostname) {
            return;
        }
        let question = Question {
            resolver: self.resolver.clone(),
            found: Arc::clone(&self.found),
            backend: backend.clone(),
            hostname: hostname.clone(),
        };
        let task = self.runtime.spawn(question.ask_for_ever()).abort_handle();
        let followed = Followed { hostname: hostname.clone(), task };
        self.followed.insert(backend.clone(), followed);
    }

    pub(crate) fn forget(&mut self, backend: &BackendId) {
        self.followed.remove(backend);
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.followed.values().map(|followed| &followed.hostname)).finish()
    }
}

/// Who is asked. It remembers nothing: whoever asks again wants to know anew.
#[derive(Clone)]
pub(crate) struct Resolver(Arc<TokioResolver>);

impl Resolver {
    /// As `/etc/resolv.conf` and `/etc/hosts` say now.
    pub(crate) fn system() -> Result<Self, NetError> {
        let mut builder = TokioResolver::builder_tokio()?;
        builder.options_mut().cache_size = 0;
        Ok(Self(Arc::new(builder.build()?)))
    }

    /// One server and no file.
    pub(crate) fn at(server: SocketAddr) -> Result<Self, NetError> {
        let mut name_server = NameServerConfig::udp_and_tcp(server.ip());
        name_server.connections.iter_mut().for_each(|connection| connection.port = server.port());
        let config = ResolverConfig::from_name_servers(vec![name_server]);
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let options = builder.options_mut();
        options.cache_size = 0;
        options.use_hosts_file = hickory_resolver::config::ResolveHosts::Never;
        Ok(Self(Arc::new(builder.build()?)))
    }

    /// The addresses of one family, none if there are none, and until when they count.
    async fn addresses(&self, name: &str, family: RecordType) -> Result<(Vec<IpAddr>, Instant), NetError> {
        match self.0.lookup(name, family).await {
            Ok(lookup) => {
                let addresses = lookup.answers().iter().filter_map(|record| record.data.ip_addr());
                Ok((addresses.collect(), lookup.valid_until()))
            }
            Err(none) if none.is_no_records_found() => Ok((Vec::new(), Instant::now())),
            Err(error) => Err(error),
        }
    }
}

struct Question {
    resolver: Resolver,
    found: Arc<dyn Fn(Answer) + Send + Sync>,
    backend: BackendId,
    hostname: Hostname,
}

impl Question {
    async fn ask_for_ever(self) {
        // With a dot at its end it is the whole name: the domains that a Pod searches are not for it.
        let name = format!("{}.", self.hostname.as_str().trim_end_matches('.'));
        let mut known = Known::default();
        loop {
            let (v4, v6) = tokio::join!(
                self.resolver.addresses(&name, RecordType::A),
                self.resolver.addresses(&name, RecordType::AAAA)
            );
            let (changed, pause) = known.take(v4.ok(), v6.ok(), Instant::now());
            if changed {
                let addresses = known.addresses();
                let (backend, hostname) = (self.backend.clone(), self.hostname.clone());
                (self.found)(Answer { backend, hostname, addresses });
            }
            tokio::time::sleep(pause).await;
        }
    }
}

/// The last good answer, by family: a server that cannot say one thing may well know the other.
#[derive(Debug, Default)]
struct Known {
    v4: Vec<IpAddr>,
    v6: Vec<IpAddr>,
    failures: u32,
}

impl Known {
    /// Takes what was said for each family, or that nothing was; tells whether the addresses changed by it, and when
    /// to ask again. A name without any address is a failure: the last address is not given up for that.
    fn take(
        &mut self,
        v4: Option<(Vec<IpAddr>, Instant)>,
        v6: Option<(Vec<IpAddr>, Instant)>,
        now: Instant,
    ) -> (bool, Duration) {
        let good = [&v4, &v6].into_iter().flatten().filter(|(addresses, _)| !addresses.is_empty());
        let Some(until) = good.map(|(_, until)| *until).min() else {
            let pause = SHORTEST.saturating_mul(1 << self.failures.min(16)).min(LONGEST_AFTER_FAILURE);
            self.failures += 1;
            return (false, pause);
        };
        self.failures = 0;
        let mut changed = false;
        for (known, said) in [(&mut self.v4, v4), (&mut self.v6, v6)] {
            let Some((mut addresses, _)) = said else { continue };
            addresses.sort();
            addresses.dedup();
            changed |= *known != addresses;
            *known = addresses;
        }
        (changed, until.saturating_duration_since(now).clamp(SHORTEST, LONGEST))
    }

    fn addresses(&self) -> Vec<IpAddr> {
        [&self.v4[..], &self.v6].concat()
    }
}

#[cfg(test)]
#[path = "dns_tests.rs"]
mod tests;
