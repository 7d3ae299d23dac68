//! Asking another server whether a request may go on.

use std::rc::Rc;

use http::request::Parts;
use tidegate_plan::{ExternalAuth, ListenerHandle};
use tidegate_proxy::Ending;

use super::Exchange;
use super::failure::Failure;
use crate::body::Source;

/// Goes on only if the server says so.
pub(super) async fn ask(
    _: &Rc<Exchange>,
    _: &ListenerHandle,
    _: &ExternalAuth,
    _: &mut Parts,
    _: Option<&Rc<Source>>,
) -> Result<(), Failure> {
    Err(Ending::AuthFailed.into())
}
