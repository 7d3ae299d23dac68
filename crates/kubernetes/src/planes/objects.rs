//! The objects that make up the data plane of a Gateway, as they shall be. A pure function: the same Gateway gives the
//! same objects, byte for byte, in every controller of this version.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use aws_lc_rs::digest;
use serde_json::{Map, Value as Json, json};
use tidegate_api::parameters::{GatewayParametersSpec, LogForm, Toleration, Workload, WorkloadKind};
use tidegate_plan::{ObjectName, Transport};
use tidegate_translate::Infrastructure;

use super::exposure::exposures;
use super::kind::{Managed, ManagedKind};
use super::names;
use crate::settings::{HEALTH_PORT, Settings};
use crate::tokens::AUDIENCE;

/// Says that an object belongs to a data plane; with the Gateway's name, it is what selects its Pods.
pub(crate) const ROLE_LABEL: &str = "gateway.tidegate.io/role";
pub(crate) const ROLE: &str = "data-plane";
pub(crate) const NAME_LABEL: &str = "gateway.networking.k8s.io/gateway-name";

/// What an object was applied as, by its hash.
const WRITTEN_ANNOTATION: &str = "gateway.tidegate.io/written";

/// The user that the image has, and its group, which may read the token.
const USER: u32 = 65532;
/// Readiness off, then this long until connections are no longer accepted.
const TERMINATION_DELAY: u64 = 5;
const DRAIN: u64 = 30;
/// What ending takes besides delay and drain.
const SLACK: u64 = 10;
const FOLDER: &str = "/var/run/tidegate";
/// Where the last plan is kept, if it is.
const PLAN_FOLDER: &str = "/var/lib/tidegate";

/// What a data plane is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plane<'a> {
    pub(crate) gateway: &'a ObjectName,
    pub(crate) asked: &'a Infrastructure,
    /// Those of all its listeners.
    pub(crate) ports: &'a BTreeSet<(u16, Transport)>,
    pub(crate) settings: &'a Settings,
    /// Where the controller is.
    pub(crate) link: SocketAddr,
    /// The CAs by which a data plane knows the controller, in PEM.
    pub(crate) authorities: &'a str,
}

