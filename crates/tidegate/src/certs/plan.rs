//! `tidegate certs plan`: what `run` would ask for, without asking.

use std::fmt::Write;

use serde_json::{Value, json};
use tidegate_certs::{
    Book, Certificate, Decision, Demand, FolderStore, Issuer, Order, Policies, Shelf, StoreError,
};
use tidegate_issuing::{secret_in_words, state_in_words};
use tidegate_plan::ObjectName;
use tidegate_translate::{LeftOut, Settings, Source, Wants, WhyLeftOut};

use crate::arguments::{CertsPlan, TextFormat};
use crate::certs::cert_manager::CertManager;
use crate::certs::default_issuer;
use crate::layout::paragraph;
use crate::meaning::Meaning;
use crate::output::{Error, FAINT, Outcome, STRONG, Terminal, styled};
use crate::words;

pub(crate) fn run(options: &CertsPlan, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let settings = Settings { issuer: default_issuer(options.certs), ..Settings::folder() };
    let meaning = Meaning::under(&options.paths, settings)?;
    meaning.report(terminal);
    let only = options.gateway.as_deref().map(object_name);
    let wants: Vec<&Wants> = meaning
        .translation()
        .wants
        .values()
        .map(|wants| &**wants)
        .filter(|wants| only.as_ref().is_none_or(|only| wants.listener.gateway == *only))
        .collect();
    if wants.is_empty() {
        terminal
            .remark("No listener wants a certificate: no Gateway has an issuer (--certs names one for all).");
    }
    let held = match &options.state {
        Some(state) => held(state).map_err(|error| Error::Start(error.to_string()))?,
        None => Vec::new(),
    };
    let mut policies = options.grouping.policies();
    // A plan is of all orders, not of those that would be made first.
    for policy in policies.values_mut() {
        (policy.gather, policy.in_flight, policy.proves) = (0, usize::MAX, false);
    }
    let demand = meaning.demand();
    let mut book = Book::new(held.iter().map(|certificate| certificate.held.clone()), [], Default::default());
    let decision = book.decide(words::now(), &demand, &policies);
    let plan = Plan {
        wants: &wants,
        demand: &demand,
        decision: &decision,
        book: &book,
        policies: &policies,
        cert_manager: CertManager::of(&meaning),
    };
    match options.output {
        TextFormat::Text => terminal.print(&plan.text())?,
        TextFormat::Json => terminal.print_json(&plan.json())?,
    }
    let is_whole = wants.iter().all(|wants| wants.left_out.is_empty());
    Ok(Outcome::good_if(is_whole && !plan.is_held_back()))
}

fn object_name(text: &str) -> ObjectName {
    let (name, namespace) = text.split_once('.').unwrap_or((text, "default"));
    ObjectName::new(namespace, name)
}

fn held(state: &std::path::Path) -> Result<Vec<Certificate>, StoreError> {
    let documents = FolderStore::look(state)?.documents(Shelf::Certificates)?;
    documents.iter().map(|document| Certificate::parse(&document.name, &document.content)).collect()
}

struct Plan<'a> {
    wants: &'a [&'a Wants],
    demand: &'a Demand,
    decision: &'a Decision,
    book: &'a Book,
    policies: &'a Policies,
    cert_manager: CertManager,
}

