//! XBackendTrafficPolicy: how much of the traffic to a backend may be retries, and how sessions stick.

use std::time::Duration as Time;

use crate::kind::{Resource, Spec};
use crate::read::{List, Place, Whole, record};
use crate::refs::{EXPERIMENTAL_GROUP, LocalObjectReference};
use crate::scalar::Duration;
use crate::session::SessionPersistence;

pub type XBackendTrafficPolicy = Resource<XBackendTrafficPolicySpec>;

impl Spec for XBackendTrafficPolicySpec {
    const KIND: &'static str = "XBackendTrafficPolicy";
    const GROUP: &'static str = EXPERIMENTAL_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1alpha1"];
}

record! {
    pub struct XBackendTrafficPolicySpec {
        pub target_refs: List<LocalObjectReference, 1, 16> = "targetRefs",
        pub retry_constraint: Option<RetryConstraint> = "retryConstraint",
        pub session_persistence: Option<SessionPersistence> = "sessionPersistence",
    }
    rules: [targets_are_unique("targetRefs")]
}

record! {
    pub struct RetryConstraint {
        pub budget: RetryBudget = "budget" or RetryBudget::default(),
        pub min_retry_rate: RetryRate = "minRetryRate" or RetryRate::default(),
    }
}

record! {
    pub struct RetryBudget {
        pub percent: Whole<0, 100> = "percent" or Self::default().percent,
        pub interval: Duration = "interval" or Self::default().interval,
    }
    rules: [budget_interval_is_a_second_to_an_hour("interval")]
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { percent: Whole::new(20).expect("in range"), interval: Duration(Time::from_secs(10)) }
    }
}

record! {
    pub struct RetryRate {
        pub count: Whole<1, 1_000_000> = "count" or Self::default().count,
        pub interval: Duration = "interval" or Self::default().interval,
    }
    rules: [rate_interval_is_at_most_an_hour("interval")]
}

impl Default for RetryRate {
    fn default() -> Self {
        Self { count: Whole::new(10).expect("in range"), interval: Duration(Time::from_secs(1)) }
    }
}

fn targets_are_unique(policy: &XBackendTrafficPolicySpec, place: &mut Place<'_>) {
    for (index, target) in policy.target_refs.iter().enumerate() {
        if let Some(first) = policy.target_refs.iter().take(index).position(|earlier| earlier == target) {
            place.wrong(
                &format!("targetRefs[{index}]"),
                format!("says the same as targetRefs[{first}]"),
                "remove one of them",
            );
        }
    }
}

const HOUR: Time = Time::from_secs(3600);

fn budget_interval_is_a_second_to_an_hour(budget: &RetryBudget, place: &mut Place<'_>) {
    if !(Time::from_secs(1)..=HOUR).contains(&budget.interval.0) {
        place.wrong("interval", "not between one second and one hour", "write a duration from 1s to 1h");
    }
}

fn rate_interval_is_at_most_an_hour(rate: &RetryRate, place: &mut Place<'_>) {
    if rate.interval.is_zero() || rate.interval.0 > HOUR {
        place.wrong("interval", "zero, or longer than one hour", "write a duration from 1ms to 1h");
    }
}
