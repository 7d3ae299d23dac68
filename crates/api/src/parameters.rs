//! GatewayParameters: what the data planes of a Gateway, or of all Gateways of a class, shall be like. A kind of our own.

mod certificates;
mod merge;
mod service;
mod serving;
mod workload;

use crate::kind::{Resource, Spec};
use crate::read::{Place, record};

pub use self::certificates::{CertificateIssuer, CertificateParameters, Names, UntilIssued};
pub use self::merge::merged;
pub use self::service::{ExposureType, ExternalTrafficPolicy, ServiceParameters};
pub use self::serving::{BoundParameters, Count, HttpParameters, LogForm, LogLevel, LogParameters};
pub use self::workload::{
    Autoscaling, PullSecret, Quantity, Resources, TaintEffect, Toleration, TolerationOperator, Verbatim,
    Workload, WorkloadKind,
};

pub const PARAMETERS_GROUP: &str = "gateway.tidegate.io";
pub const PARAMETERS_KIND: &str = "GatewayParameters";

pub type GatewayParameters = Resource<GatewayParametersSpec>;

impl Spec for GatewayParametersSpec {
    const KIND: &'static str = PARAMETERS_KIND;
    const GROUP: &'static str = PARAMETERS_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1alpha1"];
}

record! {
    pub struct GatewayParametersSpec {
        pub workload: Option<Workload> = "workload",
        pub autoscaling: Option<Autoscaling> = "autoscaling",
        pub service: Option<ServiceParameters> = "service",
        pub log: Option<LogParameters> = "log",
        pub http: Option<HttpParameters> = "http",
        pub bounds: Option<BoundParameters> = "bounds",
        pub certificates: Option<CertificateParameters> = "certificates",
    }
    rules: [autoscaling_needs_a_deployment("workload.kind"), replicas_are_said_once("workload?")]
}

/// An hour: nobody waits longer for a Pod to end.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(3600);

fn autoscaling_needs_a_deployment(spec: &GatewayParametersSpec, place: &mut Place<'_>) {
    let kind = spec.workload.as_ref().and_then(|workload| workload.kind);
    if spec.autoscaling.is_some() && kind == Some(WorkloadKind::DaemonSet) {
        place.wrong(
            "autoscaling",
            "a DaemonSet has one Pod on each node and cannot be scaled",
            "remove `autoscaling`, or write `workload.kind: Deployment`",
        );
    }
}

fn replicas_are_said_once(spec: &GatewayParametersSpec, place: &mut Place<'_>) {
    let said = spec.workload.as_ref().and_then(|workload| workload.replicas);
    if spec.autoscaling.is_some() && said.is_some() {
        place.wrong(
            "workload.replicas",
            "with `autoscaling` the number of replicas is the autoscaler's",
            "remove `replicas`, and write `autoscaling.minReplicas` if it must not be less",
        );
    }
}

fn is_network(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(address) = address.parse::<std::net::IpAddr>() else { return false };
    let longest = if address.is_ipv4() { 32 } else { 128 };
    !length.starts_with('+') && length.parse::<u8>().is_ok_and(|length| length <= longest)
}
