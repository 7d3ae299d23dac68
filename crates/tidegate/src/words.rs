//! Small things said the same way everywhere.

use std::fmt::Display;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_api::listener::{Listener, TlsMode};
use tidegate_api::scalar::port_number;
use tidegate_api::status::ParentRefStatus;
use tidegate_certs::Timing;
use tidegate_plan::{Certificate, Hostname, ObjectName};

/// `a, b and 3 more`.
pub(crate) fn some_of<T: Display>(items: &[T], shown: usize) -> String {
    let mut words: Vec<String> = items.iter().take(shown).map(ToString::to_string).collect();
    if items.len() > shown {
        let last = format!("{} more", items.len() - shown);
        return format!("{} and {last}", words.join(", "));
    }
    match words.len() {
        0 | 1 => words.pop().unwrap_or_default(),
        _ => words.join(", "),
    }
}

pub(crate) fn all_of<T: Display>(items: &[T]) -> String {
    some_of(items, usize::MAX)
}

/// `a, b and c`.
pub(crate) fn and(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

pub(crate) fn hostname(hostname: Option<&Hostname>) -> &str {
    hostname.map_or("*", Hostname::as_str)
}

/// `HTTPS, port 443, www.example.com`.
pub(crate) fn listener(listener: &Listener) -> String {
    let hostname = listener.hostname.as_ref().map(|hostname| format!(", {hostname}")).unwrap_or_default();
    format!("{}, port {}{hostname}", protocol(listener), port_number(listener.port))
}

/// The protocol, with the mode where there is a choice.
pub(crate) fn protocol(listener: &Listener) -> String {
    match listener.tls.as_ref().and_then(|tls| tls.mode) {
        Some(TlsMode::Passthrough) => format!("{} passthrough", listener.protocol),
        Some(TlsMode::Terminate) if listener.protocol == "TLS" => "TLS terminate".to_owned(),
        _ => listener.protocol.to_string(),
    }
}

/// `Gateway default/edge section https port 443`.
pub(crate) fn parent(parent: &ParentRefStatus, namespace: &str) -> String {
    let namespace = parent.namespace.as_deref().unwrap_or(namespace);
    let mut words = format!("{} {namespace}/{}", parent.kind, parent.name);
    if let Some(section) = &parent.section_name {
        words.push_str(&format!(" section {section}"));
    }
    if let Some(port) = parent.port {
        words.push_str(&format!(" port {port}"));
    }
    words
}

/// `Secret default/web (www.example.com; until 2036-01-01)`.
pub(crate) fn certificate(certificate: &Certificate) -> String {
    let names =
        if certificate.names.is_empty() { "no names".to_owned() } else { some_of(&certificate.names, 5) };
    let end = if certificate.not_after < now() { "expired" } else { "until" };
    format!("Secret {} ({names}; {end} {})", certificate.secret, date(certificate.not_after))
}

pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The day of a time in seconds since the epoch, in UTC: `2026-11-02`.
pub(crate) fn date(seconds: i64) -> String {
    // Howard Hinnant's civil_from_days, with years that begin in March.
    let days = seconds.div_euclid(86_400) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A time in seconds since the epoch: `2026-11-02T00:00:00Z`.
pub(crate) fn time(seconds: i64) -> String {
    let second = seconds.rem_euclid(86_400);
    format!("{}T{:02}:{:02}:{:02}Z", date(seconds), second / 3600, second / 60 % 60, second % 60)
}

/// What the time of a renewal goes by.
pub(crate) const fn timing(timing: Timing) -> &'static str {
    match timing {
        Timing::Age => "2/3 of life",
        Timing::Ari => "ARI",
    }
}

/// The name of an object in its namespace, or alone where it has none.
pub(crate) fn object(name: &ObjectName) -> String {
    if name.namespace.is_empty() { name.name.to_string() } else { name.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (951_782_400, "2000-02-29"),
            (1_793_577_600, "2026-11-02"),
            (4_107_542_399, "2100-02-28"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date(seconds), day);
        }
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(some_of(&[1, 2, 3], 3), "1, 2, 3");
        assert_eq!(some_of(&[1, 2, 3], 1), "1 and 2 more");
        assert_eq!(some_of::<u8>(&[], 1), "");
        assert_eq!(and(&["a", "b", "c"]), "a, b and c");
    }
}
