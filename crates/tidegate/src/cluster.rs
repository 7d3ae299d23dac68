//! What data planes of a cluster are asked, through its API server.

use std::sync::Arc;

use serde::Deserialize;
use tidegate_kubernetes::remote::{self, Answer};
use tidegate_plan::{Endpoints, Fragment, ObjectName, Plan};

use crate::arguments::InCluster;
use crate::ask;
use crate::output::{Error, Terminal};

/// What one data plane said.
pub(crate) struct Said {
    pub(crate) pod: String,
    pub(crate) body: String,
}

/// Runs what asks a cluster.
pub(crate) fn asking<T>(asking: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Start(format!("cannot start: {error}")))?;
    let answer = runtime.block_on(asking);
    runtime.shutdown_background();
    answer
}

/// What all data planes of a Gateway say to a question. One that does not answer is told of; it is an error if none does.
pub(crate) fn ask_all(
    gateway: &str,
    options: &InCluster,
    path: &str,
    terminal: &mut Terminal,
) -> Result<Vec<Said>, Error> {
    let answers = asking(async {
        let (client, namespace) = remote::connect(options.context.as_deref()).await?;
        let namespace = options.namespace.as_deref().unwrap_or(&namespace);
        Ok(remote::ask(&client, &ObjectName::new(namespace, gateway), path).await?)
    })?;
    let mut said = Vec::new();
    let mut silent = Vec::new();
    for Answer { pod, answer } in answers {
        let read = |answer: Vec<u8>| {
            let (_, body) = ask::parse(&String::from_utf8_lossy(&answer))
                .ok_or_else(|| "what answers there is no Tidegate of this version".to_owned())?;
            Ok(body)
        };
        match answer.and_then(read) {
            Ok(body) => said.push(Said { pod, body }),
            Err(why) => silent.push(format!("data plane {pod}: {why}")),
        }
    }
    if said.is_empty() {
        return Err(Error::Start(silent.join("; ")));
    }
    silent.iter().for_each(|why| terminal.warning(why));
    Ok(said)
}

/// The answer to `/plan?output=whole`.
#[derive(Deserialize)]
struct Whole {
    version: u64,
    fragments: Vec<Fragment>,
    endpoints: Vec<Endpoints>,
}

/// What is served at the moment, as one data plane has it.
pub(crate) fn plan(gateway: &str, options: &InCluster, terminal: &mut Terminal) -> Result<Plan, Error> {
    let said = ask_all(gateway, options, "/plan?output=whole", terminal)?;
    let mut plans = Vec::new();
    for Said { pod, body } in said {
        let whole: Whole = serde_json::from_str(&body).map_err(|error| {
            Error::Start(format!("data plane {pod} has a plan that cannot be read: {error}"))
        })?;
        plans.push((pod, whole));
    }
    // The newest, and they are counted alike: by the controller that all of them follow.
    let newest = plans.iter().map(|(_, whole)| whole.version).max().unwrap_or_default();
    for (pod, whole) in plans.iter().filter(|(_, whole)| whole.version < newest) {
        terminal.warning(&format!("data plane {pod} still serves version {} of {newest}", whole.version));
    }
    let Some((pod, whole)) = plans.into_iter().find(|(_, whole)| whole.version == newest) else {
        return Err(Error::Start(format!("no data plane of Gateway {gateway} serves anything")));
    };
    terminal.remark(&format!("As data plane {pod} serves it, version {newest}."));
    Ok(Plan {
        fragments: whole.fragments.into_iter().map(|one| (one.id(), Arc::new(one))).collect(),
        endpoints: whole.endpoints.into_iter().map(|one| (one.id.clone(), Arc::new(one))).collect(),
        ..Plan::default()
    })
}
