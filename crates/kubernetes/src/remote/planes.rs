//! What the data planes of a Gateway tell on their admin address, which is on loopback: through the API server, to
//! whoever may forward ports of their Pods.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use tidegate_plan::ObjectName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::RemoteError;
use crate::planes::{ROLE, ROLE_LABEL, plane_name};
use crate::settings::ADMIN_PORT;

const TIME: Duration = Duration::from_secs(30);
/// No answer is larger.
const MOST: u64 = 256 * 1024 * 1024;

/// What one data plane says, as it came: an answer of HTTP/1.1.
#[derive(Debug)]
pub struct Answer {
    pub pod: String,
    pub answer: Result<Vec<u8>, String>,
}

/// Asks all data planes of a Gateway that run.
pub async fn ask(client: &Client, gateway: &ObjectName, path: &str) -> Result<Vec<Answer>, RemoteError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &gateway.namespace);
    let labelled = ListParams::default().labels(&format!("{ROLE_LABEL}={ROLE}"));
    let found = pods.list(&labelled).await;
    let found = found.map_err(|error| RemoteError::NoPods(gateway.namespace.to_string(), error))?;
    // Labels have names that may be shortened; the account's is the one that the controller goes by, too.
    let account = plane_name(&gateway.name);
    let is_running = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let owner = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
        phase == Some("Running") && owner == Some(&account)
    };
    let mut names: Vec<String> = found.iter().filter(is_running).map(ResourceExt::name_any).collect();
    names.sort();
    if names.is_empty() {
        return Err(RemoteError::NoDataPlane(gateway.clone()));
    }
    let asked = names.into_iter().map(async |pod| {
        let answer = tokio::time::timeout(TIME, through(&pods, &pod, path)).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {TIME:?}")));
        Answer { pod, answer }
    });
    Ok(join_all(asked).await)
}

async fn through(pods: &Api<Pod>, pod: &str, path: &str) -> Result<Vec<u8>, String> {
    let mut forwarded = pods
        .portforward(pod, &[ADMIN_PORT])
        .await
        .map_err(|error| format!("its port cannot be forwarded: {error}"))?;
    let Some(mut stream) = forwarded.take_stream(ADMIN_PORT) else {
        return Err("its port was not forwarded".to_owned());
    };
    let broke_off = |error: std::io::Error| format!("the connection broke off: {error}");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {pod}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(broke_off)?;
    let mut answer = Vec::new();
    (&mut stream).take(MOST).read_to_end(&mut answer).await.map_err(broke_off)?;
    drop(stream);
    forwarded.abort();
    Ok(answer)
}
