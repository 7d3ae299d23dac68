//! The controllers of a cluster, by the Pods that lead: how each was started is written in its Pod.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use tidegate_plan::ObjectName;

use super::RemoteError;
use crate::lease::LEADER_LABEL;

/// A Pod that leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    pub pod: ObjectName,
    /// As they are written, from the command's name on.
    pub arguments: Vec<String>,
}

/// Those of all controllers.
pub async fn leaders(client: &Client) -> Result<Vec<Leader>, RemoteError> {
    let pods: Api<Pod> = Api::all(client.clone());
    let found = pods.list(&ListParams::default().labels(&format!("{LEADER_LABEL}=true"))).await;
    let found = found.map_err(|error| RemoteError::NoList("Pods".to_owned(), error))?;
    Ok(found.iter().map(leader).collect())
}

fn leader(pod: &Pod) -> Leader {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let written = containers.map(|one| one.command.iter().chain(&one.args).flatten());
    // A Pod may have containers of somebody else beside ours.
    let ours = written.map(|words| words.skip_while(|word| *word != "controller").cloned().collect());
    Leader {
        pod: ObjectName::new(pod.namespace().unwrap_or_default(), pod.name_any()),
        arguments: ours.into_iter().find(|words: &Vec<String>| !words.is_empty()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_those_of_the_controller() {
        let pod = json!({
            "metadata": {"name": "tidegate-0", "namespace": "tidegate-system"},
            "spec": {"containers": [
                {"name": "mesh", "args": ["proxy"]},
                {"name": "controller", "command": ["/tidegate"], "args": ["controller", "--issuer=acme"]},
            ]},
        });
        let leader = leader(&serde_json::from_value(pod).expect("a Pod"));
        assert_eq!(leader.pod, ObjectName::new("tidegate-system", "tidegate-0"));
        assert_eq!(leader.arguments, ["controller", "--issuer=acme"]);
    }
}
