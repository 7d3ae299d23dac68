//! Gateways and routes in, Certificates out, with an API server and a cert-manager that are a map.

use std::fmt::Write;

use tidegate_api::{read_object, yaml};
use tidegate_certs::Grouping;
use tidegate_plan::ListenerId;
use tidegate_translate::{Resources, Settings, translate};

use super::super::targets::{Targets, targets};
use super::*;

const DAY: i64 = 24 * 3600;
/// When all certificates are issued.
const START: i64 = 1_800_000_000;
/// When cert-manager renews them.
const RENEWAL: i64 = START + 60 * DAY;

const CLASS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: tidegate}
spec: {controllerName: gateway.tidegate.io/controller}
";

fn gateway(annotations: &str, listeners: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: front
  namespace: infra
  uid: gateway-uid
  annotations: {{cert-manager.io/cluster-issuer: ca{annotations}}}
spec:
  gatewayClassName: tidegate
  allowedListeners: {{namespaces: {{from: All}}}}
  listeners:{listeners}
"
    )
}

fn listener(name: &str, port: u16, hostname: Option<&str>, secret: &str) -> String {
    let hostname = hostname.map(|name| format!("hostname: {name}, ")).unwrap_or_default();
    format!(
        "\n  - {{name: {name}, port: {port}, protocol: HTTPS, {hostname}allowedRoutes: {{namespaces: {{from: All}}}}, tls: {{certificateRefs: [{{name: {secret}}}]}}}}"
    )
}

fn open() -> String {
    listener("https", 443, None, "tls")
}

fn route(namespace: &str, name: &str, hostnames: &[&str]) -> String {
    let hostnames = hostnames.join(", ");
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  parentRefs: [{{name: front, namespace: infra}}]
  hostnames: [{hostnames}]
  rules: [{{backendRefs: [{{name: web, port: 80}}]}}]
"
    )
}

/// A cluster at a time.
struct World {
    documents: Vec<String>,
    there: There,
    taken: BTreeSet<ObjectName>,
    together: Grouping,
    most: usize,
    now: i64,
}

impl World {
    fn new(documents: &[String]) -> Self {
        let documents = [&[CLASS.to_owned()], documents].concat();
        let (there, taken, together) = (There::default(), BTreeSet::new(), Grouping::Namespace);
        Self { documents, there, taken, together, most: 100, now: START }
    }

    fn targets(&self) -> Targets {
        let mut resources = Resources::default();
        let (nodes, problems) = yaml::documents(&self.documents.join("---"));
        assert!(problems.is_empty(), "{problems:?}");
        for node in &nodes {
            let reading = read_object(node);
            let problems: Vec<String> = reading.problems.iter().map(ToString::to_string).collect();
            resources.insert(reading.object.unwrap_or_else(|| panic!("{}", problems.join("\n"))));
        }
        targets(&translate(&resources, &Settings::cluster()), &resources, &self.there, self.together)
    }

    fn plan(&self) -> Plan {
        plan(&self.targets().all, &self.there, &self.taken, self.most, self.now)
    }

    /// Does what the plan says, and has every Certificate issued.
    fn settle(&mut self) -> Plan {
        let plan = self.plan();
        for name in &plan.remove {
            self.there.all.remove(name);
        }
        for (name, planned) in &plan.certificates {
            let mut object = planned.body.clone();
            object["status"] = issued();
            self.put(name, object);
        }
        plan
    }

    fn put(&mut self, name: &ObjectName, object: Json) {
        self.there.all.insert(name.clone(), Existing::read(name, Arc::new(object)));
    }

    fn stored(&self, name: &str) -> Json {
        (*self.there.all[&in_infra(name)].object).clone()
    }
}

fn issued() -> Json {
    let time = |seconds: i64| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds.unsigned_abs());
        humantime::format_rfc3339_seconds(time).to_string()
    };
    json!({"notBefore": time(START), "notAfter": time(START + 90 * DAY), "renewalTime": time(RENEWAL)})
}

fn in_infra(name: &str) -> ObjectName {
    ObjectName::new("infra", name)
}

