//! Families of metrics as the exposition format has them: it knows how they are written and not what they count.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// The text as it is written, one family of metrics after the other.
pub(super) struct Page<'e>(pub(super) DescriptorEncoder<'e>);

impl Page<'_> {
    pub(super) fn counter<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        values: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, V, u64>(&value, None)?;
        }
        Ok(())
    }

    /// A family of one without labels; nothing but its name where the value is not known.
    pub(super) fn one_counter<V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        value: Option<V>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        value.map_or(Ok(()), |value| family.encode_counter::<NoLabelSet, V, u64>(&value, None))
    }

    pub(super) fn one_gauge<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        value: Option<V>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        value.map_or(Ok(()), |value| family.encode_gauge(&value))
    }

    pub(super) fn gauge<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        values: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

pub(super) fn directions(up: u64, down: u64) -> [([(&'static str, &'static str); 1], u64); 2] {
    [([("direction", "up")], up), ([("direction", "down")], down)]
}
