//! Certificates in numbers.

use tidegate_certs::Picture;

/// What there is to measure about certificates, in the text format of OpenMetrics.
#[must_use]
pub fn metrics(picture: &Picture) -> String {
    let Picture { certificates, missing, late, orders, failures, in_flight, .. } = picture;
    let mut text = format!(
        "# HELP tidegate_certificate_orders Certificates that were asked for.\n\
         # TYPE tidegate_certificate_orders counter\n\
         tidegate_certificate_orders_total {orders}\n\
         # HELP tidegate_certificate_failures Orders that came to nothing.\n\
         # TYPE tidegate_certificate_failures counter\n\
         tidegate_certificate_failures_total {failures}\n\
         # HELP tidegate_certificate_orders_in_flight Orders on their way at this moment.\n\
         # TYPE tidegate_certificate_orders_in_flight gauge\n\
         tidegate_certificate_orders_in_flight {in_flight}\n\
         # HELP tidegate_certificate_names_missing Names that are wanted and have no certificate.\n\
         # TYPE tidegate_certificate_names_missing gauge\n\
         tidegate_certificate_names_missing {}\n\
         # HELP tidegate_certificate_names_late Names whose certificate should have been renewed by now.\n\
         # TYPE tidegate_certificate_names_late gauge\n\
         tidegate_certificate_names_late {}\n\
         # HELP tidegate_certificate_not_after_seconds When a certificate ends, in seconds since 1970.\n\
         # TYPE tidegate_certificate_not_after_seconds gauge\n",
        missing.len(),
        late.len(),
    );
    for (secret, certificate) in certificates {
        // Names of objects and issuers have nothing in them that would have to be escaped.
        text.push_str(&format!(
            "tidegate_certificate_not_after_seconds{{namespace=\"{}\",secret=\"{}\",issuer=\"{}\"}} {}\n",
            secret.namespace, secret.name, certificate.held.issuer, certificate.held.not_after
        ));
    }
    text
}
