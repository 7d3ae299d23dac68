//! What stands in the place of a fragment that a data plane cannot carry out. Leaving it out would give its names and
//! paths to a wider listener or route, which may ask for less: it keeps them, and refuses what comes.

use crate::{Body, Group, Reason, Rules, Target, Upstream, WeightedBackend};

impl Body {
    /// The same with nothing of it served. `None` where nothing is refused by leaving it out: a route's traffic to a
    /// backend that is not there fails, and a Gateway by itself carries none.
    #[must_use]
    pub fn refusing(self) -> Option<Self> {
        match self {
            Self::Gateway(_) | Self::Challenge(_) => None,
            Self::Listener(mut listener) => {
                listener.refuse = Some(Reason::ListenerInvalid);
                Some(Self::Listener(listener))
            }
            Self::Route(mut route) => {
                let refuse = Reason::FilterUnsupported;
                match &mut route.rules {
                    Rules::Http(rules) => rules.iter_mut().for_each(|rule| {
                        rule.refuse = Some(refuse);
                        rule.filters.clear();
                        rule.backends = refusing_group(refuse);
                    }),
                    Rules::Grpc(rules) => rules.iter_mut().for_each(|rule| {
                        rule.refuse = Some(refuse);
                        rule.filters.clear();
                        rule.backends = refusing_group(refuse);
                    }),
                    Rules::Stream(rule) => rule.backends = refusing_group(refuse),
                }
                Some(Self::Route(route))
            }
            Self::Backend(mut backend) => {
                backend.upstream = Upstream::Refuse(Reason::PolicyInvalid);
                Some(Self::Backend(backend))
            }
        }
    }
}

fn refusing_group(reason: Reason) -> Group {
    Group(vec![WeightedBackend { weight: 1, target: Target::Invalid(reason), filters: Vec::new() }])
}
