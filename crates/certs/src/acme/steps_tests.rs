//! An order that is killed at each of its steps and gone on with by the next process, against a CA in memory: no key is
//! lost, and one more order is made only where the CA's answer to the first was not stored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rcgen::{
    BasicConstraints, CertificateParams, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData,
    SignatureAlgorithm,
};
use serde_json::{Value, json};
use tidegate_plan::{Hostname, ObjectName};
use tokio::sync::{Notify, watch};
use x509_parser::prelude::{FromDer, X509CertificationRequest};

use super::{Acme, AcmeSettings, Answer, ChallengeKind, Challenges};
use crate::{
    Boxed, Certificate, Demand, FolderStore, Intent, Issuance, Issuer, Issuers, Policies, Policy, Seconds,
    Shelf, Want, WantedName,
};

/// What has happened when the process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The intent is stored, and the CA knows nothing of it.
    Intent,
    /// The CA has made an order, and nobody has heard of it.
    Order,
    /// The order's address is stored.
    Address,
    /// The CA was told to look at the proof.
    Proof,
    /// The CA has the request, and has made the certificate.
    Request,
    /// The CA has given the certificate away, and it is not stored.
    Certificate,
}

#[derive(Default)]
struct Known {
    accounts: usize,
    orders: Vec<Order>,
}

struct Order {
    names: Vec<String>,
    proved: BTreeSet<usize>,
    chain: Option<String>,
}

impl Order {
    fn json(&self, number: usize) -> Value {
        let count = self.names.len();
        let status = match &self.chain {
            Some(_) => "valid",
            None if self.proved.len() == count => "ready",
            None => "pending",
        };
        let authorizations: Vec<String> =
            (0..count).map(|name| at(&format!("authz/{number}/{name}"))).collect();
        json!({
            "status": status,
            "authorizations": authorizations,
            "finalize": at(&format!("finalize/{number}")),
            "certificate": self.chain.as_ref().map(|_| at(&format!("certificate/{number}"))),
        })
    }

    fn challenge(&self, number: usize, name: usize) -> Value {
        let status = if self.proved.contains(&name) { "valid" } else { "pending" };
        json!({ "type": "http-01", "url": at(&format!("proof/{number}/{name}")), "token": "t", "status": status })
    }
}

fn at(path: &str) -> String {
    format!("https://ca.test/{path}")
}

/// A CA that believes everything, and does not come back from one step.
struct Ca {
    known: Mutex<Known>,
    ends_at: Mutex<Option<Step>>,
    ended: Notify,
    issuer: rcgen::Issuer<'static, KeyPair>,
}

impl Ca {
    fn new(ends_at: Step) -> Arc<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Arc::new(Self {
            known: Mutex::default(),
            ends_at: Mutex::new(Some(ends_at)),
            ended: Notify::new(),
            issuer: rcgen::Issuer::new(params, KeyPair::generate().unwrap()),
        })
    }

    async fn pass(&self, step: Step) {
        if *self.ends_at.lock().unwrap_or_else(PoisonError::into_inner) == Some(step) {
            self.ended.notify_one();
            std::future::pending::<()>().await;
        }
    }

    async fn answer(&self, path: &str, payload: &Value) -> (Option<String>, String) {
        let words: Vec<&str> = path.split('/').collect();
        let index = |place: usize| words[place].parse::<usize>().unwrap();
        match words[0] {
            "order" if words.len() == 1 => self.pass(Step::Intent).await,
            "authz" => self.pass(Step::Address).await,
            _ => {}
        }
        let told = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match words[0] {
                "directory" => (
                    None,
                    json!({ "newNonce": at("nonce"), "newAccount": at("account"), "newOrder": at("order") })
                        .to_string(),
                ),
                "account" => {
                    known.accounts += 1;
                    (Some(at("account/1")), json!({ "status": "valid" }).to_string())
                }
                "order" if words.len() == 1 => {
                    let identifiers = payload["identifiers"].as_array().unwrap();
                    let names = identifiers.iter().map(|each| each["value"].as_str().unwrap().to_owned());
                    let order = Order { names: names.collect(), proved: BTreeSet::new(), chain: None };
                    let number = known.orders.len();
                    let told = (Some(at(&format!("order/{number}"))), order.json(number).to_string());
                    known.orders.push(order);
                    told
                }
                "order" => (None, known.orders[index(1)].json(index(1)).to_string()),
                "authz" => {
                    let (number, name) = (index(1), index(2));
                    let order = &known.orders[number];
                    let challenge = order.challenge(number, name);
                    let identifier = json!({ "type": "dns", "value": order.names[name] });
                    let status = challenge["status"].clone();
                    (
                        None,
                        json!({ "identifier": identifier, "status": status, "challenges": [challenge] })
                            .to_string(),
                    )
                }
                "proof" => {
                    let (number, name) = (index(1), index(2));
                    known.orders[number].proved.insert(name);
                    (None, known.orders[number].challenge(number, name).to_string())
                }
                "finalize" => {
                    let number = index(1);
                    let chain =
                        self.certificate(&known.orders[number].names, payload["csr"].as_str().unwrap());
                    known.orders[number].chain = Some(chain);
                    (None, known.orders[number].json(number).to_string())
                }
                "certificate" => (None, known.orders[index(1)].chain.clone().unwrap()),
                _ => (None, String::new()),
            }
        };
        match words[0] {
            "order" if words.len() == 1 => self.pass(Step::Order).await,
            "proof" => self.pass(Step::Proof).await,
            "finalize" => self.pass(Step::Request).await,
            "certificate" => self.pass(Step::Certificate).await,
            _ => {}
        }
        told
    }

    fn certificate(&self, names: &[String], request: &str) -> String {
        let request = URL_SAFE_NO_PAD.decode(request).unwrap();
        let (_, request) = X509CertificationRequest::from_der(&request).unwrap();
        let key = request.certification_request_info.subject_pki.subject_public_key.data.to_vec();
        let params = CertificateParams::new(names.to_vec()).unwrap();
        params.signed_by(&PublicKey(key), &self.issuer).unwrap().pem()
    }
}