/// `infra/tls: a b; infra/tls-2: c`.
fn told(plan: &Plan) -> String {
    let mut text = String::new();
    for (name, planned) in &plan.certificates {
        let separator = if text.is_empty() { "" } else { "; " };
        let names: Vec<&str> = planned.names.iter().map(Hostname::as_str).collect();
        let _ = write!(text, "{separator}{name}: {}", names.join(" "));
    }
    text
}

#[test]
fn a_certificate_has_the_names_of_routes_and_belongs_to_its_gateway() {
    let annotations = ", cert-manager.io/duration: 2160h, cert-manager.io/common-name: b.example.com, cert-manager.io/ip-sans: 192.0.2.1, cert-manager.io/secret-template: '{\"labels\": {\"a\": \"b\"}}'";
    let world = World::new(&[
        gateway(annotations, &open()),
        route("infra", "web", &["b.example.com", "a.example.com"]),
    ]);
    let plan = world.plan();
    let expected = json!({
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {
            "name": "tls",
            "namespace": "infra",
            "labels": {
                "app.kubernetes.io/managed-by": "tidegate",
                "gateway.tidegate.io/role": "certificate",
                "gateway.networking.k8s.io/gateway-name": "front",
            },
            "annotations": {
                "acme.cert-manager.io/http01-parentrefkind": "Gateway",
                "acme.cert-manager.io/http01-parentrefname": "front",
                "gateway.tidegate.io/certificate-for": "infra",
                "gateway.tidegate.io/written": written(&plan.certificates[&in_infra("tls")].names),
            },
            "ownerReferences": [{
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "name": "front", "uid": "gateway-uid",
            }],
        },
        "spec": {
            "commonName": "b.example.com",
            "dnsNames": ["a.example.com", "b.example.com"],
            "duration": "2160h",
            "ipAddresses": ["192.0.2.1"],
            "issuerRef": {"name": "ca", "kind": "ClusterIssuer", "group": "cert-manager.io"},
            "secretName": "tls",
            "secretTemplate": {
                "annotations": {"gateway.tidegate.io/issued-by": "cert-manager"}, "labels": {"a": "b"},
            },
        },
    });
    assert_eq!(plan.certificates[&in_infra("tls")].body, expected);
    assert_eq!((plan.certificates.len(), plan.remove.len()), (1, 0));
}

#[test]
fn listeners_with_a_hostname_are_the_shims_unless_told_otherwise() {
    let listeners = [open(), listener("shop", 443, Some("shop.example.com"), "shop")].concat();
    let routes = route("infra", "web", &["a.example.com", "shop.example.com"]);
    let world =
        |annotations: &str, listeners: &str| World::new(&[gateway(annotations, listeners), routes.clone()]);
    assert_eq!(told(&world("", &listeners).plan()), "infra/tls: a.example.com");
    let all = world(", gateway.tidegate.io/cert-manager: all", &listeners).plan();
    assert!(told(&all).contains("infra/shop: shop.example.com"), "{}", told(&all));
    let ignored = world(", cert-manager.io/ignore-tls-listeners: https", &listeners);
    assert_eq!(told(&ignored.plan()), "");

    let shared = [open(), listener("shop", 443, Some("shop.example.com"), "tls")].concat();
    let world = world("", &shared);
    assert_eq!(told(&world.plan()), "");
    let why: Vec<String> = world.targets().refused.into_values().collect();
    assert_eq!(why.len(), 1);
    assert!(why[0].contains("also named by listener shop") && why[0].contains("gateway-shim"), "{}", why[0]);
}

#[test]
fn a_name_that_comes_is_asked_for_at_once_and_one_that_goes_stays() {
    let mut world =
        World::new(&[gateway("", &open()), route("infra", "web", &["a.example.com", "b.example.com"])]);
    assert_eq!(told(&world.settle()), "infra/tls: a.example.com b.example.com");
    world.documents[2] = route("infra", "web", &["a.example.com"]);
    let plan = world.settle();
    assert_eq!(told(&plan), "infra/tls: a.example.com b.example.com");
    assert_eq!(plan.next, Some(RENEWAL - 300));
    world.documents[2] = route("infra", "web", &["a.example.com", "b.example.com"]);
    let plan = world.settle();
    assert_eq!((told(&plan).as_str(), plan.next), ("infra/tls: a.example.com b.example.com", None));
    world.documents[2] = route("infra", "web", &["a.example.com", "c.example.com"]);
    assert_eq!(
        told(&world.settle()),
        "infra/tls: a.example.com c.example.com",
        "it is made anew in any case"
    );
}

