//! Handles on parts of a plan: a clone shares the part and keeps nothing else alive, so that a long connection
//! holds on to its own backends and not to a whole old plan.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::{
    Backend, Body, Filter, Fragment, Gateway, Group, GrpcRule, HttpRule, Listener, Route, Rules, StreamRule,
};

macro_rules! handles {
    ($($(#[$doc:meta])* $handle:ident of $part:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $handle(Arc<Fragment>);

        impl $handle {
            /// `None` for a fragment of another kind.
            #[must_use]
            pub fn new(fragment: &Arc<Fragment>) -> Option<Self> {
                matches!(fragment.body, Body::$part(_)).then(|| Self(Arc::clone(fragment)))
            }

            #[must_use]
            pub fn fragment(&self) -> &Arc<Fragment> {
                &self.0
            }
        }

        impl Deref for $handle {
            type Target = $part;

            fn deref(&self) -> &$part {
                match &self.0.body {
                    Body::$part(part) => part,
                    _ => unreachable!("made only of fragments of this kind"),
                }
            }
        }

        impl fmt::Debug for $handle {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($handle), self.id)
            }
        }
    )+};
}

handles! {
    GatewayHandle of Gateway;
    ListenerHandle of Listener;
    RouteHandle of Route;
    BackendHandle of Backend;
}

/// One rule of one route.
#[derive(Clone)]
pub struct RuleHandle {
    route: RouteHandle,
    index: u16,
}

/// A rule by the kind of its route.
#[derive(Clone, Copy, Debug)]
pub enum Rule<'a> {
    Http(&'a HttpRule),
    Grpc(&'a GrpcRule),
    Stream(&'a StreamRule),
}

impl RuleHandle {
    /// `None` where the route has no such rule.
    #[must_use]
    pub fn new(route: RouteHandle, index: usize) -> Option<Self> {
        let count = match &route.rules {
            Rules::Http(rules) => rules.len(),
            Rules::Grpc(rules) => rules.len(),
            Rules::Stream(_) => 1,
        };
        let short = u16::try_from(index).ok()?;
        (index < count).then_some(Self { route, index: short })
    }

    #[must_use]
    pub fn route(&self) -> &RouteHandle {
        &self.route
    }

    #[must_use]
    pub fn index(&self) -> usize {
        usize::from(self.index)
    }

    #[must_use]
    pub fn rule(&self) -> Rule<'_> {
        match &self.route.rules {
            Rules::Http(rules) => Rule::Http(&rules[self.index()]),
            Rules::Grpc(rules) => Rule::Grpc(&rules[self.index()]),
            Rules::Stream(rule) => Rule::Stream(rule),
        }
    }

    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self.rule() {
            Rule::Http(rule) => rule.name.as_deref(),
            Rule::Grpc(rule) => rule.name.as_deref(),
            Rule::Stream(rule) => rule.name.as_deref(),
        }
    }

    #[must_use]
    pub fn group(&self) -> &Group {
        match self.rule() {
            Rule::Http(rule) => &rule.backends,
            Rule::Grpc(rule) => &rule.backends,
            Rule::Stream(rule) => &rule.backends,
        }
    }

    /// Of the rule itself; backends may have more of their own.
    #[must_use]
    pub fn filters(&self) -> &[Filter] {
        match self.rule() {
            Rule::Http(rule) => &rule.filters,
            Rule::Grpc(rule) => &rule.filters,
            Rule::Stream(_) => &[],
        }
    }
}

impl fmt::Debug for RuleHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RuleHandle({} rule {})", self.route.id, self.index)
    }
}
