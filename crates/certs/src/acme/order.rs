//! One order from the first word to the certificate, or from wherever a crash left it.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName};
use tidegate_plan::Hostname;

use super::challenge::tls_alpn;
use super::{Acme, Answer, ChallengeKind, Challenges, problem};
use crate::issuance::not_stored;
use crate::{Certificate, Failure, Intent, Shelf, Store};

/// For challenges to be looked at, and for the certificate to be made.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) enum Stop {
    Failure(Failure),
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

pub(super) async fn carry_out(
    acme: &Acme,
    account: &Account,
    intent: &mut Intent,
    replaced: Option<&Certificate>,
    store: &dyn Store,
    answered: &mut Answered<'_>,
) -> Result<Certificate, Stop> {
    let mut order = match left_off(account, intent).await? {
        Some(order) => order,
        None => begin(acme, account, intent, replaced, store).await?,
    };
    if order.state().status == OrderStatus::Pending {
        prove(&mut order, answered).await?;
    }
    if order.state().status == OrderStatus::Ready {
        order.finalize_csr(&request(intent)?).await?;
    }
    let policy = RetryPolicy::new().initial_delay(Duration::from_millis(100)).timeout(PATIENCE);
    let chain = order.poll_certificate(&policy).await?;
    intent.fulfilled(chain).map_err(|error| Failure::Here(error.to_string()).into())
}

/// An order that the CA knows already and that can still come to something.
async fn left_off(account: &Account, intent: &mut Intent) -> Result<Option<Order>, Stop> {
    let Some(url) = intent.url.clone() else { return Ok(None) };
    match account.order(url).await {
        Ok(mut order) => {
            if order.state().status != OrderStatus::Invalid {
                return Ok(Some(order));
            }
            intent.url = None;
            Ok(None)
        }
        Err(error) if problem::is_stale_nonce(&error) => Err(error.into()),
        // The CA has forgotten it.
        Err(Error::Api(problem)) if problem.status.is_some_and(|status| (400..429).contains(&status)) => {
            intent.url = None;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

async fn begin(
    acme: &Acme,
    account: &Account,
    intent: &mut Intent,
    replaced: Option<&Certificate>,
    store: &dyn Store,
) -> Result<Order, Stop> {
    let names = intent.order.names.iter();
    let identifiers: Vec<Identifier> = names.map(|name| Identifier::Dns(name.to_string())).collect();
    let new = || match &acme.settings.profile {
        Some(profile) => NewOrder::new(&identifiers).profile(profile),
        None => NewOrder::new(&identifiers),
    };
    let leaf = replaced.and_then(Certificate::leaf);
    let id = leaf.as_ref().and_then(|leaf| CertificateIdentifier::try_from(leaf).ok());
    let asked = match id {
        Some(id) => match account.new_order(&new().replaces(id)).await {
            // The CA knows nothing of replacing, or the other one is replaced already.
            Err(error) if is_about_replacing(&error) => account.new_order(&new()).await,
            asked => asked,
        },
        None => account.new_order(&new()).await,
    };
    let order = match asked {
        Err(Error::Api(problem)) if problem::kind(&problem) == "accountDoesNotExist" => {
            acme.forget_account(store).await?;
            return Err(Error::Api(problem).into());
        }
        asked => asked?,
    };
    intent.url = Some(order.url().to_owned());
    keep(intent, store).await?;
    Ok(order)
}

fn is_about_replacing(error: &Error) -> bool {
    match error {
        Error::Unsupported(_) => true,
        Error::Api(problem) => {
            let detail = problem.detail.as_deref().unwrap_or_default();
            problem::kind(problem) == "alreadyReplaced"
                || problem.status == Some(409)
                || detail.contains("replaces")
        }
        _ => false,
    }
}

/// From here on a crash does not cost another order.
async fn keep(intent: &Intent, store: &dyn Store) -> Result<(), Failure> {
    let content = serde_json::to_vec_pretty(intent).unwrap_or_default();
    let put = store.put(Shelf::Orders, &intent.order.secret.to_string(), &content).await;
    put.map_err(|error| not_stored(&error))
}

/// Takes back what was answered, however the order ends.
pub(super) struct Answered<'a> {
    challenges: &'a dyn Challenges,
    names: Vec<Hostname>,
}

impl<'a> Answered<'a> {
    pub(super) fn new(challenges: &'a dyn Challenges) -> Self {
        Self { challenges, names: Vec::new() }
    }
}

impl Drop for Answered<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            self.challenges.withdraw(name);
        }
    }
}