#[test]
fn names_go_at_the_renewal() {
    let mut world =
        World::new(&[gateway("", &open()), route("infra", "web", &["a.example.com", "b.example.com"])]);
    world.settle();
    world.documents[2] = route("infra", "web", &["b.example.com"]);
    world.now = RENEWAL - 301;
    assert_eq!(told(&world.plan()), "infra/tls: a.example.com b.example.com");
    world.now = RENEWAL - 300;
    assert_eq!(told(&world.plan()), "infra/tls: b.example.com");
    // Where all are gone, so does the Certificate.
    world.documents.pop();
    world.now = START;
    assert_eq!(told(&world.plan()), "infra/tls: a.example.com b.example.com");
    world.now = RENEWAL;
    let plan = world.plan();
    assert_eq!((told(&plan).as_str(), plan.remove.len()), ("", 1));
}

#[test]
fn names_go_at_once_where_that_costs_nothing() {
    let mut world =
        World::new(&[gateway("", &open()), route("infra", "web", &["a.example.com", "b.example.com"])]);
    world.settle();
    world.documents[2] = route("infra", "web", &["b.example.com"]);
    let stored = world.stored("tls");
    let with_status = |status: Json| {
        let mut object = stored.clone();
        object["status"] = status;
        object
    };
    world.put(&in_infra("tls"), with_status(json!({})));
    assert_eq!(told(&world.plan()), "infra/tls: b.example.com", "never issued");
    let mut failing = issued();
    failing["lastFailureTime"] = json!("2027-01-15T08:00:00Z");
    world.put(&in_infra("tls"), with_status(failing));
    assert_eq!(told(&world.plan()), "infra/tls: b.example.com", "a name that is gone may be why");
    let mut object = with_status(issued());
    object["spec"]["issuerRef"]["name"] = json!("other");
    world.put(&in_infra("tls"), object);
    assert_eq!(told(&world.plan()), "infra/tls: b.example.com", "another issuer makes it anew");
}

#[test]
fn what_somebody_adds_by_hand_does_not_stay() {
    let mut world = World::new(&[gateway("", &open()), route("infra", "web", &["a.example.com"])]);
    world.settle();
    let mut object = world.stored("tls");
    object["spec"]["dnsNames"] = json!(["a.example.com", "bank.example.com"]);
    world.put(&in_infra("tls"), object);
    assert_eq!(told(&world.plan()), "infra/tls: a.example.com");
}

#[test]
fn names_of_different_namespaces_do_not_share_a_certificate() {
    let routes = [route("shop", "web", &["a.example.com"]), route("infra", "web", &["b.example.com"])];
    let with = |annotation: &str| World::new(&[&[gateway(annotation, &open())], &routes[..]].concat()).plan();
    let plan = with("");
    assert_eq!(told(&plan), "infra/tls: b.example.com; infra/tls-2: a.example.com");
    let further = &plan.certificates[&in_infra("tls-2")].body;
    assert_eq!(further["spec"]["secretTemplate"]["annotations"][CERTIFICATE_OF], "tls");
    assert_eq!(further["metadata"]["annotations"][CERTIFICATE_FOR], "shop");
    let together = with(", gateway.tidegate.io/certificate-per: listener");
    assert_eq!(told(&together), "infra/tls: a.example.com b.example.com");
    assert_eq!(with(", gateway.tidegate.io/certificate-per: name").certificates.len(), 2);
    // Whoever was first keeps the listener's Secret.
    let mut world = World::new(&[gateway("", &open()), routes[0].clone()]);
    assert_eq!(told(&world.settle()), "infra/tls: a.example.com");
    world.documents.push(routes[1].clone());
    assert_eq!(told(&world.settle()), "infra/tls: a.example.com; infra/tls-2: b.example.com");
}

