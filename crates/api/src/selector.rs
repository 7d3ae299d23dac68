//! Label selectors, as listeners use them to choose namespaces.
//!
//! The CRDs let any text pass as a label, and any word as an operator. Such a selector is not an error here
//! either, since the object is in the cluster already; it chooses nothing, and a warning says so.

use std::collections::BTreeMap;

use crate::form::{is_label_value, is_qualified_name};
use crate::meta::{KEY_HELP, keyed};
use crate::read::{At, Map, Place, Read, record, text};
use crate::scalar::quote;
use crate::tree::Node;

record! {
    /// Everything it says must hold; an empty selector matches all.
    pub struct LabelSelector {
        pub match_labels: Map<String> = "matchLabels",
        pub match_expressions: Vec<Requirement> = "matchExpressions",
    }
    rules: [match_labels_are_labels("matchLabels")]
}

fn match_labels_are_labels(selector: &LabelSelector, place: &mut Place<'_>) {
    for (key, value) in &selector.match_labels {
        if !is_qualified_name(key) {
            let message = format!("{} is not a key of a label, and so chooses nothing", quote(key));
            place.warn_key("matchLabels", key, message, KEY_HELP);
        } else if !is_label_value(value) {
            place.warn(
                &format!("matchLabels{}", keyed(key)),
                format!("{} is not a value of a label, and so chooses nothing", quote(value)),
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
    rules: [
        selector_operator_is_known("operator"),
        selector_values_fit_operator("operator", "values?"),
        selector_key_is_a_label_key("key"),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    /// A word that is no operator.
    Unknown,
}

impl Read for Operator {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        Some(match text(node, at)? {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            _ => Self::Unknown,
        })
    }

    fn placeholder() -> Self {
        Self::Unknown
    }
}

fn selector_operator_is_known(requirement: &Requirement, place: &mut Place<'_>) {
    if requirement.operator == Operator::Unknown {
        place.warn(
            "operator",
            "this is no operator, and so chooses nothing",
            "write In, NotIn, Exists or DoesNotExist",
        );
    }
}

fn selector_values_fit_operator(requirement: &Requirement, place: &mut Place<'_>) {
    match requirement.operator {
        Operator::In | Operator::NotIn if requirement.values.is_empty() => place.warn(
            "",
            "without values to compare with this chooses nothing",
            "write `values: [...]`, or `operator: Exists`",
        ),
        Operator::Exists | Operator::DoesNotExist if !requirement.values.is_empty() => place.warn(
            "values",
            "an operator that takes no values chooses nothing when there are some",
            "remove `values`, or write `operator: In` or `NotIn`",
        ),
        _ => {}
    }
}

fn selector_key_is_a_label_key(requirement: &Requirement, place: &mut Place<'_>) {
    if !is_qualified_name(&requirement.key) {
        let message = format!("{} is not a key of a label, and so chooses nothing", quote(&requirement.key));
        place.warn("key", message, KEY_HELP);
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
        // What no selector can be made of matches nothing; above all it must not match everything.
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => {
                !self.values.is_empty()
                    && is_qualified_name(&self.key)
                    && value.is_none_or(|value| !self.values.contains(value))
            }
            Operator::Exists => self.values.is_empty() && value.is_some(),
            Operator::DoesNotExist => {
                self.values.is_empty() && value.is_none() && is_qualified_name(&self.key)
            }
            Operator::Unknown => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            ("{matchExpressions: [{key: none, operator: NotIn}]}", false),
            ("{matchExpressions: [{key: no ne, operator: NotIn, values: [a]}]}", false),
            ("{matchExpressions: [{key: no ne, operator: DoesNotExist}]}", false),
            ("{matchExpressions: [{key: none, operator: DoesNotExist, values: [a]}]}", false),
            ("{matchExpressions: [{key: env, operator: Exists, values: [prod]}]}", false),
            ("{matchExpressions: [{key: env, operator: Equals, values: [prod]}]}", false),
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