async fn prove(order: &mut Order, answered: &mut Answered<'_>) -> Result<(), Stop> {
    let mut impossible = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let text = authorization.identifier().to_string();
        let Ok(name) = Hostname::parse(&text) else { continue };
        let kinds = answered.challenges.kinds(&name);
        let offered = |kind: &&ChallengeKind| {
            authorization.challenges.iter().any(|challenge| challenge.r#type == type_of(**kind))
        };
        let Some(kind) = kinds.iter().find(offered).copied() else {
            impossible.push((name, cannot_answer(&kinds)));
            continue;
        };
        let Some(mut challenge) = authorization.challenge(type_of(kind)) else { continue };
        let proof = challenge.key_authorization();
        let answer = match kind {
            ChallengeKind::Http01 => Answer::Http01 {
                token: challenge.token.clone(),
                key_authorization: proof.as_str().to_owned(),
            },
            ChallengeKind::TlsAlpn01 => tls_alpn(&name, proof.digest().as_ref())
                .map_err(|error| Failure::Here(format!("{name}: {error}")))?,
        };
        answered.names.push(name.clone());
        if let Err(why) = answered.challenges.answer(&name, answer).await {
            impossible.push((name, why));
            continue;
        }
        challenge.set_ready().await?;
    }
    if !impossible.is_empty() {
        give_up(order).await;
        return Err(Failure::Names(impossible).into());
    }
    let policy = RetryPolicy::new().initial_delay(Duration::from_millis(100)).timeout(PATIENCE);
    match order.poll_ready(&policy).await {
        Ok(OrderStatus::Ready) => Ok(()),
        Ok(_) | Err(Error::Api(_)) => Err(why_not(order).await?.into()),
        Err(error) => Err(error.into()),
    }
}

/// Which names failed, and why.
async fn why_not(order: &mut Order) -> Result<Failure, Error> {
    let state = order.refresh().await?;
    let overall = state.error.as_ref().map(problem::told);
    let is_over = state.status == OrderStatus::Invalid;
    let mut failed = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let authorization = authorization?;
        if authorization.status != AuthorizationStatus::Invalid {
            continue;
        }
        let text = authorization.identifier().to_string();
        let Ok(name) = Hostname::parse(&text) else { continue };
        let why = authorization.challenges.iter().find_map(|challenge| challenge.error.as_ref());
        failed.push((name, why.map_or_else(|| "the challenge failed".to_owned(), problem::told)));
    }
    if !failed.is_empty() {
        give_up(order).await;
        return Ok(Failure::Names(failed));
    }
    let message = overall.unwrap_or_else(|| "the order was refused".to_owned());
    Ok(if is_over { Failure::Order(message) } else { Failure::Issuer { message, wait: None } })
}

/// Proofs that nobody will ask for again count against the account until they expire.
async fn give_up(order: &mut Order) {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.status == AuthorizationStatus::Pending {
            let _ = authorization.deactivate().await;
        }
    }
}

const fn type_of(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
    }
}

fn cannot_answer(kinds: &[ChallengeKind]) -> String {
    if kinds.is_empty() {
        return "no challenge can be answered: it takes an HTTP listener on port 80, or an HTTPS or TLS listener on port 443, for this name".to_owned();
    }
    "the CA offers no challenge that can be answered here".to_owned()
}

fn request(intent: &Intent) -> Result<Vec<u8>, Failure> {
    let names: Vec<String> = intent.order.names.iter().map(ToString::to_string).collect();
    let made = (|| {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&intent.key_pair()?)?;
        Ok::<Vec<u8>, rcgen::Error>(request.der().to_vec())
    })();
    made.map_err(|error| Failure::Here(format!("the request cannot be made: {error}")))
}
