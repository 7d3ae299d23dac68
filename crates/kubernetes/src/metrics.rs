//! What there is to measure about a controller.

use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_certs::Picture;

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn inc(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! metrics {
    ($($field:ident, $kind:ident, $name:literal, $help:literal;)+) => {
        /// Counters and gauges, each written by the task that it is about.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $(pub(crate) $field: Counter,)+
            /// What there is of certificates, where somebody makes them.
            pub(crate) certificates: Mutex<Option<Arc<Picture>>>,
        }

        impl Metrics {
            /// Each metric's name and what it counts.
            pub const ALL: &'static [(&'static str, &'static str)] = &[$(($name, $help),)+];

            /// In the text format of OpenMetrics, without the end.
            #[must_use]
            pub fn render(&self) -> String {
                let mut text = String::new();
                $(metrics!(@$kind text, $name, $help, self.$field.get());)+
                let certificates = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
                text.extend(certificates.as_ref().map(|picture| tidegate_issuing::metrics(picture)));
                text
            }
        }
    };
    (@counter $text:ident, $name:literal, $help:literal, $value:expr) => {
        let _ = write!($text, "# HELP {0} {1}\n# TYPE {0} counter\n{0}_total {2}\n", $name, $help, $value);
    };
    (@gauge $text:ident, $name:literal, $help:literal, $value:expr) => {
        let _ = write!($text, "# HELP {0} {1}\n# TYPE {0} gauge\n{0} {2}\n", $name, $help, $value);
    };
}

metrics! {
    leading, gauge, "tidegate_controller_leading", "1 while this replica leads.";
    objects, gauge, "tidegate_controller_objects", "Objects that are translated.";
    refused_objects, gauge, "tidegate_controller_refused_objects", "Objects that are left out because they are invalid.";
    unlisted_kinds, gauge, "tidegate_controller_unlisted_kinds", "Kinds that have not been listed yet.";
    turns, counter, "tidegate_controller_turns", "Batches of changes that were translated.";
    turn_microseconds, counter, "tidegate_controller_turn_microseconds", "Time spent on them.";
    status_writes, counter, "tidegate_controller_status_writes", "Statuses that were written.";
    status_conflicts, counter, "tidegate_controller_status_conflicts", "Writes that had to be made again because somebody else had written.";
    status_failures, counter, "tidegate_controller_status_failures", "Writes that failed and were put off.";
    status_waiting, gauge, "tidegate_controller_status_waiting", "Statuses that wait to be written.";
    applies, counter, "tidegate_controller_applies", "Objects of data planes that were applied.";
    apply_failures, counter, "tidegate_controller_apply_failures", "Objects of data planes that could not be applied.";
    asked_certificates, gauge, "tidegate_controller_certificates", "Certificates that cert-manager is asked for.";
    certificate_failures, counter, "tidegate_controller_certificate_failures", "Certificates that could not be created, changed or deleted.";
    gateways, gauge, "tidegate_controller_gateways", "Gateways that have a data plane.";
    proxies, gauge, "tidegate_controller_proxies", "Data planes that are connected.";
    publishes, counter, "tidegate_controller_publishes", "Plans that were published to data planes.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_told_once() {
        let metrics = Metrics::default();
        metrics.turns.inc();
        metrics.leading.set(1);
        let text = metrics.render();
        assert!(text.contains("tidegate_controller_turns_total 1\n"));
        assert!(text.contains("\ntidegate_controller_leading 1\n"));
        assert!(!text.contains("tidegate_certificate_"), "nobody makes any");
        *metrics.certificates.lock().unwrap() = Some(Arc::default());
        assert!(metrics.render().contains("\ntidegate_certificate_names_missing 0\n"));
        for (name, _) in Metrics::ALL {
            assert_eq!(text.matches(&format!("# TYPE {name} ")).count(), 1, "{name}");
        }
    }
}
