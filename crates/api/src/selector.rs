//! Label selectors, as listeners use them to choose namespaces.

use std::collections::BTreeMap;

use crate::read::{Map, Place, record, words};

record! {
    /// Everything it says must hold; an empty selector matches all.
    pub struct LabelSelector {
        pub match_labels: Map<String> = "matchLabels",
        pub match_expressions: Vec<Requirement> = "matchExpressions",
    }
}

record! {
    pub struct Requirement {
        pub key: String = "key",
        pub operator: Operator = "operator",
        pub values: Vec<String> = "values",
    }
    rules: [selector_values_fit_operator]
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