#[test]
fn the_owner_of_a_gateway_goes_before_the_operator() {
    let routes = [route("shop", "web", &["a.example.com"]), route("infra", "web", &["b.example.com"])];
    let told = |annotation: &str, together: Grouping| {
        let world = World::new(&[&[gateway(annotation, &open())], &routes[..]].concat());
        told(&World { together, ..world }.plan())
    };
    let (one, two) =
        ("infra/tls: a.example.com b.example.com", "infra/tls: b.example.com; infra/tls-2: a.example.com");
    assert_eq!(told("", Grouping::Listener), one);
    assert_eq!(told("", Grouping::Namespace), two);
    let per_namespace = ", gateway.tidegate.io/certificate-per: namespace";
    assert_eq!(told(per_namespace, Grouping::Listener), two);
    let per_listener = ", gateway.tidegate.io/certificate-per: listener";
    assert_eq!(told(per_listener, Grouping::Namespace), one);
    // What cannot be read is no word of the owner's.
    assert_eq!(told(", gateway.tidegate.io/certificate-per: all", Grouping::Listener), one);
}

#[test]
fn where_names_are_put_together_anew_the_old_certificates_stay_until_their_renewal() {
    let routes = [route("shop", "web", &["a.example.com"]), route("infra", "web", &["b.example.com"])];
    let mut world = World::new(&[&[gateway("", &open())], &routes[..]].concat());
    let before = told(&world.settle());
    world.together = Grouping::Listener;
    let both = "infra/tls-3: a.example.com b.example.com";
    assert_eq!(told(&world.settle()), format!("{before}; {both}"));
    world.now = RENEWAL;
    let plan = world.settle();
    assert_eq!((told(&plan).as_str(), plan.remove.len()), (both, 2));
}

#[test]
fn what_has_no_room_goes_into_further_certificates_and_nothing_moves() {
    let name = |number: usize| format!("n{number:03}.example.com");
    let routes = |from: usize, to: usize| -> Vec<String> {
        (from..to)
            .step_by(10)
            .map(|first| {
                let names: Vec<String> = (first..to.min(first + 10)).map(name).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                route("infra", &format!("r{first}"), &names)
            })
            .collect()
    };
    let limits = ", gateway.tidegate.io/certificate-limit-per-namespace: '1000'";
    let mut world = World::new(&[&[gateway(limits, &open())], &routes(0, 250)[..]].concat());
    world.taken.insert(in_infra("tls-2"));
    let sizes = |plan: &Plan| -> Vec<(String, usize)> {
        plan.certificates.iter().map(|(name, one)| (name.name.to_string(), one.names.len())).collect()
    };
    let plan = world.settle();
    let expected = [("tls".to_owned(), 100), ("tls-3".to_owned(), 100), ("tls-4".to_owned(), 50)];
    assert_eq!(sizes(&plan), expected);
    // One more name changes one Certificate.
    let before = plan;
    world.documents.push(route("infra", "more", &["more.example.com"]));
    let plan = world.settle();
    let changed: Vec<&str> = plan
        .certificates
        .iter()
        .filter(|(name, one)| before.certificates.get(*name) != Some(one))
        .map(|(name, _)| &*name.name)
        .collect();
    assert_eq!(changed, ["tls-4"]);
    assert_eq!(plan.certificates[&in_infra("tls-4")].names.len(), 51);
    // With a smaller bound what there is stays together, and only what comes goes elsewhere.
    world.most = 2;
    world.documents.push(route("infra", "three", &["x.example.com", "y.example.com", "z.example.com"]));
    let sizes = sizes(&world.settle());
    assert_eq!(sizes.iter().map(|(_, size)| *size).collect::<Vec<_>>(), [100, 100, 51, 2, 1]);
}

