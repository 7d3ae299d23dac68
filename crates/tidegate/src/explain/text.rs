//! An explained flow for people.

use std::fmt::Write;

use tidegate_plan::Transport;

use crate::explain::backends::Share;
use crate::explain::flow::{Asked, Explanation};
use crate::layout::width;
use crate::output::{BAD, CARE, FAINT, GOOD, STRONG, styled};
use crate::words;

/// Where the second column begins.
const COLUMN: usize = 14;

pub(crate) fn render(explanation: &Explanation) -> String {
    let mut text = format!("{}\n\n", styled(STRONG, asked(&explanation.flow, explanation.http)));
    for (number, step) in explanation.steps.iter().enumerate() {
        let number = number + 1;
        hanging(&mut text, 2, &format!("{number:>2}."), 6, &step.to_string());
    }
    let verdict = match explanation.reason {
        Some(reason) => format!("{}: {}", styled(BAD, "refused"), reason.text()),
        None => styled(GOOD, "routed"),
    };
    let _ = writeln!(text, "\n{verdict}");
    facts(&mut text, explanation);
    text
}

/// The flow in one line; the request only where somebody looked at it.
fn asked(flow: &Asked, http: bool) -> String {
    let transport = if flow.transport == Transport::Udp { "UDP" } else { "TCP" };
    let mut words = format!("{transport} to {}", flow.local);
    if let Some(client) = flow.client {
        let _ = write!(words, " from {client}");
    }
    match (flow.tls, &flow.sni) {
        (true, Some(sni)) => words.push_str(&format!(", TLS for {sni}")),
        (true, None) => words.push_str(", TLS without a server name"),
        (false, _) => {}
    }
    if !flow.alpn.is_empty() {
        let _ = write!(words, " offering {}", flow.alpn.join(", "));
    }
    if http {
        let flow = &flow.request;
        let host = flow.host.as_deref().unwrap_or("(no host)");
        let query = flow.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        let _ = write!(words, ", {} {host}{}{query}", flow.method, flow.path);
    }
    words
}

fn facts(text: &mut String, explanation: &Explanation) {
    let mut fact = |name: &str, words: String| {
        hanging(text, 2, &styled(FAINT, format_args!("{name:<12}")), COLUMN + 1, &words);
    };
    if let Some(answer) = &explanation.answer {
        fact("answer", answer.clone());
    }
    if let Some(listener) = &explanation.listener {
        let hostname = listener.hostname.as_ref().map(|hostname| format!(", {hostname}")).unwrap_or_default();
        let version = listener.http_version.map(|version| format!(", {version}")).unwrap_or_default();
        let protocol = listener.protocol.as_ref().map(|protocol| format!(", {protocol}")).unwrap_or_default();
        fact("listener", format!("{} ({}{hostname}{version}{protocol})", listener.id, listener.handling));
        if let Some(rule) = listener.client_certificates {
            fact("", format!("client certificates are {rule}"));
        }
    }
    if let Some(certificate) = &explanation.certificate {
        fact("certificate", words::certificate(certificate));
    }
    if let Some(route) = &explanation.route {
        let name = route.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
        let matched = route.matched.as_ref().map(|matched| format!(": {matched}")).unwrap_or_default();
        fact("route", format!("{} rule {}{name}{matched}", route.id, route.rule));
    }
    if let Some(request) = &explanation.request {
        request.filters.iter().for_each(|filter| fact("filter", filter.clone()));
        request.limits.iter().for_each(|limit| fact("limit", limit.clone()));
        if let Some(redirect) = &request.redirect {
            fact("redirect", redirect.clone());
        }
    }
    for share in &explanation.backends {
        let percent = format!("{} %", (share.percent * 10.0).round() / 10.0);
        fact("backend", format!("{percent} to {} (weight {})", share.backend, share.weight));
        for line in share_lines(share) {
            fact("", line);
        }
    }
}

fn share_lines(share: &Share) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(reason) = share.fails {
        lines.push(styled(CARE, format_args!("fails: {}", reason.text())));
    }
    if !share.endpoints.is_empty() {
        lines.push(format!("endpoints {}", words::some_of(&share.endpoints, 8)));
    }
    lines.extend(share.upstream.clone());
    lines.extend(share.request.clone());
    lines.extend(share.remarks.iter().cloned());
    lines.extend(share.filters.iter().map(|filter| format!("filter {filter}")));
    lines
}

/// A line that begins with a mark, its words hanging at one column.
fn hanging(text: &mut String, indent: usize, mark: &str, column: usize, words: &str) {
    let room = width().saturating_sub(column).max(30);
    let mut lines: Vec<String> = vec![String::new()];
    for word in words.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    for (number, line) in lines.iter().enumerate() {
        if number == 0 {
            let _ = writeln!(text, "{:indent$}{mark} {line}", "");
        } else {
            let _ = writeln!(text, "{:column$}{line}", "");
        }
    }
}
