//! When CAs would have certificates renewed (ARI, RFC 9773): asked for, and noted.

use std::sync::Arc;

use tidegate_plan::ObjectName;

use super::{Doing, Done, Issuance};
use crate::{DAY, Issuer, Seconds, Suggestion};

/// How long to be content with what a CA said about renewal when it says nothing more.
const WITHOUT_A_WORD: Seconds = DAY / 4;

/// So many questions at a time.
const AT_A_TIME: usize = 4;

impl Issuance {
    /// Asks CAs when they would have certificates renewed.
    pub(super) fn look(&mut self, now: Seconds) {
        let due: Vec<ObjectName> = self.book.to_look_at(now).iter().map(|held| held.secret.clone()).collect();
        for secret in due {
            let Some(certificate) = self.picture.certificates.get(&secret).cloned() else { continue };
            if self.looking.len() >= AT_A_TIME || !self.looking.insert(secret.clone()) {
                continue;
            }
            let (issuers, store) = (Arc::clone(&self.issuers), Arc::clone(&self.store));
            let whose = secret.clone();
            let task = self.tasks.spawn(async move {
                let acme = match &certificate.held.issuer {
                    Issuer::Acme(account) => issuers.acme.get(account),
                    Issuer::Embedded => None,
                };
                let suggestion = match acme {
                    Some(acme) => acme.suggestion(&certificate, &*store, now).await,
                    None => None,
                };
                Done::Look(secret, suggestion)
            });
            self.doing.insert(task.id(), Doing::Look(whose));
        }
    }

    /// What came of it.
    pub(super) async fn looked(&mut self, secret: &ObjectName, suggestion: Option<Suggestion>, now: Seconds) {
        self.looking.remove(secret);
        match suggestion {
            Some(suggestion) => self.noting(|book| _ = book.suggested(secret, suggestion)).await,
            None => self.book.not_suggested(secret, now + WITHOUT_A_WORD),
        }
    }
}
