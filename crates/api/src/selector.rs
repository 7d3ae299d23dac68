//! Label selectors, as listeners use them to choose namespaces.

use std::collections::BTreeMap;

use crate::form::{is_label_value, is_qualified_name};
use crate::meta::{KEY_HELP, keyed};
use crate::read::{Map, Place, record, words};
use crate::scalar::quote;

record! {
    /// Everything it says must hold; an empty selector matches all.
    pub struct LabelSelector {
        pub match_labels: Map<String> = "matchLabels",
        pub match_expressions: Vec<Requirement> = "matchExpressions",
    }
    rules: [match_labels_are_labels]
}

/// The CRDs let any text pass; no selector can be made of it.
fn match_labels_are_labels(selector: &LabelSelector, place: &mut Place<'_>) {
    for (key, value) in &selector.match_labels {
        if !is_qualified_name(key) {
            let message = format!("{} is not a key of a label", quote(key));
            place.wrong_key("matchLabels", key, message, KEY_HELP);
        } else if !is_label_value(value) {
            place.wrong(
                &format!("matchLabels{}", keyed(key)),
                format!("{} is not a value of a label", quote(value)),
                "write at most 63 letters, digits, `-`, `_` and `.`",
            );
        }
    }
}

record! {
    pub struct Requirement {
        pub key: String = "key",
        pub operator: Operator = "operator",
        pub values: Vec<String> = "values",
    }
    rules: [selector_values_fit_operator, selector_key_is_a_label_key]
}

words! {
    pub enum Operator {
        In = "In",
        NotIn = "NotIn",
        Exists = "Exists",
        DoesNotExist = "DoesNotExist",
    }
}

fn selector_values_fit_operator(requirement: &Requirement, place: &mut Place<'_>) {
    let wants_values = matches!(requirement.operator, Operator::In | Operator::NotIn);
    if wants_values && requirement.values.is_empty() {
        place.wrong(
            "values",
            format!("`{}` needs values to compare with", requirement.operator),
            "write `values: [...]`",
        );
    } else if !wants_values && !requirement.values.is_empty() {
        place.wrong("values", format!("`{}` takes no values", requirement.operator), "remove `values`");
    }
}

fn selector_key_is_a_label_key(requirement: &Requirement, place: &mut Place<'_>) {
    if !is_qualified_name(&requirement.key) {
        let message = format!("{} is not a key of a label", quote(&requirement.key));
        place.wrong("key", message, KEY_HELP);
    }
}

impl LabelSelector {
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{At, Read};
    use crate::yaml;

    #[test]
    fn everything_a_selector_says_must_hold() {
        let labels: BTreeMap<String, String> =
            [("team", "web"), ("env", "prod")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        for (selector, matches) in [
            ("{}", true),
            ("{matchLabels: {team: web}}", true),
            ("{matchLabels: {team: web, env: test}}", false),
            ("{matchExpressions: [{key: team, operator: In, values: [a, web]}]}", true),
            ("{matchExpressions: [{key: team, operator: NotIn, values: [a, web]}]}", false),
            ("{matchExpressions: [{key: none, operator: NotIn, values: [a]}]}", true),
            ("{matchExpressions: [{key: none, operator: In, values: [a]}]}", false),
            ("{matchExpressions: [{key: env, operator: Exists}]}", true),
            ("{matchExpressions: [{key: env, operator: DoesNotExist}]}", false),
            ("{matchLabels: {team: web}, matchExpressions: [{key: env, operator: DoesNotExist}]}", false),
        ] {
            let (nodes, _) = yaml::documents(selector);
            let read = LabelSelector::read(&nodes[0], &mut At::default()).unwrap();
            assert_eq!(read.matches(&labels), matches, "{selector}");
        }
    }
}
