//! Statuses of Gateways and ListenerSets.

use tidegate_api::status::{
    Condition, ConditionStatus, ConditionType, GatewayStatus, ListenerSetStatus, ListenerStatus, Reason,
};
use tidegate_plan::ListenerId;

use super::{GatewayView, ListenerView, SetView};
use crate::conditions::{Fault, condition, holds, programmed};

/// How many routes each listener has.
pub(crate) type AttachedRoutes<'a> = dyn Fn(&ListenerId) -> i32 + 'a;

pub(crate) fn gateway_status(view: &GatewayView, attached: &AttachedRoutes<'_>) -> GatewayStatus {
    let not_accepted = view.not_accepted();
    let listeners = view
        .listeners
        .iter()
        .map(|listener| listener_status(listener, not_accepted.as_ref(), attached, view.generation));
    let accepted_sets =
        view.sets.iter().filter(|set| not_accepted.is_none() && set.not_accepted().is_none()).count();
    GatewayStatus {
        addresses: Vec::new(),
        conditions: gateway_conditions(view, not_accepted.as_ref()),
        listeners: listeners.collect(),
        attached_listener_sets: i32::try_from(accepted_sets).unwrap_or(i32::MAX),
    }
}

fn gateway_conditions(view: &GatewayView, not_accepted: Option<&Fault>) -> Vec<Condition> {
    let generation = view.generation;
    let bad = view.bad_listeners();
    let good = if bad.is_empty() {
        (Reason::Accepted, "the Gateway is accepted".to_owned())
    } else {
        (Reason::ListenersNotValid, format!("the Gateway is accepted without some of its listeners: {bad}"))
    };
    let invalid = not_accepted.map(|fault| Fault::new(Reason::Invalid, fault.message.clone()));
    let unresolved = unresolved(view);
    let mut conditions = vec![
        holds(ConditionType::Accepted, not_accepted, (good.0, &good.1), generation),
        programmed(invalid.as_ref(), generation),
        holds(
            ConditionType::ResolvedRefs,
            unresolved.as_ref(),
            (Reason::ResolvedRefs, "all references are resolved"),
            generation,
        ),
    ];
    if view.insecure_fallback {
        conditions.push(condition(
            ConditionType::InsecureFrontendValidationMode,
            ConditionStatus::True,
            Reason::ConfigurationChanged,
            "AllowInsecureFallback is set in spec.tls.frontend: clients without a valid certificate are let in",
            generation,
        ));
    }
    if view.is_default {
        conditions.push(condition(
            ConditionType::DefaultGateway,
            ConditionStatus::True,
            Reason::DefaultGateway,
            "spec.defaultScope is All: routes with `useDefaultGateways: All` attach without naming it",
            generation,
        ));
    }
    conditions
}

fn unresolved(view: &GatewayView) -> Option<Fault> {
    let listeners = view.listeners.iter().filter_map(|listener| {
        let fault = listener.unresolved.as_ref()?;
        let message = format!("listener {}: {}", listener.id.name, fault.message);
        let is_pending = fault.reason == Reason::Pending;
        let reason = if is_pending { Reason::Pending } else { Reason::ListenersNotResolved };
        Some(Fault::new(reason, message))
    });
    let own = view.client_certificate.as_ref().err().cloned();
    let mut faults: Vec<Fault> = own.into_iter().chain(listeners).collect();
    // What only waits does not hide what is wrong.
    faults.sort_by_key(|fault| fault.reason == Reason::Pending);
    Fault::joined(&faults)
}

pub(crate) fn listener_set_status(
    set: &SetView,
    gateway: &GatewayView,
    attached: &AttachedRoutes<'_>,
) -> ListenerSetStatus {
    let parent = gateway.not_accepted().map(|fault| {
        Fault::new(
            Reason::ParentNotAccepted,
            format!("Gateway {} is not accepted: {}", gateway.name, fault.message),
        )
    });
    let not_accepted = set.fault.clone().or(parent).or_else(|| set.not_accepted());
    let not_programmed = not_accepted.as_ref().map(|fault| {
        let reason = if fault.reason == Reason::ParentNotAccepted {
            Reason::ParentNotProgrammed
        } else {
            fault.reason
        };
        Fault::new(reason, fault.message.clone())
    });
    // A set that is not attached has no listeners to speak of.
    let listeners = if set.fault.is_some() { &[][..] } else { &set.listeners[..] };
    let listeners = listeners.iter().map(|listener| {
        let fault = not_accepted.as_ref().filter(|fault| fault.reason == Reason::ParentNotAccepted);
        listener_status(listener, fault, attached, set.generation)
    });
    let bad = set.bad_listeners();
    let good = if bad.is_empty() {
        (Reason::Accepted, "the ListenerSet is attached to its Gateway".to_owned())
    } else {
        (
            Reason::ListenersNotValid,
            format!("the ListenerSet is attached without some of its listeners: {bad}"),
        )
    };
    ListenerSetStatus {
        conditions: vec![
            holds(ConditionType::Accepted, not_accepted.as_ref(), (good.0, &good.1), set.generation),
            programmed(not_programmed.as_ref(), set.generation),
        ],
        listeners: listeners.collect(),
    }
}

fn listener_status(
    listener: &ListenerView,
    owner_fault: Option<&Fault>,
    attached: &AttachedRoutes<'_>,
    generation: i64,
) -> ListenerStatus {
    ListenerStatus {
        name: listener.id.name.clone(),
        supported_kinds: listener.supported_kinds.clone(),
        attached_routes: attached(&listener.id),
        conditions: listener_conditions(listener, owner_fault, generation),
    }
}

fn listener_conditions(
    listener: &ListenerView,
    owner_fault: Option<&Fault>,
    generation: i64,
) -> Vec<Condition> {
    let not_programmed = listener
        .conflict
        .clone()
        .or_else(|| {
            let fault = listener.fault.as_ref().or(owner_fault)?;
            Some(Fault::new(Reason::Invalid, fault.message.clone()))
        })
        .or_else(|| {
            listener.refuse.map(|refusal| {
                let (reason, but) = if listener.awaits_certificate() {
                    (Reason::Pending, "")
                } else if listener.may_go_on() {
                    (Reason::Invalid, " where no last good one is kept")
                } else {
                    (Reason::Invalid, "")
                };
                Fault::new(reason, format!("connections are refused{but}: {}", refusal.text()))
            })
        });
    let mut conditions = vec![
        holds(
            ConditionType::Accepted,
            listener.not_accepted(),
            (Reason::Accepted, "the listener is accepted"),
            generation,
        ),
        programmed(not_programmed.as_ref(), generation),
        holds(
            ConditionType::ResolvedRefs,
            listener.unresolved.as_ref(),
            (Reason::ResolvedRefs, "all references are resolved"),
            generation,
        ),
        match &listener.conflict {
            Some(fault) => condition(
                ConditionType::Conflicted,
                ConditionStatus::True,
                fault.reason,
                fault.message.clone(),
                generation,
            ),
            None => condition(
                ConditionType::Conflicted,
                ConditionStatus::False,
                Reason::NoConflicts,
                "the listener is in no conflict",
                generation,
            ),
        },
    ];
    if let Some(message) = &listener.overlapping {
        conditions.push(condition(
            ConditionType::OverlappingTLSConfig,
            ConditionStatus::True,
            Reason::OverlappingHostnames,
            message.clone(),
            generation,
        ));
    }
    conditions
}