struct PublicKey(Vec<u8>);

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

struct ToCa(Arc<Ca>);

impl HttpClient for ToCa {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let ca = Arc::clone(&self.0);
        Box::pin(async move {
            let path = request.uri().path().trim_start_matches('/').to_owned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let signed: Value = serde_json::from_slice(&body).unwrap_or_default();
            let payload = URL_SAFE_NO_PAD.decode(signed["payload"].as_str().unwrap_or_default()).unwrap();
            let payload = serde_json::from_slice(&payload).unwrap_or_default();
            let (location, body) = ca.answer(&path, &payload).await;
            let mut response = Response::builder().status(200).header("replay-nonce", "n");
            if let Some(location) = location {
                response = response.header("location", location);
            }
            Ok(BytesResponse::from(response.body(Full::new(Bytes::from(body))).unwrap()))
        })
    }
}

struct Everything;

impl Challenges for Everything {
    fn kinds(&self, _: &Hostname) -> Vec<ChallengeKind> {
        vec![ChallengeKind::Http01]
    }

    fn answer<'a>(&'a self, _: &'a Hostname, _: Answer) -> Boxed<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn withdraw(&self, _: &Hostname) {}
}

fn now() -> Seconds {
    Seconds::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

fn secret(name: &str) -> ObjectName {
    ObjectName::new("infra", name)
}

/// A process: it goes on until it has the certificate, or the CA has it ended.
async fn process(root: &Path, ca: &Arc<Ca>) -> Option<Arc<Certificate>> {
    // The one before lets go of the folder when its tasks are gone.
    let mut opened = FolderStore::open(root);
    for _ in 0..1_000 {
        if opened.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        opened = FolderStore::open(root);
    }
    let acme = Acme::over(AcmeSettings::new(&at("directory")), Arc::new(ToCa(Arc::clone(ca))));
    let issuers = Issuers { embedded: None, acme: BTreeMap::from([("default".into(), acme)]) };
    let policies = Policies::from([(Issuer::acme(), Policy { gather: 0, ..Policy::acme() })]);
    let complain = &mut |error: &crate::StoreError| panic!("{error}");
    let store = Arc::new(opened.unwrap());
    let issuance =
        Issuance::open(store, issuers, Arc::new(Everything), policies, now, complain).await.unwrap();
    let names = ["a.example.com", "b.example.com"];
    let names =
        names.map(|name| WantedName { name: Hostname::parse(name).unwrap(), namespace: "shop".into() });
    let want =
        Want { secret: secret("tls"), gateway: secret("edge"), issuer: Issuer::acme(), names: names.into() };
    let (_wants, wants) = watch::channel(Arc::new(Demand::new([want], BTreeSet::new())));
    let (show, mut pictures) = watch::channel(Arc::new(issuance.picture()));
    let task = tokio::spawn(async move { issuance.keep(wants, &show).await });
    let certificate = async {
        loop {
            pictures.changed().await.unwrap();
            let picture = pictures.borrow_and_update();
            assert_eq!(picture.last_failure, None);
            if let Some(certificate) = picture.certificates.values().next() {
                return Arc::clone(certificate);
            }
        }
    };
    let outcome = tokio::select! {
        certificate = certificate => Some(certificate),
        () = ca.ended.notified() => None,
        () = tokio::time::sleep(Duration::from_secs(60)) => panic!("nothing happened"),
    };
    task.abort();
    let _ = task.await;
    outcome
}

#[tokio::test]
async fn killed_at_any_step_it_goes_on_with_the_same_key_and_order() {
    for step in [Step::Intent, Step::Order, Step::Address, Step::Proof, Step::Request, Step::Certificate] {
        let folder = tempfile::tempdir().unwrap();
        let ca = Ca::new(step);
        assert!(process(folder.path(), &ca).await.is_none(), "it is killed at {step:?}");
        let looking = FolderStore::look(folder.path()).unwrap();
        let stored = looking.documents(Shelf::Orders).unwrap();
        let intent: Intent = serde_json::from_slice(&stored[0].content).unwrap();
        assert_eq!(intent.url.is_none(), matches!(step, Step::Intent | Step::Order), "{step:?}");

        *ca.ends_at.lock().unwrap() = None;
        let certificate = process(folder.path(), &ca).await.unwrap();
        assert_eq!(certificate.key, intent.key, "{step:?}: the key that was stored first");
        let known = ca.known.lock().unwrap();
        // The one step where nobody can know that there is an order.
        let orders = if step == Step::Order { 2 } else { 1 };
        assert_eq!((known.orders.len(), known.accounts), (orders, 1), "{step:?}");
        assert!(looking.documents(Shelf::Orders).unwrap().is_empty(), "{step:?}: nothing is left");
    }
}