impl Plane<'_> {
    /// All objects of the data plane.
    pub(crate) fn objects(&self) -> Vec<Managed> {
        let mut objects = vec![self.service_account(), self.config_map(), self.workload()];
        // A Service without ports is none.
        if !self.ports.is_empty() {
            let exposures = exposures(self.gateway, self.asked);
            objects.extend(exposures.iter().map(|exposure| self.service(exposure)));
        }
        if !self.is_daemon_set() {
            objects.push(self.disruption_budget());
            objects.extend(self.autoscaler());
        }
        objects.iter_mut().for_each(sign);
        objects
    }

    fn name(&self) -> String {
        names::plane(&self.gateway.name)
    }

    pub(super) fn parameters(&self) -> &GatewayParametersSpec {
        &self.asked.parameters
    }

    fn workload_parameters(&self) -> Option<&Workload> {
        self.parameters().workload.as_ref()
    }

    fn is_daemon_set(&self) -> bool {
        self.workload_parameters().and_then(|workload| workload.kind) == Some(WorkloadKind::DaemonSet)
    }

    fn is_in_host_network(&self) -> bool {
        self.workload_parameters().and_then(|workload| workload.host_network) == Some(true)
    }

    fn keeps_plan(&self) -> bool {
        self.workload_parameters().and_then(|workload| workload.keep_plan) == Some(true)
    }

    /// The names of the Secrets that the image is pulled with.
    fn pull_secrets(&self) -> Vec<&str> {
        match self.workload_parameters().and_then(|workload| workload.image_pull_secrets.as_ref()) {
            Some(asked) => asked.iter().map(|secret| secret.name.as_str()).collect(),
            None => self.settings.image_pull_secrets.iter().map(String::as_str).collect(),
        }
    }

    pub(super) fn managed(&self, kind: ManagedKind, name: String, fields: Json) -> Managed {
        let mut body = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.as_str(),
            "metadata": {
                "name": name,
                "namespace": &*self.gateway.namespace,
                "labels": self.labels(),
                "annotations": self.asked.annotations,
                "ownerReferences": [{
                    "apiVersion": "gateway.networking.k8s.io/v1",
                    "kind": "Gateway",
                    "name": &*self.gateway.name,
                    "uid": self.asked.uid,
                    "controller": true,
                    "blockOwnerDeletion": false,
                }],
            },
        });
        if let (Some(body), Json::Object(fields)) = (body.as_object_mut(), fields) {
            body.extend(fields);
        }
        Managed { kind, name: ObjectName::new(self.gateway.namespace.clone(), name), body }
    }

    fn labels(&self) -> BTreeMap<&str, &str> {
        let asked = self.asked.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let ours = [("app.kubernetes.io/managed-by", "tidegate"), (ROLE_LABEL, ROLE)];
        asked.chain(ours).collect()
    }

    pub(super) fn selector(&self) -> BTreeMap<&str, &str> {
        self.labels().into_iter().filter(|(key, _)| [NAME_LABEL, ROLE_LABEL].contains(key)).collect()
    }

    fn service_account(&self) -> Managed {
        let fields = json!({"automountServiceAccountToken": false});
        self.managed(ManagedKind::ServiceAccount, self.name(), fields)
    }

    fn config_map(&self) -> Managed {
        self.managed(ManagedKind::ConfigMap, self.name(), json!({"data": {"ca.crt": self.authorities}}))
    }

    fn workload(&self) -> Managed {
        let template = json!({
            "metadata": {"labels": self.labels(), "annotations": self.asked.annotations},
            "spec": self.pod(),
        });
        let mut spec = json!({"selector": {"matchLabels": self.selector()}, "template": template});
        // In the host's network the old Pod must go before a new one can have its ports.
        let rolling = if self.is_in_host_network() {
            json!({"maxSurge": 0, "maxUnavailable": 1})
        } else {
            json!({"maxSurge": 1, "maxUnavailable": 0})
        };
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        spec["revisionHistoryLimit"] = 3.into();
        if self.is_daemon_set() {
            spec["updateStrategy"] = strategy;
            return self.managed(ManagedKind::DaemonSet, self.name(), json!({ "spec": spec }));
        }
        spec["strategy"] = strategy;
        // Where nobody says how many, the number is left to whoever sets it: the API server, a person, an autoscaler.
        if let Some(replicas) = self.workload_parameters().and_then(|workload| workload.replicas) {
            spec["replicas"] = replicas.get().into();
        }
        self.managed(ManagedKind::Deployment, self.name(), json!({ "spec": spec }))
    }

    fn pod(&self) -> Json {
        let workload = self.workload_parameters();
        let (delay, drain) = self.ending();
        let mut pod = json!({
            "serviceAccountName": self.name(),
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": delay + drain + SLACK,
            "securityContext": self.pod_security(),
            "containers": [self.container(delay, drain)],
            "volumes": [{"name": "link", "projected": {"defaultMode": 288, "sources": [
                {"serviceAccountToken": {"audience": AUDIENCE, "expirationSeconds": 3600, "path": "token"}},
                {"configMap": {"name": self.name(), "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ]}}],
        });
        if self.keeps_plan() {
            // As long as the Pod, and through every start of its container.
            let volume = json!({"name": "plan", "emptyDir": {}});
            pod["volumes"].as_array_mut().into_iter().for_each(|volumes| volumes.push(volume.clone()));
        }
        let secrets = self.pull_secrets();
        if !secrets.is_empty() {
            pod["imagePullSecrets"] = secrets.iter().map(|name| json!({"name": name})).collect();
        }
        if self.is_in_host_network() {
            pod["hostNetwork"] = true.into();
            pod["dnsPolicy"] = "ClusterFirstWithHostNet".into();
        }
        if !self.is_daemon_set() {
            pod["topologySpreadConstraints"] = self.spread();
        }
        let Some(workload) = workload else { return pod };
        if !workload.node_selector.is_empty() {
            let selector =
                workload.node_selector.iter().map(|(key, value)| (key.clone(), value.as_str().into()));
            pod["nodeSelector"] = Json::Object(selector.collect());
        }
        if let Some(tolerations) = workload.tolerations.as_ref().filter(|list| !list.is_empty()) {
            pod["tolerations"] = tolerations.iter().map(toleration).collect();
        }
        if let Some(affinity) = &workload.affinity {
            pod["affinity"] = affinity.0.clone();
        }
        if let Some(class) = &workload.priority_class_name {
            pod["priorityClassName"] = class.as_str().into();
        }
        pod
    }

    /// Seconds from readiness off to the end of accepting, and from there to the end of connections.
    fn ending(&self) -> (u64, u64) {
        let delay = self.workload_parameters().and_then(|workload| workload.termination_delay);
        let drain = self.parameters().bounds.as_ref().and_then(|bounds| bounds.drain);
        let seconds = |time: Option<tidegate_api::scalar::Duration>, default| {
            time.map_or(default, |time| time.0.as_secs() + u64::from(time.0.subsec_nanos() > 0))
        };
        (seconds(delay, TERMINATION_DELAY), seconds(drain, DRAIN))
    }

    fn pod_security(&self) -> Json {
        let mut security = json!({"seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": USER});
        if self.is_in_host_network() {
            // The host's low ports cannot be opened to everybody: root without any other capability may bind them.
            security["runAsUser"] = 0.into();
            security["runAsGroup"] = USER.into();
        } else {
            security["runAsNonRoot"] = true.into();
            security["runAsUser"] = USER.into();
            security["runAsGroup"] = USER.into();
            security["sysctls"] = json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]);
        }
        security
    }

    fn container(&self, delay: u64, drain: u64) -> Json {
        let mut capabilities = json!({"drop": ["ALL"]});
        if self.is_in_host_network() {
            capabilities["add"] = json!(["NET_BIND_SERVICE"]);
        }
        let mut arguments = vec![
            "proxy".to_owned(),
            format!("--controller={}", self.link),
            format!("--ca={FOLDER}/ca.crt"),
            format!("--token={FOLDER}/token"),
            "--name=$(POD_NAME)".to_owned(),
            format!("--pre-stop-delay={delay}s"),
            format!("--drain={drain}s"),
        ];
        if self.keeps_plan() {
            arguments.push(format!("--cache={PLAN_FOLDER}"));
        }
        let log = self.parameters().log.as_ref();
        arguments.push(match log.and_then(|log| log.format) {
            None | Some(LogForm::Json) => "--log-format=json".to_owned(),
            Some(LogForm::Text) => "--log-format=text".to_owned(),
        });
        if log.and_then(|log| log.access) == Some(false) {
            arguments.push("--access-log=off".to_owned());
        }
        if let Some(http) = &self.parameters().http {
            let trusted = http.trusted_proxies.iter().flatten();
            arguments.extend(trusted.map(|network| format!("--trust-proxy={network}")));
            if http.error_reasons == Some(true) {
                arguments.push("--error-reasons".to_owned());
            }
        }
        let probe = |path: &str, period: u32, failures: u32| {
            json!({
                "httpGet": {"path": path, "port": "health", "scheme": "HTTP"},
                "periodSeconds": period, "timeoutSeconds": 2, "failureThreshold": failures,
            })
        };
        let mut container = json!({
            "name": "proxy",
            "image": self.settings.image,
            "args": arguments,
            "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "ports": [{"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
            "readinessProbe": probe("/readyz", 1, 2),
            "livenessProbe": probe("/healthz", 10, 3),
            "resources": self.resources(),
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": capabilities,
            },
            "volumeMounts": [{"name": "link", "mountPath": FOLDER, "readOnly": true}],
        });
        if self.keeps_plan() {
            let mount = json!({"name": "plan", "mountPath": PLAN_FOLDER});
            container["volumeMounts"]
                .as_array_mut()
                .into_iter()
                .for_each(|mounts| mounts.push(mount.clone()));
        }
        if let Some(policy) = &self.settings.image_pull_policy {
            container["imagePullPolicy"] = policy.as_str().into();
        }
        container
    }

    fn resources(&self) -> Json {
        let written = self.workload_parameters().and_then(|workload| workload.resources.as_ref());
        let mut requests = Map::new();
        requests.insert("cpu".to_owned(), "10m".into());
        requests.insert("memory".to_owned(), "32Mi".into());
        let mut limits = Map::new();
        if let Some(written) = written {
            let entries = |map: &BTreeMap<String, tidegate_api::parameters::Quantity>| {
                map.iter().map(|(key, amount)| (key.clone(), Json::from(amount.as_str()))).collect::<Vec<_>>()
            };
            requests.extend(entries(&written.requests));
            limits.extend(entries(&written.limits));
        }
        if limits.is_empty() {
            json!({ "requests": requests })
        } else {
            json!({ "requests": requests, "limits": limits })
        }
    }

    /// Over nodes and zones as evenly as it can be had; never at the price of a Pod that does not run.
    fn spread(&self) -> Json {
        let constraint = |key: &str| {
            json!({
                "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": self.selector()},
            })
        };
        json!([constraint("topology.kubernetes.io/zone"), constraint("kubernetes.io/hostname")])
    }

    fn disruption_budget(&self) -> Managed {
        let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": self.selector()}});
        self.managed(ManagedKind::PodDisruptionBudget, self.name(), json!({ "spec": spec }))
    }

    fn autoscaler(&self) -> Option<Managed> {
        let asked = self.parameters().autoscaling.as_ref()?;
        let spec = json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.name()},
            "minReplicas": asked.min_replicas.get(),
            "maxReplicas": asked.max_replicas.get(),
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": asked.cpu_utilization.get()},
            }}],
        });
        Some(self.managed(ManagedKind::HorizontalPodAutoscaler, self.name(), json!({ "spec": spec })))
    }
}

/// Puts a hash of all that is written beside it. Of what is no longer written nothing else would tell: fields that
/// others wrote look the same.
fn sign(managed: &mut Managed) {
    let hash = digest::digest(&digest::SHA256, managed.body.to_string().as_bytes());
    let hash: String = hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    managed.body["metadata"]["annotations"][WRITTEN_ANNOTATION] = hash.into();
}

fn toleration(toleration: &Toleration) -> Json {
    let mut written = json!({"operator": toleration.operator.as_str()});
    if let Some(key) = &toleration.key {
        written["key"] = key.as_str().into();
    }
    if let Some(value) = &toleration.value {
        written["value"] = value.as_str().into();
    }
    if let Some(effect) = toleration.effect {
        written["effect"] = effect.as_str().into();
    }
    if let Some(seconds) = toleration.toleration_seconds {
        written["tolerationSeconds"] = seconds.into();
    }
    written
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
