//! `tidegate certs plan`: what `run`, or the controller of a cluster, would ask for, without asking.

use std::fmt::Write;

use serde_json::{Value, json};
use tidegate_certs::{Book, ChallengeKind, Decision, Held, Issuer, Order, Policy, State};
use tidegate_issuing::{left_out_in_words, refusal, secret_in_words, state_in_words};
use tidegate_plan::{Hostname, ObjectName};
use tidegate_translate::{LeftOut, Wants};

use crate::arguments::{CertsPlan, TextFormat};
use crate::certs::ground::Ground;
use crate::layout::paragraph;
use crate::output::{Error, FAINT, Outcome, STRONG, Terminal, styled};
use crate::words;

pub(crate) fn run(options: &CertsPlan, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let ground = if options.paths.is_empty() {
        Ground::of_cluster(options, terminal)?
    } else {
        Ground::of_folder(options, terminal)?
    };
    if ground.wants.is_empty() {
        terminal
            .remark("No listener wants a certificate: no Gateway has an issuer (--certs names one for all).");
    }
    let mut policies = ground.policies.clone();
    // A plan is of all orders, not of those that would be made first.
    for policy in policies.values_mut() {
        (policy.gather, policy.in_flight, policy.proves) = (0, usize::MAX, false);
    }
    let held = ground.kept.certificates.iter().map(|certificate| certificate.held.clone());
    let ledger = ground.kept.ledgers.first().cloned().unwrap_or_default();
    let mut book = Book::new(held, [], ledger);
    let decision = book.decide(words::now(), &ground.demand, &policies);
    let plan = Plan { ground: &ground, decision: &decision, book: &book };
    match options.output {
        TextFormat::Text => terminal.print(&plan.text())?,
        TextFormat::Json => terminal.print_json(&plan.json())?,
    }
    Ok(Outcome::good_if(plan.is_whole()))
}

struct Plan<'a> {
    ground: &'a Ground,
    decision: &'a Decision,
    book: &'a Book,
}

