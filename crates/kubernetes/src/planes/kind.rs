//! The kinds of objects that data planes are made of.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use serde_json::Value as Json;
use tidegate_plan::ObjectName;

/// An object that we make and keep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Managed {
    pub(crate) kind: ManagedKind,
    pub(crate) name: ObjectName,
    /// All that we say about it, and nothing else.
    pub(crate) body: Json,
}

pub(crate) type ManagedKey = (ManagedKind, ObjectName);

impl Managed {
    pub(crate) fn key(&self) -> ManagedKey {
        (self.kind, self.name.clone())
    }
}

/// In the order in which they are applied: what a Pod needs goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ManagedKind {
    ServiceAccount,
    ConfigMap,
    Deployment,
    DaemonSet,
    Service,
    PodDisruptionBudget,
    HorizontalPodAutoscaler,
}

impl ManagedKind {
    pub(crate) const ALL: [Self; 7] = [
        Self::ServiceAccount,
        Self::ConfigMap,
        Self::Deployment,
        Self::DaemonSet,
        Self::Service,
        Self::PodDisruptionBudget,
        Self::HorizontalPodAutoscaler,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::ServiceAccount => "ServiceAccount",
            Self::ConfigMap => "ConfigMap",
            Self::Deployment => "Deployment",
            Self::DaemonSet => "DaemonSet",
            Self::Service => "Service",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::HorizontalPodAutoscaler => "HorizontalPodAutoscaler",
        }
    }

    const fn group_version(self) -> (&'static str, &'static str) {
        match self {
            Self::ServiceAccount | Self::ConfigMap | Self::Service => ("", "v1"),
            Self::Deployment | Self::DaemonSet => ("apps", "v1"),
            Self::PodDisruptionBudget => ("policy", "v1"),
            Self::HorizontalPodAutoscaler => ("autoscaling", "v2"),
        }
    }

    pub(crate) fn api_version(self) -> String {
        match self.group_version() {
            ("", version) => version.to_owned(),
            (group, version) => format!("{group}/{version}"),
        }
    }

    pub(crate) fn resource(self) -> ApiResource {
        let (group, version) = self.group_version();
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: self.api_version(),
            kind: self.as_str().to_owned(),
            plural: format!("{}s", self.as_str().to_lowercase()),
        }
    }

    pub(crate) fn api(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.resource())
    }
}
