//! The difference as a changelog for people.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anstyle::Style;
use tidegate_plan::Transport;

use crate::conditions::Health;
use crate::diff::destination::Destination;
use crate::diff::flips::{Flip, Said};
use crate::diff::traffic::Change;
use crate::diff::{Difference, Sign};
use crate::layout::paragraph;
use crate::output::{BAD, CARE, GOOD, STRONG, styled};
use crate::words;

pub(crate) fn render(difference: &Difference) -> String {
    let mut parts: Vec<String> = Vec::new();
    section(
        &mut parts,
        "Ports",
        difference.ports.iter().map(|port| {
            let words = if port.change == Sign::Starts { "opens" } else { "closes" };
            line(port.change, &format!("{} {words}", socket(port.address, port.port, port.transport)))
        }),
    );
    section(&mut parts, "Traffic", grouped(&difference.traffic).into_iter().map(|group| traffic(&group)));
    section(
        &mut parts,
        "Certificates",
        difference.certificates.iter().map(|change| {
            let name = words::hostname(change.hostname.as_ref());
            let socket = socket(change.address, change.port, Transport::Tcp);
            line(Sign::Changes, &format!("{socket} {name}")) + &was_and_is(&change.old, &change.new)
        }),
    );
    section(
        &mut parts,
        "Backends",
        difference.backends.iter().map(|change| {
            let aspects = change.changes.iter();
            let aspects = aspects.map(|aspect| {
                paragraph(6, &format!("{} was {}", aspect.what, aspect.old))
                    + &paragraph(6, &format!("{} now {}", aspect.what, aspect.new))
            });
            line(Sign::Changes, &change.backend) + &aspects.collect::<String>()
        }),
    );
    section(&mut parts, "Conditions", difference.conditions.iter().map(flip));
    if difference.is_nothing_for_traffic() {
        parts.push("Nothing changes for traffic.\n".to_owned());
    }
    parts.join("\n")
}

fn section(parts: &mut Vec<String>, title: &str, lines: impl Iterator<Item = String>) {
    let lines: String = lines.collect();
    if !lines.is_empty() {
        parts.push(format!("{}\n{lines}", styled(STRONG, title)));
    }
}

fn line(sign: Sign, words: &str) -> String {
    let (style, mark): (Style, &str) = match sign {
        Sign::Starts => (GOOD, "+"),
        Sign::Stops => (BAD, "-"),
        Sign::Changes => (CARE, "~"),
    };
    format!("  {} {words}\n", styled(style, mark))
}

fn was_and_is(old: &str, new: &str) -> String {
    paragraph(6, &format!("was {old}")) + &paragraph(6, &format!("now {new}"))
}

fn socket(address: Option<IpAddr>, port: u16, transport: Transport) -> String {
    let transport = if transport == Transport::Udp { "UDP" } else { "TCP" };
    match address {
        None => format!("{port}/{transport}"),
        Some(address) => format!("{}/{transport}", std::net::SocketAddr::new(address, port)),
    }
}

/// Flows that change alike, told once: a route may have a thousand names.
fn grouped(changes: &[Change]) -> Vec<Vec<&Change>> {
    let mut groups: Vec<Vec<&Change>> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for change in changes {
        let Change { port, transport, address, old, new, .. } = change;
        let index =
            *known.entry(format!("{port} {transport:?} {address:?} {old:?} {new:?}")).or_insert(groups.len());
        match groups.get_mut(index) {
            Some(group) => group.push(change),
            None => groups.push(vec![change]),
        }
    }
    groups
}

fn traffic(group: &[&Change]) -> String {
    let first = group[0];
    let names: Vec<String> = group
        .iter()
        .map(|change| {
            let name = words::hostname(change.hostname.as_ref());
            change.matched.as_ref().map_or_else(|| name.to_owned(), |matched| format!("{name} [{matched}]"))
        })
        .collect();
    let of_stream = first.hostname.is_none() && first.matched.is_none();
    let names = if of_stream { String::new() } else { format!(" {}", words::some_of(&names, 6)) };
    let head = line(first.change, &format!("{}{names}", socket(first.address, first.port, first.transport)));
    let (old, new) = (first.old.words(), first.new.words());
    let at_fault = match &first.new {
        Destination::Refused(refused) => refused.message.as_ref().map(|message| paragraph(6, message)),
        Destination::Routed { .. } | Destination::Left { .. } => None,
    };
    let way = match first.change {
        Sign::Starts => paragraph(6, &format!("now {new}")),
        // The same words on both sides: what they leave out is named.
        Sign::Changes if old == new => {
            let differs = first.old.differs_in(&first.new);
            paragraph(6, &format!("{new}: a change of its {}", words::and(&differs)))
        }
        Sign::Stops | Sign::Changes => was_and_is(&old, &new),
    };
    head + &way + &at_fault.unwrap_or_default()
}

fn flip(flip: &Flip) -> String {
    let said = |said: &Option<Said>| {
        said.map_or_else(|| "not set".to_owned(), |said| format!("{:?} ({:?})", said.status, said.reason))
    };
    let sign = match (flip.health, &flip.old) {
        (Health::Bad, _) => Sign::Stops,
        (_, None) | (Health::Good, _) => Sign::Starts,
        (Health::Care, _) => Sign::Changes,
    };
    let change = match &flip.old {
        None => said(&flip.new),
        Some(_) => format!("{} -> {}", said(&flip.old), said(&flip.new)),
    };
    line(sign, &format!("{} {:?}: {change}", flip.about, flip.kind)) + &paragraph(6, &flip.message)
}
