//! Policies and grants: BackendTLSPolicy, ReferenceGrant, and the experimental XBackend and
//! XBackendTrafficPolicy.

mod backend_tls;
mod grant;
mod traffic;
mod xbackend;

pub use backend_tls::{
    BackendTlsPolicy, BackendTlsPolicySpec, BackendValidation, SubjectAltName, SubjectAltNameType,
};
pub use grant::{GrantFrom, GrantTo, ReferenceGrant, ReferenceGrantSpec};
pub use traffic::{
    RetryBudget, RetryConstraint, RetryRate, XBackendTrafficPolicy, XBackendTrafficPolicySpec,
};
pub use xbackend::{
    EndpointSelector, ExternalHostname, XBackend, XBackendPort, XBackendProtocol, XBackendSpec, XBackendTls,
    XBackendTlsMode, XBackendType,
};
