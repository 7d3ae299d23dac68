//! What an error of the CA means for the order and for others.

use instant_acme::{Error, Identifier, Problem};
use tidegate_plan::Hostname;

use crate::{Failure, HOUR, Seconds};

const PREFIX: &str = "urn:ietf:params:acme:error:";

/// `wait` is what the CA asked for.
pub(super) fn failure(error: &Error, wait: Option<Seconds>) -> Failure {
    match error {
        Error::Api(problem) => of_problem(problem, wait),
        other => Failure::Issuer { message: format!("the CA cannot be asked: {other}"), wait },
    }
}

pub(super) fn kind(problem: &Problem) -> &str {
    problem.r#type.as_deref().and_then(|kind| kind.strip_prefix(PREFIX)).unwrap_or_default()
}

/// It says nothing about what was asked: the same may be asked again with another nonce.
pub(super) fn is_stale_nonce(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if kind(problem) == "badNonce")
}

/// What the CA says, for people.
pub(super) fn told(problem: &Problem) -> String {
    let detail = problem.detail.as_deref().unwrap_or("no reason given");
    match kind(problem) {
        "" => detail.to_owned(),
        kind => format!("{detail} ({kind})"),
    }
}

fn of_problem(problem: &Problem, wait: Option<Seconds>) -> Failure {
    let message = told(problem);
    let names: Vec<(Hostname, String)> = problem
        .subproblems
        .iter()
        .filter_map(|part| {
            let Some(Identifier::Dns(name)) = &part.identifier else { return None };
            let why = part.detail.clone().unwrap_or_else(|| message.clone());
            Some((Hostname::parse(name).ok()?, why))
        })
        .collect();
    if !names.is_empty() {
        return Failure::Names(names);
    }
    match kind(problem) {
        "rateLimited" => Failure::Limited { message, wait: wait.unwrap_or(HOUR) },
        // Nothing that another order would not meet as well.
        "accountDoesNotExist"
        | "badNonce"
        | "badSignatureAlgorithm"
        | "externalAccountRequired"
        | "invalidContact"
        | "orderNotReady"
        | "serverInternal"
        | "unsupportedContact"
        | "userActionRequired" => Failure::Issuer { message, wait },
        _ if problem.status.is_some_and(|status| status >= 500 || status == 429) => {
            Failure::Issuer { message, wait }
        }
        _ => Failure::Order(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Failure {
        let problem: Problem = serde_json::from_str(json).unwrap();
        failure(&Error::Api(problem), Some(120))
    }

    #[test]
    fn who_suffers_for_what() {
        let limited = r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many","status":429}"#;
        let expected = Failure::Limited { message: "too many (rateLimited)".to_owned(), wait: 120 };
        assert_eq!(read(limited), expected);
        let down = r#"{"type":"urn:ietf:params:acme:error:serverInternal","detail":"oops","status":500}"#;
        assert!(matches!(read(down), Failure::Issuer { wait: Some(120), .. }));
        let refused =
            r#"{"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"no","status":400}"#;
        assert_eq!(read(refused), Failure::Order("no (rejectedIdentifier)".to_owned()));
        assert!(matches!(read(r#"{"status":503}"#), Failure::Issuer { .. }));
    }

    #[test]
    fn a_problem_with_one_name_is_that_names() {
        let json = r#"{"type":"urn:ietf:params:acme:error:malformed","detail":"some","status":400,"subproblems":[
            {"type":"urn:ietf:params:acme:error:caa","detail":"forbidden by CAA",
             "identifier":{"type":"dns","value":"b.example.com"}}]}"#;
        let name = Hostname::parse("b.example.com").unwrap();
        assert_eq!(read(json), Failure::Names(vec![(name, "forbidden by CAA".to_owned())]));
    }
}
