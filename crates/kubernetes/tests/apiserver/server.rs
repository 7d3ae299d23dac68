//! A real API server with its etcd, on loopback, for as long as a test takes.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tokio::sync::Mutex;

pub(crate) struct ApiServer {
    folder: TempDir,
    binaries: PathBuf,
    etcd: Child,
    api: Child,
    etcd_port: u16,
    port: u16,
}

const TOKEN: &str = "of-the-test";

/// One starts at a time: several at once are slow enough to look dead.
static STARTING: Mutex<()> = Mutex::const_new(());

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let _turn = STARTING.lock().await;
        loop {
            let mut server = Self::launch();
            if server.is_ready().await {
                return server;
            }
            // It has ended: somebody else has taken one of the ports that nobody had a moment ago.
        }
    }

    fn launch() -> Self {
        let binaries = PathBuf::from(
            std::env::var_os("TIDEGATE_APISERVER_BIN").expect("TIDEGATE_APISERVER_BIN names a folder"),
        );
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("tokens.csv"), format!("{TOKEN},admin,admin,system:masters\n"))
            .expect("a file");
        let key = rcgen::KeyPair::generate().expect("a key");
        fs::write(folder.path().join("accounts.key"), key.serialize_pem()).expect("a file");
        fs::write(folder.path().join("accounts.pub"), key.public_key_pem()).expect("a file");
        let (etcd_port, peer_port, port) = (free_port(), free_port(), free_port());
        let etcd = Command::new(binaries.join("etcd"))
            .arg("--unsafe-no-fsync")
            .args(["--data-dir", &folder.path().join("etcd").to_string_lossy()])
            .args(["--listen-client-urls", &format!("http://127.0.0.1:{etcd_port}")])
            .args(["--advertise-client-urls", &format!("http://127.0.0.1:{etcd_port}")])
            .args(["--listen-peer-urls", &format!("http://127.0.0.1:{peer_port}")])
            .args(["--initial-advertise-peer-urls", &format!("http://127.0.0.1:{peer_port}")])
            .args(["--initial-cluster", &format!("default=http://127.0.0.1:{peer_port}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd starts");
        let api = start_api(&binaries, folder.path(), etcd_port, port);
        Self { folder, binaries, etcd, api, etcd_port, port }
    }

    pub(crate) async fn client(&self) -> Client {
        let kubeconfig: Kubeconfig = serde_json::from_value(json!({
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port), "insecure-skip-tls-verify": true,
            }}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
        }))
        .expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.expect("a configuration")).expect("a client")
    }

    /// Ends the API server and starts it again over the same data.
    pub(crate) async fn restart(&mut self) {
        end(&mut self.api);
        self.api = start_api(&self.binaries, self.folder.path(), self.etcd_port, self.port);
        assert!(self.is_ready().await, "it comes back");
    }

    /// Waits until it is; `false`: it has ended.
    async fn is_ready(&mut self) -> bool {
        let client = self.client().await;
        let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client);
        let deadline = Instant::now() + Duration::from_secs(240);
        let has_ended = |child: &mut Child| child.try_wait().is_ok_and(|ended| ended.is_some());
        loop {
            let answers = api.get("default").await.is_ok();
            if has_ended(&mut self.api) || has_ended(&mut self.etcd) {
                return false;
            }
            if answers {
                return true;
            }
            assert!(Instant::now() < deadline, "in vain: the API server is ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        end(&mut self.api);
        end(&mut self.etcd);
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn start_api(binaries: &Path, folder: &Path, etcd_port: u16, port: u16) -> Child {
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    Command::new(binaries.join("kube-apiserver"))
        .args(["--etcd-servers", &format!("http://127.0.0.1:{etcd_port}")])
        .args(["--bind-address", "127.0.0.1", "--secure-port", &port.to_string()])
        .args(["--cert-dir", &file("certs"), "--token-auth-file", &file("tokens.csv")])
        .args(["--service-account-issuer", "https://kubernetes.default"])
        .args(["--service-account-key-file", &file("accounts.pub")])
        .args(["--service-account-signing-key-file", &file("accounts.key")])
        .args(["--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "RBAC"])
        .args(["--disable-admission-plugins", "ServiceAccount"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the API server starts")
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port()
}

/// Waits until something holds, which it must before long.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Where objects of this kind are.
pub(crate) fn api(
    client: &Client,
    api_version: &str,
    kind: &str,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    // Not every plural is formed as others are.
    if kind == "GatewayParameters" {
        resource.plural = "gatewayparameters".to_owned();
    }
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Applies an object as kubectl would.
pub(crate) async fn apply(client: &Client, object: &Json) {
    let text = |value: &Json| value.as_str().map(ToOwned::to_owned);
    let (version, kind) =
        (text(&object["apiVersion"]).expect("a version"), text(&object["kind"]).expect("a kind"));
    let namespace = text(&object["metadata"]["namespace"]);
    let name = text(&object["metadata"]["name"]).expect("a name");
    let params = PatchParams::apply("kubectl").force();
    let api = api(client, &version, &kind, namespace.as_deref());
    // A CRD that was installed a moment ago may not be served yet.
    eventually(&format!("{kind} {name} is taken"), async || {
        match api.patch(&name, &params, &Patch::Apply(object)).await {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 429 => false,
            Err(error) => panic!("{kind} {name}: {error}"),
        }
    })
    .await;
}

/// Applies every object of the manifests in a folder, or of one file.
pub(crate) async fn apply_files(client: &Client, path: &Path) {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        files = fs::read_dir(path).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    }
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "yaml")) {
        let source = fs::read_to_string(file).expect("a text");
        let (documents, problems) = tidegate_api::yaml::documents(&source);
        assert!(problems.is_empty(), "{}: {problems:?}", file.display());
        for document in documents.iter().map(tidegate_api::Node::to_json).filter(|json| !json.is_null()) {
            apply(client, &document).await;
        }
    }
}