impl Plan<'_> {
    /// Whether a name is wanted and would not be asked for.
    fn is_held_back(&self) -> bool {
        self.decision.missing.values().any(|state| *state != tidegate_certs::State::Ordered)
    }

    fn orders<'b>(&'b self, secret: &'b ObjectName) -> impl Iterator<Item = &'b Order> {
        self.decision.start.iter().filter(move |order| order.target == *secret)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for wants in self.wants {
            let _ = writeln!(text, "{}", styled(STRONG, format!("Listener {}", wants.listener)));
            text.push_str(&self.asked(wants));
            for left in &wants.left_out {
                let whose = left.route.as_ref().map(|route| format!(" of {route}")).unwrap_or_default();
                let name = left.name.as_ref().map_or("no name", |name| name.as_str());
                let line = format!("not {name}{whose}: {}", why(left.why));
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
        let Some(issuer) = tidegate_issuing::issuer(wants) else { return self.cert_manager.text(wants) };
        if self.demand.foreign.contains(secret) {
            return paragraph(2, &format!("{} is not ours: it is used as it is", secret_in_words(secret)));
        }
        let mut text = String::new();
        for order in self.orders(secret) {
            let line =
                format!("{} of {issuer}: {}", secret_in_words(&order.secret), words::all_of(&order.names));
            text.push_str(&paragraph(2, &line));
        }
        for held in self.book.held().values().filter(|held| held.target == *secret) {
            let line = format!(
                "{} is there until {}, renewed at {}: {}",
                secret_in_words(&held.secret),
                words::time(held.not_after),
                words::time(held.renew_at()),
                words::all_of(&held.names)
            );
            text.push_str(&paragraph(2, &line));
        }
        for ((of, name), state) in &self.decision.missing {
            if of == secret && *state != tidegate_certs::State::Ordered {
                text.push_str(&paragraph(2, &format!("{name} {}", state_in_words(state, Source::Folder))));
            }
        }
        if let Some(policy) = self.policies.get(&issuer) {
            let _ = writeln!(text, "  {}", styled(FAINT, format!("together: {}", policy.reason())));
            let when = "renewed shortly before two thirds of its life, or when the CA says";
            let _ = writeln!(text, "  {}", styled(FAINT, when));
        }
        text
    }

    fn json(&self) -> Value {
        let listeners: Vec<Value> = self
            .wants
            .iter()
            .map(|wants| {
                let secret = wants.secret.as_ref();
                let orders: Vec<&Order> =
                    secret.map(|secret| self.orders(secret).collect()).unwrap_or_default();
                let policy =
                    tidegate_issuing::issuer(wants).and_then(|issuer: Issuer| self.policies.get(&issuer));
                let is_foreign = secret.is_some_and(|secret| self.demand.foreign.contains(secret));
                json!({
                    "listener": wants.listener,
                    "issuer": wants.issuer,
                    "secret": secret,
                    "secretIsForeign": is_foreign,
                    "names": wants.names,
                    "leftOut": wants.left_out.iter().map(left_out).collect::<Vec<_>>(),
                    "orders": orders,
                    "certificates": self.cert_manager.json(wants),
                    "together": policy.map(tidegate_certs::Policy::reason),
                })
            })
            .collect();
        json!({ "listeners": listeners })
    }
}

fn left_out(left: &LeftOut) -> Value {
    json!({ "name": left.name, "route": left.route, "why": left.why, "message": why(left.why) })
}

const fn why(why: WhyLeftOut) -> &'static str {
    match why {
        WhyLeftOut::WildcardOfRoute => {
            "a wildcard is never asked for on the word of a route; write it as the listener's hostname"
        }
        WhyLeftOut::IssuerWithoutWildcards => {
            "this issuer gives no wildcards; the names of attached routes are asked for instead"
        }
        WhyLeftOut::OutsideListenerHostname => "outside the listener's hostname",
        WhyLeftOut::NotOnAllowList => "not at or below a domain of gateway.tidegate.io/certificate-domains",
        WhyLeftOut::OverLimit => "over the Gateway's limit (gateway.tidegate.io/certificate-limit)",
        WhyLeftOut::OverNamespaceLimit => {
            "over the limit of its namespace (gateway.tidegate.io/certificate-limit-per-namespace)"
        }
        WhyLeftOut::RouteNotAccepted => "the route is not accepted here",
        WhyLeftOut::RouteWithoutHostnames => "the route has no hostnames",
        WhyLeftOut::Passthrough => "the listener passes TLS through; the backend has the certificate",
    }
}
