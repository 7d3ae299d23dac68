//! What a listener goes on with when its Secrets have nothing to serve any more, and for how long.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustls::ServerConfig;
use tidegate_plan::{
    Body, Certificate, Fragment, LastGood, Listener, ListenerHandle, ObjectName, Plan, Reason,
};

use super::support::{Authority, End, World, converse, listener, tls_of};
use crate::tls::kept::{Kept, KeptCertificate};

/// Some time, and when the certificates end.
const NOW: i64 = 1_000_000;
const END: i64 = NOW + 100_000;
const HOUR: u32 = 3600;

/// A data plane, as far as it is about keeping.
struct Plane {
    world: World,
    authority: Authority,
    kept: Kept,
    now: i64,
    served: Option<ListenerHandle>,
    tls: Result<Arc<ServerConfig>, Reason>,
}

impl Plane {
    fn new() -> Self {
        Self {
            world: World::new(),
            authority: Authority::new("CA"),
            kept: Kept::default(),
            now: NOW,
            served: None,
            tls: Err(Reason::NoCertificate),
        }
    }

    /// A certificate for one name, out of a Secret called the same.
    fn certificate(&mut self, name: &str) -> Certificate {
        let issued = self.authority.issue(&[name]);
        Certificate {
            secret: ObjectName::new("default", name),
            not_after: END,
            ..self.world.certificate(&issued)
        }
    }

    /// Takes a listener; what it does not have the plan no longer has either.
    fn told(&mut self, listener: Listener) {
        let told = Arc::new(Fragment::new(Body::Listener(listener)));
        let blobs = told.body.blobs();
        let blobs = blobs.filter_map(|id| Some((id.clone(), Arc::clone(self.world.blobs.get(id)?))));
        let plan = Plan { blobs: blobs.collect(), ..Plan::default() };
        self.apply(&told, plan);
    }

    fn apply(&mut self, told: &Arc<Fragment>, plan: Plan) {
        let served = self.served.as_deref();
        let served = self.kept.fill(told, served, &plan, &mut self.world.keys, self.now);
        let all = std::mem::replace(&mut self.world.blobs, plan.blobs);
        let served = ListenerHandle::new(&served).unwrap();
        self.tls = served.refuse.map_or_else(|| self.world.server(&served), Err);
        self.served = Some(served);
        self.world.blobs = all;
    }

    /// Time goes by, and what has ended is ended.
    fn wait(&mut self, seconds: i64) {
        self.now += seconds;
        for told in self.kept.ended(self.now) {
            let (_, fragment) = told.fragments.first_key_value().unwrap();
            self.apply(&Arc::clone(fragment), told);
        }
    }

    /// The names of the certificates that there are, in their order.
    fn shows(&self) -> Vec<String> {
        if self.tls.is_err() {
            return Vec::new();
        }
        let tls = self.served.as_ref().unwrap().handling.server_tls().unwrap();
        tls.certificates.iter().map(|one| one.names[0].to_string()).collect()
    }

    fn kept(&self) -> Vec<KeptCertificate> {
        self.kept.list().to_vec()
    }
}

/// A listener whose certificate is not to be had.
fn without(name: &str, seconds: Option<u32>) -> Listener {
    let mut listener = listener("tls", Vec::new());
    let secret = ObjectName::new("default", name);
    tls_of(&mut listener).last_good = vec![LastGood { secret, place: 0, seconds }];
    listener.refuse = Some(Reason::NoCertificate);
    listener
}

#[test]
fn a_certificate_that_turns_bad_is_kept_until_it_expires() {
    let mut plane = Plane::new();
    let certificate = plane.certificate("a.example");
    plane.told(listener("tls", vec![certificate]));
    let policy = plane.world.policy("a.example", &plane.authority);
    let client = plane.world.client(&policy).unwrap();
    let resumed = |plane: &Plane| {
        let mut server = End::server(plane.tls.as_ref().unwrap());
        converse(&mut End::of(&client, None), &mut server).unwrap();
        server.codec.agreed().resumed
    };
    assert!(!resumed(&plane));

    plane.told(without("a.example", None));
    assert!(resumed(&plane), "its sessions are still good");
    let until = UNIX_EPOCH + Duration::from_secs(END as u64);
    let secret = ObjectName::new("default", "a.example");
    let listener = plane.served.as_ref().unwrap().id.clone();
    assert_eq!(plane.kept(), [KeptCertificate { listener, secret, until }]);

    plane.wait(END - NOW - 1);
    assert_eq!(plane.shows(), ["a.example"]);
    plane.wait(1);
    assert_eq!(plane.tls.as_ref().unwrap_err(), &Reason::NoCertificate);
    assert_eq!(plane.kept(), []);
}

