//! Whose token is this? The API server knows, and the name of the ServiceAccount says for which Gateway.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::Client;
use kube::api::{Api, PostParams};
use tidegate_link::{Denied, ProxyIdentity, Tokens};
use tidegate_plan::ObjectName;

/// Whom the tokens of data planes are for: one that was stolen is good for nothing else.
pub(crate) const AUDIENCE: &str = "link.gateway.tidegate.io";

const POD_NAME: &str = "authentication.kubernetes.io/pod-name";

/// The ServiceAccounts of data planes and the Gateway of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accounts(Arc<Mutex<BTreeMap<ObjectName, ObjectName>>>);

impl Accounts {
    pub(crate) fn set(&self, accounts: BTreeMap<ObjectName, ObjectName>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = accounts;
    }

    fn gateway(&self, account: &ObjectName) -> Option<ObjectName> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(account).cloned()
    }

    fn identity(&self, status: &TokenReviewStatus) -> Result<ProxyIdentity, Denied> {
        let refused = |why: &str| Err(Denied::Refused(why.to_owned()));
        if status.authenticated != Some(true) {
            return refused("the API server does not know this token");
        }
        if !status.audiences.iter().flatten().any(|audience| audience == AUDIENCE) {
            return refused("the token is for somebody else");
        }
        let user = status.user.as_ref();
        let name = user.and_then(|user| user.username.as_deref()).unwrap_or_default();
        let account = name.strip_prefix("system:serviceaccount:").and_then(|name| name.split_once(':'));
        let Some((namespace, name)) = account else {
            return refused("the token is not of a ServiceAccount");
        };
        let pod = user.and_then(|user| user.extra.as_ref()?.get(POD_NAME)?.first().cloned());
        let Some(pod) = pod else {
            return refused("the token is not bound to a Pod");
        };
        match self.gateway(&ObjectName::new(namespace, name)) {
            Some(gateway) => Ok(ProxyIdentity { gateway, pod }),
            None => refused("the ServiceAccount belongs to no Gateway"),
        }
    }
}

/// Asks the API server.
#[derive(Clone)]
pub(crate) struct Reviews {
    pub(crate) client: Client,
    pub(crate) accounts: Accounts,
}

impl Tokens for Reviews {
    async fn review(&self, token: &str) -> Result<ProxyIdentity, Denied> {
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let spec =
            TokenReviewSpec { token: Some(token.to_owned()), audiences: Some(vec![AUDIENCE.to_owned()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        // Its error is about the request; the token is not in it.
        let reviewed = api.create(&PostParams::default(), &review).await;
        let reviewed = reviewed
            .map_err(|error| Denied::Unavailable(format!("the API server cannot be asked: {error}")))?;
        self.accounts.identity(&reviewed.status.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn identity(status: Json) -> Result<ProxyIdentity, Denied> {
        let accounts = Accounts::default();
        accounts
            .set(BTreeMap::from([(ObjectName::new("shop", "tidegate-web"), ObjectName::new("shop", "web"))]));
        accounts.identity(&serde_json::from_value(status).expect("a status"))
    }

    fn status(user: &str, audience: &str, pod: Option<&str>) -> Json {
        json!({
            "authenticated": true, "audiences": [audience],
            "user": {"username": user, "extra": pod.map(|pod| json!({POD_NAME: [pod]})).unwrap_or(json!({}))},
        })
    }

    #[test]
    fn a_token_tells_gateway_and_pod() {
        let found = identity(status("system:serviceaccount:shop:tidegate-web", AUDIENCE, Some("pod-1")));
        assert_eq!(
            found,
            Ok(ProxyIdentity { gateway: ObjectName::new("shop", "web"), pod: "pod-1".to_owned() })
        );
    }

    #[test]
    fn other_tokens_are_refused_with_the_reason() {
        for (status, expected) in [
            (json!({"authenticated": false, "error": "expired"}), "does not know"),
            (json!({}), "does not know"),
            (
                status("system:serviceaccount:shop:tidegate-web", "https://kubernetes", Some("pod-1")),
                "somebody else",
            ),
            (status("admin", AUDIENCE, Some("pod-1")), "not of a ServiceAccount"),
            (status("system:serviceaccount:shop:tidegate-web", AUDIENCE, None), "not bound to a Pod"),
            (status("system:serviceaccount:shop:default", AUDIENCE, Some("pod-1")), "no Gateway"),
            (status("system:serviceaccount:other:tidegate-web", AUDIENCE, Some("pod-1")), "no Gateway"),
        ] {
            match identity(status.clone()) {
                Err(Denied::Refused(why)) => assert!(why.contains(expected), "{why}"),
                other => panic!("{status}: {other:?}"),
            }
        }
    }
}