impl Plan<'_> {
    /// Whether no name is left without a certificate.
    fn is_whole(&self) -> bool {
        let wants = &self.ground.wants;
        let is_wanted = |secret: &ObjectName| wants.iter().any(|wants| wants.secret.as_ref() == Some(secret));
        let mut missing = self.decision.missing.iter().filter(|((secret, _), _)| is_wanted(secret));
        let is_fine = |left: &LeftOut| left.why.is_served_elsewhere();
        wants.iter().all(|wants| {
            wants.left_out.iter().all(is_fine) && self.refusal(wants).is_none() && !self.is_unprovable(wants)
        }) && missing.all(|(_, state)| *state == State::Ordered)
    }

    /// Why an issuer of ours is not asked, whatever the names.
    fn refusal(&self, wants: &Wants) -> Option<String> {
        refusal(wants, Some(&self.ground.demand), self.ground.source).filter(|_| !wants.names.is_empty())
    }

    /// By which challenges a listener's names can be proved; `None` where nobody has to prove anything.
    fn challenges(&self, wants: &Wants) -> Option<&[ChallengeKind]> {
        tidegate_issuing::issuer(wants).filter(Issuer::is_acme)?;
        self.ground.challenges.get(&wants.listener.gateway).map(Vec::as_slice)
    }

    fn is_unprovable(&self, wants: &Wants) -> bool {
        !wants.names.is_empty() && self.challenges(wants).is_some_and(<[ChallengeKind]>::is_empty)
    }

    /// Who is asked, and how names are proved.
    fn proof(&self, wants: &Wants, issuer: &Issuer) -> Option<String> {
        let directory = self.ground.directories.get(issuer)?;
        let how = match self.challenges(wants)? {
            [] => "no challenge can be answered: it takes an HTTP listener on port 80, or an HTTPS or TLS listener on port 443".to_owned(),
            kinds => format!("names are proved by {}", kinds.iter().map(|kind| named(*kind)).collect::<Vec<_>>().join(" or ")),
        };
        Some(format!("asked of {directory}; {how}"))
    }

    fn orders<'b>(&'b self, secret: &'b ObjectName) -> impl Iterator<Item = &'b Order> {
        self.decision.start.iter().filter(move |order| order.target == *secret)
    }

    /// What there is for a listener's Secret.
    fn held<'b>(&'b self, secret: &'b ObjectName) -> impl Iterator<Item = &'b Held> {
        self.book.held().values().filter(move |held| held.target == *secret)
    }

    /// The names that would not be asked for, and why.
    fn held_back(&self, wants: &Wants) -> Vec<(&Hostname, String)> {
        let missing = self.decision.missing.iter();
        let own =
            missing.filter(|((of, _), state)| Some(of) == wants.secret.as_ref() && **state != State::Ordered);
        own.map(|((_, name), state)| (name, state_in_words(state, wants, self.ground.source))).collect()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for wants in &self.ground.wants {
            let _ = writeln!(text, "{}", styled(STRONG, format!("Listener {}", wants.listener)));
            text.push_str(&self.asked(wants));
            for left in &wants.left_out {
                let whose = left.route.as_ref().map(|route| format!(" of {route}")).unwrap_or_default();
                let name = left.name.as_ref().map_or("no name", |name| name.as_str());
                let line = format!("not {name}{whose}: {}", left_out_in_words(left));
                text.push_str(&paragraph(2, &line));
            }
            text.push('\n');
        }
        text
    }

    fn asked(&self, wants: &Wants) -> String {
        if wants.names.is_empty() {
            return "  asks for nothing\n".to_owned();
        }
        let Some(secret) = &wants.secret else {
            return "  has no Secret in tls.certificateRefs that a certificate could go to\n".to_owned();
        };
        let Some(issuer) = tidegate_issuing::issuer(wants) else {
            return self.ground.cert_manager.text(wants);
        };
        if let Some(why) = self.refusal(wants) {
            return paragraph(2, &why);
        }
        if self.ground.demand.foreign.contains(secret) {
            return paragraph(2, &format!("{} is not ours: it is used as it is", secret_in_words(secret)));
        }
        let mut text = String::new();
        for order in self.orders(secret) {
            let line =
                format!("{} of {issuer}: {}", secret_in_words(&order.secret), words::all_of(&order.names));
            text.push_str(&paragraph(2, &line));
        }
        for held in self.held(secret) {
            let (renewed, timing) = held.renewal();
            let line = format!(
                "{} is there until {}, renewed at {} ({}): {}",
                secret_in_words(&held.secret),
                words::time(held.not_after),
                words::time(renewed),
                words::timing(timing),
                words::all_of(&held.names)
            );
            text.push_str(&paragraph(2, &line));
        }
        for (name, why) in self.held_back(wants) {
            text.push_str(&paragraph(2, &format!("{name} {why}")));
        }
        if let Some(proof) = self.proof(wants, &issuer) {
            text.push_str(&paragraph(2, &proof));
        }
        if let Some(policy) = self.ground.policies.get(&issuer) {
            let _ = writeln!(text, "  {}", styled(FAINT, format!("together: {}", policy.reason())));
            let gather = policy.gather;
            let wait = (gather > 0).then(|| format!("; new names wait {gather} s for others"));
            let when = renewed(&issuer);
            let _ = writeln!(text, "  {}", styled(FAINT, format!("{when}{}", wait.unwrap_or_default())));
        }
        text
    }

    fn json(&self) -> Value {
        let ground = self.ground;
        let listeners: Vec<Value> = ground
            .wants
            .iter()
            .map(|wants| {
                let secret = wants.secret.as_ref();
                let orders: Vec<&Order> = secret.into_iter().flat_map(|secret| self.orders(secret)).collect();
                let there: Vec<Value> =
                    secret.into_iter().flat_map(|secret| self.held(secret)).map(held).collect();
                let held_back = self.held_back(wants).into_iter();
                let issuer = tidegate_issuing::issuer(wants);
                let policy = issuer.as_ref().and_then(|issuer| ground.policies.get(issuer));
                let acme = issuer.as_ref().filter(|issuer| issuer.is_acme());
                let kinds = self.challenges(wants);
                let is_foreign = secret.is_some_and(|secret| ground.demand.foreign.contains(secret));
                json!({
                    "listener": wants.listener,
                    "issuer": wants.issuer,
                    "secret": secret,
                    "secretIsForeign": is_foreign,
                    "names": wants.names,
                    "leftOut": wants.left_out.iter().map(left_out).collect::<Vec<_>>(),
                    "refused": self.refusal(wants),
                    "orders": orders,
                    "there": there,
                    "heldBack": held_back.map(|(name, why)| json!({ "name": name, "message": why })).collect::<Vec<_>>(),
                    "certificates": ground.cert_manager.json(wants),
                    "directory": acme.and_then(|issuer| ground.directories.get(issuer)),
                    "challenges": kinds.map(|kinds| kinds.iter().map(|kind| named(*kind)).collect::<Vec<_>>()),
                    "renewed": issuer.as_ref().map(renewed),
                    "together": policy.map(Policy::reason),
                    "gatherSeconds": policy.map(|policy| policy.gather),
                })
            })
            .collect();
        json!({ "listeners": listeners })
    }
}

/// When, for people.
fn renewed(issuer: &Issuer) -> &'static str {
    if issuer.is_acme() {
        "renewed shortly before two thirds of its life, or when the CA says (ARI)"
    } else {
        "renewed shortly before two thirds of its life"
    }
}

const fn named(kind: ChallengeKind) -> &'static str {
    match kind {
        ChallengeKind::Http01 => "HTTP-01",
        ChallengeKind::TlsAlpn01 => "TLS-ALPN-01",
    }
}

fn held(held: &Held) -> Value {
    let (renewed, timing) = held.renewal();
    json!({
        "secret": held.secret,
        "names": held.names,
        "notAfter": words::time(held.not_after),
        "renewAt": words::time(renewed),
        "renewBy": timing,
    })
}

fn left_out(left: &LeftOut) -> Value {
    let why = left_out_in_words(left);
    json!({ "name": left.name, "route": left.route, "why": left.why, "takenBy": left.taken_by, "message": why })
}