#[test]
fn certificates_and_secrets_of_others_are_left_alone() {
    let documents = [gateway("", &open()), route("infra", "web", &["a.example.com"])];
    let foreign = |name: &str, secret: &str| json!({"metadata": {"name": name, "uid": "x"}, "spec": {"secretName": secret, "dnsNames": ["x.example.com"]}});
    for name in ["tls", "other"] {
        let mut world = World::new(&documents);
        world.put(&in_infra(name), foreign(name, "tls"));
        let plan = world.plan();
        assert_eq!((plan.certificates.len(), plan.remove.len()), (0, 0), "{name}");
        assert!(
            plan.refused[&in_infra("tls")].contains(&format!("Certificate infra/{name} is not Tidegate's"))
        );
    }
    // Our label alone makes it not ours.
    let mut world = World::new(&documents);
    let mut copied = foreign("tls", "tls");
    copied["metadata"]["labels"] = json!({ROLE_LABEL: ROLE});
    world.put(&in_infra("tls"), copied);
    assert!(world.plan().refused.contains_key(&in_infra("tls")) && world.plan().remove.is_empty());

    let secret = |annotations: &str| {
        format!(
            "\napiVersion: v1\nkind: Secret\nmetadata: {{name: tls, namespace: infra, annotations: {{{annotations}}}}}\n"
        )
    };
    let of_the_shim = "cert-manager.io/certificate-name: tls";
    let ours = "cert-manager.io/certificate-name: tls, gateway.tidegate.io/issued-by: cert-manager";
    for (annotations, is_foreign) in [("", true), (of_the_shim, true), (ours, false)] {
        let mut world = World::new(&[&documents[..], &[secret(annotations)]].concat());
        let refused = world.targets().refused;
        assert_eq!(!refused.is_empty(), is_foreign, "{annotations}");
        assert_eq!(world.plan().certificates.is_empty(), is_foreign, "{annotations}");
        // Once a Certificate of ours is there, the Secret is cert-manager's.
        let mut before = World::new(&documents);
        before.settle();
        world.there = before.there;
        assert_eq!(world.plan().certificates.len(), 1, "{annotations}");
    }
    let mut world = World::new(&documents);
    world.taken.insert(in_infra("tls"));
    assert!(world.plan().refused[&in_infra("tls")].contains("was not made for"));
}

#[test]
fn certificates_of_a_listener_set_belong_to_it() {
    let set = |name: &str, created: &str, annotations: &str| {
        format!(
            "
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {{name: {name}, namespace: team, uid: {name}-uid, creationTimestamp: {created}, annotations: {{{annotations}}}}}
spec:
  parentRef: {{name: front, namespace: infra}}
  listeners:{}
",
            listener(name, if name == "one" { 8443 } else { 9443 }, None, "team-tls")
        )
    };
    let to_set = |name: &str| {
        route("team", name, &[&format!("{name}.example.com")])
            .replace("[{name: front, namespace: infra}]", &format!("[{{kind: ListenerSet, name: {name}}}]"))
    };
    let one = set("one", "2026-01-01T00:00:00Z", "");
    let mut world = World::new(&[gateway("", &open()), one, to_set("one")]);
    let plan = world.settle();
    let name = ObjectName::new("team", "team-tls");
    assert_eq!(told(&plan), "team/team-tls: one.example.com");
    let body = &plan.certificates[&name].body;
    assert_eq!(body["metadata"]["ownerReferences"][0]["kind"], "ListenerSet");
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "one-uid");
    assert_eq!(body["metadata"]["annotations"]["acme.cert-manager.io/http01-parentrefkind"], "ListenerSet");
    assert_eq!(body["spec"]["issuerRef"]["name"], "ca");

    // Another that is older does not take the Secret of the one that has it.
    let own = "cert-manager.io/issuer: own, acme.cert-manager.io/http01-parentreffallback: 'true'";
    world.documents.extend([set("two", "2025-01-01T00:00:00Z", own), to_set("two")]);
    assert_eq!(told(&world.plan()), "team/team-tls: one.example.com");
    let refused = world.targets().refused;
    let loser = ListenerId {
        gateway: in_infra("front"),
        listener_set: Some(ObjectName::new("team", "two")),
        name: "two".into(),
    };
    assert!(refused[&loser].contains("is made for ListenerSet team/one"), "{refused:?}");
    // On a Gateway without an issuer nothing is asked for, and it is said what to do.
    let bare = gateway("", &open()).replace("cert-manager.io/cluster-issuer", "example.com/other");
    let alone = World::new(&[bare, set("two", "2025-01-01T00:00:00Z", own), to_set("two")]);
    let refused = alone.targets().refused;
    assert!(refused[&loser].contains("annotate Gateway infra/front"), "{refused:?}");
    assert!(alone.plan().certificates.is_empty());
    // When that one goes, its Certificate goes first.
    world.documents.drain(2..4);
    let plan = world.settle();
    assert_eq!((plan.certificates.len(), plan.remove.len()), (0, 1));
    let plan = world.settle();
    let body = &plan.certificates[&name].body;
    assert_eq!(
        (told(&plan).as_str(), &body["spec"]["issuerRef"]["name"]),
        ("team/team-tls: two.example.com", &json!("own"))
    );
    assert_eq!(body["metadata"]["annotations"]["acme.cert-manager.io/http01-parentrefnamespace"], "infra");
}

