//! Which CRDs are installed, in which versions they are served, and what they say of themselves.
//!
//! CRDs are many and large: their metadata is watched, and those of ours are read when they change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use tidegate_api::Kind;
use tidegate_translate::{BundleVersion, Channel};
use tokio::sync::watch;

use crate::kinds;
use crate::log::Log;

const BUNDLE_VERSION: &str = "gateway.networking.k8s.io/bundle-version";
const CHANNEL: &str = "gateway.networking.k8s.io/channel";

/// How often kinds are looked for that no CRD brings, and those that could not be read.
const ASK_AGAIN: Duration = Duration::from_secs(60);
/// How soon a CRD is read again that is not served yet.
const NOT_YET: Duration = Duration::from_millis(500);

/// What the API server has of the kinds that it may be without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crds {
    crds: BTreeMap<Kind, Crd>,
    /// The version of ClusterTrustBundles, where there are any.
    trust_bundles: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crd {
    /// Newest first, as far as we know them.
    served: Vec<&'static str>,
    /// Served in versions, none of which is known here.
    only_unknown: Vec<String>,
    established: bool,
    bundle_version: Option<String>,
    channel: Option<String>,
}

impl Crds {
    /// The kinds to follow and the version of each.
    pub(crate) fn served(&self) -> BTreeMap<Kind, &'static str> {
        let custom = self.crds.iter().filter(|(_, crd)| crd.established);
        let custom = custom.filter_map(|(kind, crd)| Some((*kind, *crd.served.first()?)));
        let core =
            Kind::ALL.iter().filter(|kind| !kinds::is_custom(**kind) && **kind != Kind::ClusterTrustBundle);
        let core = core.map(|kind| (*kind, kind.versions()[0]));
        let bundles = self.trust_bundles.map(|version| (Kind::ClusterTrustBundle, version));
        custom.chain(core).chain(bundles).collect()
    }

    pub(crate) fn missing(&self) -> impl Iterator<Item = Kind> {
        Kind::ALL.iter().copied().filter(|kind| kinds::is_custom(*kind) && !self.crds.contains_key(kind))
    }

    /// Kinds whose versions are all unknown here, with these.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = (Kind, &[String])> {
        let unknown = self.crds.iter().filter(|(_, crd)| crd.established && crd.served.is_empty());
        unknown.map(|(kind, crd)| (*kind, &crd.only_unknown[..]))
    }

    pub(crate) fn bundle(&self) -> Vec<BundleVersion> {
        let ours = self.crds.iter().filter(|(kind, _)| kind.group().starts_with("gateway.networking."));
        ours.map(|(kind, crd)| BundleVersion { crd: kinds::crd(*kind), version: crd.bundle_version.clone() })
            .collect()
    }

    /// Features of the experimental channel may be claimed where its Gateways and HTTPRoutes are.
    pub(crate) fn channel(&self) -> Channel {
        let experimental =
            |kind| self.crds.get(&kind).is_some_and(|crd| crd.channel.as_deref() == Some("experimental"));
        if experimental(Kind::Gateway) && experimental(Kind::HttpRoute) {
            Channel::Experimental
        } else {
            Channel::Standard
        }
    }
}

impl Crd {
    fn of(kind: Kind, crd: &CustomResourceDefinition) -> Self {
        let served: Vec<&str> =
            crd.spec.versions.iter().filter(|version| version.served).map(|version| &*version.name).collect();
        let known = kind.versions().iter().copied().filter(|version| served.contains(version));
        let unknown = served.iter().filter(|version| !kind.versions().contains(version));
        let conditions = crd.status.iter().flat_map(|status| &status.conditions).flatten();
        let annotation = |name: &str| crd.annotations().get(name).cloned();
        Self {
            served: known.collect(),
            only_unknown: unknown.map(|version| (*version).to_owned()).collect(),
            established: conditions
                .into_iter()
                .any(|condition| condition.type_ == "Established" && condition.status == "True"),
            bundle_version: annotation(BUNDLE_VERSION),
            channel: annotation(CHANNEL),
        }
    }
}

/// Follows CRDs and tells of every change, the first time when all have been looked at.
pub(crate) async fn follow(client: Client, told: watch::Sender<Option<Crds>>, log: Log) {
    let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client.clone());
    let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()).default_backoff());
    let mut follower =
        Follower { client, log, crds: Crds::default(), to_read: BTreeSet::new(), listed: None };
    let mut ask_again = tokio::time::interval(ASK_AGAIN);
    let mut is_complete = false;
    loop {
        let not_yet = tokio::time::sleep(NOT_YET);
        tokio::select! {
            Some(event) = events.next() => is_complete |= follower.take(event),
            _ = ask_again.tick() => follower.look_for_trust_bundles().await,
            () = not_yet, if !follower.to_read.is_empty() => {}
        }
        follower.read().await;
        if is_complete && told.borrow().as_ref() != Some(&follower.crds) {
            told.send_replace(Some(follower.crds.clone()));
        }
    }
}

struct Follower {
    client: Client,
    log: Log,
    crds: Crds,
    to_read: BTreeSet<Kind>,
    /// Those that a list has named so far.
    listed: Option<BTreeSet<Kind>>,
}

type MetadataEvent = Event<PartialObjectMeta<CustomResourceDefinition>>;

