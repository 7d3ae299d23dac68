//! What is told of certificates that are shown although their Secrets have them no more.

use std::time::SystemTime;

use serde_json::{Value, json};
use tidegate_proxy::KeptCertificate;

use crate::run::log::Log;

/// Which listeners now go on with one, and which no longer do.
pub(crate) fn tell(log: Log, before: &[KeptCertificate], now: &[KeptCertificate]) {
    for kept in now.iter().filter(|kept| !before.contains(kept)) {
        log.warning("certificate-kept", words(kept));
    }
    for past in before {
        let KeptCertificate { listener, secret, until } = past;
        if now.iter().any(|kept| (&kept.listener, &kept.secret) == (listener, secret)) {
            continue;
        }
        let which = format!(
            "listener {listener} no longer goes on with the last good certificate of Secret {secret}"
        );
        if *until <= SystemTime::now() {
            log.warning("certificate-ended", format_args!("{which}: its time is over"));
        } else {
            log.info("certificate-ended", which);
        }
    }
}

/// `listener default/edge/web goes on with the last good certificate of Secret default/cert until ...`.
pub(crate) fn words(KeptCertificate { listener, secret, until }: &KeptCertificate) -> String {
    let until = humantime::format_rfc3339_seconds(*until);
    format!("listener {listener} goes on with the last good certificate of Secret {secret} until {until}")
}

pub(crate) fn json(KeptCertificate { listener, secret, until }: &KeptCertificate) -> Value {
    let until = humantime::format_rfc3339_seconds(*until).to_string();
    json!({ "listener": listener, "secret": secret, "until": until })
}