#[test]
fn a_gateway_that_was_made_again_waits_for_what_is_left_of_it() {
    let mut world = World::new(&[gateway("", &open()), route("infra", "web", &["a.example.com"])]);
    world.settle();
    world.documents[1] = world.documents[1].replace("gateway-uid", "another-uid");
    let plan = world.plan();
    assert_eq!((plan.certificates.len(), plan.remove.len()), (0, 0), "it goes with its owner");
    assert!(plan.refused.contains_key(&in_infra("tls")));
}

#[test]
fn nothing_is_lost_while_a_gateway_is_not_accepted() {
    let mut world = World::new(&[gateway("", &open()), route("infra", "web", &["a.example.com"])]);
    world.settle();
    let good = world.documents[1].clone();
    world.documents[1] =
        good.replace("spec:\n", "spec:\n  addresses: [{type: NamedAddress, value: nowhere}]\n");
    assert_eq!(told(&world.plan()), "infra/tls: a.example.com");
    // Without the annotation, or with an issuer of Tidegate's own, it is.
    for other in [
        good.replace("cert-manager.io/cluster-issuer: ca", ""),
        good.replace("ca}", "ca, gateway.tidegate.io/issuer: embedded}"),
    ] {
        world.documents[1] = other;
        let plan = world.plan();
        assert_eq!((plan.certificates.len(), plan.remove.len()), (0, 1));
    }
}

#[test]
fn routes_that_answer_challenges_bring_no_names() {
    let solver = route("infra", "cm-acme-http-solver-x", &["elsewhere.example.com"]).replace(
        "namespace: infra}\n",
        "namespace: infra, labels: {acme.cert-manager.io/http01-solver: 'true'}}\n",
    );
    let world = World::new(&[gateway("", &open()), route("infra", "web", &["a.example.com"]), solver]);
    assert_eq!(told(&world.plan()), "infra/tls: a.example.com");
}

#[test]
fn a_secret_that_a_listener_names_is_no_place_for_what_has_no_room() {
    let listeners = [open(), listener("other", 8443, None, "tls-2")].concat();
    let routes = [route("shop", "web", &["a.example.com"]), route("infra", "web", &["b.example.com"])];
    let plan = World::new(&[&[gateway("", &listeners)], &routes[..]].concat()).plan();
    let names: Vec<&str> = plan.certificates.keys().map(|name| &*name.name).collect();
    assert_eq!(names, ["tls", "tls-2", "tls-2-2", "tls-3"]);
}

#[test]
fn alternative_names_are_the_owners() {
    let annotations = ", cert-manager.io/alt-names: 'z.example.com,not a name'";
    let world = World::new(&[gateway(annotations, &open()), route("shop", "web", &["a.example.com"])]);
    assert_eq!(told(&world.plan()), "infra/tls: z.example.com; infra/tls-2: a.example.com");
    assert_eq!(world.targets().notes.len(), 1);
}
