//! Who makes certificates for the names on routes, and within which bounds.

use tidegate_plan::Hostname;

use crate::read::{List, Whole, record, words};
use crate::scalar::AccountName;

record! {
    /// The same can be said of one Gateway by its annotations, which go before.
    pub struct CertificateParameters {
        pub issuer: Option<CertificateIssuer> = "issuer",
        /// Of `ACME`: which of the accounts that the operator set up.
        pub acme_account: Option<AccountName> = "acmeAccount",
        /// Names are asked for at or below these alone.
        pub domains: Option<List<Hostname, 1, 64>> = "domains",
        /// Names that routes may bring, in all and for each namespace.
        pub limit: Option<Names> = "limit",
        pub limit_per_namespace: Option<Names> = "limitPerNamespace",
        pub until_issued: Option<UntilIssued> = "untilIssued",
    }
}

pub type Names = Whole<0, 100_000>;

words! {
    pub enum CertificateIssuer {
        Acme = "ACME",
        Embedded = "Embedded",
        /// Nobody, though the class or the controller says otherwise.
        Nobody = "None",
    }
}

words! {
    /// What clients are shown until there is a certificate.
    pub enum UntilIssued {
        Refuse = "Refuse",
        StandIn = "StandIn",
    }
}