impl Follower {
    /// Takes an event in; true where a list is complete with it.
    fn take(&mut self, event: Result<MetadataEvent, watcher::Error>) -> bool {
        let kind = |name: &str| {
            Kind::ALL.iter().copied().find(|kind| kinds::is_custom(*kind) && kinds::crd(*kind) == name)
        };
        match event {
            Ok(Event::Init) => self.listed = Some(BTreeSet::new()),
            Ok(Event::InitApply(crd)) => {
                if let Some(kind) = kind(&crd.name_any()) {
                    self.to_read.insert(kind);
                    self.listed.get_or_insert_default().insert(kind);
                }
            }
            Ok(Event::InitDone) => {
                let listed = self.listed.take().unwrap_or_default();
                self.crds.crds.retain(|kind, _| listed.contains(kind));
                return true;
            }
            Ok(Event::Apply(crd)) => self.to_read.extend(kind(&crd.name_any())),
            Ok(Event::Delete(crd)) => {
                if let Some(kind) = kind(&crd.name_any()) {
                    self.crds.crds.remove(&kind);
                    self.to_read.remove(&kind);
                }
            }
            Err(error) => self.log.warning("watch-failed", format_args!("CRDs cannot be watched: {error}")),
        }
        false
    }

    async fn read(&mut self) {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for kind in std::mem::take(&mut self.to_read) {
            match api.get_opt(&kinds::crd(kind)).await {
                Ok(Some(found)) => {
                    let crd = Crd::of(kind, &found);
                    if !crd.established {
                        self.to_read.insert(kind);
                    }
                    self.crds.crds.insert(kind, crd);
                }
                Ok(None) => {
                    self.crds.crds.remove(&kind);
                }
                Err(error) => {
                    self.log
                        .warning("read-failed", format_args!("the CRD of {kind} cannot be read: {error}"));
                    self.to_read.insert(kind);
                }
            }
        }
    }

    async fn look_for_trust_bundles(&mut self) {
        // Somebody who cannot be asked has not said that there are none.
        if let Ok(version) = served(&self.client, Kind::ClusterTrustBundle).await {
            self.crds.trust_bundles = version;
        }
    }
}

/// The newest version of a kind that is known here and served there, as everybody may find out.
pub(crate) async fn served(client: &Client, kind: Kind) -> Result<Option<&'static str>, kube::Error> {
    for version in kind.versions() {
        match client.list_api_group_resources(&format!("{}/{version}", kind.group())).await {
            Ok(list) if list.resources.iter().any(|found| found.kind == kind.as_str()) => {
                return Ok(Some(version));
            }
            Ok(_) => {}
            Err(error) if crate::status::code(&error) == Some(404) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd(versions: &[(&str, bool)], established: &str, channel: &str) -> CustomResourceDefinition {
        let versions: Vec<_> = versions
            .iter()
            .map(|(name, served)| json!({"name": name, "served": served, "storage": false}))
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "x", "annotations": {BUNDLE_VERSION: "v1.7.0", CHANNEL: channel}},
            "spec": {
                "group": "x", "scope": "Namespaced", "names": {"kind": "X", "plural": "x"}, "versions": versions,
            },
            "status": {
                "conditions": [{"type": "Established", "status": established, "reason": "", "message": "", "lastTransitionTime": null}],
                "acceptedNames": {"kind": "X", "plural": "x"}, "storedVersions": [],
            },
        }))
        .expect("a CRD")
    }

    fn crds(all: &[(Kind, CustomResourceDefinition)]) -> Crds {
        let crds = all.iter().map(|(kind, crd)| (*kind, Crd::of(*kind, crd))).collect();
        Crds { crds, trust_bundles: None }
    }

    #[test]
    fn the_newest_version_that_is_known_and_served() {
        let found = crds(&[
            (
                Kind::TlsRoute,
                crd(&[("v1alpha2", true), ("v1alpha3", true), ("v1", false)], "True", "standard"),
            ),
            (Kind::HttpRoute, crd(&[("v2", true), ("v1", true)], "True", "standard")),
            (Kind::TcpRoute, crd(&[("v2", true)], "True", "standard")),
            (Kind::UdpRoute, crd(&[("v1", true)], "False", "standard")),
        ]);
        let served = found.served();
        assert_eq!(served.get(&Kind::TlsRoute), Some(&"v1alpha3"));
        assert_eq!(served.get(&Kind::HttpRoute), Some(&"v1"));
        assert_eq!(served.get(&Kind::TcpRoute), None);
        assert_eq!(served.get(&Kind::UdpRoute), None, "not established");
        assert_eq!(served.get(&Kind::Service), Some(&"v1"), "without a CRD");
        assert_eq!(served.get(&Kind::ClusterTrustBundle), None);
        let unknown: Vec<_> = found.unknown().collect();
        assert_eq!(unknown, [(Kind::TcpRoute, &["v2".to_owned()][..])]);
        assert!(found.missing().any(|kind| kind == Kind::Gateway));
    }

    #[test]
    fn the_channel_is_that_of_gateways_and_http_routes() {
        let both = |gateway, route| {
            crds(&[
                (Kind::Gateway, crd(&[("v1", true)], "True", gateway)),
                (Kind::HttpRoute, crd(&[("v1", true)], "True", route)),
            ])
            .channel()
        };
        assert_eq!(both("experimental", "experimental"), Channel::Experimental);
        assert_eq!(both("experimental", "standard"), Channel::Standard);
        assert_eq!(both("standard", "standard"), Channel::Standard);
        assert_eq!(Crds::default().channel(), Channel::Standard);
    }

    #[test]
    fn every_gateway_api_crd_says_its_version() {
        let found = crds(&[(Kind::Gateway, crd(&[("v1", true)], "True", "standard"))]);
        let bundle = found.bundle();
        assert_eq!(bundle.len(), 1);
        assert_eq!(bundle[0].crd, "gateways.gateway.networking.k8s.io");
        assert_eq!(bundle[0].version.as_deref(), Some("v1.7.0"));
    }
}