#[test]
fn one_whose_secret_is_gone_has_its_time_and_no_more() {
    let mut plane = Plane::new();
    let certificate = plane.certificate("a.example");
    plane.told(listener("tls", vec![certificate]));
    plane.wait(5000);
    plane.told(without("a.example", Some(HOUR)));
    plane.wait(3000);
    // A change of something else does not make it longer.
    plane.told(Listener { port: 444, ..without("a.example", Some(HOUR)) });
    plane.wait(599);
    assert_eq!(plane.shows(), ["a.example"]);
    plane.wait(1);
    assert_eq!(plane.tls.as_ref().unwrap_err(), &Reason::NoCertificate);
    // What is forgotten does not come back.
    plane.told(without("a.example", None));
    assert_eq!(plane.shows(), [""; 0]);
}

#[test]
fn no_bound_outlives_the_certificate() {
    let mut plane = Plane::new();
    let certificate = plane.certificate("a.example");
    plane.told(listener("tls", vec![certificate]));
    plane.wait(END - NOW - 10);
    plane.told(without("a.example", Some(HOUR)));
    assert_eq!(plane.shows(), ["a.example"]);
    plane.wait(10);
    assert_eq!(plane.shows(), [""; 0]);
}

#[test]
fn a_new_certificate_takes_its_place() {
    let mut plane = Plane::new();
    let [old, new] = [(); 2].map(|()| plane.certificate("a.example"));
    plane.told(listener("tls", vec![old]));
    plane.told(without("a.example", None));
    plane.told(listener("tls", vec![new.clone()]));
    assert_eq!(plane.kept(), []);
    let served = plane.served.as_ref().unwrap().handling.server_tls().unwrap();
    assert_eq!(served.certificates, [new]);
}

#[test]
fn what_is_not_to_be_had_any_more_is_forgotten_at_once() {
    let mut plane = Plane::new();
    let certificate = plane.certificate("a.example");
    let mut none = without("a.example", None);
    tls_of(&mut none).last_good.clear();

    plane.told(listener("tls", vec![certificate.clone()]));
    plane.told(none.clone());
    assert_eq!(plane.tls.as_ref().unwrap_err(), &Reason::NoCertificate);
    plane.told(without("a.example", None));
    assert_eq!(plane.tls.as_ref().unwrap_err(), &Reason::NoCertificate);

    // Nor is it kept on when it was kept before.
    plane.told(listener("tls", vec![certificate.clone()]));
    plane.told(without("a.example", None));
    assert_eq!(plane.kept().len(), 1);
    plane.told(none);
    assert_eq!((plane.shows(), plane.kept()), (vec![], vec![]));

    // And a listener that goes takes all of it with it.
    plane.told(listener("tls", vec![certificate]));
    plane.told(without("a.example", None));
    let id = plane.served.take().unwrap().id.clone();
    plane.kept.forget(&id);
    assert_eq!(plane.kept(), []);
    plane.told(without("a.example", None));
    assert_eq!(plane.shows(), [""; 0]);
}

#[test]
fn a_listener_keeps_what_it_served_itself() {
    let mut plane = Plane::new();
    plane.told(without("a.example", None));
    assert_eq!(plane.tls.as_ref().unwrap_err(), &Reason::NoCertificate);
    let other = plane.certificate("b.example");
    plane.told(listener("tls", vec![other]));
    plane.told(without("a.example", None));
    assert_eq!(plane.tls.as_ref().unwrap_err(), &Reason::NoCertificate);
}

#[test]
fn the_order_stays_and_the_others_go_on() {
    let mut plane = Plane::new();
    let [a, b, c, d] =
        ["a.example", "b.example", "c.example", "d.example"].map(|name| plane.certificate(name));
    plane.told(listener("tls", vec![b.clone(), c.clone(), d.clone()]));
    // The first was never there, the second and last are no more.
    let mut without = listener("tls", vec![c]);
    let last_good = |one: &Certificate, place| LastGood { secret: one.secret.clone(), place, seconds: None };
    tls_of(&mut without).last_good = vec![last_good(&a, 0), last_good(&b, 1), last_good(&d, 3)];
    plane.told(without);
    assert_eq!(plane.shows(), ["b.example", "c.example", "d.example"]);
}

#[test]
fn another_reason_to_refuse_stays() {
    let mut plane = Plane::new();
    let certificate = plane.certificate("a.example");
    plane.told(listener("tls", vec![certificate]));
    plane.told(Listener { refuse: Some(Reason::NoClientCa), ..without("a.example", None) });
    assert_eq!(plane.tls.as_ref().unwrap_err(), &Reason::NoClientCa);
    // When that is repaired, the key is still there.
    plane.told(without("a.example", None));
    assert_eq!(plane.shows(), ["a.example"]);
}

#[test]
fn names_are_chosen_by_as_before() {
    let mut plane = Plane::new();
    let certificate = plane.certificate("a.example");
    let mut issued = listener("tls", vec![certificate]);
    tls_of(&mut issued).named_only = true;
    plane.told(issued);
    plane.told(without("a.example", Some(HOUR)));
    assert!(plane.served.as_ref().unwrap().handling.server_tls().unwrap().named_only);
}
